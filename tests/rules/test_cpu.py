"""Who had the CPU: simulated thefts are named with their cost, and what cannot be matched is unknown."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from ftrace_writer import HOST_PIDS, ftrace_files
from generate import recorded
from jobs import facts_of, job, rule
from measured import profile_at
from simulator import simulate
from thefts import JOBS, THEFTS, near, outcome
from troubled import TROUBLED

from npu_tui.analysis.cpu_time import PARTS, CpuTime
from npu_tui.profile.launch_tables import CPU_TIME, CPU_WAITS
from npu_tui.profile.profile import Profile
from npu_tui.profile.scene import cpu_charts
from npu_tui.rules.rule import Draft, Skipped
from npu_tui.strings import words
from npu_tui.trace.message import Message
from npu_tui.view.scene import CpuClass

SMALL = replace(TROUBLED["preempted"], seed=7)


def _written(folder: Path, **changed: bytes | None) -> Profile:
    """The preempted job in ``folder``, with other files beside it; None leaves one out."""
    names = {"text": "trace.txt", "clock": "PROF_000001_20250701/host/start_info", "mapping": "pid_mapping.json"}
    names["info"] = "profiler_info_0.json"
    files = recorded(SMALL, simulate(SMALL)) | {names[name]: content for name, content in changed.items()}
    for name, content in files.items():
        if content is not None:
            path = folder / "p_ascend_pt" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    return profile_at(folder / "p_ascend_pt")


def _said(profile: Profile) -> str:
    assert isinstance(profile.cpu, Message)
    skipped = rule("HOST.CPU").check(profile.facts[0])
    assert isinstance(skipped, Skipped)
    assert not CPU_TIME.make(profile).rows
    return words(skipped.reason)


@pytest.mark.parametrize(("name", "kind"), [("decoding", "preempted"), ("level", "throttled"), ("decoding", "softirq")])
def test_a_theft_comes_first_with_its_cost(name: str, kind: str) -> None:
    found = outcome(JOBS[name], THEFTS[kind], 3)
    assert found.right
    assert (found.lead, found.remedied) == ("HOST.CPU", ())
    assert near(found.said, found.stolen)
    assert near(found.gain, found.simulated)


def test_parts_add_up_to_the_lost_time_and_the_sentence_names_the_thread() -> None:
    profile = job("preempted")
    sheet, launches = CPU_TIME.make(profile), profile.dispatch[0]
    lost = np.rint(launches.lost).astype(np.int64)
    assert sum(sheet.values("lost_time")) == int(lost.sum())
    late = CPU_WAITS.make(profile)
    rows = np.array([late.values(part) for part in PARTS])
    assert rows.sum(axis=0).tolist() == late.values("lost_time")
    assert sorted(late.values("lost_time")) == sorted(lost[lost > 0].tolist())
    draft = rule("HOST.CPU").check(facts_of(profile))
    assert isinstance(draft, Draft)
    assert "kworker/u96:3 (77123) has the CPU" in words(draft.title)
    assert "CPU 8" in words(draft.detail)
    assert {words(place.note)[:14] for place in draft.evidence} == {f"python:{284_117 + HOST_PIDS}"}


def test_lanes_show_who_has_the_cpu() -> None:
    charts = cpu_charts(job("preempted"))
    assert len(charts) == 3
    steps = next(chart for chart in charts if job("preempted").trace.lanes[chart.lane].tid == 284_117).function()
    assert (np.diff(steps.time) > 0).all()
    taken = {words(steps.legend[value >> 3]) for value in steps.value.tolist() if value & 7 == CpuClass.TAKEN}
    assert "waits for CPU 8: kworker/u96:3:77123 runs there" in taken


def test_what_cannot_be_matched_is_unknown_and_not_zero(tmp_path: Path) -> None:
    bare = {"clock": None, "info": json.dumps({"rank_id": 0}).encode()}
    assert "start_info of PROF_* (clockMonotonicRaw) is missing" in _said(_written(tmp_path / "clock", **bare))
    late = json.dumps({"clockMonotonicRaw": "1", "collectionTimeBegin": "1"}).encode()
    assert "no event lies in the time of the profile" in _said(_written(tmp_path / "time", clock=late))
    assert "need pid_mapping.json" in _said(_written(tmp_path / "pids", mapping=b"{}"))


def test_a_clock_that_is_off_shows_in_threads_that_do_not_run(tmp_path: Path) -> None:
    (info,) = [content for name, content in ftrace_files(SMALL, simulate(SMALL)).items() if "start_info" in name]
    moved = json.loads(info)
    moved["clockMonotonicRaw"] = str(int(moved["clockMonotonicRaw"]) + 3_000_000)
    said = _said(_written(tmp_path, clock=json.dumps(moved).encode()))
    assert "its clock or thread numbers do not fit" in said


def test_both_spellings_say_the_same(tmp_path: Path) -> None:
    text = ftrace_files(SMALL, simulate(SMALL), "trace-cmd")["trace.txt"]
    profile = _written(tmp_path, text=text)
    assert isinstance(profile.cpu, CpuTime)
    assert CPU_TIME.records(profile) == CPU_TIME.records(job("preempted"))


def test_lost_events_are_unknown_time(tmp_path: Path) -> None:
    lines = ftrace_files(SMALL, simulate(SMALL))["trace.txt"].decode().split("\n")
    switches = [at for at, line in enumerate(lines) if "prev_comm=kworker" in line]
    for at in reversed(switches):
        lines[at - 1 : at + 1] = ["CPU:8 [LOST 2 EVENTS]"]
    profile = _written(tmp_path, text="\n".join(lines).encode())
    sheet = CPU_TIME.make(profile)
    lost = dict(zip(sheet.values("state"), sheet.values("lost_time"), strict=True))
    assert lost["unknown"] > 0.5 * sum(lost.values())
    assert "preempted" not in lost
    assert isinstance(rule("HOST.CPU").check(profile.facts[0]), Skipped)
