"""The lives of blocks: allocations paired with what gave them back, and those the history does not begin or end."""

from __future__ import annotations

import numpy as np

from npu_tui.trace.snapshot import BEFORE, NEVER, Action, AllocatorEvents, Lives, SegmentBlocks, Segments, State


def lives_of(events: AllocatorEvents, segments: Segments, blocks: SegmentBlocks) -> Lives:
    """Every block that ``events`` or the ``blocks`` at the end tell of, by the event that began it."""
    at = np.flatnonzero(np.isin(events.action, (Action.alloc, Action.free_requested, Action.free_completed)))
    at = at[np.lexsort((at, events.address[at]))]
    action, address = events.action[at], events.address[at]
    earlier = np.append(np.int8(-1), action[:-1])[: len(at)]
    earlier[np.append(True, address[1:] != address[:-1])[: len(at)]] = -1  # the first one of its address
    # A release that no allocation or request leads to is of a block older than the history.
    requested, completed = action == Action.free_requested, action == Action.free_completed
    begins = (action == Action.alloc) | (earlier == -1)
    begins |= requested & (earlier != Action.alloc)
    begins |= completed & (earlier == Action.free_completed)
    first, life = np.flatnonzero(begins), np.cumsum(begins) - 1
    # Memory that is given out again was released, even where the history lacks that.
    gone = np.append(at[first[1:]], NEVER)[: len(first)]
    gone[np.append(address[first[1:]] != address[first[:-1]], True)[: len(first)]] = NEVER
    gone[life[completed]] = at[completed]
    end = gone.copy()
    end[life[requested]] = at[requested]
    start, at = np.where(action[first] == Action.alloc, at[first], BEFORE), at[first]

    live = np.flatnonzero(blocks.state != State.inactive)
    # A block at the end belongs to the last life of its address, if that has no end.
    open_ = np.flatnonzero(gone == NEVER)
    known = np.append(events.address[at[open_]], -1)
    place = np.searchsorted(known[:-1], blocks.address[live])
    matched = known[place] == blocks.address[live]
    taken = np.full(len(at), -1, np.int64)
    taken[open_[place[matched]]] = blocks.size[live[matched]]
    rest = live[~matched]
    before = np.full(len(rest), BEFORE)
    order = np.argsort(np.append(start, before), kind="stable")
    return Lives(
        start=np.append(start, before)[order],
        end=np.append(end, np.where(blocks.state[rest] == State.active_pending_free, BEFORE, NEVER))[order],
        gone=np.append(gone, np.full(len(rest), NEVER))[order],
        address=np.append(events.address[at], blocks.address[rest])[order],
        size=np.append(events.size[at], blocks.requested[rest])[order],
        taken=np.append(taken, blocks.size[rest])[order],
        stream=np.append(events.stream[at], segments.stream[blocks.segment[rest]])[order],
        stack=np.append(events.stack[at], blocks.stack[rest])[order],
    )
