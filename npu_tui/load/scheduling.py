"""Events of the scheduler, however they were written, to the states of threads, runs on CPUs and interrupts.

A wakeup of a thread that runs or waits already changes nothing. Where events contradict each other, some between them
are missing: what is not certain then is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from npu_tui.load.layers import again
from npu_tui.trace.arrays import I64, Bools
from npu_tui.trace.message import Message, message
from npu_tui.trace.scheduling import IDLE, NOBODY, SLEEPS, WAITS, OwnedSpans, Scheduling, State

Event = IntEnum("Event", "switch wake migrate exit irq_in irq_out lost")
"""Kinds of events that change anything; 0 are others."""
SOFT = 1 << 32
"""Added to the number of a softirq."""
GONE = 9  # no state: the thread has ended, and such spans are left out
ENDS = {"R": State.preempted, "S": State.asleep, "D": State.blocked}
"""In which state a thread leaves its CPU, by the first letter that the kernel writes; others end it."""

_COLUMNS = ("time", "cpu", "current", "kind", "task", "other", "value")


class SchedulerEvents:
    """Events in the order of the file, as columns.

    ``time`` is ns, ``cpu`` where it was written, ``current`` which thread ran there. ``task`` is whom it is about: the
    thread that leaves its CPU in state ``value`` to ``other``, that wakes or moves to the CPU ``other``, the number of
    an interrupt, how many events are lost.
    """

    def __init__(self) -> None:
        self.tasks: dict[int, str] = {}
        self.sources: dict[int, str] = {}
        self.odd: dict[Message, int] = {}
        self._parts: dict[str, list[I64]] = {name: [] for name in _COLUMNS}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, columns: dict[str, I64]) -> None:
        """Take the next events in."""
        for name, values in columns.items():
            self._parts[name].append(values.astype(np.int8 if name in ("kind", "value") else np.int64))
        self._count += len(columns["time"])

    def count_odd(self, what: Message, count: int) -> None:
        """Note ``count`` things that could not be read."""
        if count:
            self.odd[what] = self.odd.get(what, 0) + count

    def name_tasks(self, numbers: Any, names: Any) -> None:
        """Note the names of threads; ``numbers`` are texts, both are columns of polars."""
        pairs = numbers.cast(int).rename("task").to_frame().with_columns(names.alias("name")).unique()
        self.tasks.update((task, name) for task, name in pairs.rows() if name and name != "<...>")

    def name_sources(self, numbers: I64, names: Iterable[str], soft: npt.NDArray[np.bool_]) -> None:
        """Note the names of interrupts."""
        for number, name, is_soft in set(zip(numbers.tolist(), names, soft.tolist(), strict=True)):
            self.sources[number] = f"softirq {name}" if is_soft else f"irq {number} {name}"

    def column(self, name: str) -> I64:
        """All of a column, which is given away."""
        parts = self._parts.pop(name)
        return np.concatenate([np.zeros(0, np.int64), *parts]).astype(np.int64)


def scheduling_of(events: SchedulerEvents, path: str, size: int, is_absolute: bool = False) -> Scheduling:
    """What ``events`` say; ``is_absolute`` where their times count from 1970."""
    columns = {name: events.column(name) for name in _COLUMNS}
    single = ~_doubled(columns)
    if not single.all():
        events.count_odd(message("odd.ftrace_twice"), int(np.count_nonzero(~single)))
        columns = {name: values[single] for name, values in columns.items()}
    timed = columns["kind"] != Event.lost
    first, last = int(columns["time"][timed].min()), int(columns["time"][timed].max())
    by_cpu = _by_cpu(columns)
    noted, count = _explicit(by_cpu, first, last)
    runs, edges, gaps = _cpu_runs(by_cpu, last)
    events.count_odd(message("odd.ftrace_lost"), count)
    events.count_odd(message("odd.ftrace_gap"), len(gaps[0]))
    interrupts, sources = _interrupts(by_cpu, events)
    return Scheduling(
        path=path,
        size=size,
        first=first,
        last=last,
        events=int(np.count_nonzero(timed)),
        tasks=events.tasks,
        sources=sources,
        states=_states(columns, edges, last),
        runs=runs,
        interrupts=interrupts,
        lost=OwnedSpans.sorted(*(np.concatenate(pair) for pair in zip(noted, gaps, strict=True))),
        odd=events.odd,
        is_absolute=is_absolute,
    )


def _doubled(columns: dict[str, I64]) -> Bools:
    """Which events equal one before them; (n,). None where no CPU switches twice from one thread to another at once.

    Other events may be equal in a recording of us: two notes of one waking are.
    """
    switches = np.flatnonzero(columns["kind"] == Event.switch)
    if not _equal_rows({name: values[switches] for name, values in columns.items()}).any():
        return np.zeros(len(columns["time"]), np.bool_)
    return _equal_rows(columns) & np.not_equal(columns["kind"], Event.lost)


def _equal_rows(columns: dict[str, I64]) -> Bools:
    """Which events equal one before them in everything; (n,)."""
    order = np.lexsort((columns["cpu"], columns["time"]))
    time, cpu = columns["time"][order], columns["cpu"][order]
    same = np.append(False, (time[1:] == time[:-1]) & (cpu[1:] == cpu[:-1]))[: len(time)]
    others = np.stack([columns[name] for name in ("kind", "task", "other", "value", "current")], axis=1)
    found = np.zeros(len(time), np.bool_)
    near = same | np.append(same[1:], False)
    codes = np.zeros(len(time), np.int64)
    if near.any():
        codes[near] = np.unique(others[order][near], axis=0, return_inverse=True)[1].ravel()
    found[order] = again(same, codes)
    return found


_IN, _OUT, _DOUBT = Event.switch, -Event.switch, 0
"""Kinds of events of one thread beside those of ``SchedulerEvents``: it gets a CPU, leaves it, nothing is known."""


def _by_cpu(columns: dict[str, I64]) -> dict[str, I64]:
    """The events by CPU and time; a note of lost ones has the time of the event before it."""
    kind, cpu = columns["kind"], columns["cpu"]
    order = np.argsort(cpu, kind="stable")
    place = np.arange(len(order))
    known = np.maximum.accumulate(np.where(kind[order] != Event.lost, place, -1))
    known = np.where((known >= 0) & (cpu[order][known] == cpu[order]), known, -1)
    time = columns["time"][order]
    time = np.where(known >= 0, time[known], np.iinfo(np.int64).min)
    again = np.lexsort((place, time, cpu[order]))
    return {name: values[order][again] for name, values in columns.items()} | {"time": time[again]}


def _explicit(rows: dict[str, I64], first: int, last: int) -> tuple[tuple[I64, ...], int]:
    """Owner, start, end, kind, other of the times in which CPUs lost events, by notes of the writer, and how many."""
    at = np.flatnonzero(rows["kind"] == Event.lost)
    cpu, place = rows["cpu"], np.arange(len(rows["cpu"]))
    after = np.minimum.accumulate(np.where(rows["kind"] != Event.lost, place, len(place))[::-1])[::-1][at]
    ends = np.append(rows["time"], last)[after]
    same = np.append(cpu, NOBODY)[after] == cpu[at]
    start, end = np.maximum(rows["time"][at], first), np.where(same, ends, last)
    return (cpu[at], start, end, rows["task"][at], np.zeros(len(at), np.int64)), int(rows["task"][at].sum())


def _cpu_runs(rows: dict[str, I64], last: int) -> tuple[OwnedSpans, tuple[I64, ...], tuple[I64, ...]]:
    """What ran on every CPU, what is known of threads before and after gaps, and these gaps.

    As an example, a switch to thread 7 is followed by one from thread 9: events between them are missing. Thread 7 ran
    at least until the last event that names it.
    """
    cpu, time, current = rows["cpu"], rows["time"], rows["current"]
    is_switch = rows["kind"] == Event.switch
    at = np.flatnonzero(is_switch)
    none = np.zeros(0, np.int64)
    if not len(at):
        return OwnedSpans(none, none, none, none, none), (none,) * 4, (none,) * 5
    before = np.cumsum(is_switch) - is_switch  # how many switches come before each event
    left, taken, begin, place = rows["task"][at], rows["other"][at], time[at], cpu[at]
    followed = np.append(place[1:] == place[:-1], False)
    opens = np.append(True, ~followed[:-1])
    matches = followed & (taken == np.append(left[1:], NOBODY))
    seen, since = begin.copy(), begin.copy()
    behind = np.flatnonzero((before > 0) & (rows["kind"] != Event.lost))
    behind = behind[(place[before[behind] - 1] == cpu[behind]) & (taken[before[behind] - 1] == current[behind])]
    np.maximum.at(seen, before[behind] - 1, time[behind])
    ahead = np.flatnonzero((before < len(at)) & (rows["kind"] != Event.lost))
    ahead = ahead[(place[before[ahead]] == cpu[ahead]) & (left[before[ahead]] == current[ahead])]
    np.minimum.at(since, before[ahead], time[ahead])
    end = np.where(matches, np.append(begin[1:], last), np.where(followed, seen, last))
    gap = followed & ~matches
    runs = OwnedSpans.sorted(
        np.append(place, place[opens]),
        np.append(begin, since[opens]),
        np.append(end, begin[opens]),
        np.append(taken, left[opens]),
        np.zeros(len(at) + int(opens.sum()), np.int64),
    )
    edges = (
        np.append(left[opens], taken[gap]),
        np.append(since[opens], end[gap]),
        np.append(np.full(int(opens.sum()), _IN), np.full(int(gap.sum()), _DOUBT)),
        np.append(place[opens], place[gap]),
    )
    nothing = np.zeros(int(gap.sum()), np.int64)
    return runs, edges, (place[gap], end[gap], np.append(begin[1:], last)[gap], nothing, nothing)


def _interrupts(rows: dict[str, I64], events: SchedulerEvents) -> tuple[OwnedSpans, list[str]]:
    """Interrupts by CPU, those that interrupt a softirq cut out of it; ``kind`` indexes the names."""
    numbers = {number: index for index, number in enumerate(events.sources)}
    parts = []
    for soft in (False, True):
        at = np.flatnonzero(np.isin(rows["kind"], (Event.irq_in, Event.irq_out)) & ((rows["task"] >= SOFT) == soft))
        kind, cpu, task = (rows[name][at] for name in ("kind", "cpu", "task"))
        pairs = (kind[:-1] == Event.irq_in) & (kind[1:] == Event.irq_out)
        pairs &= (cpu[1:] == cpu[:-1]) & (task[1:] == task[:-1])
        events.count_odd(message("odd.ftrace_irq"), len(at) - 2 * int(pairs.sum()))
        begin = np.flatnonzero(pairs)
        code = np.array([numbers.get(number, NOBODY) for number in task[begin].tolist()], np.int64)
        time = rows["time"][at]
        parts.append(OwnedSpans.sorted(cpu[begin], time[begin], time[begin + 1], code, np.full(len(begin), int(soft))))
    hard, softirqs = parts
    cut = []
    for owner in np.unique(softirqs.owner).tolist():
        inner, outer = hard.of(owner), softirqs.of(owner)
        free = (np.append(np.iinfo(np.int64).min, inner.end), np.append(inner.start, np.iinfo(np.int64).max))
        _, span, low, high = outer.within(*free)
        cut.append(OwnedSpans(outer.owner[span], low, high, outer.kind[span], outer.other[span]))
    joined = (np.concatenate([getattr(part, name) for part in (hard, *cut)]) for name in OwnedSpans.__struct_fields__)
    return OwnedSpans.sorted(*joined), list(events.sources.values())


def _states(columns: dict[str, I64], edges: tuple[I64, ...], last: int) -> OwnedSpans:
    """The states of all threads."""
    kind, time, cpu = columns["kind"], columns["time"], columns["cpu"]
    place = np.arange(len(kind))
    moves = np.flatnonzero(np.isin(kind, (Event.wake, Event.exit)))
    switch = np.flatnonzero(kind == Event.switch)
    leads = np.where(edges[2] == _IN, -1, 4 * len(kind))
    columns_of = {
        "task": (columns["task"][switch], columns["other"][switch], columns["task"][moves], edges[0]),
        "time": (time[switch], time[switch], time[moves], edges[1]),
        "order": (4 * place[switch], 4 * place[switch] + 1, 4 * place[moves], leads),
        "kind": (np.full(len(switch), _OUT), np.full(len(switch), _IN), kind[moves], edges[2]),
        "cpu": (cpu[switch], cpu[switch], columns["other"][moves], edges[3]),
        "value": (columns["value"][switch], np.zeros_like(switch), np.zeros_like(moves), np.zeros_like(edges[0])),
        "by": (np.zeros_like(switch), np.zeros_like(switch), columns["current"][moves], np.zeros_like(edges[0])),
    }
    rows = {name: np.concatenate(parts) for name, parts in columns_of.items()}
    chosen = np.flatnonzero(rows["task"] > IDLE)
    chosen = chosen[np.lexsort((rows["order"][chosen], rows["time"][chosen], rows["task"][chosen]))]
    rows = {name: values[chosen] for name, values in rows.items()}
    before = np.append(-99, rows["kind"][:-1])
    before[np.append(True, rows["task"][1:] != rows["task"][:-1])] = _DOUBT
    asleep = (before == _OUT) & (np.append(0, rows["value"][:-1]) != State.preempted)
    # A thread waked while it runs or waits for a CPU already changes nothing; it may be waked twice.
    useless = (rows["kind"] == Event.wake) & ~(asleep | (before == _DOUBT))
    useless |= (rows["kind"] == _DOUBT) & (before == Event.exit)
    rows = {name: values[~useless] for name, values in rows.items()}
    task, kind, value = rows["task"], rows["kind"], rows["value"]
    goes_on = np.append(task[1:] == task[:-1], False)
    after = np.where(goes_on, np.append(kind[1:], 0), _DOUBT)
    implied = np.select(
        [kind == _IN, kind == _OUT, kind == Event.wake, (kind == Event.exit) & (after != _OUT)],
        [np.int64(State.running), value, np.int64(State.woken), np.int64(GONE)],
        np.where(kind == Event.exit, State.running, State.unknown),
    )
    ends = (after == _OUT) | (after == Event.exit) | (after == _DOUBT)
    sleeps = np.isin(implied, SLEEPS)
    # What a record implies holds until the next one of its thread, if that fits; else a record was lost, and it is
    # unknown.
    fits = np.where(sleeps, (after == Event.wake) | (after == _DOUBT), after != _OUT)
    fits = np.where(implied == State.running, ends, fits)
    fits &= ~(np.isin(implied, WAITS) & (after == Event.exit))
    state = np.where(fits | (implied == GONE), implied, State.unknown)
    other = np.where(sleeps, np.where(after == Event.wake, np.append(rows["by"][1:], NOBODY), NOBODY), rows["cpu"])
    # Some writers do not say on which CPU a thread was waked: it is the one on which it runs next.
    next_cpu = np.append(rows["cpu"][1:], NOBODY)
    other = np.where((kind == Event.wake) & (other == NOBODY) & (after == _IN), next_cpu, other)
    end = np.where(goes_on, np.append(rows["time"][1:], last), last)
    spans = _cut_at_migrations(columns, (task, rows["time"], end, state, other))
    kept = spans[3] != GONE
    return OwnedSpans.sorted(*(values[kept] for values in spans))


def _cut_at_migrations(columns: dict[str, I64], spans: tuple[I64, ...]) -> list[I64]:
    """``spans`` of threads, cut where a thread that waits for a CPU is moved to another one."""
    at = np.flatnonzero((columns["kind"] == Event.migrate) & (columns["other"] >= 0))
    task, start, end, state, other = spans
    owner, time = np.append(task, columns["task"][at]), np.append(start, columns["time"][at])
    moved = np.append(np.zeros(len(task), np.bool_), np.ones(len(at), np.bool_))
    order = np.lexsort((np.arange(len(owner)), time, owner))
    place = np.maximum.accumulate(np.where(moved[order], -1, np.arange(len(order))))
    inside = np.full(len(owner), -1)
    inside[order] = np.where(place >= 0, order[place], -1)  # the span that each move lies in, or begins after
    of_move = inside[len(task) :]
    known = of_move >= 0
    known[known] &= (owner[len(task) :][known] == task[of_move[known]]) & np.isin(state[of_move[known]], WAITS)
    known[known] &= columns["time"][at[known]] < end[of_move[known]]
    at, of_move = at[known], of_move[known]
    owner = np.append(task, task[of_move])
    begin = np.append(start, columns["time"][at])
    until, kinds = np.append(end, end[of_move]), np.append(state, state[of_move])
    where = np.append(other, columns["other"][at])
    order = np.lexsort((np.arange(len(owner)), begin, owner))
    owner, begin, until, kinds, where = (values[order] for values in (owner, begin, until, kinds, where))
    begun = np.append(begin[1:], 0)
    until = np.where(np.append(owner[1:] == owner[:-1], False), np.minimum(until, begun), until)
    return [owner, begin, until, kinds, where]
