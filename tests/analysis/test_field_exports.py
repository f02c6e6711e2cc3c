"""Exports of other kinds: steps without a framework, collectives without lanes, planes first, events twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from measured import profile_of

from npu_tui.analysis.device import device_slices
from npu_tui.analysis.overlap import overlap_lanes
from npu_tui.analysis.steps import steps
from npu_tui.load.load import load
from npu_tui.output.report_tables import health_lines
from npu_tui.strings import words
from npu_tui.trace.model import Trace
from npu_tui.trace.transfers import copy_slices, groups_of

Event = dict[str, Any]
HARDWARE, PYTHON, COMMUNICATION, OVERLAP = 3, 1, 4, 5


def layer(pid: int, name: str) -> Event:
    return {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}


def lane(pid: int, tid: int, name: str, order: int | None = None) -> list[Event]:
    events = [{"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}]
    if order is not None:
        events.append({"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": tid, "args": {"sort_index": order}})
    return events


def task(pid: int, tid: int, name: str, ts: float, dur: float, kind: str = "") -> Event:
    args = {"Task Type": kind} if kind else {}
    return {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def kernel(ts: float, dur: float = 100, tid: int = 2) -> Event:
    return task(HARDWARE, tid, "MatMul", ts, dur, "AI_CORE")


def traced(folder: Path, *events: Event) -> Trace:
    file = folder / "msprof_1.json"
    file.write_text(json.dumps(events))
    return load(file)


def step_spans(trace: Trace) -> list[tuple[int | None, int | None, int | None]]:
    return [
        (step.number, step.window and step.window.start // 1000, step.window and step.window.end // 1000)
        for step in steps(trace)
    ]


def test_iterations_of_a_static_graph_are_steps(tmp_path: Path) -> None:
    iterations = [task(HARDWARE, 10036, f"Iteration {k}", 1000 * k, 900) for k in (1, 2, 3)]
    other = [task(HARDWARE, 10036, "FP_BP Time", 1000 * k, 800) for k in (1, 2, 3)]
    other += [task(HARDWARE, 10037, f"Iteration {k}", 1000 * k + 100, 300) for k in (2, 3)]  # of a model in the other
    trace = traced(
        tmp_path,
        layer(HARDWARE, "Ascend Hardware"),
        *lane(HARDWARE, 10036, "Step Trace(Model ID:2)", 70002),
        *lane(HARDWARE, 10037, "Step Trace(Model ID:3)", 70003),
        *iterations,
        *other,
        *(kernel(1000 * k + 50) for k in (1, 2, 3)),
    )
    assert step_spans(trace) == [(1, 0, 900), (2, 1000, 1900), (3, 2000, 2900)]
    assert [row.overlap.computing for row in profile_of(trace).sums_by_device[0]] == [100_000] * 3


@pytest.mark.parametrize("name", ["ProfilerStep#{}", "train_step {}", "Iteration {}", "step#{}"])
def test_ranges_of_mstx_alone_are_steps(tmp_path: Path, name: str) -> None:
    host = [task(9, 1, name.format(k), 1000 * k, 900) for k in (7, 8)]
    launches = [
        event
        for k in (7, 8)
        for event in (
            task(2, 1, "aclnnMatmul", 1000 * k + 10, 5),
            {
                "ph": "s",
                "cat": "HostToDevice",
                "id": k,
                "pid": 2,
                "tid": 1,
                "ts": 1000 * k + 10,
                "name": "HostToDevice",
            },
            {"ph": "f", "cat": "HostToDevice", "id": k, "pid": HARDWARE, "tid": 2, "ts": 1000 * k + 50, "bp": "e"},
        )
    ]
    named = [layer(9, "python3"), layer(2, "CANN"), layer(HARDWARE, "Ascend Hardware")]
    device_marks = [task(HARDWARE, 99, name.format(k), 1000 * k + 40, 400) for k in (7, 8)]
    trace = traced(tmp_path, *named, *host, *launches, *device_marks, kernel(7050), kernel(8050))
    assert [step.number for step in steps(trace)] == [7, 8]
    assert all(step.window is not None and step.window.end > step.window.start for step in steps(trace))


def test_one_range_with_a_number_is_no_step(tmp_path: Path) -> None:
    trace = traced(tmp_path, layer(9, "python3"), task(9, 1, "step 1", 0, 10), task(9, 1, "layer", 2, 3))
    assert [step.number for step in steps(trace)] == [None]


def test_numbers_that_repeat_are_steps_of_their_own(tmp_path: Path) -> None:
    marks = [task(PYTHON, 1, f"ProfilerStep#{k}", at, 90) for k, at in ((1, 0), (2, 100), (1, 1000), (2, 1100))]
    again = task(PYTHON, 2, "ProfilerStep#1", 10, 50)  # the same step on another thread
    trace = traced(tmp_path, layer(PYTHON, "Python"), *marks, again)
    found = steps(trace)
    assert [step.number for step in found] == [1, 2, 1, 2]
    assert [int(trace.slices.start[step.item]) // 1000 for step in found] == [0, 100, 1000, 1100]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        # CANN up to 7: the planes have lower thread ids than the collectives, sort indexes tell the order.
        ([(8, "Communication OP", 0), (0, "Plane 0", 1), (1, "Plane 1", 2)], {8: [0, 1]}),
        ([(8, "Group a", 0), (0, "Plane 0", 1), (9, "Group b", 2), (1, "Plane 0", 3)], {8: [0], 9: [1]}),
        # Without sort indexes the planes come first.
        ([(8, "Communication OP", None), (0, "Plane 0", None), (1, "Plane 1", None)], {8: [0, 1]}),
        ([(0, "Group a", None), (1, "Plane 0", None), (2, "Group b", None), (3, "Plane 0", None)], {0: [1], 2: [3]}),
    ],
)
def test_planes_belong_to_their_group(
    tmp_path: Path, order: list[tuple[int, str, int | None]], expected: dict[int, list[int]]
) -> None:
    events = [event for tid, name, index in order for event in lane(COMMUNICATION, tid, name, index)]
    events += [task(COMMUNICATION, tid, "hcom_allReduce_", 10, 5) for tid, _, _ in order]
    trace = traced(tmp_path, layer(COMMUNICATION, "HCCL"), *events)
    assert {group.tid: [plane.tid for plane in planes] for group, planes in groups_of(trace)} == expected


@pytest.mark.parametrize("spelled", ["Notify_Wait", "Notify Wait"])
def test_older_names_of_plane_tasks(tmp_path: Path, spelled: str) -> None:
    lanes = [*lane(COMMUNICATION, 8, "Communication OP"), *lane(COMMUNICATION, 9, "Plane 0")]
    tasks = [task(COMMUNICATION, 9, spelled, 0, 70), task(COMMUNICATION, 9, spelled.replace("Wait", "Record"), 70, 1)]
    for each in tasks:
        each["args"] = {"src rank": 0, "dst rank": 3, "size(Byte)": 0}
    trace = traced(
        tmp_path, layer(COMMUNICATION, "HCCL"), *lanes, task(COMMUNICATION, 8, "hcom_allReduce_", 0, 90), *tasks
    )
    found = profile_of(trace).collectives
    assert (found.waits.length.tolist(), found.waits.peer.tolist(), found.timings.wait.tolist()) == (
        [70_000],
        [3],
        [70_000],
    )


def test_collectives_without_a_label_are_of_the_only_device(tmp_path: Path) -> None:
    labelled = {"ph": "M", "pid": HARDWARE, "name": "process_labels", "args": {"labels": "NPU 3"}}
    events = [layer(HARDWARE, "Ascend Hardware"), labelled, layer(900, "HCCL"), *lane(900, 5, "Group 8 Communication")]
    trace = traced(tmp_path, *events, kernel(0), task(900, 5, "hcom_allReduce__8_0_1", 150, 50))
    (sums,) = profile_of(trace).overlaps
    assert (sums.device, sums.computing, sums.not_overlapped) == (3, 100_000, 50_000)


@pytest.mark.parametrize("name", ["reduce_scatterAivKernel", "AicpuKernel", "aiv_all_reduce_910b_bfloat16_t"])
@pytest.mark.parametrize("grouped", [True, False])
def test_kernels_of_collectives_are_communication(tmp_path: Path, name: str, grouped: bool) -> None:
    group = [layer(900, "HCCL"), *lane(900, 5, "Group 8 Communication"), task(900, 5, "hcom_allReduce__8_0_1", 100, 50)]
    events = [layer(HARDWARE, "Ascend Hardware"), kernel(0), task(HARDWARE, 2, name, 100, 50, "AI_VECTOR_CORE")]
    profile = profile_of(traced(tmp_path, *events, *(group if grouped else [])))
    (sums,) = profile.overlaps
    assert (sums.computing, sums.not_overlapped) == (100_000, 50_000)
    assert len(profile.facts[0].kernels) == 1


def test_a_recording_that_begins_with_a_wait_is_judged_after_it(tmp_path: Path) -> None:
    group = [layer(900, "HCCL"), *lane(900, 5, "Group 8 Communication")]
    meetings = [task(900, 5, f"hcom_allReduce__8_{number}_1", 0 if not number else 9_000 + 200 * number, length)
                for number, length in enumerate((9_000, 50, 50))]  # fmt: skip
    events = [layer(HARDWARE, "Ascend Hardware"), kernel(9_100), kernel(9_300), *group]
    profile = profile_of(traced(tmp_path, *events, *meetings))
    facts = profile.facts[0]
    assert facts.total == 450_000
    assert len(facts.collectives) == 2
    assert "hcom_allReduce__8_0_1 is left out (9.000 ms)" in words(profile.findings.verdict[0])
    assert profile_of(traced(tmp_path, *events, kernel(-200), *meetings)).facts[0].first_meeting < 0


def exchange(tid: int, at: float) -> list[Event]:
    return [
        task(HARDWARE, tid, "NOTIFY_WAIT", at, 300, "NOTIFY_WAIT"),
        task(HARDWARE, tid, "MEMCPY_ASYNC", at + 300, 50, "MEMCPY_ASYNC"),
        task(HARDWARE, tid, "NOTIFY_RECORD", at + 350, 1, "NOTIFY_RECORD"),
        task(HARDWARE, tid, "EVENT_RECORD", at + 360, 40, "EVENT_RECORD"),
    ]


def test_copies_between_notifies_are_communication(tmp_path: Path) -> None:
    copy = task(HARDWARE, 5, "MEMCPY_ASYNC", 900, 30, "MEMCPY_ASYNC")
    trace = traced(
        tmp_path,
        layer(HARDWARE, "Ascend Hardware"),
        kernel(0),
        kernel(600),
        copy,
        *exchange(10, 100),
        *exchange(12, 120),
    )
    assert [int(trace.slices.start[item]) for item in copy_slices(trace)] == [900_000]
    (device,) = device_slices(trace)
    (lanes,) = overlap_lanes(trace, [device])
    (sums,) = [lanes.sums(step.window) for step in steps(trace) if step.window]
    assert (sums.computing, sums.not_overlapped) == (200_000, 371_000)
    ids = {finding.id for finding in profile_of(trace).findings.findings}
    assert "COMM.EXPOSED" in ids
    assert "DATA.COPY" not in ids


def test_a_launched_copy_on_a_stream_with_notifies_stays_a_copy(tmp_path: Path) -> None:
    ends: list[Event] = [
        {"ph": "s", "cat": "HostToDevice", "id": 1, "pid": 2, "tid": 1, "ts": 90, "name": "HostToDevice"},
        {"ph": "f", "cat": "HostToDevice", "id": 1, "pid": HARDWARE, "tid": 10, "ts": 400, "bp": "e"},
    ]
    trace = traced(
        tmp_path, layer(HARDWARE, "Ascend Hardware"), layer(2, "CANN"), kernel(0), *exchange(10, 100), *ends,
        task(2, 1, "aclrtMemcpyAsync", 90, 5),
    )  # fmt: skip
    assert len(copy_slices(trace)) == 1


def overlapped(shift: float = 0) -> list[Event]:
    return [
        event
        for k in range(20)
        for event in (
            kernel(100 * k + shift, 60),
            task(OVERLAP, 1, "Computing", 100 * k + shift, 60),
            task(OVERLAP, 2, "Free", 100 * k + 60 + shift, 40),
            task(PYTHON, 1, "aten::mm", 100 * k + shift - 5, 4),
        )
    ]


NAMED = [
    layer(PYTHON, "Python"), layer(HARDWARE, "Ascend Hardware"), layer(OVERLAP, "Overlap Analysis"),
    *lane(OVERLAP, 1, "Computing"), *lane(OVERLAP, 2, "Free"),
]  # fmt: skip


@pytest.mark.parametrize("part", [80, 40, 20])
def test_events_that_are_there_twice_count_once(tmp_path: Path, part: int) -> None:
    ends: list[Event] = [
        {"ph": "s", "cat": "HostToDevice", "id": 1, "pid": PYTHON, "tid": 1, "ts": 95, "name": "HostToDevice"},
        {"ph": "f", "cat": "HostToDevice", "id": 1, "pid": HARDWARE, "tid": 2, "ts": 100, "bp": "e"},
    ]
    once = [*overlapped(), *ends]
    trace = traced(tmp_path, *NAMED, *once, *once[:part], *ends)
    assert len(trace.slices) == 80
    assert len(trace.links) == 1
    assert [row.computing for row in profile_of(trace).overlaps] == [20 * 60_000]
    warning = f"{part} slices are in the file twice (same lane, name, start and end), of {80 + part}: each counts once"
    ends_twice = "2 ends of links are in the file twice (same id, thread and time): each counts once"
    assert [words(each) for each in trace.health.warnings] == [warning, ends_twice]


def test_a_process_that_is_there_twice_counts_once(tmp_path: Path) -> None:
    other: list[Event] = [event | {"pid": int(event["pid"]) + 500} for event in (*NAMED, *overlapped())]
    trace = traced(tmp_path, *NAMED, *overlapped(), *other)
    assert len(trace.layers) == 3
    assert [row.computing for row in profile_of(trace).overlaps] == [20 * 60_000]
    assert words(trace.health.warnings[0]).startswith("80 slices are in the file twice")


def test_graphs_that_take_turns_are_one_repetition(tmp_path: Path) -> None:
    """Both begin with the same kernel; a replay has a link to its first kernel only."""
    events, at = [layer(PYTHON, "Python"), layer(HARDWARE, "Ascend Hardware")], 0
    for number, size in enumerate([12, 5] * 6):
        events += [
            task(PYTHON, 1, "aclmdlRIExecuteAsync", at, 9),
            {"ph": "s", "cat": "HostToDevice", "id": number, "pid": PYTHON, "tid": 1, "ts": at + 1, "name": "l"},
            {"ph": "f", "cat": "HostToDevice", "id": number, "pid": HARDWARE, "tid": 2, "ts": at + 90, "bp": "e"},
            *(kernel(at + 90 + 20 * k, 18) for k in range(size)),
        ]
        at += 700
    rhythm = profile_of(traced(tmp_path, *events)).facts[0].rhythm
    assert rhythm is not None
    assert (rhythm.count, rhythm.by) == (6, "graphs")


def test_equal_slices_of_the_host_alone_are_no_doubles(tmp_path: Path) -> None:
    trace = traced(tmp_path, *NAMED, *overlapped(), *(task(PYTHON, 1, "aten::mm", 95, 4) for _ in range(3)))
    assert len(trace.slices) == 83
    assert [(told.code, told.args["count"]) for told in trace.health.warnings] == [("odd.alike", 3)]


def test_no_sum_of_merged_processes_is_longer_than_its_span(tmp_path: Path) -> None:
    trace = traced(tmp_path, *NAMED, *overlapped(), *overlapped(30))
    profile = profile_of(trace)
    assert len(trace.slices) == 160
    assert [(row.computing, row.free) for row in profile.overlaps] == [(20 * 90_000, 19 * 10_000)]
    assert "overlap themselves" in "\n".join(health_lines(profile))


def test_what_hangs_is_named_first(tmp_path: Path) -> None:
    begun: list[Event] = [
        {"ph": "B", "name": "main.py(1): main", "pid": PYTHON, "tid": 1, "ts": 0},
        {"ph": "B", "name": "torch.npu.synchronize", "pid": PYTHON, "tid": 1, "ts": 2500},
        {"ph": "B", "name": "hcom_allReduce__1_9_1", "pid": COMMUNICATION, "tid": 8, "ts": 2400},
    ]
    trace = traced(tmp_path, *NAMED, layer(COMMUNICATION, "Communication"), *overlapped(), *begun)
    profile = profile_of(trace)
    verdict = words(profile.findings.verdict[0])
    first = profile.findings.findings[0]
    assert (first.id, first.severity, first.gain_ns) == ("RUN.UNENDED", "high", None)
    assert [trace.name_of(place.slice or 0) for place in first.evidence] == [
        "hcom_allReduce__1_9_1",
        "torch.npu.synchronize",
    ]
    start = (
        "NEVER ENDED: hcom_allReduce__1_9_1 (since t=2.405 ms) and torch.npu.synchronize (since t=2.505 ms). No task"
    )
    assert verdict.startswith(start)


def test_what_was_open_while_the_device_went_on_hangs_nowhere(tmp_path: Path) -> None:
    begun: Event = {"ph": "B", "name": "main.py(1): main", "pid": PYTHON, "tid": 1, "ts": 0}
    trace = traced(tmp_path, *NAMED, *overlapped(), begun)
    profile = profile_of(trace)
    assert "NEVER ENDED" not in words(profile.findings.verdict[0])
    assert "RUN.UNENDED" not in {finding.id for finding in profile.findings.findings}


def test_what_never_ended_counts_in_no_sum(tmp_path: Path) -> None:
    """The device went on for 2 ms after a collective began that never ended."""
    ended: Event = {"ph": "X", "name": "hcom_allReduce__1_8_1", "pid": COMMUNICATION, "tid": 8, "ts": 100, "dur": 50}
    begun: Event = {"ph": "B", "name": "hcom_allReduce__1_9_1", "pid": COMMUNICATION, "tid": 8, "ts": 400}
    profile = profile_of(traced(tmp_path, *NAMED, layer(COMMUNICATION, "Communication"), *overlapped(), ended, begun))
    assert profile.collectives.elapsed.tolist() == [50_000]
    (device,) = profile.device_slices
    assert int(device.collective.sum()) == 1


@pytest.mark.parametrize(("source", "target"), [(0, 250), (250, 250), (0, -250), (250, 0)])
def test_link_ends_a_quarter_of_a_microsecond_off_say_the_same(tmp_path: Path, source: int, target: int) -> None:
    profile = Path(__file__).resolve().parents[2] / "fixtures" / "dispatch_bound" / "ASCEND_PROFILER_OUTPUT"
    events = json.loads((profile / "trace_view.json").read_text(encoding="utf-8"))
    kept = [event for event in events if event["ph"] in "XM" or event.get("cat") == "HostToDevice"]
    exact = profile_of(traced(tmp_path, *kept))
    for event in kept:
        if event["ph"] in "sf":
            whole, _, fraction = event["ts"].partition(".")
            time = int(whole) * 1000 + int(fraction) + (source if event["ph"] == "s" else target)
            event["ts"] = f"{time // 1000}.{time % 1000:03d}"
    off = profile_of(traced(tmp_path, *kept))
    assert len(exact.starved) == len(off.starved) == 96
    assert off.trace.links.target_time.tolist() == exact.trace.links.target_time.tolist()
    assert off.trace.links.target_slice.tolist() == exact.trace.links.target_slice.tolist()
    assert np.all(np.diff(off.trace.links.target_time) >= 0)
