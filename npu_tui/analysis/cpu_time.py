"""Who had the CPU while an idle device waited for launches: lost time by state of the thread and by culprit.

A launch is late from when the device is ready until it is made. Until its operation is enqueued, the thread that
enqueues it is responsible, from then on the one that launches it. The recording of the scheduler says what that thread
did meanwhile: the parts add up to the lost time to the nanosecond, and what is not recorded is a part of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Literal

import numpy as np
from msgspec import Struct, field

from npu_tui.analysis.launches import Dispatch, dequeue_of, enqueue_of, launched_at
from npu_tui.analysis.limits import SHORT_NS
from npu_tui.trace.arrays import I64, summed
from npu_tui.trace.message import Message
from npu_tui.trace.model import Trace
from npu_tui.trace.once import once
from npu_tui.trace.scheduling import IDLE, NOBODY, SLEEPS, WAITS, WAKING, OwnedSpans, Scheduling, State

PARTS = (*State.__members__, "interrupt")
INTERRUPT = len(State)
WAITING = "waiting"
_DEEP = 4
"""How many sleeps are followed to the threads that ended them."""
_MOST_STARTS = 5000  # slices of a thread that are asked whether it ran when they began


class LaunchWaits(Struct, frozen=True):
    """The waits of idle devices for launches, (n,) each: the link, and when on the clock of the host, ns.

    ``ready`` is ``start`` on the clock of the device. ``thread`` launches, ``feeder`` enqueues until ``handed``; ids of
    the operating system, -1 where none is known.
    """

    link: I64
    ready: I64
    start: I64
    end: I64
    thread: I64
    feeder: I64
    handed: I64


def waits(trace: Trace, devices: Sequence[Dispatch]) -> LaunchWaits:
    """All waits of the launches of ``devices`` that lost any time."""
    links, slices = trace.links, trace.slices
    rows: _Rows = []
    tid = np.array([lane.tid for lane in trace.lanes] + [NOBODY], np.int64)
    for launches in devices:
        length = np.rint(launches.lost).astype(np.int64)
        late = np.flatnonzero(length > 0)
        link, length = launches.link[late], length[late]
        source = launched_at(trace, link)
        floor = links.target_time[link] - source - launches.relative[late]
        end = np.rint(np.minimum(source, links.target_time[link] - floor)).astype(np.int64)
        enqueue = enqueue_of(trace, dequeue_of(trace, link))
        fed = enqueue >= 0
        feeder = np.where(fed, tid[slices.lane[enqueue]], NOBODY)
        handed = np.where(fed, slices.end[enqueue], end - length)
        rows.append((link, launches.ready[late], end - length, end, tid[links.source_lane[link]], feeder, handed))
    return LaunchWaits(*_columns(rows, len(LaunchWaits.__struct_fields__)))


_Rows = list[tuple[I64, ...]]
"""Some rows at a time, a column each."""


def _columns(rows: _Rows, count: int) -> list[I64]:
    """The ``count`` columns of all ``rows``."""
    return [np.concatenate(column) for column in zip(*rows, strict=True)] or [np.zeros(0, np.int64)] * count


class WaitParts(Struct, frozen=True):
    """The parts of waits, (n,) each: ``wait`` is the number of the wait, ``part`` indexes ``PARTS``, ``time`` is in ns.

    ``task`` is the thread that was responsible, by the numbers of the recording. ``by`` is who had the CPU: the thread
    that ran instead or ended a sleep, of an interrupt its source; ``NOBODY`` where that is not known. A part lies in
    ``[start, end)`` of the host's clock; running and unknown ones are what the others leave of it.
    """

    wait: I64
    part: I64
    time: I64
    task: I64
    by: I64
    cpu: I64
    start: I64
    end: I64


def split(late: LaunchWaits, scheduling: Scheduling, threads: Mapping[int, int]) -> WaitParts:
    """The parts of ``late``; ``scheduling`` is on the host's clock, ``threads`` its numbers by those of the trace."""
    handed = np.clip(late.handed, late.start, late.end)
    wait = np.tile(np.arange(len(late.link)), 2)
    low, high = np.append(late.start, handed), np.append(handed, late.end)
    tid = np.append(late.feeder, late.thread)
    kept = high > low
    wait, low, high, tid = wait[kept], low[kept], high[kept], tid[kept]
    rows: _Rows = []
    for thread in np.unique(tid).tolist():
        chosen = np.flatnonzero(tid == thread)
        task = threads.get(thread, NOBODY)
        piece = (wait[chosen], low[chosen], high[chosen])
        known = np.zeros(len(chosen), np.int64)
        if task > IDLE:
            known = _add_known_waits(rows, scheduling, task, frozenset(threads.values()), *piece)
        rest = piece[2] - piece[1] - known
        _put(rows, piece[0], State.unknown, rest, task, NOBODY, NOBODY, piece[1], piece[2])
    columns = _columns(rows, len(WaitParts.__struct_fields__))
    order = np.lexsort((columns[6], columns[0]))
    order = order[columns[2][order] > 0]
    return WaitParts(*(column[order] for column in columns))


