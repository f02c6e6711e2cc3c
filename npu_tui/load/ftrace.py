"""The text of ftrace or ``trace-cmd report`` to what threads and CPUs did.

A line is ``comm-pid [cpu] flags seconds.fraction: event: args``; the kernel and trace-cmd spell args of their own way
(https://docs.kernel.org/trace/ftrace.html, ``Documentation/trace/events.rst``). Read are sched_switch, sched_waking,
sched_wakeup, sched_wakeup_new, sched_migrate_task, sched_process_exit, irq_handler and softirq entry and exit; of all
others it counts which task ran where.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from npu_tui.load.errors import UNWATCHED, InputError, Watcher
from npu_tui.load.scheduling import ENDS, GONE, SOFT, Event, SchedulerEvents, scheduling_of
from npu_tui.trace.arrays import I64
from npu_tui.trace.message import message
from npu_tui.trace.scheduling import NOBODY, Scheduling
from npu_tui.trace.side_file import open_regular

if TYPE_CHECKING:
    import polars as pl

_BLANK_LINES = re.compile(rb"\n\s*\n")
_BLOCK, _LONGEST = 1 << 20, 4096
"""Bytes that are read at a time; a line is at most so long, one above it is counted as damaged."""
_LINE = (
    r"^\s*(.{1,64}?)-(\d{1,9})\s+(?:\(\s*[\d-]+\)\s+)?\[(\d{1,5})\]\s+(?:[^\s\d]\S*\s+)?"
    r"(\d{1,9})\.(\d{1,9}):\s+(\w+):(?:\s+(.*))?$"
)
"""Name and number of a thread, CPU, seconds, their fraction, event, args."""
_WRITTEN = r"^#\s*entries-in-buffer/entries-written: (\d{1,12})/(\d{1,12})\b"
"""In the head of a file: how many events the buffer still held of all that were written into it."""
_LOST = r"^\s*CPU:(\d{1,5}) \[(?:LOST )?(?:(\d{1,12}) )?EVENTS(?: DROPPED)?\]"
"""The CPU and how many events it lost, of which some writers say nothing."""
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
        _add(events, lines)
        watcher.report(done, size, len(events))
    if not len(events):
        raise InputError(message("input.ftrace_empty", path=str(path)))
    return scheduling_of(events, str(path), size)


def _blocks_of_lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The lines, some at a time, with the offset that is reached; of one that is too long only its beginning."""
    rest = b""
    with open_regular(path) as stream:
        while block := stream.read(_BLOCK):
            whole, _, rest = (rest + block).rpartition(b"\n")
            whole = _BLANK_LINES.sub(b"\n", whole)
            rest = rest[: _LONGEST + 1]
            yield stream.tell(), whole.decode(errors="replace").split("\n")
        yield stream.tell(), [rest.decode(errors="replace")]


def _add(events: SchedulerEvents, lines: list[str]) -> None:
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
    columns = _numbers(parts, known, lost)
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


def _numbers(parts: pl.DataFrame, known: pl.Series, lost: pl.DataFrame) -> dict[str, I64]:
    """The columns of ``SchedulerEvents`` as far as the heads of lines tell, one row a line that is read."""
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
