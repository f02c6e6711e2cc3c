"""Device memory over time: curves of the allocators and of the process, and the allocations behind them.

What the caching allocator of PyTorch would have reserved with other settings: its history is allocated once more. The
rules are those of NPUCachingAllocator.cpp and CUDACachingAllocator.cpp: a request gets the smallest free block that
suffices, within a pool (small up to 1 MiB, large above) and a stream. Other settings are reported only where a replay
with the known settings of the run reserves as much at most as the run did; a ``max_split_size`` is not known.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.analysis.kernels import Coded
from npu_tui.analysis.limits import EVEN
from npu_tui.analysis.snapshot import Failure
from npu_tui.trace.arrays import I64
from npu_tui.trace.memory import UNLIMITED
from npu_tui.trace.snapshot import BEFORE as OLDER
from npu_tui.trace.snapshot import BLOCK_GRAIN, GIVEN_BACK, LARGE_SEGMENT, SMALL, SMALL_SEGMENT, DeviceMemory

Amount = Literal["allocated", "reserved", "active", "gap"]
"""The quantity of a curve; ``gap`` is reserved minus allocated and is computed."""
AMOUNTS: tuple[Amount, ...] = "allocated", "reserved", "active"

NEVER = 2**62
"""The end of an allocation that was not released while profiling."""
BEFORE = -(2**62)
"""The start of an allocation that existed before profiling began."""
APP = "APP"
"""The component that stands for the process as a whole."""


class MemoryCurve(Struct, frozen=True):
    """Bytes ``value`` of one ``component`` from ``time`` (ns, strictly ascending) on; (n,)."""

    component: str
    amount: Amount
    time: I64
    value: I64

    @property
    def peak(self) -> tuple[int, int]:
        """The time of the first maximum, ns, and its bytes."""
        at = int(self.value.argmax())
        return int(self.time[at]), int(self.value[at])

    def at(self, time: int) -> int | None:
        """The bytes at ``time`` ns; None before the first record."""
        index = int(np.searchsorted(self.time, time, "right")) - 1
        return int(self.value[index]) if index >= 0 else None


class Allocations(Struct, frozen=True):
    """The allocations of operations: ``size`` bytes, alive in ``[start, end)`` ns; (n,).

    Those of a memory snapshot have a ``line``, a code of ``lines``, and a ``maker``, their slice (-1 without one).
    """

    name: Coded
    size: I64
    start: I64
    end: I64
    line: I64 | None = None
    lines: Sequence[object] = ()
    maker: I64 | None = None

    def __len__(self) -> int:
        return len(self.size)

    def alive(self, time: int) -> I64:
        """The positions of the allocations that are alive at ``time`` ns."""
        return np.flatnonzero((self.start <= time) & (self.end > time))

    @property
    def kept(self) -> I64:
        """The positions of the allocations made while profiling and not released."""
        return np.flatnonzero((self.end == NEVER) & (self.start > BEFORE))


class MemoryUse(Struct, frozen=True):
    """The ``curves`` of the allocators and the process, the ``allocations``, and reserved bytes by ``modules``."""

    curves: tuple[MemoryCurve, ...]
    allocations: Allocations
    modules: tuple[MemoryCurve, ...]

    @property
    def is_known(self) -> bool:
        """Whether any file has memory data."""
        return bool(self.curves or self.modules or len(self.allocations))

    def all(self, amount: Amount) -> list[MemoryCurve]:
        """The curves of ``amount`` of all components, the process included."""
        return [curve for curve in self.curves if curve.amount == amount]

    def fullest(self) -> tuple[int, int, int] | None:
        """When the allocator had reserved most, ns, how much, and the most that was allocated then."""
        reserved, allocated = self.curve("reserved"), self.curve("allocated")
        if reserved is None or allocated is None:
            return None
        at = reserved.time[reserved.value == reserved.peak[1]]
        # Reserved memory stays at its peak for a while: the most that is in use meanwhile shows what is wasted.
        allocated_then = _values_at(allocated, at[at >= allocated.time[0]])
        return reserved.peak[0], reserved.peak[1], int(allocated_then.max(initial=0))

    def curve(self, amount: Amount) -> MemoryCurve | None:
        """The curve of the framework's allocator: the largest component other than the process."""
        candidates = [curve for curve in self.curves if curve.amount == amount and curve.component != APP]
        return max(candidates, key=lambda curve: (curve.peak[1], -len(curve.component)), default=None)

    @property
    def process(self) -> MemoryCurve | None:
        """The memory that the process has reserved on the device."""
        return next((curve for curve in self.curves if curve.component == APP and curve.amount == "reserved"), None)

    def fragmented(self) -> tuple[int, int] | None:
        """When reserved minus allocated was largest, ns, and its bytes; None where one of them is unknown."""
        gap = self.gap
        return None if gap is None else gap.peak

    @property
    def gap(self) -> MemoryCurve | None:
        """Reserved minus allocated over time; None where one of them is unknown."""
        reserved, allocated = self.curve("reserved"), self.curve("allocated")
        if reserved is None or allocated is None:
            return None
        if np.array_equal(reserved.time, allocated.time):  # the usual case: one file records both
            return MemoryCurve(reserved.component, "gap", reserved.time, reserved.value - allocated.value)
        time = np.union1d(reserved.time, allocated.time)
        time = time[time >= max(reserved.time[0], allocated.time[0])]
        return MemoryCurve(reserved.component, "gap", time, _values_at(reserved, time) - _values_at(allocated, time))