def _put(rows: _Rows, wait: I64, *columns: I64 | int) -> None:
    rows.append((wait, *(np.broadcast_to(np.asarray(column), len(wait)) for column in columns)))


def _add_known_waits(
    rows: _Rows, scheduling: Scheduling, task: int, ours: Set[int], wait: I64, low: I64, high: I64, deep: int = _DEEP
) -> I64:
    """Add the known parts of waits for which one thread is responsible; returns how much of each is known, ns.

    While it sleeps until another one of ``ours`` wakes it, that one is responsible.
    """
    states = scheduling.states_of(task)
    query, at, start, end = states.within(low, high)
    state, other = states.kind[at], states.other[at]
    of = wait[query]
    handed = (state == State.asleep) & np.isin(other, [*ours - {task}]) & (deep > 0)
    known = summed(query, np.where((state == State.unknown) | handed, 0, end - start), len(wait))
    for waker in np.unique(other[handed]).tolist():
        row = np.flatnonzero(handed & (other == waker))
        taken = _add_known_waits(rows, scheduling, waker, ours - {task}, of[row], start[row], end[row], deep - 1)
        known += summed(query[row], taken, len(wait))
    asleep = np.isin(state, SLEEPS) & ~handed
    chosen = (of[asleep], state[asleep], (end - start)[asleep], task, other[asleep], NOBODY, start[asleep], end[asleep])
    _put(rows, *chosen)
    for running in (True, False):
        here = (state == State.running) if running else np.isin(state, WAITS)
        # Interrupts take time from what runs, other threads from what waits for the CPU.
        within = scheduling.interrupts if running else scheduling.runs
        for cpu in np.unique(other[here]).tolist():
            row = np.flatnonzero(here & (other == cpu))
            spans = within.of(cpu)
            inner, found, begin, until = spans.within(start[row], end[row])
            taken = summed(inner, until - begin, len(row))
            part = INTERRUPT if running else state[row][inner]
            by = spans.kind[found]
            # The idle task between a wake-up and the switch to the thread is the wake-up itself.
            by = np.where((by == IDLE) & (until - begin < SHORT_NS) & (not running), WAKING, by)
            _put(rows, of[row][inner], part, until - begin, task, by, cpu, begin, until)
            rest = (end - start)[row] - taken
            _put(rows, of[row], state[row], rest, task, NOBODY, cpu, start[row], end[row])
    return known


