"""Where a slice counts and where one nanosecond or one launch more changes the answer, on traces made for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from measured import findings_of, profile_of
from samples import parts_of

from npu_tui.analysis.drains import drains
from npu_tui.analysis.overlap import disagreement
from npu_tui.load.load import load
from npu_tui.strings import words
from npu_tui.trace.model import Trace

PROCESSES = {1: "CANN", 2: "Ascend Hardware", 3: "Overlap Analysis"}


def sliced(pid: int, name: str, start_us: float, end_us: float, **args: Any) -> dict[str, Any]:
    return {
        "ph": "X", "pid": pid, "tid": 1, "name": name, "ts": f"{start_us:.3f}", "dur": round(end_us - start_us, 3),
        "args": args,
    }  # fmt: skip


def launch(key: int, at_us: float, start_us: float, end_us: float, host: int = 1) -> list[dict[str, Any]]:
    """A launch at ``at_us`` by the process ``host`` of a kernel that runs from ``start_us`` to ``end_us``."""
    flow = {"cat": "HostToDevice", "name": "HostToDevice", "id": str(key), "tid": 1}
    return [
        sliced(host, "launch", at_us, at_us + 1),
        sliced(2, f"kernel{key}", start_us, end_us, **{"Task Type": "AI_CORE"}),
        flow | {"ph": "s", "pid": host, "ts": f"{at_us:.3f}"},
        flow | {"ph": "f", "bp": "e", "pid": 2, "ts": f"{start_us:.3f}"},
    ]


def thread(number: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": 3, "tid": number, "name": "thread_name", "args": {"name": name}}


def named(processes: dict[int, str]) -> list[dict[str, Any]]:
    return [{"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}} for pid, name in processes.items()]


def trace_of(folder: Path, *events: list[dict[str, Any]]) -> Trace:
    path = folder / "trace_view.json"
    path.write_text(json.dumps(named(PROCESSES) + [event for each in events for event in each]))
    return load(path)


@pytest.mark.parametrize(("late_ns", "linked"), [(0, True), (2, True), (3, False)])
def test_free_belongs_to_a_launch_that_starts_within_two_nanoseconds_of_its_end(
    tmp_path: Path, late_ns: int, linked: bool
) -> None:
    first, second = launch(1, 1, 2, 10), launch(2, 19 + late_ns / 1000, 20 + late_ns / 1000, 30)
    trace = trace_of(tmp_path, first, second, [sliced(3, "Free", 10, 20) | {"tid": 3}, thread(3, "Free")])
    split = parts_of(trace).split
    start, end = 9_000, 19_000
    assert (split.linked.tolist(), split.end.tolist()) == ([linked], [end])
    assert split.late_until.tolist() == [end if linked else start]


@pytest.mark.parametrize(("late_ns", "beside"), [(0, True), (2, True), (3, False)])
def test_an_idle_time_lies_between_slices_within_two_nanoseconds(tmp_path: Path, late_ns: int, beside: bool) -> None:
    first, second = launch(1, 1, 2, 10 + late_ns / 1000), launch(2, 15, 20 + late_ns / 1000, 30)
    trace = trace_of(tmp_path, first, second, [sliced(3, "Free", 10, 20) | {"tid": 3}, thread(3, "Free")])
    (found,) = profile_of(trace).idles
    assert (found.before >= 0).tolist() == (found.after >= 0).tolist() == [beside]


def test_no_slice_lies_before_the_first_free_time_or_after_the_last(tmp_path: Path) -> None:
    free = [sliced(3, "Free", start, end) | {"tid": 3} for start, end in ((0.5, 1.5), (10, 20), (30, 40))]
    trace = trace_of(tmp_path, launch(1, 1, 2, 10), launch(2, 15, 20, 30), free, [thread(3, "Free")])
    (found,) = profile_of(trace).idles
    names = [
        [trace.name_of(item) if item >= 0 else "" for item in side.tolist()] for side in (found.before, found.after)
    ]
    assert names == [["", "kernel1", "kernel2"], ["", "kernel2", ""]]
    assert (found.unlinked == 0).tolist() == parts_of(trace).split.linked.tolist() == [False, True, False]


@pytest.mark.parametrize(("late_ns", "after"), [(-3, "the end"), (-2, "kernel2"), (2, "kernel2"), (3, "the end")])
def test_a_finding_names_what_ends_a_free_time_within_two_nanoseconds(tmp_path: Path, late_ns: int, after: str) -> None:
    second = launch(2, 1900, 2000 + late_ns / 1000, 2010)
    trace = trace_of(
        tmp_path, launch(1, 1, 2, 10), second, [sliced(3, "Free", 10, 2000) | {"tid": 3}, thread(3, "Free")]
    )
    (found,) = (each for each in findings_of(trace).findings if each.id == "DISPATCH.FREE")
    (place,) = found.evidence
    assert words(place.note) == f"1.990 ms free until {after}"
    assert (place.name, trace.lanes[place.lane].name) == ("Free", "Free")


@pytest.mark.parametrize(("longer_ns", "excess"), [(-3, -3), (-2, 0), (2, 0), (3, 3)])
def test_lanes_of_the_file_disagree_with_its_slices_beyond_two_nanoseconds(
    tmp_path: Path, longer_ns: int, excess: int
) -> None:
    computing = sliced(3, "Computing", 2, 10 + longer_ns / 1000) | {"tid": 3}
    profile = profile_of(trace_of(tmp_path, launch(1, 1, 2, 10), [computing, thread(3, "Computing")]))
    found = disagreement(profile.trace, profile.overlap_lanes[0], profile.device_slices[0])
    assert found == (excess, 0)


@pytest.mark.parametrize(("count", "interrupted"), [(2, False), (3, True), (4, True)])
def test_a_drain_interrupts_where_three_launches_were_in_flight(tmp_path: Path, count: int, interrupted: bool) -> None:
    filled = [launch(key, 1 + key, 20 + 10 * key, 30 + 10 * key) for key in range(count)]
    trace = trace_of(tmp_path, launch(90, 0.1, 1, 1.5), *filled, launch(99, 500, 501, 510))
    parts = parts_of(trace)
    found = drains(trace, parts.device, parts.pairs)
    assert (found.peak_backlog.tolist(), found.interrupted.tolist()) == ([count], [interrupted])


PYTHON, OTHER_PYTHON, UNNAMED = 100, 200, 7
CANN, SECOND_CANN, OTHER_CANN = PYTHON << 10 | 1, PYTHON << 10 | 2, OTHER_PYTHON << 10 | 1


@pytest.mark.parametrize(
    "groups",
    [
        {(PYTHON, CANN): "Python CANN", (OTHER_PYTHON, OTHER_CANN): "Python CANN"},
        {(PYTHON, CANN): "Python CANN", (OTHER_PYTHON, OTHER_CANN): "Python CANN", (UNNAMED,): "Job"},
        {(PYTHON, CANN, OTHER_CANN, UNNAMED): "Python CANN CANN Job"},
        {(CANN, SECOND_CANN, UNNAMED): "CANN CANN Job"},
        {(CANN, SECOND_CANN): "CANN CANN", (OTHER_CANN,): "CANN"},
    ],
    ids=["two", "two and an unknown one", "one Python", "one CANN", "two CANN"],
)
def test_each_process_of_the_host_has_a_clock_floor(tmp_path: Path, groups: dict[tuple[int, ...], str]) -> None:
    events, relative = [], []
    for number, (pids, names) in enumerate(groups.items()):
        events += named(dict(zip(pids, names.split(), strict=True)))
        for own, pid in enumerate(pids):
            at = 1000.0 * (len(relative) + 1)
            events += launch(pid, at, at + 5 + 20 * number + 3 * own, at + 100, pid)
            relative.append(3_000 * own)
    found = parts_of(trace_of(tmp_path, events)).launches
    assert found.relative.tolist() == relative
    assert sorted(floor.floor for floor in found.floors) == [5_000 + 20_000 * number for number in range(len(groups))]


def test_a_launch_ends_in_a_busy_slice_and_counts_once_for_each_source(tmp_path: Path) -> None:
    first, again, nowhere = launch(1, 1, 2, 10), launch(1, 15, 20, 30), launch(2, 35, 40, 50)
    waiting, twice = launch(3, 55, 60, 70), launch(4, 75, 80, 90)
    nowhere[1]["pid"] = 1
    waiting[1] |= {"name": "EVENT_WAIT", "args": {"Task Type": "EVENT_WAIT"}}
    twice += [sliced(2, "kernel5", 92, 95, **{"Task Type": "AI_CORE"}), twice[-1] | {"ts": "92.000"}]
    trace = trace_of(tmp_path, first, again, nowhere, waiting, twice)
    found = parts_of(trace).launches
    assert [trace.name_of(item) for item in trace.links.target_slice[found.link]] == ["kernel1", "kernel1", "kernel4"]
    assert found.ready.tolist() == [-1, 9_000, 29_000]
