"""What a memory snapshot shows: who held memory at a moment, what grew, what lies in pieces, what is free.

The free blocks of the allocator at a moment are what a request could have been served from.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
from msgspec import Struct
from msgspec.structs import astuple

from npu_tui.analysis.code_lines import CodeLine, user_line
from npu_tui.trace.arrays import I64, Bools, summed
from npu_tui.trace.classes import OPERATION, function_of, is_native
from npu_tui.trace.once import once
from npu_tui.trace.snapshot import (
    BEFORE,
    BLOCK_GRAIN,
    GIVEN_BACK,
    NEVER,
    SMALL,
    SMALL_SEGMENT,
    TAKEN,
    UNKNOWN,
    Action,
    DeviceMemory,
    MemorySnapshot,
    State,
)

_OPTIMIZER = re.compile(r"[/\\]\w*optim\w*(?:[/\\]|\.py$)")
_EVEN = 1.5
"""What comes back evenly is at most so many times its mean apart."""
_FRAME = re.compile(r"(?P<file>.*)\((?P<line>\d+)\): (?P<function>.*);")


class BlockOwner(Struct, frozen=True):
    """The blocks ``members`` of one owner: the innermost user frame of a stack, else its innermost frame.

    ``code`` is None for blocks whose thread had no Python frames, as those that autograd allocates.
    """

    code: CodeLine | None
    size: int
    members: I64


def owner_of(stack: str) -> CodeLine | None:
    """The innermost user frame of ``stack``, else its innermost frame of Python; None without any.

    A stack that only names the operation has that as function, without a file.
    """
    line = user_line(stack.replace("\n", ""))
    if line is not None or not stack:
        return line
    frames = (frame for frame in stack.split("\n") if not (frame.startswith(OPERATION) or is_native(frame)))
    match = _FRAME.fullmatch(next(frames, ""))
    if match is not None:
        return CodeLine(match["file"], int(match["line"]), match["function"])
    return CodeLine("", 0, function_of(stack)) if stack.startswith(OPERATION) else None


def placed(code: CodeLine | None) -> CodeLine | None:
    """``code`` where it has a file; None where only the operation is known."""
    return code if code is not None and code.file else None


def module_of(stack: str) -> CodeLine | None:
    """The innermost frame of ``stack`` in which a module runs forward or an optimizer its step; None without any."""
    for frame in stack.split("\n"):
        match = _FRAME.fullmatch(frame)
        word = "" if match is None else match["function"].rpartition(".")[2]
        if match is not None and (word == "forward" or (word == "step" and _OPTIMIZER.search(match["file"]))):
            return CodeLine(match["file"], int(match["line"]), match["function"])
    return None


def owners(
    snapshot: MemorySnapshot, device: DeviceMemory, members: I64, of: Callable[[str], CodeLine | None] = owner_of
) -> list[BlockOwner]:
    """The blocks ``members`` (positions in ``lives``) by owner, ``of`` each stack, most bytes first, then by name."""
    lives, known = device.lives, dict[CodeLine | None, int]()
    stacks, where = np.unique(lives.stack[members], return_inverse=True)
    numbers = [
        known.setdefault(of(snapshot.stacks[stack]) if stack >= 0 else None, len(known)) for stack in stacks.tolist()
    ]
    group = np.array(numbers, np.int64)[where]
    rows = [
        BlockOwner(code, int(lives.size[mine].sum()), mine)
        for code, number in known.items()
        if len(mine := members[group == number])
    ]
    nobody = CodeLine("", 0, "")
    return sorted(rows, key=lambda row: (-row.size, row.code is None, *astuple(row.code or nobody)[:2]))


def named_at(device: DeviceMemory, event: int) -> I64:
    """The blocks that are allocated after ``event`` and say who allocated them."""
    alive = device.lives.alive(event)
    return alive[~nameless(device)[alive]]


def nameless(device: DeviceMemory) -> Bools:
    """Which blocks are older than the history and do not say who allocated them; (blocks,).

    One that is there at the end may have the stack of its allocation, one that was freed at most that of its release.
    """
    lives = device.lives
    freed = (lives.end > BEFORE) & (lives.end < NEVER)
    unknown: Bools = (lives.start == BEFORE) & (freed | (lives.stack < 0))
    return unknown


SIZES = (1 << 20, 10 << 20, 100 << 20, 1 << 30)
"""Bounds of the size classes, requested bytes. The allocator parts small and large blocks at 1 MiB and at 10 MiB."""


def pools_of(device: DeviceMemory) -> I64:
    """The pool of each block, -1 where that is not known; (blocks,)."""
    segments, lives = device.segments, device.lives
    pool = np.append(segments.pool, -1)[segments.holding(lives.address)]
    if device.events.pool is not None:
        named = np.append(device.events.pool, -1)[np.maximum(lives.start, -1)]
        pool = np.where(named >= 0, named, pool)
    return pool.astype(np.int64)


def sums_at(device: DeviceMemory, event: int, keys: I64) -> list[tuple[int, int, int]]:
    """Requested bytes and blocks of each of the ``keys`` (blocks,) that are allocated after ``event``; by key."""
    alive = device.lives.alive(event)
    known, where, counts = np.unique(keys[alive], return_inverse=True, return_counts=True)
    sums = summed(where, device.lives.size[alive], len(known))
    return list(zip(known.tolist(), sums.tolist(), counts.tolist(), strict=True))


class Growth(Struct, frozen=True):
    """``starts`` are events that begin a step, ``moments`` those before each and, where it ended, after the last one.

    ``live`` are the bytes that are allocated at the ``moments``.

    ``held`` are the bytes that each owner whose blocks outlive a step holds at the ``moments``, the largest growth
    after the first step first.
    """

    starts: I64
    moments: I64
    live: I64
    held: list[tuple[BlockOwner, I64]]

    @property
    def leaks(self) -> list[tuple[BlockOwner, I64]]:
        """Owners that hold more from step to step, and the growth of each in every step but the first.

        They grow in every step or, as what only an evaluation keeps, in three at least that come back evenly, up to the
        end; what is released in between, or grows no more, is no leak.
        """
        grown = [(owner, np.diff(held)[1:]) for owner, held in self.held]
        leaks = [(owner, more) for owner, more in grown if _keeps_growing(more)]
        return sorted(leaks, key=lambda leak: -int(leak[1].sum()))

    @property
    def per_step(self) -> int | None:
        """What a step adds after the first one, the median, bytes; None where it is unknown."""
        more = np.diff(self.live[: len(self.starts)])[1:]
        return int(np.median(more)) if len(more) else None


def _keeps_growing(more: I64) -> bool:
    """Whether what grows by ``more`` (steps,) bytes in each step never shrinks, and grows evenly up to the end."""
    at = np.flatnonzero(more > 0)
    if len(at) == len(more):
        return len(more) >= 2
    gaps = np.diff(at, prepend=-1, append=len(more))
    return bool(len(at) >= 3 and (more >= 0).all() and gaps.max() <= _EVEN * len(more) / len(at))


class HeldMemory(Struct, dict=True, eq=False):
    """What one ``device`` of a ``snapshot`` held; each value is computed once."""

    snapshot: MemorySnapshot
    device: DeviceMemory

    def owners(self, event: int) -> list[BlockOwner]:
        """The owners of the blocks that are allocated after ``event`` and record who allocated them."""
        return owners(self.snapshot, self.device, named_at(self.device, event))

    @once
    def at_peak(self) -> list[BlockOwner]:
        """The owners at the peak."""
        return self.owners(self.device.peak[0])

    @once
    def growth(self) -> Growth | None:
        """How what is allocated grows from step to step; None without steps."""
        return growth(self.snapshot, self.device)

    @once
    def pieces(self) -> Pieces:
        """What is reserved and not used at the end."""
        return pieces(self.device)


def held_in(snapshot: MemorySnapshot) -> list[HeldMemory]:
    """Every device of ``snapshot``."""
    return [HeldMemory(snapshot, device) for device in snapshot.devices]


def growth(snapshot: MemorySnapshot, device: DeviceMemory) -> Growth | None:
    """How what is allocated grows from step to step; None without steps.

    What is born in the first step and stays, such as the state of an optimizer, is no leak: a leak grows in every later
    step, and in two at least. A last step that is as long as the others counts up to the end of the history.
    """
    starts = device.step_starts
    if not len(starts):
        return None
    lives = device.lives
    moments = starts - 1
    if len(device.events) - starts[-1] >= 0.8 * np.diff(starts).min():
        moments = np.append(moments, len(device.events) - 1)
    before = device.before
    live = np.array([int(device.requested[at]) if at >= 0 else before for at in moments.tolist()], np.int64)
    # Only blocks that live into a later step can grow; most bytes are of short lives.
    long = np.flatnonzero(
        (lives.start != BEFORE) & (lives.end > np.append(moments, NEVER)[np.searchsorted(moments, lives.start)])
    )
    held = []
    for owner in owners(snapshot, device, long):
        size = [int(lives.size[owner.members][_alive(device, owner.members, at)].sum()) for at in moments.tolist()]
        kept = owner.members[lives.end[owner.members] == NEVER]
        kept = kept if len(kept) else owner.members
        held.append((BlockOwner(owner.code, int(lives.size[kept].sum()), kept), np.array(size, np.int64)))
    return Growth(starts, moments, live, sorted(held, key=lambda one: int(one[1][1] - one[1][-1])))


def _alive(device: DeviceMemory, members: I64, event: int) -> Bools:
    return (device.lives.start[members] <= event) & (device.lives.end[members] > event)


class Pieces(Struct, frozen=True):
    """The memory that is reserved and not used at the end, bytes.

    ``inactive`` of ``blocks`` in all, ``largest`` of one, ``free_segments`` in segments that hold nothing.
    """

    inactive: int
    blocks: int
    largest: int
    free_segments: int


def pieces(device: DeviceMemory) -> Pieces:
    """What the allocator holds unused at the end of the history."""
    blocks, segments = device.blocks, device.segments
    free = blocks.state == State.inactive
    used = np.zeros(len(segments), np.bool_)
    used[blocks.segment[~free]] = True
    size = blocks.size[free]
    return Pieces(
        inactive=int(size.sum()), blocks=int(free.sum()), largest=int(size.max(initial=0)),
        free_segments=int(segments.size[~used].sum()),
    )  # fmt: skip


class Failure(Struct, frozen=True):
    """The allocation that failed at ``event``: what was requested, bytes, what was reserved and allocated then.

    ``device_free`` is what the device still had, -1 where it is not known.
    """

    event: int
    request: int
    reserved: int
    allocated: int
    device_free: int


def failures(device: DeviceMemory) -> list[Failure]:
    """The allocations that failed, in order."""
    events = device.events
    failed = np.flatnonzero(events.action == Action.oom)
    columns = (events.size, device.reserved, device.requested, events.address)
    return [Failure(*row) for row in zip(failed.tolist(), *(one[failed].tolist() for one in columns), strict=True)]


def live_bytes(device: DeviceMemory) -> tuple[int, int, int]:
    """How many blocks are allocated at the end, what was requested of them and what they take, bytes.

    What they take is ``UNKNOWN`` where the file has no segments.
    """
    blocks, lives = device.blocks, device.lives
    if not device.has_segments:
        here = lives.end == NEVER
        return int(here.sum()), int(lives.size[here].sum()), UNKNOWN
    live = blocks.state == State.active_allocated
    return int(live.sum()), int(blocks.requested[live].sum()), int(blocks.size[live].sum())


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

    The pool is the small one for up to 1 MiB, else the large one; private pools are separate where the writer names
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
    # Segments are those of the end: what was taken later is undone, what was given back later is put back.
    sign = np.append(np.ones(len(segments), np.int64), np.where(came, -1, 1))
    # Pieces of an expandable segment are neighbours and merge; a segment of ``cudaMalloc`` stays apart.
    fixed = ~np.append(segments.expandable, np.isin(action, (Action.segment_map, Action.segment_unmap)))
    number = np.full(len(starts), -1)
    if events.pool is not None and (events.pool >= 0).any():
        number = np.append(segments.pool, events.pool[later])
    whose = np.stack((np.append(segments.small, small), np.append(segments.stream, events.stream[later]), number))
    known, group = np.unique(whose, axis=1, return_inverse=True)

    alive = np.flatnonzero((lives.start <= event) & (lives.gone > event))
    taken = np.where(lives.taken[alive] >= 0, lives.taken[alive], -(-lives.size[alive] // BLOCK_GRAIN) * BLOCK_GRAIN)
    pools = []
    for place, (is_small, stream, pool) in enumerate(known.T.tolist()):
        ours = group.ravel() == place
        free = _free_block_sizes(starts[ours], sizes[ours], sign[ours], fixed[ours], lives.address[alive], taken)
        pools.append(Pool(bool(is_small), stream, pool, np.sort(free)[::-1]))
    return sorted(pools, key=lambda pool: -int(pool.free.sum()))


def _free_block_sizes(starts: I64, sizes: I64, sign: I64, fixed: Bools, used: I64, taken: I64) -> I64:
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
