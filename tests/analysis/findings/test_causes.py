"""Causes that the simulator takes away: the finding leads, its gain is the simulated one, nothing is left to say."""

from __future__ import annotations

import pytest
from causes import CAUSES, outcome
from jobs import facts_of, job

from npu_tui.analysis.findings.facts.beside import Beside
from npu_tui.analysis.findings.facts.blame import launch_blocking
from npu_tui.strings import words

#: One of each kind; ``python tests/causes.py`` tries all of them with many seeds.
TRIED = (
    "host: slow fetch",
    "host: slow line",
    "host: collector",
    "device: AI CPU",
    "peers: two late",
    "peers: another each time",
    "peers: unseen in a ring",
    "waits: metrics",
    "waits: launch blocking",
)


@pytest.mark.parametrize("name", TRIED)
def test_a_cause_taken_away(name: str) -> None:
    cause = CAUSES[name]
    found = outcome(cause, 31)
    assert found.lead in cause.leads
    assert found.right, (found.predicted, found.simulated, found.step)
    assert found.above_info == ()
    assert found.error <= 0.02


def test_what_is_said_of_late_ranks() -> None:
    many = outcome(CAUSES["peers: two late"], 32).found
    ring = outcome(CAUSES["peers: unseen in a ring"], 32).found
    assert many is not None
    assert ring is not None
    assert words(many.title).startswith("Ranks 2 and 3 are late")
    assert "not visible from this rank" in words(ring.title)
    assert ring.confidence == "low"


def test_launch_blocking_is_unset_first() -> None:
    found = outcome(CAUSES["waits: launch blocking"], 32).found
    assert found is not None
    assert "ASCEND_LAUNCH_BLOCKING" in words(found.advice[0])
    assert not any("TASK_QUEUE_ENABLE=2" in words(each) for each in found.advice)
    assert launch_blocking(facts_of(job("metrics"))) < 0.5
    assert launch_blocking(facts_of(job("metrics"), Beside(environment={"ASCEND_LAUNCH_BLOCKING": "1"}))) == 1
