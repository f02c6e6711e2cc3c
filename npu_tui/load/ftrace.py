"""Recordings of the scheduler: texts of ftrace and databases made of them, as what threads and CPUs did.

A line is ``comm-pid [cpu] flags seconds.fraction: event: args``; the kernel and trace-cmd spell args of their own way
(https://docs.kernel.org/trace/ftrace.html, ``Documentation/trace/events.rst``). Read are sched_switch, sched_waking,
sched_wakeup, sched_wakeup_new, sched_migrate_task, sched_process_exit, irq_handler and softirq entry and exit; for all
others it counts which task ran where.

``ftrace_data.db`` is what MindStudio Insight's converter makes of a text: tables ``thread`` (lanes of "CPU Scheduling"
and "Process Scheduling") and ``slice``, by ``scripts/ftrace_tools`` of https://gitcode.com/Ascend/msinsight. It leaves
swapper, kworker and migration out: what ran between is not known.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from npu_tui.load.build import build_trace
from npu_tui.load.database_file import UNREADABLE, as_text, opened, tables_of
from npu_tui.load.errors import UNWATCHED, InputError, Watcher
from npu_tui.load.format import ReadingPace, Source
from npu_tui.load.json_reader import WholeColumns
from npu_tui.load.scheduling import ENDS, GONE, SOFT, Event, SchedulerEvents, scheduling_of
from npu_tui.load.service_spans import TextArgs
from npu_tui.trace.arrays import I64, summed
from npu_tui.trace.message import message
from npu_tui.trace.model import EventFile, Health, Trace
from npu_tui.trace.scheduling import FTRACE, IDLE, NOBODY, OwnedSpans, Scheduling, State
from npu_tui.trace.side_file import open_regular

if TYPE_CHECKING:
    import polars as pl


_BLANK_LINES = re.compile(rb"\n\s*\n")
_BLOCK, _LONGEST = 1 << 20, 4096
"""Bytes that are read at a time; a line is at most so long, one above it is counted as damaged."""
# Name and number of a thread, CPU, seconds, their fraction, event, args.
_LINE = (
    r"^\s*(.{1,64}?)-(\d{1,9})\s+(?:\(\s*[\d-]+\)\s+)?\[(\d{1,5})\]\s+(?:[^\s\d]\S*\s+)?"
    r"(\d{1,9})\.(\d{1,9}):\s+(\w+):(?:\s+(.*))?$"
)
_WRITTEN = r"^#\s*entries-in-buffer/entries-written: (\d{1,12})/(\d{1,12})\b"
"""In the head of a file: how many events the buffer still held of all that were written into it."""
# The CPU and how many events it lost, of which some writers say nothing.
_LOST = r"^\s*CPU:(\d{1,5}) \[(?:LOST )?(?:(\d{1,12}) )?EVENTS(?: DROPPED)?\]"
_KINDS = {
    "sched_switch": Event.switch, "sched_migrate_task": Event.migrate, "sched_process_exit": Event.exit,
    **dict.fromkeys(("sched_wakeup", "sched_wakeup_new", "sched_waking"), Event.wake),
    **dict.fromkeys(("irq_handler_entry", "softirq_entry"), Event.irq_in),
    **dict.fromkeys(("irq_handler_exit", "softirq_exit"), Event.irq_out),
}  # fmt: skip
_ARGS = {
    Event.switch: r"^(?:prev_comm=)?(.*?)(?: prev_pid=|:)(\d{1,9}) (?:prev_prio=-?\d+ prev_state=|\[-?\d+\] )(\S+) ==> "
    r"(?:next_comm=)?(.*?)(?: next_pid=|:)(\d{1,9}) (?:next_prio=|\[)",
    Event.wake: r"^(?:comm=)?(.*?)(?: pid=|:)(\d{1,9}) (?:prio=|\[)(?:.*(?:CPU:|target_cpu=)(\d{1,5}))?",
    Event.migrate: r"^(.*?)pid=(\d{1,9}) (?:.*dest_cpu=(\d{1,5}))",
    Event.exit: r"^(?:comm=)?(.*?)(?: pid=|:)(\d{1,9}) (?:prio=|\[)()",
    Event.irq_in: r"^(irq|vec)=(\d{1,9}) (?:name=|\[action=)(.*?)\]?$",
    Event.irq_out: r"^(irq|vec)=(\d{1,9})\b()",
}
"""Of a switch: name, thread and state before, name and thread after; else a name, a number and one more thing."""


def load_ftrace(path: Path, watcher: Watcher = UNWATCHED) -> Scheduling:
    """The recording at ``path``. Raises ``InputError`` where it holds no event, ``OSError`` as reading it does."""
    events, size = SchedulerEvents(), path.stat().st_size
    for done, lines in _blocks_of_lines(path):
        _add_events(events, lines)
        watcher.report(done, size, len(events))
    if not len(events):
        raise InputError(message("input.ftrace_empty", path=str(path)))
    return scheduling_of(events, str(path), size)


def _blocks_of_lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Blocks of lines, each with the offset (bytes) that it reaches; for a line that is too long only the beginning."""
    rest = b""
    with open_regular(path) as stream:
        while block := stream.read(_BLOCK):
            whole, _, rest = (rest + block).rpartition(b"\n")
            whole = _BLANK_LINES.sub(b"\n", whole)
            rest = rest[: _LONGEST + 1]
            yield stream.tell(), whole.decode(errors="replace").split("\n")
        yield stream.tell(), [rest.decode(errors="replace")]


