"""The blocks of the KV cache of an inference service: how many tokens each holds, and how many a request takes."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.limits import A_PART, ENOUGH, EVEN, NEARLY_ALL
from npu_tui.analysis.service_timeline import Latencies, Room, ServiceTimeline
from npu_tui.trace.arrays import F64, I64
from npu_tui.trace.service import UNKNOWN

MANY = 1 << 40
"""No limit."""
_ASSUMED = 128
"""Tokens of a block where the tables do not tell."""
_SIZES = tuple(1 << power for power in range(3, 11))
_MOST_SPARE = 2
_EXACT = 0.5
"""By so many blocks, on average, free ones and those of contexts may miss a constant total: a step rounds once."""


def room_of(found: ServiceTimeline) -> Room:
    """What the steps of ``found`` tell: with the right size, free blocks and those of contexts are as many in all."""
    steps, engines = found.steps, range(len(found.engines))
    told, begun = found.service.batches.total_blocks, found.pair_step[found.entries]
    known = int(told.max()) if len(told) and told.max() > 0 else 0
    whole = (steps.size > 0) & (steps.size == found.seated) & (steps.prompts == 0) & (steps.free != UNKNOWN)
    context, of_engine = contexts(found), [np.flatnonzero(whole & (steps.engine == number)) for number in engines]
    fits: list[tuple[float, int, int, tuple[int, ...]]] = []
    for block in _SIZES if whole.any() else ():
        held = steps.free + np.bincount(found.pair_step, -(-context // block), len(steps))
        for spare in range(_MOST_SPARE + 1):
            totals = [(held + spare * steps.size)[mine] for mine in of_engine]
            middle = [float(np.median(total)) if len(total) else float(known) for total in totals]
            off = np.concatenate([np.abs(total - usual) for total, usual in zip(totals, middle, strict=True)])
            fits.append((float(off.mean()), block, spare, tuple(map(round, middle))))
    away, block, spare, total = min(fits, default=(np.inf, 0, 0, ()))
    if away > _EXACT or (known and any(count != known for count in total)):
        near = known and max((away, *(abs(count - known) for count in total))) <= EVEN * known
        block, spare, total = *((block, spare) if near else (_block(found), 0)), tuple(known for _ in engines)
    free = np.where(steps.free == UNKNOWN, MANY, steps.free)
    least = [int(free[begun[steps.engine[begun] == number]].min(initial=MANY)) for number in engines]
    room = Room(block, spare, total, tuple(least))
    return replace(room, margin=tuple(_margin(found, number, room) for number in engines))


def _margin(found: ServiceTimeline, number: int, room: Room) -> int:
    """The least free blocks after an admission are a margin if they are few, or if requests wait for want of them."""
    steps, part, least, total = found.steps, found.steps.of(number), room.margin[number], room.total[number]
    if least <= EVEN * total:
        return max(least, 0)
    following = following_of(found, number)
    if least > A_PART * total or not len(following):
        return 0
    seated, need = found.seated[part], found.latencies.prompt[found.pair_rid[found.entries[following]]]
    waits = (found.came[following] < steps.opened[part]) & (seated < seated.max()) & (steps.free[part] != UNKNOWN)
    waits &= found.pair_step[found.entries[following]] > np.arange(part.start, part.stop)
    short = steps.free[part] - room.blocks(need) < least
    return least if waits.sum() >= ENOUGH and short[waits].mean() >= NEARLY_ALL else 0


def following_of(found: ServiceTimeline, number: int) -> I64:
    """The entry that is next after each step of an engine, the last one after the last; empty without any."""
    part, came_with = found.steps.of(number), found.pair_step[found.entries]
    mine = np.flatnonzero((came_with >= part.start) & (came_with < part.stop))
    mine = mine[np.argsort(came_with[mine], kind="stable")]
    at = np.searchsorted(came_with[mine], np.arange(part.start, part.stop), "right")
    return mine[np.minimum(at, len(mine) - 1)] if len(mine) else mine


def _block(found: ServiceTimeline) -> int:
    """The tokens of a block, a power of two."""
    steps, most = found.steps, 0.0
    for number in np.unique(steps.engine).tolist():  # a decode engine allocates for prompts that it does not compute
        part = steps.of(number)
        allocated = steps.allocated[part]
        most = max(most, float((steps.prompts + steps.decoded)[part].sum() / max(allocated[allocated > 0].sum(), 1)))
    known = bool((steps.allocated > 0).any())
    return 1 << int(np.ceil(np.log2(max(most, 1)))) if known else _ASSUMED


def contexts(found: ServiceTimeline) -> F64:
    """The tokens that each pair has in the cache, those of its step included."""
    # A draft that is not accepted leaves nothing in the context.
    stays = np.where(found.pair_prompt, found.pair_tokens, growth_of(found.latencies)[found.pair_rid])
    total = np.append(0, np.cumsum(stays))
    begin = np.maximum.accumulate(np.where(found.pair_admitted, np.arange(len(stays)), 0))
    context: F64 = total[:-1] - total[begin] + found.pair_tokens
    if len(found.service.transfers):  # a decode engine holds a context that it did not compute
        engine = found.steps.engine
        here, first = engine[found.pair_step], engine[found.latencies.first[found.pair_rid]]
        context += np.where(found.serves[here] & (first != here), found.latencies.prompt[found.pair_rid].clip(0), 0)
    return context


def growth_of(lat: Latencies) -> F64:
    """How many tokens each request got in a step after the first; 1 without drafts."""
    turns = np.maximum(lat.turns, 0)
    growth: F64 = np.where(turns > 0, np.maximum(np.maximum(lat.tokens, 1) - 1, turns) / np.maximum(turns, 1), 1.0)
    return growth
