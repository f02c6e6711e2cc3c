"""Call stacks of a database, one row per frame: where each begins, and two numbers that tell its frames from others."""

from __future__ import annotations

from npu_tui.ingest.scanner.layout import CHAIN_MIX, CHAIN_PLACE, CHAIN_SPREAD
from npu_tui.ingest.scanner.source.memory import Region, compiled, read64, shifted_right, write64

_FIRST, _SECOND = CHAIN_MIX


@compiled
def mixed(frame: int, place: int, mix: int) -> int:
    """What one frame adds to the number of its stack."""
    spread = (frame + 1) * mix + place * (mix ^ CHAIN_PLACE)
    spread = (spread ^ shifted_right(spread, 29)) * CHAIN_SPREAD
    return spread ^ shifted_right(spread, 32)


@compiled
def added(marks: Region, at: int, value: int) -> None:
    """Add ``value`` to one of ``marks``."""
    write64(marks, 8 * at, read64(marks, 8 * at) + value)


@compiled
def stack_marks(
    chain_address: int, frame_address: int, depth_address: int, count: int, first_address: int, one_address: int,
    two_address: int,
) -> int:  # fmt: skip
    """How many stacks there are in ``count`` rows, -1 if these do not lie in the order of stacks and of depths in them.

    The last three take the first row and the two numbers of each; all are int64.
    """
    size = 8 * count
    chains, frames, depths = (chain_address, size), (frame_address, size), (depth_address, size)
    firsts, ones, twos = (first_address, size), (one_address, size), (two_address, size)
    stacks, place = 0, 0
    for k in range(count):
        if k == 0 or read64(chains, 8 * k) != read64(chains, 8 * k - 8):
            if k > 0 and read64(chains, 8 * k) < read64(chains, 8 * k - 8):
                return -1
            write64(firsts, 8 * stacks, k)
            write64(ones, 8 * stacks, 0)
            write64(twos, 8 * stacks, 0)
            stacks += 1
            place = 0
        else:
            if read64(depths, 8 * k) <= read64(depths, 8 * k - 8):
                return -1
            place += 1
        frame = read64(frames, 8 * k)
        added(ones, stacks - 1, mixed(frame, place, _FIRST))
        added(twos, stacks - 1, mixed(frame, place, _SECOND))
    return stacks
