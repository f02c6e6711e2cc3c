"""What the kernel did with threads and CPUs: states of threads, runs on CPUs, interrupts, and where events are lost."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.trace.arrays import I64
from npu_tui.trace.intervals import union
from npu_tui.trace.message import Message
from npu_tui.trace.nature import Nature

State = IntEnum("State", "unknown running preempted woken asleep blocked", start=0)
"""What a thread does; ``blocked`` ones wait in the kernel (D: mostly for I/O)."""
WAITS, SLEEPS = (State.preempted, State.woken), (State.asleep, State.blocked)
"""The states of threads that wait for a CPU, and of those that could not run."""
FTRACE = Nature("ftrace")
"""A trace of such a recording."""
_EARLIEST, _LATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
IDLE, NOBODY, WAKING = 0, -1, -2
"""The task of a CPU that has nothing to run, a task that is not known, and a CPU that comes out of idling."""


class OwnedSpans(Struct, frozen=True):
    """Intervals ``[start, end)`` in ns by ``owner``, then start; those of one owner do not overlap; (n,) each.

    ``owner`` is a thread or a CPU, ``kind`` and ``other`` depend on what it is a list of.
    """

    owner: I64
    start: I64
    end: I64
    kind: I64
    other: I64

    @classmethod
    def sorted(cls, owner: I64, start: I64, end: I64, kind: I64, other: I64) -> OwnedSpans:
        """The spans with ``end > start``, put in order."""
        rows = np.flatnonzero(end > start)
        rows = rows[np.lexsort((start[rows], owner[rows]))]
        return cls(owner[rows], start[rows], end[rows], kind[rows], other[rows])

    def columns(self) -> tuple[I64, I64, I64, I64, I64]:
        """All columns."""
        return self.owner, self.start, self.end, self.kind, self.other

    def taken(self, rows: Any) -> OwnedSpans:
        """Some of them: a mask, a slice or their numbers."""
        return OwnedSpans(*(column[rows] for column in self.columns()))

    def of(self, owner: int) -> OwnedSpans:
        """The spans of one owner."""
        return self.taken(slice(*np.searchsorted(self.owner, [owner, owner + 1]).tolist()))

    def within(self, low: I64, high: I64) -> tuple[I64, I64, I64, I64]:
        """What lies in each ``[low, high)``, for spans of one owner: number of the query, of the span, start, end."""
        first = np.searchsorted(self.end, low, "right")
        count = np.maximum(np.searchsorted(self.start, high, "left") - first, 0)
        query = np.repeat(np.arange(len(low)), count)
        span = np.arange(len(query)) + np.repeat(first - (np.cumsum(count) - count), count)
        return query, span, np.maximum(self.start[span], low[query]), np.minimum(self.end[span], high[query])


class Scheduling(Struct, frozen=True):
    """All that a recording of the scheduler holds, from ``first`` to ``last`` ns of its clock.

    ``states`` are by thread: ``kind`` is a ``State``, ``other`` the CPU on which a thread runs or waits, of a
    sleep the thread that ended it. ``runs`` are by CPU, ``kind`` is the thread, ``other`` unused. ``interrupts`` are by
    CPU, ``kind`` indexes ``sources``. ``lost`` are by CPU the times in which its events were lost, ``tasks`` the names
    of threads, ``odd`` counts what could not be read. ``is_absolute`` where times count from 1970.
    """

    path: str
    size: int
    first: int
    last: int
    events: int
    tasks: dict[int, str]
    sources: list[str]
    states: OwnedSpans
    runs: OwnedSpans
    interrupts: OwnedSpans
    lost: OwnedSpans
    odd: dict[Message, int]
    is_absolute: bool = False

    def shifted(self, offset: int) -> Scheduling:
        """The scheduling with ``offset`` ns added to all times."""
        moved = {
            name: replace(spans, start=spans.start + offset, end=spans.end + offset)
            for name in ("states", "runs", "interrupts", "lost")
            for spans in [getattr(self, name)]
        }
        return replace(self, first=self.first + offset, last=self.last + offset, **moved)

    def states_of(self, task: int) -> OwnedSpans:
        """The states of a thread; unknown where a CPU lost events, but for runs on another CPU."""
        spans = self.states.of(task)
        if not len(self.lost.owner):
            return spans
        cuts = [(spans.kind != State.running, union(self.lost.start, self.lost.end))]
        cuts += [
            ((spans.kind == State.running) & (spans.other == cpu), union(gaps.start, gaps.end))
            for cpu in np.unique(self.lost.owner).tolist()
            for gaps in [self.lost.of(cpu)]
        ]
        parts = [spans.taken(~np.logical_or.reduce([chosen for chosen, _ in cuts]))]
        for chosen, (low, high) in cuts:
            cut = spans.taken(chosen)
            _, at, start, end = cut.within(low, high)
            parts.append(OwnedSpans(cut.owner[at], start, end, np.full(len(at), State.unknown), cut.other[at]))
            _, at, start, end = cut.within(np.append(_EARLIEST, high), np.append(low, _LATEST))
            parts.append(OwnedSpans(cut.owner[at], start, end, cut.kind[at], cut.other[at]))
        return OwnedSpans.sorted(
            *(np.concatenate(columns) for columns in zip(*map(OwnedSpans.columns, parts), strict=True))
        )

    def name_of(self, task: int) -> str:
        """The name of a thread with its number; empty for none."""
        return f"{self.tasks.get(task, '')}:{task}" if task > IDLE else ""
