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

from npu_tui.analysis.replay import Change, TaskCut
from npu_tui.analysis.replay_device import AWAIT
from npu_tui.analysis.replay_model import unrecorded_waits

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


def test_a_step_that_ends_with_a_wait_that_is_not_recorded_ends_sooner_with_the_device(tmp_path: Path) -> None:
    job = replace(TROUBLED["longer_step"], profiler_level=0, with_waits=False, steps=3)
    put(first_of((job,)), tmp_path)
    path = next(tmp_path.rglob("trace_view.json"))
    profile = profile_at(path)
    model = profile.facts[0].replay.model
    waits = unrecorded_waits(profile.trace, model.tasks, model.floor)
    step = profile.steps[-1].item
    ends = waits.until[waits.until <= profile.trace.slices.end[step]]
    events = json.loads(path.read_text())
    for event in events:
        if event.get("name") == profile.trace.name_of(step):
            since = profile.trace.slices.end[step] - int(ends.max())
            event["dur"] = float(event["dur"]) - since / 1000
    path.write_text(json.dumps(events))
    replay = profile_at(path).facts[0].replay
    kernels = profile_at(path).facts[0].kernels
    assert replay.gain(Change(tasks=(TaskCut(kernels, 0.5),))) > 0.42 * replay.recorded