def _add_events(events: SchedulerEvents, lines: list[str]) -> None:
    """Take the events of ``lines`` in."""
    import polars as pl  # its expressions take a time that no hostile line can stretch

    text = pl.Series("text", lines, pl.String)
    held = text.str.extract_groups(_WRITTEN).struct.unnest().select(pl.all().cast(pl.Int64)).drop_nulls()
    events.count_odd(message("odd.ftrace_overwritten"), max(int((held["2"] - held["1"]).sum()), 0))
    text = text.filter((text.str.len_bytes() > 0) & ~text.str.starts_with("#"))
    short = text.set(text.str.len_bytes() > _LONGEST, "")
    parts = short.str.extract_groups(_LINE).struct.unnest()
    known = parts["6"].is_not_null()
    lost = short.str.extract_groups(_LOST).struct.unnest().select(pl.all().cast(pl.Int64))
    is_lost = lost["1"].is_not_null()
    if len(events) or known.any():
        begun = 0 if len(events) else int(known.arg_max() or 0)  # before it stands the head of the file
        events.count_odd(message("odd.ftrace_line"), int((~(known | is_lost))[begun:].sum()))
    row = (known | is_lost).to_numpy()
    known, is_lost, lost, parts = (part.filter(pl.Series(row)) for part in (known, is_lost, lost, parts))
    columns = _event_columns(parts, known, lost)
    kind, args = columns["kind"], parts["7"].fill_null("")
    soft = parts["6"].str.starts_with("softirq").fill_null(False).to_numpy()
    for code, pattern in _ARGS.items():
        at = np.flatnonzero(kind == code)
        groups = args.gather(at).str.extract_groups(pattern).struct.unnest()
        good = groups["2"].is_not_null().to_numpy() & (code != Event.switch or groups["5"].is_not_null().to_numpy())
        events.count_odd(message("odd.ftrace_event"), int(np.count_nonzero(~good)))
        kind[at[~good]] = 0
        at, groups = at[good], groups.filter(pl.Series(good))
        number = groups["2"].cast(pl.Int64).to_numpy()
        columns["task"][at] = number + SOFT * soft[at]
        if code == Event.switch:
            columns["other"][at] = groups["5"].cast(pl.Int64).to_numpy()
            first = groups["3"].str.slice(0, 1)
            columns["value"][at] = first.replace_strict(ENDS, default=GONE, return_dtype=pl.Int64).to_numpy()
            events.name_tasks(groups["2"], groups["1"])
            events.name_tasks(groups["5"], groups["4"])
        elif code == Event.irq_in:
            events.name_sources(columns["task"][at], groups["3"], soft[at])
        else:
            columns["other"][at] = groups["3"].cast(pl.Int64, strict=False).fill_null(NOBODY).to_numpy()
    events.name_tasks(parts["2"].filter(known), parts["1"].filter(known))
    events.put(columns)


