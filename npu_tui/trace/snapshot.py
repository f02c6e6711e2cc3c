"""A memory snapshot as columns: what the allocator did, what it holds, and who asked for it.

Dumps of MemScope are read into the same columns. ``torch.npu.memory._dump_snapshot`` and
``torch.cuda.memory._dump_snapshot`` write it:
https://pytorch.org/docs/stable/torch_cuda_memory.html. All sizes are bytes. Time is the number of the event where the
writer gives none, as that of torch_npu does.
"""

from __future__ import annotations

from collections import Counter
from enum import IntEnum
from itertools import takewhile
from math import comb

import numpy as np
from msgspec import Struct, field

from npu_tui.trace.arrays import I8, I32, I64, Bools, summed
from npu_tui.trace.message import Message
from npu_tui.trace.nature import Nature
from npu_tui.trace.once import once
from npu_tui.trace.text import printable

Action = IntEnum(
    "Action",
    "alloc free_requested free_completed segment_alloc segment_map segment_free segment_unmap oom "
    "snapshot workspace_snapshot annotate",
    start=0,
)
"""What the allocator can do, as ``AllocatorEvents.action`` says."""
TAKEN, GIVEN_BACK = (Action.segment_alloc, Action.segment_map), (Action.segment_free, Action.segment_unmap)
"""What takes memory from the device, and what gives it back."""
PLACELESS = Action.oom, Action.snapshot, Action.workspace_snapshot, Action.annotate
"""What happens at no address."""

State = IntEnum("State", "active_allocated active_pending_free inactive", start=0)
"""The states of a block, as ``SegmentBlocks.state`` says."""

BEFORE = -1
"""The event that began what is older than the history."""
NEVER = 2**62
"""The event that ended what is still there."""

HOST = -1
"""The device of memory of the host."""
OUTSIDE = "HAL", "HOST"
"""Allocators of MemScope that no framework directs: the driver's, and memory of the host."""
UNKNOWN = -1
"""Bytes that are not known."""

SMALL = 1 << 20
"""The largest request that the small pool serves, bytes."""
SMALL_SEGMENT = 2 << 20
"""A segment of the small pool, bytes."""
LARGE_SEGMENT = 20 << 20
"""One for requests of 1 to 10 MiB, and a page of expandable segments in the large pool, bytes."""
BLOCK_GRAIN = 512
"""``kMinBlockSize``: sizes of blocks are multiples of it, bytes."""

SEGMENTS_PID = 1 << 20
"""In a trace made of a snapshot: the number of the first layer with the segments of a device."""
AGES = "history", "older than the history", "never released", "released after the peak"
"""The lanes of such a trace: the history, and blocks by their age."""
MEMORY = Nature(
    "memory",
    launches=False,
    has_steps=False,
    is_dated=False,
    rules="snapshot",
    has_holders=True,
    lane_names=dict(zip(AGES, ("age.history", "age.older", "age.kept", "age.peak"), strict=True)),
    folds=lambda pid, above: (0, -above) if pid >= SEGMENTS_PID else (3, -above),
)
"""Such a trace: what blocks are about by age stays longest."""

EVENT_NS = 1000
"""The time that one event stands for where none is recorded, ns."""

_FEWEST_STEPS = 3  # two occurrences leave one gap, which cannot be uneven
_EVEN = 1.5
"""The longest step may be so many times the shortest one: what recurs less evenly is no step."""
_COVERED = 0.5
_CHANCE = 0.01
"""How likely steps may be by chance."""


_NONE: I64 = field(default_factory=lambda: np.zeros(0, np.int64))
_NO_CODE: I32 = field(default_factory=lambda: np.zeros(0, np.int32))
_NO_FLAG: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))


class AllocatorEvents(Struct, eq=False):
    """What the allocator did, in order; (n,) each. ``size`` is what was requested, of segments what was reserved.

    ``stack`` indexes ``MemorySnapshot.stacks``, -1 without one; ``time`` is in ns since 1970, None where the writer
    gives none. The address of ``oom`` is the free memory of the device then. ``pool`` numbers pools as that of segments
    does, -1 where the writer names none.
    """

    action: I8
    address: I64
    size: I64
    stream: I64
    stack: I32
    time: I64 | None = None
    pool: I32 | None = None

    def __len__(self) -> int:
        return len(self.action)


class Annotation(Struct, frozen=True):
    """A range that the program named, ns since 1970; ``is_step`` for ``ProfilerStep#N``."""

    name: str
    start: int
    end: int
    is_step: bool


class Segments(Struct, eq=False):
    """What the allocator has taken from the device, at the end; (n,) each.

    ``pool`` numbers the pools of all devices, -1 where the writer names none.
    """

    address: I64 = _NONE
    size: I64 = _NONE
    stream: I64 = _NONE
    pool: I32 = _NO_CODE
    small: Bools = _NO_FLAG
    expandable: Bools = _NO_FLAG

    def __len__(self) -> int:
        return len(self.address)

    def holding(self, address: I64) -> I64:
        """The segment that holds each ``address``, -1 where none does."""
        if not len(self):
            return np.full(len(address), -1)
        order = np.argsort(self.address, kind="stable")
        found = order[np.searchsorted(self.address[order], address, "right") - 1]
        inside = (address >= self.address[found]) & (address < (self.address + self.size)[found])
        return np.where(inside, found, -1)


