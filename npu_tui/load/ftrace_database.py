"""``ftrace_data.db``, what MindStudio Insight's converter makes of a text of ftrace, to what threads and CPUs did.

Tables ``thread`` (lanes of "CPU Scheduling" and "Process Scheduling") and ``slice``, by ``scripts/ftrace_tools`` of
https://gitcode.com/Ascend/msinsight. The converter leaves swapper, kworker and migration out: what ran
between is not known.
"""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import numpy as np

from npu_tui.load.database_file import UNREADABLE, as_text, opened, tables_of
from npu_tui.load.errors import InputError
from npu_tui.load.scheduling import ENDS, GONE, SOFT, Event, SchedulerEvents, scheduling_of
from npu_tui.load.service_spans import TextArgs
from npu_tui.trace.message import message
from npu_tui.trace.scheduling import NOBODY, Scheduling

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
        if place in ran and until < begin:  # somebody else ran, or nobody
            rows.append((until, place, before, Event.switch, before, NOBODY, state))
            before, state = NOBODY, GONE
        number = int(task[2])
        events.tasks[number] = task[1]
        rows.append((begin, place, before, Event.switch, before, number, state))
        ran[place] = number, end, ENDS.get(args.get("end_state", "")[:1], GONE)
    for place, (number, until, state) in ran.items():
        rows.append((until, place, number, Event.switch, number, NOBODY, state))
