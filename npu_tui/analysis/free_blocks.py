"""Free blocks of the allocator at a moment of its history: what a request could have been served from."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from npu_tui.trace.arrays import I64, Bools, summed
from npu_tui.trace.snapshot import GIVEN_BACK, SMALL, SMALL_SEGMENT, TAKEN, Action, DeviceMemory

_ROUND = 512  # kMinBlockSize of the allocator: every block is a multiple of it


class Pool(Struct, frozen=True):
    """The sizes of the blocks that are ``free`` on one stream in one pool, small or large; largest first.

    ``number`` is that of the pool, -1 where events do not name theirs.
    """

    small: bool
    stream: int
    number: int
    free: I64


class FreeBlocks(Struct, frozen=True):
    """Free bytes after an event: ``unused`` in all, ``here`` in the pool and on the stream of a request.

    ``largest`` is the largest free block ``here``; a block that is gone by the end may have taken up to 1 MiB more
    than is counted, so that ``largest`` is the most it can have been.
    """

    unused: int
    here: int
    largest: int


def free_blocks(device: DeviceMemory, event: int, request: int, stream: int) -> FreeBlocks:
    """The free blocks after ``event`` (``BEFORE``: before the history) for ``request`` bytes on ``stream``.

    The pool is the small one for up to 1 MiB, else the large one; private pools are told apart where the writer names
    that of the request.
    """
    pools, named = free_in_pools(device, event), device.events.pool
    number = -1 if event < 0 or named is None else int(named[event])
    here = [pool.free for pool in pools if pool.small == (request <= SMALL) and pool.stream == stream
            and number in (-1, pool.number)]  # fmt: skip
    unused, ours = (sum(int(pool.sum()) for pool in part) for part in ([pool.free for pool in pools], here))
    return FreeBlocks(unused, ours, max((int(free[0]) for free in here if len(free)), default=0))


def free_in_pools(device: DeviceMemory, event: int) -> list[Pool]:
    """What is free after ``event`` in each pool, most bytes first."""
    events, segments, lives = device.events, device.segments, device.lives
    later = np.flatnonzero(np.isin(events.action, (*TAKEN, *GIVEN_BACK)))
    later = later[later > event]
    action, address, size = events.action[later], events.address[later], events.size[later]
    held = segments.holding(address)
    small = np.where(held >= 0, np.append(segments.small, False)[held], size <= SMALL_SEGMENT)
    starts, sizes = np.append(segments.address, address), np.append(segments.size, size)
    came = np.isin(action, TAKEN)
    sign = np.append(np.ones(len(segments), np.int64), np.where(came, -1, 1))
    fixed = ~np.append(segments.expandable, np.isin(action, (Action.segment_map, Action.segment_unmap)))
    number = np.full(len(starts), -1)
    if events.pool is not None and (events.pool >= 0).any():
        number = np.append(segments.pool, events.pool[later])
    whose = np.stack((np.append(segments.small, small), np.append(segments.stream, events.stream[later]), number))
    known, group = np.unique(whose, axis=1, return_inverse=True)

    alive = np.flatnonzero((lives.start <= event) & (lives.gone > event))
    taken = np.where(lives.taken[alive] >= 0, lives.taken[alive], -(-lives.size[alive] // _ROUND) * _ROUND)
    pools = []
    for place, (is_small, stream, pool) in enumerate(known.T.tolist()):
        ours = group.ravel() == place
        free = _runs(starts[ours], sizes[ours], sign[ours], fixed[ours], lives.address[alive], taken)
        pools.append(Pool(bool(is_small), stream, pool, np.sort(free)[::-1]))
    return sorted(pools, key=lambda pool: -int(pool.free.sum()))


def _runs(starts: I64, sizes: I64, sign: I64, fixed: Bools, used: I64, taken: I64) -> I64:
    """The sizes of the free blocks: ranges that are mapped (``sign`` 1, -1 takes one away) without what is ``used``.

    Free ranges that touch are one block, unless a segment of ``fixed`` size begins or ends between them.
    """
    points = np.concatenate((starts, starts + sizes, used, used + taken))
    edges, where = np.unique(points, return_inverse=True)
    if len(edges) < 2:
        return np.zeros(0, np.int64)
    count, more = len(starts), len(used)
    begin, end, taken_from, taken_to = np.split(where, np.cumsum((count, count, more)))
    mapped = summed(begin, sign, len(edges)) - summed(end, sign, len(edges))
    full = np.bincount(taken_from, minlength=len(edges)) - np.bincount(taken_to, minlength=len(edges))
    cut = np.zeros(len(edges), np.bool_)
    cut[begin[fixed]] = cut[end[fixed]] = True
    free = (np.cumsum(mapped) > 0)[:-1] & (np.cumsum(full) == 0)[:-1]
    lengths = np.diff(edges)[free]
    begins = (~np.append(False, free[:-1]) | cut[:-1])[free]
    return np.bincount(np.cumsum(begins) - 1, lengths).astype(np.int64) if len(lengths) else np.zeros(0, np.int64)


def request_of(device: DeviceMemory, event: int) -> int:
    """The bytes of the allocation that took memory from the device at ``event``: the next one on its stream.

    The size of the segment where there is none.
    """
    events = device.events
    same = events.stream[event:] == events.stream[event]
    following = np.flatnonzero((events.action[event:] == Action.alloc) & same)
    return int(events.size[event + following[0]] if len(following) else events.size[event])