class SegmentBlocks(Struct, eq=False):
    """How the segments are divided at the end; (n,) each, ``segment`` indexes those of the device."""

    segment: I32 = _NO_CODE
    address: I64 = _NONE
    size: I64 = _NONE
    requested: I64 = _NONE
    state: I8 = field(default_factory=lambda: np.zeros(0, np.int8))
    stack: I32 = _NO_CODE

    def __len__(self) -> int:
        return len(self.address)


class Lives(Struct, eq=False):
    """Every block that was ever allocated, by the event that began it; (n,) each.

    ``start`` is that event, ``BEFORE`` for those older than the history; ``end`` the one that gave it back and ``gone``
    the one after which its memory could be used again, ``NEVER`` without one. ``size`` is what was requested, ``taken``
    what the allocator set aside for it, -1 where that is not known: only blocks that are there at the end say it.
    """

    start: I64
    end: I64
    gone: I64
    address: I64
    size: I64
    taken: I64
    stream: I64
    stack: I32

    def __len__(self) -> int:
        return len(self.start)

    def part(self, chosen: Bools) -> Lives:
        """The lives of the blocks that are ``chosen`` (n,)."""
        return Lives(*(getattr(self, name)[chosen] for name in self.__struct_fields__))

    def alive(self, event: int) -> I64:
        """The positions of the blocks that are allocated after ``event``."""
        return np.flatnonzero((self.start <= event) & (self.end > event))


_MOST_STREAMS = 64  # a damaged file may name as many as it has rows


def label_of(device: int, allocator: str | None, process: int | None) -> str:
    """The label of an allocator for readers: ``0``, ``0 PTA``, ``cpu HAL 4711``."""
    number = "cpu" if device == HOST else str(device)
    return printable(" ".join(filter(None, (number, allocator, "" if process is None else str(process)))))


