"""The lives of blocks: allocations paired with what gave them back, and those the history does not begin or end."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu_tui.trace.arrays import I64
from npu_tui.trace.snapshot import (
    ALLOC,
    BEFORE,
    FREE_COMPLETED,
    FREE_REQUESTED,
    INACTIVE,
    NEVER,
    PENDING,
    Blocks,
    Events,
    Lives,
    Segments,
)


def lives_of(events: Events, segments: Segments, blocks: Blocks) -> Lives:
    """Every block that ``events`` or the ``blocks`` at the end tell of, by the event that began it."""
    at = np.flatnonzero(np.isin(events.action, (ALLOC, FREE_REQUESTED, FREE_COMPLETED)))
    at = at[np.lexsort((at, events.address[at]))]
    action, address = events.action[at], events.address[at]
    same = np.append(address[1:] == address[:-1], False)  # whether the next one is of the same address
    first = np.append(True, ~same[:-1])[: len(at)]

    def following(step: int, wanted: int) -> npt.NDArray[np.bool_]:
        """Whether the event ``step`` further on is a ``wanted`` one of the same address."""
        there = np.zeros(len(at), np.bool_)
        if len(at) > step:
            there[:-step] = (address[step:] == address[:-step]) & (action[step:] == wanted)
        return there

    def index(step: int) -> I64:
        return np.append(at[step:], np.full(min(step, len(at)), NEVER))

    begun = action == ALLOC
    earlier = np.append(np.int8(-1), action[:-1])[: len(at)]
    # A release without an allocation before it is of a block older than the history.
    older = ~begun & (first | ((action == FREE_REQUESTED) & (earlier != ALLOC)))
    older |= (action == FREE_COMPLETED) & ~first & (earlier == FREE_COMPLETED)
    end, gone = np.full(len(at), NEVER), np.full(len(at), NEVER)
    requested, completed = following(1, FREE_REQUESTED), following(1, FREE_COMPLETED)
    here = begun & requested
    end[here] = index(1)[here]
    late = here & following(2, FREE_COMPLETED)
    gone[late] = index(2)[late]
    here = begun & completed
    end[here] = gone[here] = index(1)[here]
    # The memory was given out again: its release is missing.
    here = begun & following(1, ALLOC)
    end[here] = gone[here] = index(1)[here]
    here = begun & requested & following(2, ALLOC)
    gone[here] = index(2)[here]
    end[older] = at[older]
    here = older & (action == FREE_COMPLETED)
    gone[here] = at[here]
    here = older & (action == FREE_REQUESTED) & completed
    gone[here] = index(1)[here]
    start = np.where(begun, at, BEFORE)
    kept = begun | older
    at, start, end, gone = at[kept], start[kept], end[kept], gone[kept]

    live = np.flatnonzero(blocks.state != INACTIVE)
    # A block at the end belongs to the last life of its address, if that has no end.
    open_at = np.flatnonzero(gone == NEVER)
    order = np.argsort(events.address[at[open_at]], kind="stable")
    known = events.address[at[open_at]][order]
    place = np.searchsorted(known, blocks.address[live], "right") - 1
    matched = (place >= 0) & (known[np.maximum(place, 0)] == blocks.address[live]) if len(known) else place >= 0
    taken = np.full(len(at), -1, np.int64)
    owner = open_at[order[place[matched]]] if len(known) else np.zeros(0, np.int64)
    taken[owner] = blocks.size[live[matched]]
    rest = live[~matched]
    pending = blocks.state[rest] == PENDING
    count = len(rest)
    joined = Lives(
        start=np.concatenate((start, np.full(count, BEFORE))),
        end=np.concatenate((end, np.where(pending, BEFORE, NEVER))),
        gone=np.concatenate((gone, np.full(count, NEVER))),
        address=np.concatenate((events.address[at], blocks.address[rest])),
        size=np.concatenate((events.size[at], blocks.requested[rest])),
        taken=np.concatenate((taken, blocks.size[rest])),
        stream=np.concatenate((events.stream[at], segments.stream[blocks.segment[rest]])),
        stack=np.concatenate((events.stack[at], blocks.stack[rest])),
    )
    order = np.argsort(joined.start, kind="stable")
    return Lives(*(getattr(joined, name)[order] for name in Lives.__struct_fields__))
