"""Recordings of the scheduler: the public sample, both spellings, losses, damage, hostile texts, databases."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from measured import part_of

from npu_tui.load.errors import InputError
from npu_tui.load.find import find_source
from npu_tui.load.ftrace import load_ftrace, load_scheduling
from npu_tui.load.load import load
from npu_tui.output.report import report
from npu_tui.output.report_tables import profile_again
from npu_tui.strings import say
from npu_tui.trace.scheduling import OwnedSpans, Scheduling, State

START = 100_000_000_000

States = list[tuple[int, int, str, int]]


def _states(recording: Scheduling, task: int) -> States:
    """Start and end in us after the first event, state, CPU or waker."""
    return _rows(recording.states_of(task), recording, [*State.__members__])


def _rows(spans: OwnedSpans, recording: Scheduling, names: object) -> States:
    start, end = (((times - recording.first) // 1000).tolist() for times in (spans.start, spans.end))
    return list(zip(start, end, [names[kind] for kind in spans.kind.tolist()], spans.other.tolist(), strict=True))


def _line(us: float, cpu: int, task: tuple[str, int], event: str, digits: int = 6) -> str:
    seconds, rest = divmod(START + round(us * 1000), 1_000_000_000)
    return f"{task[0]:>16}-{task[1]:<6} [{cpu:03d}] d..2. {seconds}.{f'{rest:09d}'[:digits]}: {event}"


A, B, IDLE = ("my app: x-1", 7), ("kworker/3:1-ev", 9), ("<idle>", 0)


def _switch(us: float, cpu: int, before: tuple[str, int], state: str, after: tuple[str, int], cmd: bool = False) -> str:
    if cmd:
        event = f"sched_switch:         {before[0]}:{before[1]} [120] {state} ==> {after[0]}:{after[1]} [120]"
    else:
        event = (
            f"sched_switch: prev_comm={before[0]} prev_pid={before[1]} prev_prio=120 prev_state={state} ==> "
            f"next_comm={after[0]} next_pid={after[1]} next_prio=120"
        )
    return _line(us, cpu, before, event, 9 if cmd else 6)


def _read(folder: Path, *lines: str) -> Scheduling:
    path = folder / "trace.txt"
    path.write_text("# tracer: nop\n#\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return load_ftrace(path)


def _odd(recording: Scheduling) -> dict[str, int]:
    return {what.code.removeprefix("odd.ftrace_"): count for what, count in recording.odd.items()}


def test_the_public_sample() -> None:
    folder = os.environ.get("NPU_TUI_TRACES")
    if not folder:
        pytest.skip(reason="NPU_TUI_TRACES is not set: it names the folder of the real profiles")
    recording = load_ftrace(Path(folder) / "ftrace/trace.txt")
    assert (recording.first, recording.events) == (123_456_789_001_000, 20)
    assert _states(recording, 456)[0] == (0, 5, "running", 0)
    assert _states(recording, 123) == [(0, 5, "preempted", 0), (5, 11, "running", 0)]
    assert [row for row in _states(recording, 125) if row[2] == "running"] == [(12, 19, "running", 0)]
    assert _rows(recording.interrupts, recording, recording.sources) == [
        (3, 4, "irq 12 eth0", 0), (6, 7, "softirq TIMER", 1),
        (13, 14, "irq 14 scheduler", 0), (16, 17, "softirq RCU", 1),
    ]  # fmt: skip
    trace = load(Path(folder) / "ftrace")
    assert sum(trace.events.values()) == 20
    assert {layer.name for layer in trace.layers} == {"CPU Scheduling", "Process Scheduling"}
    lanes = {trace.lanes[lane].name for lane in trace.slices.lane.tolist()}
    assert {"CPU 0", "CPU 1", "python:123", "bash:456"} <= lanes


@pytest.mark.parametrize("cmd", [False, True])
def test_both_spellings_and_names_with_blanks_dashes_and_colons(tmp_path: Path, cmd: bool) -> None:
    wake = (
        f"sched_waking:         {A[0]}:{A[1]} [120] CPU:003"
        if cmd
        else f"sched_waking: comm={A[0]} pid=7 prio=120 target_cpu=003"
    )
    recording = _read(
        tmp_path,
        _switch(0, 3, IDLE, "R", A, cmd),
        _switch(10, 3, A, "R+", B, cmd),
        _line(12, 1, B, wake, 9 if cmd else 6),  # it waits already: this changes nothing
        _switch(20, 3, B, "S", A, cmd),
        _switch(30, 3, A, "S", IDLE, cmd),
        _line(40, 1, ("waker", 55), wake, 9 if cmd else 6),
        _switch(42, 3, IDLE, "R", A, cmd),
        _switch(50, 3, A, "D", IDLE, cmd),
        _line(51, 1, ("waker", 55), "irq_handler_entry: irq=4 name=sched_x"),
    )
    assert _states(recording, 7) == [
        (0, 10, "running", 3), (10, 20, "preempted", 3), (20, 30, "running", 3), (30, 40, "asleep", 55),
        (40, 42, "woken", 3), (42, 50, "running", 3), (50, 51, "blocked", -1),
    ]  # fmt: skip
    assert recording.tasks[7] == A[0]
    assert recording.tasks[9] == B[0]
    assert _odd(recording) == {"irq": 1}
    runs = recording.runs.of(3)
    assert runs.kind.tolist() == [7, 9, 7, 0, 7, 0]


def test_what_newer_events_overwrote_is_counted(tmp_path: Path) -> None:
    """The head of a file tells how many events were written, and how many of them the buffer still held."""
    heads = [f"# entries-in-buffer/entries-written: {held}/{written}   #P:8" for held, written in ((4, 404), (7, 7))]
    recording = _read(tmp_path, *heads, _switch(0, 3, IDLE, "R", A), _switch(30, 3, A, "S", IDLE))
    assert _odd(recording) == {"overwritten": 400}


@pytest.mark.parametrize(
    ("lost", "count"),
    [
        ("CPU:3 [LOST 12 EVENTS]", 12),
        ("CPU:3 [LOST EVENTS]", 1),
        ("CPU:3 [12 EVENTS DROPPED]", 12),
        ("CPU:3 [EVENTS DROPPED]", 1),
    ],
)
def test_lost_events_are_unknown_time(tmp_path: Path, lost: str, count: int) -> None:
    recording = _read(
        tmp_path,
        _switch(0, 3, IDLE, "R", A),
        _switch(0, 4, IDLE, "R", B),
        _line(10, 3, A, "sched_stat_runtime: comm=x pid=7 runtime=1 [ns] vruntime=1 [ns]"),
        lost,
        _line(20, 3, A, "sched_stat_runtime: comm=x pid=7 runtime=1 [ns] vruntime=1 [ns]"),
        _switch(30, 3, A, "S", IDLE),
        _switch(40, 4, B, "S", IDLE),
    )
    assert _states(recording, 7)[:3] == [(0, 10, "running", 3), (10, 20, "unknown", 3), (20, 30, "running", 3)]
    assert _states(recording, 9)[0] == (0, 40, "running", 4)  # on another CPU, which lost nothing
    assert _odd(recording) == {"lost": count}


def test_a_gap_between_switches_is_unknown(tmp_path: Path) -> None:
    recording = _read(
        tmp_path,
        _switch(0, 3, IDLE, "R", A),
        _line(10, 3, A, "sched_stat_runtime: comm=x pid=7 runtime=1 [ns] vruntime=1 [ns]"),
        _switch(20, 3, B, "S", IDLE),  # the switch from A to B is missing
    )
    assert _states(recording, 7) == [(0, 10, "running", 3), (10, 20, "unknown", 3)]
    assert _odd(recording) == {"gap": 1}


def test_a_thread_that_waits_is_followed_to_another_cpu(tmp_path: Path) -> None:
    recording = _read(
        tmp_path,
        _switch(0, 3, A, "R", B),
        _line(10, 3, B, "sched_migrate_task: comm=my app: x-1 pid=7 prio=120 orig_cpu=3 dest_cpu=5"),
        _switch(20, 5, IDLE, "R", A),
        _switch(30, 5, A, "S", IDLE),
    )
    assert _states(recording, 7) == [(0, 10, "preempted", 3), (10, 20, "preempted", 5), (20, 30, "running", 5)]


def test_damage_is_counted_and_costs_nothing_else(tmp_path: Path) -> None:
    good = [_switch(0, 3, IDLE, "R", A), _switch(10, 3, A, "R", B), _switch(20, 3, B, "S", A)]
    hostile = [
        "x" * 100_000,
        _line(5, 3, A, "sched_switch: prev_comm=\x1b[31m prev_pid=99999999999999999999"),
        "a-1" * 500,
        "     \x00\x01 -7 [003]",
        _line(6, 99999, A, "sched_waking: comm= pid=x"),
        f"{A[0]}-7 [003] 99999999999999999999.1: sched_switch: x",
    ]
    clean, dirty = _read(tmp_path, *good), _read(tmp_path, good[0], *hostile, *good[1:])
    assert _states(dirty, 7) == _states(clean, 7)
    assert _odd(dirty) == {"line": 4, "event": 2}
    cut = tmp_path / "trace.txt"
    cut.write_bytes(cut.read_bytes()[:-30])
    assert _states(load_ftrace(cut), 7)[0] == (0, 10, "running", 3)


def test_what_is_no_recording_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace.txt"
    path.write_text("# tracer: nop\n#\n")
    assert find_source(path).kind == "ftrace"
    with pytest.raises(InputError, match="ftrace_empty"):
        load_ftrace(path)
    path.write_text("a letter\n")
    assert find_source(path).kind == "json"


def test_the_database_of_the_converter(tmp_path: Path) -> None:
    path, origin = tmp_path / "ftrace_data.db", 1_700_000_000_000_000_000
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE process (pid TEXT PRIMARY KEY, process_name TEXT)")
        database.execute("CREATE TABLE thread (track_id INTEGER PRIMARY KEY, tid TEXT, pid TEXT, thread_name TEXT)")
        database.execute(
            "CREATE TABLE slice (id INTEGER PRIMARY KEY, timestamp INTEGER, duration INTEGER, name TEXT, "
            "track_id INTEGER, args TEXT, end_time INTEGER)"
        )
        database.execute(
            "INSERT INTO thread VALUES (1, 'CPU 3', 'CPU Scheduling', ''), (2, 'app:7', 'Process Scheduling', '')"
        )
        rows = [
            (0, 10, "app:7", 1, '{"end_state": "R"}'), (10, 10, "other:9", 1, '{"end_state": "S"}'),
            (20, 10, "app:7", 1, '{"end_state": "S"}'), (12, 2, "irq", 1, '{"irq": "88", "name": "sched_x"}'),
            (45, 10, "app:7", 1, "{"), (10, 10, "Runnable", 2, None), (42, 3, "Runnable", 2, None),
            ("x", 1, "app:7", 1, None),
        ]  # fmt: skip
        for begin, length, name, track, args in rows:
            begin = begin if isinstance(begin, str) else origin + begin * 1000
            database.execute(
                "INSERT INTO slice (timestamp, duration, name, track_id, args) VALUES (?, ?, ?, ?, ?)",
                (begin, length * 1000, name, track, args),
            )
    database.close()
    assert find_source(path).kind == "ftrace"
    recording = load_scheduling(path)
    assert recording.is_absolute
    assert recording.first == origin
    assert _states(recording, 7) == [
        (0, 10, "running", 3), (10, 20, "preempted", 3), (20, 30, "running", 3), (30, 42, "asleep", -1),
        (42, 45, "woken", 3), (45, 55, "running", 3),
    ]  # fmt: skip
    assert recording.sources == ["irq 88 sched_x"]
    assert _odd(recording) == {"event": 1}


def test_states_of_a_thread_never_overlap(tmp_path: Path) -> None:
    """Lines in any order: no span of a thread or a CPU overlaps another one."""
    random = np.random.default_rng(5)
    tasks = [IDLE, A, B, ("c", 11)]
    lines = []
    for _ in range(400):
        us, cpu = int(random.integers(0, 2000)), int(random.integers(0, 3))
        before, after = (tasks[k] for k in random.integers(0, 4, 2))
        kinds = (
            _switch(us, cpu, before, "RSDX"[random.integers(0, 4)], after),
            _line(us, cpu, before, f"sched_waking: comm={after[0]} pid={after[1]} prio=120 target_cpu={cpu:03d}"),
            _line(us, cpu, before, f"sched_migrate_task: comm=x pid={after[1]} prio=1 orig_cpu=0 dest_cpu={cpu}"),
            f"CPU:{cpu} [LOST 2 EVENTS]",
        )
        lines.append(kinds[random.integers(0, 4)])
    recording = _read(tmp_path, *lines)
    owners = [recording.states_of(task) for task in (7, 9, 11)] + [recording.runs.of(cpu) for cpu in range(3)]
    for spans in owners:
        assert (spans.end > spans.start).all()
        assert (spans.start[1:] >= spans.end[:-1]).all()


def test_a_recording_alone_misses_a_profile_and_nothing_else(tmp_path: Path) -> None:
    """No rule about an NPU is listed as not checked, no setting of the profiler is advised."""
    _read(tmp_path, _switch(0, 0, A, "S", B), _switch(10, 0, B, "R", A), _switch(30, 0, A, "S", IDLE))
    found = report(part_of(load(tmp_path / "trace.txt")))
    assert [missing.id for missing in found.not_checked] == ["ftrace"]
    assert profile_again(found) == [say("again.ftrace")]
