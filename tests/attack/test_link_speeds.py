"""Speeds of links from a damaged summary: one that is no speed is left out, and the others are judged."""

from __future__ import annotations

import math

import pytest

from npu_tui.jobs.links import judged_links
from npu_tui.jobs.model import LinkUse


@pytest.mark.parametrize("speed", [math.nan, math.inf, -5.0, 0.0])
def test_what_is_no_speed_is_left_out(speed: float) -> None:
    uses = [LinkUse(0, target, "HCCS", "p2p", 64.0, 20.0) for target in (1, 2, 3)]
    odd = [LinkUse(1, 0, "HCCS", "p2p", 64.0, speed), LinkUse(2, 0, "HCCS", "p2p", math.nan, 20.0)]
    assert judged_links([*uses, *odd]) == judged_links(uses)