def thread_timeline(scheduling: Scheduling, task: int, end: int) -> tuple[I64, I64, I64, I64]:
    """What a thread did until ``end``, ns: begin, which of ``PARTS``, who had its CPU, which CPU; (stretches,) each."""
    rows: _Rows = []
    none, states = np.zeros(1, np.int64), scheduling.states_of(task)
    _add_known_waits(rows, scheduling, task, frozenset(), none, none, none + end)
    _, part, _, _, by, cpu, start, until = _columns(rows, len(WaitParts.__struct_fields__))
    over = np.flatnonzero((until > start) & (by != NOBODY))  # the thread that had the CPU within a state
    over = over[np.argsort(start[over], kind="stable")]
    edges = np.unique(np.concatenate(([0], states.start, states.end, start[over], until[over])))
    edges = edges[(edges >= 0) & (edges < end)]
    at, on = (np.searchsorted(begin, edges, "right") - 1 for begin in (states.start, start[over]))
    within = (at >= 0) & (edges < np.append(states.end, 0)[at])
    inner = (on >= 0) & (edges < np.append(until[over], 0)[on])
    state = np.where(within, np.append(states.kind, State.unknown)[at], State.unknown)
    where = np.where(within & ~np.isin(state, SLEEPS), np.append(states.other, NOBODY)[at], NOBODY)
    return (
        edges,
        np.where(inner, np.append(part[over], State.unknown)[on], state),
        np.where(inner, np.append(by[over], NOBODY)[on], NOBODY),
        np.where(inner, np.append(cpu[over], NOBODY)[on], where),
    )


