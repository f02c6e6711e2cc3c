"""What the allocator of PyTorch would reserve with other settings: its history, allocated again by its rules.

NPUCachingAllocator.cpp and CUDACachingAllocator.cpp: the smallest free block that suffices, within a pool (small up to
1 MiB, large above) and a stream. Only where a replay with the settings of the run reserves what the run did is anything
told of others.
"""

from __future__ import annotations

from bisect import bisect_left, insort

import numpy as np
from msgspec import Struct

from npu_tui.analysis.limits import EVEN
from npu_tui.analysis.snapshot import Failure
from npu_tui.trace.snapshot import BEFORE, GIVEN_BACK, SMALL, SMALL_SEGMENT, DeviceMemory

_LARGE_SEGMENT = 20 << 20
"""What is taken for a request of 1 to 10 MiB, and a page of expandable segments, bytes."""
# ``kMinLargeAlloc`` and kRoundLarge: a larger request gets a segment of its own, in whole grains.
_OWN_SEGMENT, _GRAIN = 10 << 20, 2 << 20
_ROUND, _PAD = 512, 32  # kMinBlockSize, and what NPUCachingAllocator adds to each request before it rounds up
_LONGEST = 100_000
"""Events of a history that is replayed."""
_SPLITS = (64 << 20, 256 << 20)
"""Values of ``max_split_size`` that are tried, bytes."""
_NO_LIMIT = 1 << 62  # above any size, and a sum with a size still fits into int64
_GIVE, _TAKE, _RELEASE = range(3)
"""What happens at one event, in this order."""


class AllocatorSettings(Struct, frozen=True):
    """``expandable`` segments, blocks divided below ``max_split`` bytes, segments ``released`` when the run did so."""

    expandable: bool = False
    max_split: int = _NO_LIMIT
    released: bool = True


class AllocatorReplay(Struct, frozen=True):
    """The most that was reserved, bytes, and how often memory was taken from the device."""

    peak: int
    taken: int


class _Pool:
    """The segments and free blocks of one pool and stream; ``size`` of the free ones by address, ``begin`` by end."""

    def __init__(self, small: bool, settings: AllocatorSettings) -> None:
        self._small, self._settings = small, settings
        self._page = SMALL_SEGMENT if small else _LARGE_SEGMENT
        self._free: list[tuple[int, int]] = []
        self._size: dict[int, int] = {}
        self._begin: dict[int, int] = {}
        self._segments: dict[int, int] = {}
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

    def take(self, size: int) -> tuple[int, int]:
        """A block of at least ``size`` bytes: its address and size."""
        most = self._settings.max_split
        place = bisect_left(self._free, (size, -1))
        found = self._free[place] if place < len(self._free) else None
        # Blocks too large to be divided are for requests of about their size.
        limit = most if size < most else size + _LARGE_SEGMENT
        at = self._grow(size) if found is None or (most < _NO_LIMIT and found[0] >= limit) else found[1]
        whole = self._drop(at)
        rest = whole - size
        divided = rest >= _ROUND if self._small or self._settings.expandable else rest > SMALL and size < most
        if divided:
            self._put(at + size, rest)
        return at, size if divided else whole

    def _grow(self, size: int) -> int:
        """Take memory from the device for ``size`` bytes; returns the address of the free block it is in."""
        self.taken += 1
        if not self._settings.expandable:
            at = self._end + 1  # segments do not touch
            more = self._page if size < _OWN_SEGMENT else -(-size // _GRAIN) * _GRAIN
            self._segments[at] = more
            self._end = at + more
            self._put(at, more)
        else:
            at = self._begin.get(self._end, self._end)
            more = -(-(size - (self._end - at)) // self._page) * self._page
            if at < self._end:
                self._drop(at)
            self._end += more
            self._put(at, self._end - at)
        self.reserved += more
        return at

    def give(self, at: int, size: int) -> None:
        """Take a block back; free neighbours become one."""
        if at + size in self._size:
            size += self._drop(at + size)
        if at in self._begin:
            at = self._begin[at]
            size += self._drop(at)
        self._put(at, size)

    def release(self) -> None:
        """Give segments without a block back to the device."""
        for at in [at for at, size in self._segments.items() if self._size.get(at) == size]:
            self.reserved -= self._segments.pop(at)
            self._drop(at)


def replay(device: DeviceMemory, settings: AllocatorSettings, failed: Failure | None = None) -> AllocatorReplay:
    """The history of ``device`` with ``settings``; what is older is allocated first, the largest block first.

    With ``failed`` only up to that allocation, which is made too.
    """
    lives, events = device.lives, device.events
    pools: dict[tuple[int, bool], _Pool] = {}
    held: dict[int, tuple[_Pool, tuple[int, int]]] = {}
    sizes, streams = (-(-(lives.size + _PAD) // _ROUND) * _ROUND).tolist(), lives.stream.tolist()
    turns = [(gone, _GIVE, 0, life) for life, gone in enumerate(lives.gone.tolist())]
    for life, (start, size) in enumerate(zip(lives.start.tolist(), sizes, strict=True)):
        turns.append((start, _TAKE, -size if start == BEFORE else 0, life))
    if settings.released:
        given = np.flatnonzero(np.isin(events.action, GIVEN_BACK))
        turns += [(event, _RELEASE, 0, 0) for event in given.tolist()]
    last = len(events) - 1
    if failed is not None:
        last = failed.event
        turns.append((last, _TAKE, 0, len(sizes)))
        sizes.append(-(-(failed.request + _PAD) // _ROUND) * _ROUND)
        streams.append(int(events.stream[last]))
    peak = 0
    for event, kind, _, life in sorted(turns):
        if event > last:
            break
        if kind == _RELEASE:
            for pool in pools.values():
                pool.release()
        elif kind == _GIVE and life in held:
            pool, block = held.pop(life)
            pool.give(*block)
        elif kind == _TAKE:
            key = streams[life], sizes[life] - _PAD <= SMALL
            pool = pools.get(key) or pools.setdefault(key, _Pool(key[1], settings))
            held[life] = pool, pool.take(sizes[life])
            peak = max(peak, sum(pool.reserved for pool in pools.values()))
    return AllocatorReplay(peak, sum(pool.taken for pool in pools.values()))


def recorded(device: DeviceMemory) -> AllocatorReplay | None:
    """The replay with the settings of the run; None where it does not reserve what the run did."""
    if not device.has_segments or not 0 < len(device.events) <= _LONGEST:
        return None
    was = replay(device, AllocatorSettings(expandable=device.is_expandable))
    most = device.fullest[1]
    return was if abs(was.peak - most) <= EVEN * most else None


def best_split(device: DeviceMemory) -> tuple[int, AllocatorReplay]:
    """The best ``max_split`` of those that are tried, bytes, and the replay with it."""
    tried = [(size, replay(device, AllocatorSettings(max_split=size))) for size in _SPLITS]
    return min(tried, key=lambda pair: pair[1].peak)