def _event_columns(parts: pl.DataFrame, known: pl.Series, lost: pl.DataFrame) -> dict[str, I64]:
    """The columns of ``SchedulerEvents`` from the prefix of a line (time, CPU, event); a row for each line."""
    import polars as pl

    current, cpu, seconds = (pl.col(number).cast(pl.Int64) for number in "234")
    fraction = pl.col("5").str.pad_end(9, "0").cast(pl.Int64)
    kind = pl.col("6").replace_strict(_KINDS, default=0, return_dtype=pl.Int64)
    nobody = pl.lit(NOBODY, pl.Int64)
    columns = parts.select(
        time=(seconds * 1_000_000_000 + fraction).fill_null(0),
        cpu=pl.when(known).then(cpu).otherwise(lost["1"]),
        current=current.fill_null(nobody),
        kind=pl.when(known).then(kind).otherwise(Event.lost),
        task=pl.when(known).then(nobody).otherwise(lost["2"].fill_null(1)),
        other=pl.repeat(nobody, pl.len()),
        value=pl.repeat(nobody, pl.len()),
    )
    return {column.name: column.to_numpy(writable=True) for column in columns}


_TASK = re.compile(r"(.{0,64}):(\d{1,9})")
_CPU = re.compile(r"CPU (\d{1,5})")
_ROWS = (
    "SELECT thread.tid, slice.timestamp, slice.duration, slice.name, slice.args FROM slice JOIN thread "
    "ON slice.track_id = thread.track_id WHERE thread.pid = ? ORDER BY slice.timestamp"
)
_EPOCH = 1 << 59
"""Nanoseconds since 1970 are more, those since a machine was started are less."""


def is_ftrace_database(path: Path) -> bool:
    """Whether ``path`` is such a database."""
    asked = "SELECT count(*) FROM thread WHERE pid IN ('CPU Scheduling', 'Process Scheduling')"
    try:
        with opened(path) as database:
            tables = set(tables_of(database.connection)[0])
            return {"thread", "slice"} <= tables and bool(database.connection.execute(asked).fetchone()[0])
    except (InputError, OSError, *UNREADABLE):
        return False


def load_ftrace_database(path: Path) -> Scheduling:
    """The recording at ``path``. Raises ``InputError`` where it holds no event, ``OSError`` as reading it does."""
    events = SchedulerEvents()
    rows: list[tuple[int, ...]] = []
    with opened(path) as database:
        try:
            _add_cpus(events, rows, database.connection.execute(_ROWS, ("CPU Scheduling",)))
            _add_wakeups(rows, database.connection.execute(_ROWS, ("Process Scheduling",)))
        except UNREADABLE:  # what was read up to the damaged page counts
            events.count_odd(message("odd.ftrace_database"), 1)
    if not rows:
        raise InputError(message("input.ftrace_empty", path=str(path)))
    names = ("time", "cpu", "current", "kind", "task", "other", "value")
    events.put(dict(zip(names, np.array(rows, np.int64).T, strict=True)))
    return scheduling_of(events, str(path), path.stat().st_size, bool(min(row[0] for row in rows) > _EPOCH))


def _timed(begin: object, length: object) -> bool:
    return type(begin) is int and type(length) is int and begin >= 0 and length >= 0 and begin + length < 1 << 62


def _add_wakeups(rows: list[tuple[int, ...]], cells: sqlite3.Cursor) -> None:
    """Take the wakeups of threads in, which begin what the converter calls runnable."""
    for lane, begin, length, name, _ in cells:
        task = _TASK.fullmatch(as_text(lane))
        if as_text(name) == "Runnable" and task is not None and _timed(begin, length):
            rows.append((begin, NOBODY, NOBODY, Event.wake, int(task[2]), NOBODY, NOBODY))


def _add_cpus(events: SchedulerEvents, rows: list[tuple[int, ...]], cells: sqlite3.Cursor) -> None:
    """Take the runs and interrupts of CPUs in: a run is a switch to its thread and one away from it."""
    ran: dict[int, tuple[int, int, int]] = {}  # of each CPU who ran last, until when, in which state it left
    for lane, begin, length, slice_name, cell in cells:
        name = as_text(slice_name)
        cpu, task = _CPU.fullmatch(as_text(lane)), _TASK.fullmatch(name)
        args = {key: str(value) for key, value in TextArgs((as_text(cell),)).one(0).items()}
        if cpu is None or not _timed(begin, length) or (task is None and name not in ("irq", "softirq")):
            events.count_odd(message("odd.ftrace_event"), 1)
            continue
        place, end = int(cpu[1]), begin + length
        if task is None:
            soft = name == "softirq"
            text, named = args.get("vec" if soft else "irq", ""), args.get("action" if soft else "name", "")
            number = int(text[:9]) if text[:9].isdecimal() else 0
            events.sources[number + SOFT * soft] = f"softirq {named}" if soft else f"irq {number} {named}"
            number += SOFT * soft
            rows.append((begin, place, NOBODY, Event.irq_in, number, NOBODY, NOBODY))
            rows.append((end, place, NOBODY, Event.irq_out, number, NOBODY, NOBODY))
            continue
        before, until, state = ran.get(place, (NOBODY, begin, GONE))
        if place in ran and until < begin:  # another thread ran, or none
            rows.append((until, place, before, Event.switch, before, NOBODY, state))
            before, state = NOBODY, GONE
        number = int(task[2])
        events.tasks[number] = task[1]
        rows.append((begin, place, before, Event.switch, before, number, state))
        ran[place] = number, end, ENDS.get(args.get("end_state", "")[:1], GONE)
    for place, (number, until, state) in ran.items():
        rows.append((until, place, number, Event.switch, number, NOBODY, state))