def _values_at(curve: MemoryCurve, time: I64) -> I64:
    values: I64 = curve.value[np.searchsorted(curve.time, time, "right") - 1]
    return values


def memory_curve(component: str, amount: Amount, time: I64, value: I64) -> MemoryCurve:
    """The curve of records in any order; among several at one time the highest counts, which keeps every peak."""
    step = np.diff(time)
    if (step < 0).any():
        order = np.argsort(time, kind="stable")
        time, value = time[order], value[order]
        step = np.diff(time)
    if (step > 0).all():
        return MemoryCurve(component, amount, time, value)
    first = np.flatnonzero(np.append(True, step != 0))
    return MemoryCurve(component, amount, time[first], np.maximum.reduceat(value, first))


class Holder(Struct, frozen=True):
    """The allocations ``members`` of one operation at one line of code, the largest first."""

    name: str
    size: int
    members: I64


def holders(allocations: Allocations, chosen: I64, places: list[object]) -> list[Holder]:
    """The ``chosen`` allocations grouped by operation and place (such as a line of code), most bytes first."""
    if not len(chosen):
        return []
    known: dict[tuple[int, object], int] = {}
    keys = zip(allocations.name.code[chosen].tolist(), places, strict=True)
    group = np.array([known.setdefault(key, len(known)) for key in keys], np.int64)
    rows = []
    for number, (code, _) in enumerate(known):
        members = chosen[group == number]
        members = members[np.argsort(-allocations.size[members], kind="stable")]
        name = allocations.name.values[code] if code >= 0 else ""
        rows.append(Holder(name, int(allocations.size[members].sum()), members))
    return sorted(rows, key=lambda holder: -holder.size)


# ``kMinLargeAlloc`` and ``kRoundLarge``: a larger request gets a segment of its own, rounded up to 2 MiB.
_OWN_SEGMENT, _GRAIN = 10 << 20, 2 << 20
_PADS = 32, 0  # what NPUCachingAllocator and CUDACachingAllocator add to each request before they round it up, bytes
_MAX_EVENTS = 100_000  # the longest history that is replayed, events: some seconds
# Values of ``max_split_size`` that are tried, bytes: one for activations of some MiB, one for those of many.
_TRIED_MAX_SPLITS = (64 << 20, 256 << 20)
_FREE, _ALLOC, _EMPTY_CACHE = range(3)
"""What happens at one event, in this order."""


class AllocatorSettings(Struct, frozen=True):
    """Whether segments are ``expandable``; blocks of ``max_split`` bytes and more are not divided.

    With ``released`` free memory goes back to the device when the run gave some back. ``pad`` bytes are added to each
    request.
    """

    expandable: bool = False
    max_split: int = UNLIMITED
    released: bool = True
    pad: int = _PADS[0]


class AllocatorReplay(Struct, frozen=True):
    """The most that was reserved, bytes, how often memory was taken from the device, and with which settings."""

    peak: int
    taken: int
    settings: AllocatorSettings


