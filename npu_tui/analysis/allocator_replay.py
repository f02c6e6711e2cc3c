"""What the caching allocator of PyTorch would have reserved with other settings: its history is allocated once more.

The rules are those of NPUCachingAllocator.cpp and CUDACachingAllocator.cpp: a request gets the smallest free block that
suffices, within a pool (small up to 1 MiB, large above) and a stream. Other settings are reported only where a replay
with the known settings of the run reserves as much at most as the run did; a ``max_split_size`` is not known.
"""

from __future__ import annotations

from bisect import bisect_left, insort

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.analysis.limits import EVEN
from npu_tui.analysis.snapshot import Failure
from npu_tui.trace.memory import UNLIMITED
from npu_tui.trace.snapshot import BEFORE, BLOCK_GRAIN, GIVEN_BACK, LARGE_SEGMENT, SMALL, SMALL_SEGMENT, DeviceMemory

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
        turns.append((start, _ALLOC, -sizes[life] if start == BEFORE else 0, life))
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