class DeviceMemory(Struct, dict=True, eq=False):
    """The allocator of one device (``HOST``: of the host): its history and its state at the end of it.

    A dump of MemScope has several allocators on a device, such as ``PTA`` and ``HAL``, and may have several processes
    (-1 where it is one); others have one without a name. ``has_segments`` is false where the file has no segments:
    ``counted`` then are the bytes that the allocator says it has taken from the device, after each event.
    """

    device: int
    events: AllocatorEvents
    segments: Segments
    blocks: SegmentBlocks
    lives: Lives
    allocator: str = ""
    process: int = -1
    has_segments: bool = True
    counted: I64 | None = None
    annotations: list[Annotation] = []

    @property
    def label(self) -> str:
        """Its label for readers."""
        return label_of(self.device, self.allocator, None if self.process < 0 else self.process)

    @once
    def moments(self) -> I64:
        """The time of every event and of the end, ns; (events + 1,)."""
        if self.events.time is None:
            return np.arange(len(self.events) + 1) * EVENT_NS
        time = np.maximum.accumulate(self.events.time)
        return np.append(time, time[-1:] + EVENT_NS) if len(time) else np.zeros(1, np.int64)

    @once
    def requested(self) -> I64:
        """Bytes that are requested and not given back, after each event; (events,)."""
        return _held_after_events(self.lives, self.lives.end, len(self.events))

    @once
    def active(self) -> I64:
        """Bytes allocated after each event, with blocks given back that another stream may still use; (events,)."""
        return _held_after_events(self.lives, self.lives.gone, len(self.events))

    @once
    def stream_peaks(self) -> I64:
        """The most that each stream ever held, bytes: a cache is of one stream; (streams,)."""
        lives = self.lives
        shares = (lives.part(lives.stream == stream) for stream in np.unique(lives.stream)[:_MOST_STREAMS].tolist())
        return np.array(
            [_held_after_events(part, part.gone, len(self.events)).max(initial=0) for part in shares], np.int64
        )

    @once
    def reserved(self) -> I64:
        """Bytes taken from the device, after each event; (events,). It is reckoned back from the segments.

        ``UNKNOWN`` all over where the file has neither segments nor what the allocator counted.
        """
        events = self.events
        if not self.has_segments:
            return np.full(len(events), UNKNOWN) if self.counted is None else self.counted
        more, less = np.isin(events.action, TAKEN), np.isin(events.action, GIVEN_BACK)
        change = np.where(more, events.size, 0) - np.where(less, events.size, 0)
        held: I64 = int(self.segments.size.sum()) - (change.sum() - np.cumsum(change))
        return held

    @property
    def is_expandable(self) -> bool:
        """Whether any segment can grow."""
        return bool(self.segments.expandable.any())

    @property
    def reserved_at_end(self) -> int:
        """Bytes taken from the device at the end, ``UNKNOWN`` where the file does not say."""
        if self.has_segments:
            return int(self.segments.size.sum())
        return int(self.reserved[-1]) if len(self.events) else UNKNOWN

    @property
    def before(self) -> int:
        """Bytes that were allocated when the history begins."""
        return int(self.lives.size[self.lives.alive(BEFORE)].sum())

    @once
    def peak(self) -> tuple[int, int]:
        """The event after which most was requested, the first one, and the bytes; ``BEFORE`` without any event."""
        if not len(self.events):
            return BEFORE, self.before
        at = int(self.requested.argmax())
        return (at, int(self.requested[at])) if self.requested[at] >= self.before else (BEFORE, self.before)

    @once
    def fullest(self) -> tuple[int, int]:
        """The event after which most was reserved, the first one, and the bytes; ``BEFORE`` without any event."""
        if not len(self.events) or self.reserved_at_end == UNKNOWN:
            return BEFORE, self.reserved_at_end
        at = int(self.reserved.argmax())
        return at, int(self.reserved[at])

    @once
    def step_starts(self) -> I64:
        """The events that begin a step; empty without at least three steps.

        Where the program has annotated them, as ``ProfilerStep#N``, that counts. Else it is what recurs once a step:
        allocations of one size by one stack that come back evenly over most of the history, and between which something
        is released: blocks in a row are no steps. The count that most of these share is that of the steps, and the one
        that comes first begins them.
        """
        events = self.events
        marked = np.array([note.start for note in self.annotations if note.is_step], np.int64)
        if events.time is not None and len(marked) >= _FEWEST_STEPS:
            return np.searchsorted(events.time, marked)
        at = np.flatnonzero((events.action == Action.alloc) & (events.stack >= 0))
        if not len(at):
            return at
        order = np.lexsort((at, events.size[at], events.stack[at]))
        stack, size, at = events.stack[at][order], events.size[at][order], at[order]
        begins = np.flatnonzero(np.append(True, (stack[1:] != stack[:-1]) | (size[1:] != size[:-1])))
        counts = np.diff(np.append(begins, len(at)))
        released = np.cumsum(np.isin(events.action, (Action.free_requested, Action.free_completed)))
        even: list[tuple[int, int]] = []
        spread: Counter[int] = Counter()
        for begin, count in zip(begins.tolist(), counts.tolist(), strict=True):
            if count < _FEWEST_STEPS:
                continue
            mine = at[begin : begin + count]
            gaps = np.diff(mine)
            # Blocks of one request after the other recur evenly, too; something must be released in between.
            if int(gaps.sum()) >= _COVERED * len(events) and np.diff(released[mine]).all():
                spread[count] += 1
                if int(gaps.max()) <= _EVEN * int(gaps.min()):
                    even.append((count, begin))
        shared = Counter(count for count, _ in even)
        sure = {count: number for count, number in shared.items() if _chance(count, number, spread[count]) < _CHANCE}
        if not sure:
            return at[:0]
        # Of counts that are equally frequent the smaller one: twice a step is a step of two halves.
        steps = max(sure.items(), key=lambda pair: (pair[1], -pair[0]))[0]
        first = min((int(at[begin]), begin) for count, begin in even if count == steps)[1]
        return at[first : first + steps]


def _chance(count: int, even: int, spread: int) -> float:
    """At most how likely ``even`` of ``spread`` things that come ``count`` times at random come back evenly."""
    return comb(min(spread, 1000), min(even, 1000)) * ((_EVEN - 1) / (_EVEN + 1)) ** ((count - 2) * even)


def _held_after_events(lives: Lives, end: I64, count: int) -> I64:
    """The sum of the sizes of ``lives`` that end at ``end``, after each of ``count`` events."""
    change = summed(np.maximum(lives.start, 0), lives.size, count + 1)
    change -= summed(np.clip(end, 0, count), lives.size, count + 1)
    held: I64 = np.cumsum(change)[:count]
    return held


class MemorySnapshot(Struct, eq=False):
    """The snapshot at ``path`` of ``size`` bytes; ``devices`` are those with any history or segment.

    ``stacks`` are call stacks, innermost frame first, a line each; ``pools`` the ids of pools. ``odd`` counts what
    could not be used. ``kind`` is ``memory_snapshot`` or ``memscope_dump``. With ``has_host`` the file also has pinned
    memory of the host, which is not read.
    """

    path: str
    size: int
    devices: list[DeviceMemory]
    stacks: list[str]
    odd: dict[Message, int]
    kind: str = "memory_snapshot"
    pools: list[str] = []
    has_host: bool = False

    def first_of(self, device: DeviceMemory) -> int:
        """The number of the first block of ``device``, where those of all devices are counted."""
        before = takewhile(lambda other: other is not device, self.devices)
        return sum(len(other.lives) for other in before)
