"""What the host of a simulated service takes longer for later: bit by bit, or since a moment."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from served import figure, served
from service import MS, US, Service
from service_writer import Folder

from npu_tui.analysis.limits import Thresholds
from npu_tui.load.load import load
from npu_tui.rules.service_verdict import JudgedService, judged
from npu_tui.strings import words

_SERVICE = Service(requests=120)


def _told(service: Service, folder: Path) -> JudgedService:
    Folder(served(service)).write(folder)
    return judged(load(folder), Thresholds())


@pytest.mark.parametrize(
    ("service", "title"),
    [
        (replace(_SERVICE, keeps=150 * US), "Each step's schedule takes ever longer over the run"),
        (replace(_SERVICE, later=12 * MS), "Each step's schedule takes 12."),
    ],
)
def test_what_grows_or_begins_in_the_run_is_told_with_what_it_was_before(
    service: Service, title: str, tmp_path: Path
) -> None:
    """The replay without it has the figures of the same service as it was in the beginning."""
    found = _told(service, tmp_path)
    first = found.findings.findings[0]
    assert words(first.title).startswith(title)
    after = found.facts.after(found.remedies[first.id])
    assert after
    for name, share in (("tpot", 50), ("tpot", 99)):
        assert after[f"{name}_p{share}"] == pytest.approx(figure(_SERVICE, name, share), rel=0.1)


@pytest.mark.parametrize("service", [replace(_SERVICE, schedule=8 * MS), replace(_SERVICE, scan=3 * MS, max_seqs=9)])
def test_what_takes_long_all_the_time_or_by_the_queue_does_not_grow(service: Service, tmp_path: Path) -> None:
    assert not _told(service, tmp_path).facts.grown