def running_share(trace: Trace, thread: int, states: OwnedSpans) -> tuple[float, int]:
    """The share of a host thread's slices that begin while it runs, among those that begin while its state is known.

    With the right clock and the right thread that is all of them. The second number is how many were asked.
    """
    hosts = {layer.index for layer in trace.layers if layer.kind in ("python", "cann")}
    starts = [
        trace.slices.start[lane.first : lane.last]
        for lane in trace.file_lanes
        if lane.tid == thread and lane.layer in hosts
    ]
    begun = np.sort(np.concatenate([np.zeros(0, np.int64), *starts]))
    begun = begun[:: max(len(begun) // _MOST_STARTS, 1)]
    at = np.searchsorted(states.start, begun, "right") - 1
    inside = (at >= 0) & (begun < np.append(states.end, 0)[at])
    state = np.append(states.kind, State.unknown)[at][inside]
    state = state[state != State.unknown]
    return (float(np.mean(state == State.running)) if len(state) else 0.0), len(state)


By = Literal["self", "task", "source", "idle", "waking", "interrupt", "nobody"]
"""The thread itself, another one, the source of an interrupt; a CPU that is idle or just about to run the thread, an
interrupt that ended a sleep, or who is not known."""


def _by(part: int, by: int) -> By:
    if part in (State.unknown, State.running):
        return "self"
    if by > IDLE:
        return "task"
    if by == WAKING:
        return "waking"
    return "nobody" if by == NOBODY else "interrupt" if part in SLEEPS else "idle"


class Culprit(Struct, frozen=True):
    """A task or an interrupt that took ``total`` ns of the lost time, in one state of the launching threads.

    ``part`` is one of ``PARTS``. ``name`` is that of the threads that ran instead or ended a sleep, or of the source of
    the interrupt; empty for others: ``by`` says what they are. ``task`` is the thread where it is one, ``process`` its
    process where that is known, ``cpus`` where it happened, ``waits`` how many launches it made late, ``rows`` its rows
    of the parts.
    """

    part: str
    name: str
    task: int | None
    process: int | None
    by: By
    cpus: tuple[int, ...]
    waits: int
    total: int
    rows: I64

    @property
    def key(self) -> tuple[str, str, int | None, By]:
        """What identifies it."""
        return self.part, self.name, self.process, self.by


def _culprit_key(
    scheduling: Scheduling, processes: Mapping[int, int], part: int, by: int, together: bool
) -> tuple[str, str, int | None, By]:
    """The ``key`` of the culprit ``by`` in a part."""
    if part == INTERRUPT:
        return PARTS[part], scheduling.sources[by] if by >= 0 else "", None, "source"
    state = WAITING if together and part in WAITS else PARTS[part]
    return state, scheduling.tasks.get(by, "") if by > IDLE else "", processes.get(by), _by(part, by)


def culprits(
    parts: WaitParts, rows: I64, scheduling: Scheduling, processes: Mapping[int, int], together: bool = False
) -> list[Culprit]:
    """Some ``rows`` of parts by state and by who had the CPU, most time first; ``processes`` are those of threads.

    ``together`` are waits for a CPU, whether a thread was preempted or woken: the part is ``waiting``.
    """
    if not len(rows):
        return []
    code = parts.by[rows] * len(PARTS) + parts.part[rows]
    distinct, number = np.unique(code, return_inverse=True)
    groups: dict[tuple[str, str, int | None, By], int] = {}
    by, part = (column.tolist() for column in divmod(distinct, len(PARTS)))
    keys = [_culprit_key(scheduling, processes, *pair, together) for pair in zip(part, by, strict=True)]
    group_of = np.array([groups.setdefault(key, len(groups)) for key in keys])[number]
    order = np.argsort(group_of, kind="stable")
    found = []
    for key, at in zip(groups, np.split(order, np.cumsum(np.bincount(group_of))[:-1]), strict=True):
        state, name, process, kind = key
        chosen = rows[at]
        tasks, cpus = np.unique(parts.by[chosen]), np.unique(parts.cpu[chosen])
        task = int(tasks[0]) if kind == "task" and len(tasks) == 1 else None
        late, time = len(np.unique(parts.wait[chosen])), int(parts.time[chosen].sum())
        found.append(Culprit(state, name, task, process, kind, tuple(cpus[cpus >= 0].tolist()), late, time, chosen))
    return sorted(found, key=lambda culprit: (-culprit.total, culprit.part, culprit.name))


class CpuTime(Struct, frozen=True, dict=True):
    """Who had the CPU while devices waited for launches.

    ``scheduling`` is on the clock of the trace, ``threads`` its numbers of threads by those of the trace. ``unknown``
    says what could not be matched, and so is part of the unknown time.
    """

    trace: Trace
    devices: Sequence[Dispatch]
    scheduling: Scheduling
    threads: dict[int, int] = field(default_factory=dict)
    processes: dict[int, int] = field(default_factory=dict)
    unknown: tuple[Message, ...] = ()

    @once
    def waits(self) -> LaunchWaits:
        """The waits of the devices for launches."""
        return waits(self.trace, self.devices)

    @once
    def parts(self) -> WaitParts:
        """The parts of the waits."""
        return split(self.waits, self.scheduling, self.threads)

    @once
    def everything(self) -> list[Culprit]:
        """Who or what had the CPU of each thread all the time, whether a device waited or not."""
        return culprits(self.all_parts, np.arange(len(self.all_parts.wait)), self.scheduling, self.processes, True)

    @once
    def all_parts(self) -> WaitParts:
        """The parts of the whole time of each thread, as if all of it were one wait."""
        tid = np.array(sorted(self.threads), np.int64)
        zero, end = np.zeros(len(tid), np.int64), np.full(len(tid), self.trace.end)
        return split(
            LaunchWaits(zero, zero, zero, end, tid, np.full(len(tid), NOBODY), zero), self.scheduling, self.threads
        )

    def on_device(self, rows: I64) -> tuple[I64, I64]:
        """Start and end of ``rows`` of the parts on the clock of the device, ns."""
        wait = self.parts.wait[rows]
        shift = self.waits.ready[wait] - self.waits.start[wait]
        return self.parts.start[rows] + shift, self.parts.end[rows] + shift

    def culprits(self, links: I64, together: bool = False) -> list[Culprit]:
        """Who or what took the time that the launches ``links`` lost."""
        rows = np.flatnonzero(np.isin(self.waits.link, links)[self.parts.wait])
        return culprits(self.parts, rows, self.scheduling, self.processes, together)