class _Pool:
    """The segments and free blocks of one pool and stream.

    ``_size`` is that of each free block by its address, ``_begin`` its address by its end. An expandable pool is one
    range of addresses: ``_unmapped`` are the parts without memory, an address and a size each, in order.
    """

    def __init__(self, small: bool, settings: AllocatorSettings) -> None:
        self._small, self._settings = small, settings
        self._page = SMALL_SEGMENT if small else LARGE_SEGMENT
        self._free: list[tuple[int, int]] = []
        self._size: dict[int, int] = {}
        self._begin: dict[int, int] = {}
        self._segments: dict[int, int] = {}
        self._unmapped = [(0, UNLIMITED)]
        self._end = 0
        self.reserved = self.taken = 0

    def _put(self, at: int, size: int) -> None:
        insort(self._free, (size, at))
        self._size[at], self._begin[at + size] = size, at

    def _drop(self, at: int) -> int:
        size = self._size.pop(at)
        del self._begin[at + size]
        del self._free[bisect_left(self._free, (size, at))]
        return size

    def alloc(self, size: int) -> tuple[int, int]:
        """A block of at least ``size`` bytes: its address and size."""
        max_split = self._settings.max_split
        place = bisect_left(self._free, (size, -1))
        while self._settings.expandable and place + 1 < len(self._free):
            if self._growable(*self._free[place + 1]) >= self._growable(*self._free[place]):
                break
            place += 1
        found = self._free[place] if place < len(self._free) else None
        # Blocks too large to be divided are for requests of about their size.
        too_large = max_split if size < max_split else size + LARGE_SEGMENT
        if found is not None and (max_split == UNLIMITED or found[0] < too_large):
            at = found[1]
        else:
            self.taken += 1
            at = self._map(size) if self._settings.expandable else self._add_segment(size)
        whole = self._drop(at)
        rest = whole - size
        if self._small or self._settings.expandable:
            divided = rest >= BLOCK_GRAIN
        else:
            divided = rest > SMALL and size < max_split
        if divided:
            self._put(at + size, rest)
        return at, size if divided else whole

    def _growable(self, size: int, at: int) -> int:
        """The size that a free block can grow to: one before pages without memory is for what fits nowhere else."""
        place = bisect_left(self._unmapped, (at + size, 0))
        gap, length = self._unmapped[place]
        return size + length if gap == at + size else size

    def _add_segment(self, size: int) -> int:
        """Take a segment for ``size`` bytes from the device; returns the address of the free block that it is."""
        at = self._end + 1  # a gap, so that blocks of two segments never merge
        more = self._page if size < _OWN_SEGMENT else -(-size // _GRAIN) * _GRAIN
        self._segments[at] = more
        self._end = at + more
        self.reserved += more
        self._put(at, more)
        return at

    def _map(self, size: int) -> int:
        """Take pages from the device where ``size`` bytes fit, at the lowest address; returns that of the free block.

        The block may begin with one that is free already, and have others between its pages.
        """
        for place, (gap, _) in enumerate(self._unmapped):
            at = self._begin.get(gap, gap)
            if self._room(place) - at >= size:
                break
        if at < gap:
            self._drop(at)
        end = gap
        while end - at < size:
            _, length = self._unmapped.pop(place)
            more = min(-(-(size - (end - at)) // self._page) * self._page, length)
            if more < length:
                self._unmapped.insert(place, (end + more, length - more))
            self.reserved += more
            end += more
            end += self._drop(end) if end in self._size else 0
        self._put(at, end - at)
        return at

    def _room(self, place: int) -> int:
        """The end of the addresses, free or unmapped, that begin with the unmapped part number ``place``."""
        end = self._unmapped[place][0]
        while place < len(self._unmapped) and end == self._unmapped[place][0]:
            end += self._unmapped[place][1]
            end += self._size.get(end, 0)
            place += 1
        return end

    def free(self, at: int, size: int) -> None:
        """Free a block; free neighbours become one."""
        if at + size in self._size:
            size += self._drop(at + size)
        if at in self._begin:
            at = self._begin[at]
            size += self._drop(at)
        self._put(at, size)

    def empty_cache(self) -> None:
        """Give segments without a block in use back to the device, of expandable ones the whole pages."""
        for at in [at for at, size in self._segments.items() if self._size.get(at) == size]:
            self.reserved -= self._segments.pop(at)
            self._drop(at)
        if self._settings.expandable:
            for size, at in list(self._free):
                begin, end = -(-at // self._page) * self._page, (at + size) // self._page * self._page
                if begin < end:
                    self._unmap(at, begin, end)

    def _unmap(self, at: int, begin: int, end: int) -> None:
        """Give the pages from ``begin`` to ``end`` of the free block at ``at`` back to the device."""
        size = self._drop(at)
        self.reserved -= end - begin
        if at < begin:
            self._put(at, begin - at)
        if end < at + size:
            self._put(end, at + size - end)
        place = bisect_left(self._unmapped, (begin, 0))
        if self._unmapped[place][0] == end:  # there is always one at the end of all
            end += self._unmapped.pop(place)[1]
        if place and sum(self._unmapped[place - 1]) == begin:
            place -= 1
            begin = self._unmapped.pop(place)[0]
        self._unmapped.insert(place, (begin, end - begin))


def replay(device: DeviceMemory, settings: AllocatorSettings, failed: Failure | None = None) -> AllocatorReplay:
    """The history of ``device`` with ``settings``. Blocks older than it are allocated first, the largest one first.

    With ``failed`` only up to that allocation, and including it: it gives back what it can, then tries again.
    """
    lives, events = device.lives, device.events
    pools: dict[tuple[int, bool], _Pool] = {}
    blocks: dict[int, tuple[_Pool, tuple[int, int]]] = {}
    requests = lives.size if failed is None else np.append(lives.size, failed.request)
    sizes = (-(-np.maximum(requests + settings.pad, 1) // BLOCK_GRAIN) * BLOCK_GRAIN).tolist()
    streams = lives.stream.tolist()
    turns = [(gone, _FREE, 0, life) for life, gone in enumerate(lives.gone.tolist())]
    for life, start in enumerate(lives.start.tolist()):
        turns.append((start, _ALLOC, -sizes[life] if start == OLDER else 0, life))
    if settings.released:
        given = np.flatnonzero(np.isin(events.action, GIVEN_BACK))
        turns += [(event, _EMPTY_CACHE, 0, 0) for event in given.tolist()]
    last = len(events) - 1
    if failed is not None:
        last = failed.event
        turns.append((last, _ALLOC, 0, len(lives)))
        streams.append(int(events.stream[last]))
    peak, before = 0, _ALLOC
    for event, kind, _, life in sorted(turns):
        if event > last:
            break
        if kind == _EMPTY_CACHE and before != _EMPTY_CACHE:  # a call gives many segments back, an event each
            for pool in pools.values():
                pool.empty_cache()
        elif kind == _FREE and life in blocks:
            pool, block = blocks.pop(life)
            pool.free(*block)
        elif kind == _ALLOC:
            if life == len(lives):
                for pool in pools.values():
                    pool.empty_cache()
            key = streams[life], sizes[life] <= SMALL
            pool = pools.get(key) or pools.setdefault(key, _Pool(key[1], settings))
            blocks[life] = pool, pool.alloc(sizes[life])
            peak = max(peak, sum(pool.reserved for pool in pools.values()))
        before = kind
    return AllocatorReplay(peak, sum(pool.taken for pool in pools.values()), settings)


def recorded(device: DeviceMemory) -> AllocatorReplay | None:
    """The replay with the settings of the run; None where it does not reserve what the run did.

    No field of a snapshot names the allocator: it is the one whose padding reserves most nearly what was reserved.
    """
    if not device.has_segments or not 0 < len(device.events) <= _MAX_EVENTS:
        return None
    most = device.fullest[1]
    tried = [replay(device, AllocatorSettings(device.is_expandable, pad=pad)) for pad in _PADS]
    was = min(tried, key=lambda one: abs(one.peak - most))
    return was if abs(was.peak - most) <= EVEN * most else None


def best_split(device: DeviceMemory, settings: AllocatorSettings) -> AllocatorReplay:
    """The replay with ``settings`` but the best ``max_split`` of those that are tried."""
    tried = [replay(device, replace(settings, max_split=size)) for size in _TRIED_MAX_SPLITS]
    return min(tried, key=lambda one: one.peak)
