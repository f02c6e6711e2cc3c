"""The blocks of the KV cache of an inference service: how many tokens each holds, and how many a request takes."""

from __future__ import annotations

from functools import cache

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.limits import A_PART, ENOUGH, EVEN, HALF, LITTLE, LONG_NS, NEARLY_ALL, NOTABLE
from npu_tui.analysis.service_timeline import Latencies, Room, ServiceTimeline
from npu_tui.trace.arrays import F64, I64, Bools
from npu_tui.trace.service import UNKNOWN

MANY = 1 << 40
"""No limit."""
USUAL_BLOCK = 128  # tokens of a block that engines for NPUs take without another setting
_FEWEST = 30  # steps of either kind that show when requests are admitted
_TRIED = 33  # numbers of tokens of answers for which room may be left, up to twice the longest one
_SIZES = tuple(1 << power for power in range(3, 11))  # tokens of a block that are tried, 8 to 1,024
_MOST_SPARE = 2  # blocks beyond its context that each request may hold
_EXACT = 0.5
"""By so many blocks, on average, free ones and those of contexts may miss a constant total: a step rounds once."""


def room_of(found: ServiceTimeline) -> Room:
    """What the steps of ``found`` show: with the right size, free blocks and those of contexts are as many in all."""
    steps, engines = found.steps, range(len(found.engines))
    told, begun = found.service.batches.total_blocks, found.pair_step[found.entries]
    known = int(told.max()) if len(told) and told.max() > 0 else 0
    whole = (steps.size > 0) & (steps.size == found.seated) & (steps.prompts == 0) & (steps.free != UNKNOWN)
    again = found.pair_admitted.copy()
    again[found.entries] = False
    retaken = np.cumsum(again) > np.cumsum(again)[found.entries][np.cumsum(found.pair_admitted & ~again) - 1]
    whole &= np.bincount(found.pair_step, retaken, len(steps)) == 0  # what these hold, engines count in several ways
    context, of_engine = contexts(found), [np.flatnonzero(whole & (steps.engine == number)) for number in engines]
    fits: list[tuple[float, int, int, tuple[int, ...]]] = []
    losing: list[tuple[float, int, int, list[I64]]] = []
    for block in _SIZES if whole.any() else ():
        held = steps.free + np.bincount(found.pair_step, -(-context // block), len(steps))
        for spare in range(_MOST_SPARE + 1):
            totals = [(held + spare * steps.size)[mine] for mine in of_engine]
            middle = [float(np.median(total)) if len(total) else float(known) for total in totals]
            off = np.concatenate([np.abs(total - usual) for total, usual in zip(totals, middle, strict=True)])
            fits.append((float(off.mean()), block, spare, tuple(map(round, middle))))
            least = [np.minimum.accumulate(total) for total in totals]
            rises = np.concatenate([total - low for total, low in zip(totals, least, strict=True)])
            losing.append((float(rises.mean()), block, spare, least))
    away, block, spare, total = min(fits, default=(np.inf, 0, 0, ()))
    rise, *sizes, least = min(losing, key=lambda one: one[0], default=(np.inf, 0, 0, []))
    lost: tuple[tuple[tuple[int, int], ...], ...] = ()
    # Steps round and requests hold a block more for a while: what is lost is far more than that, and stays so.
    falls = any(low[0] - low[-1] > NOTABLE * low[0] for low in least if len(low))
    if away > max(_EXACT, EVEN * known) and rise <= LITTLE * away and falls:
        away, (block, spare), total = rise, sizes, tuple(int(low[0]) if len(low) else known for low in least)
        lost = tuple(_falls(steps.opened[mine], low) for mine, low in zip(of_engine, least, strict=True))
    reserved, after = _reserved(found, whole, away), 0
    late = None if reserved or lost else _held_after(found, whole, context, max(away, EVEN * known))
    if late:
        away, block, after, total = late
        spare = 0
    elif reserved:
        away, block, spare, total = reserved
    elif away > _EXACT or (known and any(count != known for count in total)):
        near = known and max((away, *(abs(count - known) for count in total))) <= EVEN * known
        block, spare, total = *((block, spare) if near else (_block(found), 0)), tuple(known for _ in engines)
    free = np.where(steps.free == UNKNOWN, MANY, steps.free)
    fewest = [int(free[begun[steps.engine[begun] == number]].min(initial=MANY)) for number in engines]
    room = Room(block, spare, total, tuple(fewest), lost, reserved=reserved is not None, after=after)
    kept = [(0, _margin(found, number, room)) for number in engines]
    if not reserved:
        kept = [_ahead(found, number, room, margin) for number, (_, margin) in enumerate(kept)]
    return replace(room, ahead=tuple(ahead for ahead, _ in kept), margin=tuple(margin for _, margin in kept))


def _reserved(found: ServiceTimeline, whole: Bools, away: float) -> tuple[float, int, int, tuple[int, ...]] | None:
    """Blocks for longer answers that each request gets with its prompt: how exactly, of what size, how many, for which.

    Those of prompts and so many more of each request leave the free ones, nearer than ``away`` of contexts.
    """
    steps, prompt, tried = found.steps, found.latencies.prompt[found.pair_rid].clip(0), []
    mine, engine = np.flatnonzero(whole), steps.engine[whole]
    if len(mine) < _FEWEST or np.ptp(steps.size[mine]) == 0:
        return None
    for block in _SIZES:
        held = (steps.free + np.bincount(found.pair_step, -(-prompt // block), len(steps)))[mine]
        spare = max(round(-float(np.polyfit(steps.size[mine], held, 1)[0])), 0)
        total = [(held + spare * steps.size[mine])[engine == number] for number in range(len(found.engines))]
        middle = tuple(round(float(np.median(of))) if len(of) else 0 for of in total)
        off = np.concatenate([np.abs(of - usual) for of, usual in zip(total, middle, strict=True)])
        tried.append((float(off.mean()), block, spare, middle))
    best = min(tried)
    return best if best[0] <= min(_EXACT, away) and best[2] > _MOST_SPARE else None


def _held_after(
    found: ServiceTimeline, whole: Bools, context: F64, away: float
) -> tuple[float, int, int, tuple[int, ...]] | None:
    """How long requests keep their blocks after their last step, where these and free ones are then as many in all.

    How exactly, the tokens of a block, that time in ns, and how many blocks each engine has; None where it is not
    nearer than ``away`` by half.
    """
    steps, lat, mine = found.steps, found.latencies, np.flatnonzero(whole)
    ended = np.flatnonzero(lat.last >= 0)
    if min(len(mine), len(ended)) < _FEWEST or len(found.engines) > 1:
        return None
    ended = ended[np.argsort(steps.end[lat.last[ended]], kind="stable")]
    moment, opened = steps.end[lat.last[ended]], steps.opened[mine]
    last = np.zeros(len(lat.start))
    np.maximum.at(last, found.pair_rid, context)
    longest = _FAR * float(np.median(np.diff(moment))) * max(int(np.median(steps.size[mine])), 1)

    @cache
    def of_block(block: int) -> tuple[I64, I64]:
        """How many blocks are gone after each end, and how many are held or free or gone at each moment."""
        gone = np.append(0, np.cumsum(-(-last[ended] // block)))
        held = np.bincount(found.pair_step, -(-context // block), len(steps))[mine] + steps.free[mine]
        return gone, held + gone[ends_before(0.0)]

    @cache
    def ends_before(after: float) -> I64:
        """How many requests ended so long before each moment."""
        return np.searchsorted(moment, opened - after, "right")

    low, high = (len(mine) - 1) // 2, len(mine) // 2

    def tried(block: int, after: float) -> tuple[float, int, int, tuple[int, ...]]:
        gone, held = of_block(block)
        total = held - gone[ends_before(after)]
        part = np.partition(total, (low, high))  # np.median takes twice as long, and there are 1,100 trials
        usual = float(part[low] + part[high]) / 2
        return float(np.abs(total - usual).mean()), block, round(after), (round(usual),)

    best = min(tried(block, after) for block in _SIZES for after in np.linspace(0, longest, 4 * _TRIED).tolist())
    for width in (longest / (4 * _TRIED), longest / (4 * _TRIED) ** 2):
        near = np.linspace(max(best[2] - width, 0), best[2] + width, _TRIED).tolist()
        best = min(best, min(tried(best[1], after) for after in near))
    return best if best[0] <= HALF * away and best[0] <= LITTLE * best[3][0] and best[2] > LONG_NS else None


_FAR = 20  # requests that ended one after another, times those that run: so long blocks are looked for


def _falls(moment: I64, low: I64) -> tuple[tuple[int, int], ...]:
    """(moment, decrease) of each value of ``low`` that is lower than the one before it."""
    at = np.flatnonzero(np.diff(low)) + 1
    return tuple(zip(moment[at].tolist(), (low[at - 1] - low[at]).astype(np.int64).tolist(), strict=True))


def _margin(found: ServiceTimeline, number: int, room: Room) -> int:
    """The least free blocks after an admission are a margin if they are few, or if requests wait for lack of them."""
    steps, part, least, total = found.steps, found.steps.of(number), room.margin[number], room.total[number]
    if least <= EVEN * total:
        return max(least, 0)
    following = following_of(found, number)
    if least > A_PART * total or not len(following):
        return 0
    seated, need = found.seated[part], room_for(found, following)
    waits = (came_to(found, following) < steps.opened[part]) & (seated < seated.max())
    waits &= (found.pair_step[following] > np.arange(part.start, part.stop)) & (steps.free[part] != UNKNOWN)
    short = steps.free[part] - room.blocks(need) < least
    return least if waits.sum() >= ENOUGH and short[waits].mean() >= NEARLY_ALL else 0


def _ahead(found: ServiceTimeline, number: int, room: Room, margin: int) -> tuple[int, int]:
    """For how many tokens of answers an engine leaves room when it admits a request, and how many blocks more.

    With the right number of tokens what is left after admissions is more than what those that wait would leave, in
    nearly all steps; without any (0, ``margin``) it is not.
    """
    steps, part, following = found.steps, found.steps.of(number), following_of(found, number)
    admitted = np.unique(found.pair_step[found.entries])
    admitted = admitted[(steps.engine[admitted] == number) & (steps.free[admitted] != UNKNOWN)]
    admitted = admitted[steps.size[admitted] > 1]  # a request alone is admitted in any case
    if not len(following):
        return 0, margin
    seated, need, free = found.seated[part], room_for(found, following), steps.free[part]
    waits = (came_to(found, following) < steps.opened[part]) & (seated < seated.max()) & (free != UNKNOWN)
    waits &= found.pair_step[following] > np.arange(part.start, part.stop)
    if min(waits.sum(), len(admitted)) < _FEWEST:
        return 0, margin
    tried = []
    longest = int(found.latencies.tokens.max(initial=0))
    for ahead in np.unique(np.linspace(0, 2 * longest, _TRIED).astype(np.int64)).tolist():
        still = ahead_in(found, room, ahead)
        left = (steps.free - still)[admitted]
        would = (free - still[part] - room.blocks(need + ahead))[waits]
        levels = np.unique(np.append(left, would))
        below = np.searchsorted(np.sort(left), levels) / len(left)
        above = 1 - np.searchsorted(np.sort(would), levels) / len(would)
        best = int(np.argmin(below + above))
        tried.append((float((below + above)[best]), ahead, int(levels[best])))
    best_of = min(tried)
    sure = best_of[0] <= min(NOTABLE, HALF * tried[0][0])
    return best_of[1:] if sure and best_of[1] else (0, margin)


def ahead_in(found: ServiceTimeline, room: Room, ahead: int) -> I64:
    """The blocks (steps,) that the requests of each step may still take for ``ahead`` tokens of their answers."""
    most = room.blocks(found.latencies.prompt[found.pair_rid] + ahead)
    held = room.blocks(np.ceil(contexts(found)).astype(np.int64))
    return np.bincount(found.pair_step, np.maximum(most - held, 0), len(found.steps)).astype(np.int64)


def following_of(found: ServiceTimeline, number: int) -> I64:
    """The pair admitted next, at first or again, after each step of an engine; after the last one, the last pair."""
    part = found.steps.of(number)
    mine = np.flatnonzero(found.pair_admitted)
    came_with = found.pair_step[mine]
    mine = mine[(came_with >= part.start) & (came_with < part.stop)]
    mine = mine[np.argsort(found.pair_step[mine], kind="stable")]
    at = np.searchsorted(found.pair_step[mine], np.arange(part.start, part.stop), "right")
    following: I64 = mine[np.minimum(at, len(mine) - 1)] if len(mine) else mine
    return following


def room_for(found: ServiceTimeline, pairs: I64) -> I64:
    """The tokens for which there must be room to admit each of ``pairs``: its prompt, or all that it computes again."""
    anew = np.setdiff1d(np.flatnonzero(found.pair_admitted), found.entries)
    total = np.append(0, np.cumsum(np.where(found.pair_prompt, found.pair_tokens, 0)))
    begins = np.flatnonzero(found.pair_admitted)
    ends = np.append(begins, len(found.pair_rid))[np.searchsorted(begins, pairs, "right")]
    again = total[ends] - total[pairs]
    tokens: I64 = np.where(np.isin(pairs, anew), again, found.latencies.prompt[found.pair_rid[pairs]])
    return tokens


def came_to(found: ServiceTimeline, pairs: I64) -> I64:
    """When the request of each admitted one of ``pairs`` came to the engine, or had to leave its batch."""
    came = found.steps.end[found.pair_step[np.maximum(pairs - 1, 0)]]
    at = np.minimum(np.searchsorted(found.entries, pairs), max(len(found.entries) - 1, 0))
    return np.where(found.entries[at] == pairs, found.came[at], came)


def _block(found: ServiceTimeline) -> int:
    """The tokens of a block, a power of two."""
    steps, most = found.steps, 0.0
    for number in np.unique(steps.engine).tolist():  # a decode engine allocates for prompts that it does not compute
        part = steps.of(number)
        allocated = steps.allocated[part]
        most = max(most, float((steps.prompts + steps.decoded)[part].sum() / max(allocated[allocated > 0].sum(), 1)))
    known = bool((steps.allocated > 0).any())
    return 1 << int(np.ceil(np.log2(max(most, 1)))) if known else USUAL_BLOCK


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
