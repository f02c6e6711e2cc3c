"""Waits for events whose record is not in the trace: their streams go on when a task of another stream has ended."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from cause import Job, troubled
from jobs import first_of, put
from measured import profile_at
from troubled import TROUBLED

from npu_tui.analysis.replay_device import AWAIT

_REDUCED = replace(TROUBLED["slow_once"], layers=5, steps=5)
_TENSOR = replace(TROUBLED["slow_once"], tensor_parallel=True, token_bytes=400_000, layers=3)


def without_records(job: Job, folder: Path):
    """The profile of the first rank of ``job`` as it is, and another one without the records of events."""
    files = first_of(job)
    put(files, folder / "whole")
    events = json.loads(files[(name := next(each for each in files if each.endswith("trace_view.json")))])
    kept = [event for event in events if event.get("name") != "EVENT_RECORD"]
    assert len(kept) < len(events)
    put({**files, name: json.dumps(kept).encode()}, folder / "fewer")
    return profile_at(folder / "whole"), profile_at(folder / "fewer")


@pytest.mark.parametrize("job", [(troubled(_REDUCED, slow_once=40),), (troubled(_TENSOR, slow_once=25),)])
def test_a_slow_collective_gains_as_much_without_records_of_events(job: Job, tmp_path: Path) -> None:
    whole, fewer = without_records(job, tmp_path)
    tasks = fewer.facts[0].tasks
    assert (tasks.event[tasks.kind == AWAIT] < 0).all()
    gains = [
        next(each for each in profile.findings.findings if each.id == "COMM.LONGOP").gain_ns
        for profile in (whole, fewer)
    ]
    assert gains[1] == pytest.approx(gains[0], rel=0.1)
    assert gains[0] > 1_000_000


def test_waits_that_end_before_any_other_task_keep_their_length(tmp_path: Path) -> None:
    job = (troubled(_REDUCED, slow_once=40),)
    without_records(job, tmp_path)
    trace = next((tmp_path / "fewer").rglob("trace_view.json"))
    events = json.loads(trace.read_text())
    for event in events:
        if event.get("name") == "EVENT_WAIT" and float(event["dur"]) > 100:
            event["dur"] = float(event["dur"]) - 40
    trace.write_text(json.dumps(events))
    profile = profile_at(tmp_path / "fewer")
    assert "COMM.LONGOP" not in {each.id for each in profile.findings.findings}