def load_scheduling(path: Path, watcher: Watcher = UNWATCHED) -> Scheduling:
    """The recording at ``path``, text or database; raises as ``load_ftrace``."""
    return load_ftrace_database(path) if path.suffix == ".db" else load_ftrace(path, watcher)


_CPUS, _THREADS = 1, 2
_MOST_LANES = 2000
"""Threads that get a lane, those that ran longest: the others are on the lanes of CPUs."""
# The states of threads, as MindStudio Insight and the kernel call them.
_WORDS = ("Unknown", "Running", "Runnable (preempted)", "Runnable (woken)", "Sleeping", "Uninterruptible sleep")
assert len(_WORDS) == len(State)


def read_ftrace_trace(source: Source, watcher: Watcher, pace: ReadingPace) -> Trace:
    """The trace of the recording ``source``; raises as ``load_scheduling``."""
    scheduling = load_scheduling(source.path, watcher)
    whole = WholeColumns()
    whole.metadata.process_name = {_CPUS: "CPU Scheduling", _THREADS: "Process Scheduling"}
    whole.metadata.process_order = {_CPUS: 0, _THREADS: 1}
    health = Health(skipped=dict(scheduling.odd))
    runs, interrupts, lost = scheduling.runs, scheduling.interrupts, scheduling.lost
    busy = runs.taken(runs.kind != IDLE)
    _add_spans(whole, _CPUS, busy, [scheduling.name_of(task) for task in busy.kind.tolist()])
    _add_spans(whole, _CPUS, interrupts, [scheduling.sources[source] for source in interrupts.kind.tolist()])
    _add_spans(whole, _CPUS, lost, ["events lost"] * len(lost.owner))
    tasks, number = np.unique(scheduling.states.owner, return_inverse=True)
    lasting = np.where(scheduling.states.kind == State.running, scheduling.states.end - scheduling.states.start, 0)
    ran = summed(number, lasting, len(tasks))
    shown = np.sort(tasks[np.argsort(-ran, kind="stable")[:_MOST_LANES]]).tolist()
    if len(shown) < len(tasks):
        health.warnings.append(message("odd.ftrace_lanes", count=len(tasks) - len(shown), most=_MOST_LANES))
    for task in shown:
        spans = scheduling.states_of(task)
        _add_spans(whole, _THREADS, spans, [_WORDS[state] for state in spans.kind.tolist()])
        whole.metadata.thread_name[_THREADS, task] = scheduling.name_of(task)
    for cpu in {*runs.owner.tolist(), *interrupts.owner.tolist(), *lost.owner.tolist()}:
        whole.metadata.thread_name[_CPUS, cpu] = f"CPU {cpu}"
    trace = build_trace(whole, scheduling.path, (EventFile(scheduling.path, scheduling.size),), None, health)
    trace.args = TextArgs(())  # all that is known of a slice is its name and its lane
    trace.nature, trace.scheduling = FTRACE, scheduling
    trace.events = {"ftrace": scheduling.events}  # those of the file: slices are made of several
    return trace


def _add_spans(whole: WholeColumns, process: int, spans: OwnedSpans, names: list[str]) -> None:
    """Take ``spans`` in as slices on the lanes of their owners."""
    owners, number = np.unique(spans.owner, return_inverse=True)
    threads = np.array([whole.threads[process, owner] for owner in owners.tolist()], np.int32)
    event = np.arange(whole.count, whole.count + len(names))
    codes = np.array([whole.names[name] for name in names], np.int32)
    whole.slices(event, threads[number], spans.start, spans.end, codes, whole.categories["scheduling"])
