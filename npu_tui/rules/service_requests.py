"""Findings about requests of a service: those that wait, and those that compute again what was computed before."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import astuple, replace

from npu_tui.analysis.limits import (
    A_PART,
    FAR_LONGER,
    HALF,
    LITTLE,
    MORE_THAN_ONE,
    NEARLY_ALL,
    NOTABLE,
    SOME,
    UNSEEN,
    Threshold,
)
from npu_tui.analysis.service_blocks import MANY, USUAL_BLOCK, following_of
from npu_tui.analysis.service_cost import Cost
from npu_tui.analysis.service_host import of_range
from npu_tui.analysis.service_model import ServiceModel, twice, with_engines
from npu_tui.analysis.service_steps import Cycle
from npu_tui.analysis.service_timeline import TPOT, TTFT, Metric
from npu_tui.rules.rule import sentences
from npu_tui.rules.service_facts import SHARE, TAIL_SHARE, TELLING, Cause, Remedy, ServiceFacts, draft_of, known
from npu_tui.rules.service_repeats import without
from npu_tui.trace.arrays import F64, I64, Bools
from npu_tui.trace.intervals import union
from npu_tui.trace.message import Said, message
from npu_tui.trace.service import SWAPPERS, UNKNOWN, WHOLE_MS, plus


def lost_prefix(facts: ServiceFacts) -> Cause | None:
    """Some prompts had a beginning from the prefix cache that most others, as long as they, computed anew."""
    lat, requests = facts.latencies, facts.found.service.requests
    rows = np.flatnonzero((requests.rid >= 0) & np.isfinite(requests.hit_rate) & (requests.prompt_tokens > 0))
    rows = rows[np.isin(requests.rid[rows], facts.ttft.rids)]
    if len(rows) < TELLING:
        return None
    asked, rates = requests.prompt_tokens[rows], requests.hit_rate[rows]
    hits, given = rates > HALF, rates * asked
    engines = np.count_nonzero(facts.found.serves)
    most = NEARLY_ALL if engines > 1 else HALF  # the first one of each beginning has none anyway
    if not max(SOME, LITTLE * len(rows)) <= np.count_nonzero(hits) <= most * len(rows):
        return None
    known = float(np.median(given[hits]))
    same = (np.abs(given[hits] - known) <= LITTLE * known).mean() >= NEARLY_ALL
    lost = ~hits & (asked > known)
    alike = abs(float(np.median(asked[~hits]) / np.median(asked[hits])) - 1) <= A_PART
    if not (same and alike) or np.count_nonzero(lost) < NEARLY_ALL * np.count_nonzero(~hits):
        return None
    less, gone = np.zeros(len(lat.start), np.int64), np.flatnonzero(lost)  # by start
    if engines > 1:  # each instance computes every beginning once: one of them has to
        gone = gone[len(gone) // engines :]
    less[requests.rid[rows[gone]]] = round(known)
    remedy = partial(_shorter, less)
    if not facts.gains(remedy):
        return None
    share, tokens = facts.ttft.share(TTFT.prefill)[0], facts.tpot.share(TPOT.surcharge, TPOT.prompts)[0]
    words = {
        "count": int(lost.sum()), "all": len(rows), "known": round(known), "hits": int(hits.sum()), "engines": engines,
        "share": share, "tokens": tokens,
    }  # fmt: skip
    cost: F64 = lat.ttft_parts[:, TTFT.prefill] * (less / np.maximum(lat.prompt, 1)).clip(0, 1)
    kind = "spread" if engines > 1 else "evicted"
    return draft_of(
        max(share, tokens), "prefix_lost", f"prefix_{kind}", words, cost.astype(np.int64), facts.found.steps.prompts,
        remedy, f"service_prefix_{kind}",
    )  # fmt: skip


def _shorter(less: I64, model: ServiceModel) -> ServiceModel:
    """``model`` with prompts shorter by ``less`` tokens."""
    return replace(model, prompt=np.maximum(model.prompt - less[model.rids], 1))


LONG_PROMPT = Threshold("service_long_prompt", 8.0)


def queue(facts: ServiceFacts) -> Cause | None:
    """Requests wait because the batch is full, although KV blocks are free or unknown."""
    steps = facts.found.steps
    found = [(facts.ttft, facts.ttft.part(TTFT.queue_full)), (facts.tpot, facts.tpot.part(TPOT.queue_full))]
    metric, waits = max(found, key=lambda one: max(one[0].shares(one[1])))
    behind = np.minimum(facts.found.overtaken, facts.cost(TTFT.queue_full))
    shares, overtaken = metric.shares(waits), facts.ttft.shares(behind[facts.ttft.rids])
    passed = facts.model is not None and facts.model.rank is not None
    passed = passed and (facts.notable(overtaken) or facts.worth(overtaken, _in_turn))
    if not passed and not facts.notable(shares):
        return _prompts_wait(facts) or _heaps(facts)
    side, more = _short_side(facts)
    limited = facts.model is not None and any(engine.seqs < MANY for engine in facts.model.engines)
    now, then = facts.figures, facts.after(_more_room) if limited else None
    helps = then is not None and then["tpot_p99"] < MORE * now["tpot_p99"]
    helps = helps and _earlier(metric, now, then) >= HALF * _earlier(metric, now, facts.after(more))
    empty = _without_queue(facts)
    # A burst larger than a step can take, and no limit to raise: that is how the requests come.
    by_clients = not side and facts.model is not None and empty >= HALF
    by_clients = by_clients and facts.most(now, then) < facts.limits[SHARE]
    if by_clients and not passed and not _heaped(facts):  # chance brings several at a time
        return None
    words = {
        "share": max(shares), "metric": facts.called(metric), "most": int(steps.size.max()),
        "count": int((waits > 0).sum()), "all": len(waits),
        "mean": float(waits.mean()), "tokens": int((steps.prompts + steps.decoded).max()), "empty": empty,
    }  # fmt: skip
    if passed:
        words |= {"share": max(overtaken), "over": int(np.count_nonzero(behind[facts.ttft.rids]))}
        trait = facts.trait_of(behind)
        title = "queue_behind" if trait else "queue_overtaken"
        draft = draft_of(
            max(overtaken), title, "queue_overtaken_detail", words | (trait.words if trait else {}),
            behind,
            facts.held(TTFT.queue_full), _in_turn, "service_order",
        )  # fmt: skip
        return replace(draft, instead=("room", _more_room) if helps else ("second", more))
    if (gone := _run_on(facts, words)) is not None:
        return replace(gone, instead=("room", _more_room) if helps else ("second", more))
    if (endless := _at_limit(facts, words, more)) is not None:
        return replace(endless, instead=("room", _more_room) if helps else ("second", more))
    kind = "room" if helps else "burst" if empty >= HALF else "load"
    own = {"room": "queue_limited", "burst": "queue_in_bursts"}.get(kind, "queue")
    title = f"queue_at_{side}" if side else own
    draft = draft_of(
        max(shares), title, f"queue_{'places' if helps and not facts.knows_blocks else kind}", words,
        facts.cost(TTFT.queue_full, TPOT.queue_full), facts.held(TTFT.queue_full),
        _more_room if helps else _spread if kind == "burst" and not side else more,
        f"service_{kind if helps or not side else side}",
    )  # fmt: skip
    of_side = message(f"finding.service.queue_{side}", **words) if side else ""
    aborts = any("abort" in text.lower() for text in facts.found.service.texts)
    unseen = message("finding.service.queue_aborts") if kind != "burst" and not aborts else ""
    if by_clients:
        hint = _if_spread(facts)
        return replace(draft, hint=hint, remedy=_spread, likely=True) if hint else None
    instead: tuple[str, Remedy] | None = None
    if side == "prefill" and not helps:
        instead = "faster", partial(_faster, facts.found.serves)
    elif side and helps:
        instead = "second", more
    outrun = _outrun(facts) if kind != "burst" and not side else 0.0
    if outrun:
        told = message("finding.service.queue_outrun", **words)
        more_come = message("finding.service.queue_outrun_detail", times=outrun, **words)
        draft = replace(
            draft, title=told, detail=sentences(draft.detail, more_come), advice=(*draft.advice, "service_load")[:2]
        )  # fmt: skip
        instead = ("second", more) if helps else ("room", _more_room) if then is not None else None
    return replace(draft, detail=sentences(draft.detail, of_side, unseen), instead=instead)


def _outrun(facts: ServiceFacts) -> float:
    """How many times as fast as they end requests come, where they wait ever longer as long as some come; else 0."""
    lat, rids = facts.latencies, facts.ttft.rids[facts.latencies.whole[facts.ttft.rids] != UNKNOWN]
    order = rids[np.argsort(lat.start[rids], kind="stable")]
    start, waits = lat.start[order], lat.ttft_parts[order, TTFT.queue_full]
    parts = [float(part.mean()) for part in np.array_split(waits, SOME)] if len(order) >= TELLING else []
    ended = np.count_nonzero((lat.start + lat.whole)[order] <= start[-1]) if len(order) else 0
    times = len(order) / max(int(ended), 1)
    return times if parts and parts[0] < parts[1] < parts[2] and times > 1 + LITTLE else 0.0


class Gone(Struct, frozen=True, eq=False):
    """Requests that are computed on after their end: ``words`` count them, ``blame`` (steps,) in each step."""

    words: dict[str, Any]
    blame: I64
    remedy: Remedy


def _gone(facts: ServiceFacts) -> Gone | None:
    """Requests that have ended, as their client has gone, and are computed on; None if hardly any."""
    found, lat, steps = facts.found, facts.latencies, facts.found.steps
    ended = plus(lat.start, lat.whole)
    late = (ended != UNKNOWN)[found.pair_rid] & (steps.start[found.pair_step] > (ended + WHOLE_MS)[found.pair_rid])
    over = np.bincount(found.pair_rid[late], minlength=len(ended))
    gone = over >= SOME  # an engine may end one or two steps after the answer
    never = gone & (over == np.bincount(found.pair_rid, minlength=len(ended)))
    if gone.sum() < max(SOME, LITTLE * (lat.first >= 0).sum()):
        return None
    late &= gone[found.pair_rid]
    time = steps.cycle.sum(axis=1)[found.pair_step]
    words = {
        "gone": int(gone.sum()), "asked": int((lat.first >= 0).sum()), "held": float(time[late].sum() / time.sum()),
    }  # fmt: skip
    blame = np.bincount(found.pair_step[late], minlength=len(steps)).astype(np.int64)
    return Gone(words, blame, partial(_let_go, np.where(gone, over, 0), np.flatnonzero(never)))


def _run_on(facts: ServiceFacts, words: dict[str, Any]) -> Cause | None:
    """Requests that are computed on after their end keep the places that others wait for."""
    gone = _gone(facts)
    if gone is None or not facts.gains(gone.remedy):
        return None
    return draft_of(
        words["share"], "queue_gone", "queue_gone_detail", words | gone.words,
        facts.cost(TTFT.queue_full, TPOT.queue_full), gone.blame, gone.remedy, "service_gone",
    )  # fmt: skip


def _at_limit(facts: ServiceFacts, words: dict[str, Any], more: Remedy) -> Cause | None:
    """A few replies, all of the same length and far longer than the others, hold the places that others wait for."""
    found, lat, rids = facts.found, facts.latencies, facts.ttft.rids
    usual, longest = int(np.median(lat.tokens[rids])), int(lat.tokens[rids].max())
    far, most = np.flatnonzero(lat.tokens > FAR_LONGER * max(usual, 1)), np.flatnonzero(lat.tokens == longest)
    if len(most) < max(SOME, NEARLY_ALL * len(far)) or len(most) > A_PART * len(rids):
        return None
    remedy = partial(_answering, most, usual)
    if not facts.gives(remedy) >= HALF * facts.gives(more) > 0 or not facts.gains(remedy):
        return None
    time = found.steps.cycle.sum(axis=1)[found.pair_step]
    mine = np.isin(found.pair_rid, most)
    words = words | {
        "long": len(most), "asked": len(rids), "longest": longest, "usual": usual,
        "held": float(time[mine].sum() / max(int(time.sum()), 1)),
    }  # fmt: skip
    blame = np.bincount(found.pair_step[mine], minlength=len(found.steps)).astype(np.int64)
    return draft_of(
        words["share"], "queue_limit", "queue_limit_detail", words, facts.cost(TTFT.queue_full, TPOT.queue_full), blame,
        remedy, "service_limit",
    )  # fmt: skip


def _let_go(over: I64, never: I64, model: ServiceModel) -> ServiceModel:
    """``model`` in which each request leaves so many steps earlier, and those ``never`` taken leave the queue."""
    turns = np.maximum(model.turns - over[model.rids], 0)
    return without(never, replace(model, turns=turns))


def _if_spread(facts: ServiceFacts) -> Said:
    """The latencies if the same requests came evenly; empty if that would help the slowest ones little."""
    now, then = facts.figures, facts.after(_spread)
    if then is None or facts.most(now, then) < facts.limits[TAIL_SHARE]:
        return ""
    return message("finding.service.queue_if_spread", changes=facts.changes(then))


def _heaps(facts: ServiceFacts) -> Cause | None:
    """Requests come in heaps, more at a time than chance brings, and wait for each other, be it within batches.

    One heap is how a load begins.
    """
    found = _heaped(facts)
    if found is None:
        return None
    rids, most, expected, gap = found
    spread = partial(_elsewhen, rids)
    then = facts.after(spread)
    if then is None or facts.most(facts.figures, then) < facts.limits[TAIL_SHARE]:
        return None
    words = {"count": most, "usual": expected, "time": int(expected * gap), "all": len(rids)}
    waits = TTFT.queue_step, TTFT.queue_full, TTFT.queue_other, TTFT.prefill
    draft = draft_of(
        max(facts.ttft.share(*waits[:-1])), "heaps", "heaps_detail", words, facts.cost(*waits),
        np.where(facts.found.steps.prompts > 0, facts.found.steps.size, 0), spread, "service_burst",
    )  # fmt: skip
    told = message("finding.service.heaps_if", changes=facts.changes(then), **words)
    return replace(draft, hint=told, likely=True)


def _heaped(facts: ServiceFacts) -> tuple[I64, int, int, float] | None:
    """Who comes in heaps, the fullest one, how many are expected in its time, and the usual distance (ns) of two."""
    rids = facts.ttft.rids[np.argsort(facts.latencies.start[facts.ttft.rids], kind="stable")]
    start = facts.latencies.start[rids]
    gap = (start[-1] - start[0]) / max(len(start) - 1, 1)
    found = [_dense(start, gap, expected) for expected in _EXPECTED]
    chance, most, expected, heaped = min(found, key=lambda one: one[0])
    apart = np.append(True, ~heaped[:-1] | (np.diff(start) > gap))
    several = np.count_nonzero(heaped & apart) >= MORE_THAN_ONE
    return (rids[heaped], most, expected, gap) if several and chance * len(_EXPECTED) < UNSEEN else None


_EXPECTED = 1, 2, 5, 10, 20  # requests in windows of time that are tried


def _dense(start: I64, gap: float, expected: int) -> tuple[float, int, int, Bools]:
    """The densest windows of the length in which ``expected`` requests arrive on average, ``gap`` ns apart.

    Returns how many windows as full as the fullest one chance would bring, the requests in it, ``expected``, and which
    requests lie in a window that a Poisson process would bring less than once; (n,).
    """
    inside = np.searchsorted(start, start + expected * gap) - np.arange(len(start))
    below = np.cumsum(
        [math.exp(k * math.log(expected) - expected - math.lgamma(k + 1)) for k in range(inside.max() + 1)]
    )
    chance = len(start) * np.clip(1 - np.append(0, below), 0, 1)[inside]
    marks = np.zeros(len(start) + 1, np.int64)
    dense = np.flatnonzero(chance < 1)
    np.add.at(marks, dense, 1)
    np.add.at(marks, dense + inside[dense], -1)
    return float(chance.min()), int(inside.max()), expected, np.cumsum(marks)[:-1] > 0


def _elsewhen(heaped: I64, model: ServiceModel) -> ServiceModel:
    """``model`` with the requests ``heaped`` spread evenly over the whole time, the others as they are."""
    moved = np.flatnonzero(np.isin(model.rids, heaped))
    start = model.start.copy()
    start[moved] = np.linspace(start.min(), start.max(), len(moved)).astype(np.int64)
    return replace(model, start=start)


def _prompts_wait(facts: ServiceFacts) -> Cause | None:
    """Where prefill is apart: prompts share its passes or wait for the running one, and a second one would help."""
    found, steps = facts.found, facts.found.steps
    if found.serves.all() or facts.model is None:
        return None
    prefills = ~found.serves
    more = partial(twice, chosen=prefills)
    then, now = facts.after(more), facts.figures
    if then is None or not (gain := 1 - then["ttft_p50"] / now["ttft_p50"]) >= A_PART:
        return None
    mine = prefills[steps.engine] & (steps.size > 0)
    words = {"share": gain, "metric": facts.called(facts.ttft), "mean": float(steps.cycle[mine].sum(axis=1).mean()),
             "prompts": float(steps.size[mine].mean())}  # fmt: skip
    cost = (facts.cost(TTFT.prefill, TTFT.queue_step) * gain).astype(np.int64)
    draft = draft_of(
        gain, "queue_at_prefill", "queue_passes", words, cost,
        np.where(mine, steps.size, 0), more, "service_prefill",
    )  # fmt: skip
    return replace(draft, instead=("faster", partial(_faster, found.serves)), buys=True)


def _in_turn(model: ServiceModel) -> ServiceModel:
    return replace(model, rank=None)


MORE = 1.5
"""A larger batch or budget is no remedy if p99 of TPOT grows by this factor."""


def _spread(model: ServiceModel) -> ServiceModel:
    """``model`` with the same requests, evenly over the same time."""
    order = np.argsort(model.start, kind="stable")
    start = np.empty_like(model.start)
    start[order] = np.linspace(model.start.min(), model.start.max(), len(order)).astype(np.int64)
    return replace(model, start=start)


def _earlier(metric: Metric, now: dict[str, float], then: dict[str, float] | None) -> float:
    """The sum of the relative reductions of the figures of ``metric``, 0 where one is longer."""
    figures = [name for name in known(now, then) if name.startswith(metric.name)] if then else []
    return sum(max(1 - then[name] / now[name], 0.0) for name in figures) if then else 0.0


def _short_side(facts: ServiceFacts) -> tuple[str, Remedy]:
    """The side on which requests queue longest ("" if there is only one), and the remedy that doubles it."""
    found, waits = facts.found, facts.found.waited[:, TTFT.queue_full]
    if found.serves.all():
        return "", twice
    serves = bool(waits[found.serves].sum() > waits[~found.serves].sum())
    return "decode" if serves else "prefill", lambda model: twice(model, found.serves == serves)


def _faster(serves: Bools, model: ServiceModel) -> ServiceModel:
    """``model`` with forward passes of half the time on engines that do not serve."""
    engines = list(model.engines)
    for number in np.flatnonzero(~serves).tolist():
        engines[number] = replace(engines[number], cost=Cost(*(value / 2 for value in astuple(engines[number].cost))))
    return replace(model, engines=tuple(engines))


def _without_queue(facts: ServiceFacts) -> float:
    """The share of the time in which none of the requests that found the batch full waits for its first schedule."""
    found, lat = facts.found, facts.latencies
    waits = np.zeros(len(lat.start), np.bool_)
    for metric, reason in ((facts.ttft, TTFT.queue_full), (facts.tpot, TPOT.queue_full)):
        waits[metric.rids] |= metric.part(reason) > 0
    mine = waits[found.pair_rid[found.entries]]
    begin, end = union(found.came[mine], found.steps.opened[found.pair_step[found.entries[mine]]])
    span = int(found.steps.end.max()) - int(lat.start[facts.ttft.rids].min())
    return 1 - float((end - begin).sum() / max(span, 1))


def _more_room(model: ServiceModel) -> ServiceModel:
    return with_engines(model, seqs=MANY)


def kv(facts: ServiceFacts) -> Cause | None:
    """Requests wait for blocks of the KV cache, or lose theirs."""
    steps, batches = facts.found.steps, facts.found.service.batches
    short = steps.free[(steps.free != UNKNOWN) & (facts.found.queued == TTFT.queue_blocks)]
    total = int(batches.total_blocks.max()) if len(batches) else UNKNOWN
    again = facts.found.pair_admitted.copy()
    again[facts.found.entries] = False
    left_out = ((name, len(np.unique(facts.found.pair_rid[pairs])))
                for name, pairs in (("preempted", again), ("swapped", facts.found.pair_swapped)))  # fmt: skip
    taken = {name: count for name, count in left_out if count}
    shares = [(facts.ttft, facts.ttft.share(TTFT.queue_blocks)), (facts.tpot, facts.tpot.share(TPOT.queue_blocks))]
    metric, first = max(shares, key=lambda one: max(one[1]))
    tokens = facts.tpot.share(TPOT.preempted) if taken else (0.0, 0.0)
    if not (facts.notable(first) or facts.notable(tokens)):
        return None
    lost = [sum(count for _, count in one) for one in facts.found.room.lost]
    words = {
        "share": max(*first, *tokens), "first": max(first), "metric": facts.called(metric), "tokens": max(tokens),
        "lost": max(lost, default=0),
        **taken, "total": total if total > 0 else None, "free": int(np.median(short)) if len(short) else None,
        "steps": len(short), "ahead": max(facts.found.room.ahead, default=0),
    }  # fmt: skip
    usual = "first" if max(first) >= max(tokens) else "tokens"
    usual = "swaps" if usual == "first" and taken.get("swapped", 0) > taken.get("preempted", 0) else usual
    if (turns := _in_turns(facts, words)) is not None:
        return turns
    kind, remedy, more = _of_blocks(facts, any(lost)) or (usual, _more_blocks, {})
    words |= more
    return Cause(
        max(*first, *tokens), message(f"finding.service.kv_{kind}", **words),
        sentences(
            message(f"finding.service.kv_{'blocks' if total > 0 else 'left'}", **words) if len(short) else "",
            message("finding.service.kv_ahead", **words) if words["ahead"] and kind != "kept" else "",
            *(message(f"finding.service.kv_{name}", **words) for name in taken),
            message(f"finding.service.kv_{kind}_detail", **words) if more else "",
        ),
        facts.cost(TTFT.queue_blocks, TPOT.queue_blocks, TPOT.preempted), facts.held(TTFT.queue_blocks),
        remedy, ("SERVICE.KV" if remedy is _more_blocks else f"service_{kind}",),
        instead=("blocks", _more_blocks) if kind in _HOLDERS else _quick_swaps(facts) if taken else None,
    )  # fmt: skip


_HOLDERS = "answers", "head", "gone"  # kinds of requests that hold the blocks for which others wait


def _in_turns(facts: ServiceFacts, words: dict[str, Any]) -> Cause | None:
    """Requests that run miss steps though blocks are free: no pass decodes more than so many of them."""
    found, steps = facts.found, facts.found.steps
    missed = np.unique(found.pair_step[found.pair_swapped])
    decodes = np.bincount(found.pair_step[~found.pair_prompt], minlength=len(steps))
    most, free = int(decodes.max(initial=0)), steps.free[steps.free != UNKNOWN]
    blocks = max(facts.found.room.total, default=0)
    crowded = found.seated > most
    if not len(missed) or (len(free) and int(free.min()) < NOTABLE * blocks):
        return None
    if crowded.sum() < SOME or (decodes[crowded] == most).mean() < NEARLY_ALL:
        return None
    words = words | {"most": most, "seated": int(found.seated.max()), "crowded": int(crowded.sum()),
                     "steps": len(steps), "least": int(free.min()) if len(free) else None}  # fmt: skip
    return draft_of(
        words["share"], "turns", "turns_detail", words, facts.cost(TPOT.preempted),
        np.where(crowded, steps.size, 0), None, "service_turns",
    )  # fmt: skip


def _quick_swaps(facts: ServiceFacts) -> tuple[str, Remedy] | None:
    """What it would be if blocks were copied to the host and back in no time; None where that gains little."""
    found, parts = facts.found, (Cycle.schedule, Cycle.prepare, Cycle.forward, Cycle.sampling, Cycle.bubble)
    texts = found.service.texts
    named = [code for code, text in enumerate(texts) if any(word in text.lower() for word in SWAPPERS)]
    time = sum((of_range(found, code, *parts) for code in named), np.zeros_like(found.steps.cycle))
    remedy = facts.freed(time) if time.any() else None
    return ("swaps", remedy) if remedy and facts.gains(remedy, NOTABLE) else None


def _of_blocks(facts: ServiceFacts, loses: bool) -> tuple[str, Remedy, dict[str, Any]] | None:
    """Why blocks are short where another thing than more of them gives half as much as these do, and how to mend it.

    Blocks that are lost, of requests that have ended or reserved for longer answers, a few long answers that hold them,
    or one that does not fit and holds up those after it.
    """
    lat, rids = facts.latencies, facts.ttft.rids
    usual = int(np.median(lat.tokens[rids]))
    long = np.flatnonzero(lat.tokens > FAR_LONGER * max(usual, 1))
    long = long[np.isin(long, rids)]
    long_words = {"count": len(long), "usual": usual, "longest": int(lat.tokens[rids].max())}
    big = biggest(facts)
    tried: list[tuple[str, Remedy, dict[str, Any]]] = [("lost", _unlost, {})] if loses else []
    if (gone := _gone(facts)) is not None:
        tried.append(("gone", gone.remedy, gone.words))
    kept = max(facts.found.room.margin, default=0)
    total = max(facts.found.room.total, default=0)
    free = facts.found.steps.free[facts.found.steps.free != UNKNOWN]
    if kept >= NOTABLE * total > 0 and int(free.min(initial=kept)) >= kept:  # nor does any answer get these
        tried.append(("kept", _all_given, {"kept": kept, "total": total}))
    size, needed = facts.found.room.block, (facts.asked + lat.tokens)[rids]
    filled = float(np.median(needed / (-(-needed // max(size, 1)) * max(size, 1))))
    if size >= FAR_LONGER * USUAL_BLOCK and filled <= HALF:
        tried.append(("size", _small_blocks, {"block": size, "needed": round(float(np.median(needed)))}))
    if (room := facts.found.room).after:
        tried.append(("held", _given_back, {"after": room.after}))
    if room.reserved:
        tried.append(("reserved", _as_needed, long_words | {"reserved": room.spare * room.block, "spare": room.spare}))
    if 0 < len(long) <= len(rids) // 4:
        tried.append(("answers", partial(_answering, long, usual), long_words))
    if len(big):
        tried.append(("head", lambda model: with_engines(model, skips=True), {"count": len(big)}))
    most = facts.gives(_more_blocks) if tried else 0.0
    return next((one for one in tried if facts.gives(one[1]) >= HALF * most > 0), None)


def biggest(facts: ServiceFacts) -> I64:
    """The few requests with the longest prompts, if one is next in the queue for a part of the time that blocks lack.

    Once they have their blocks they leave too few to others: what it would be if these passed them gives the rest.
    """
    found, steps = facts.found, facts.found.steps
    held = np.zeros(len(facts.latencies.start), np.int64)
    for number in range(len(found.engines)):
        part, following = steps.of(number), following_of(found, number)
        if len(following):
            waits = np.where(found.queued[part] == TTFT.queue_blocks, steps.cycle[part].sum(axis=1), 0)
            np.add.at(held, found.pair_rid[following], waits)
    prompt = facts.latencies.prompt
    long = np.flatnonzero(prompt >= facts.limits[LONG_PROMPT] * np.median(prompt[facts.ttft.rids]))
    few = 0 < len(long) <= len(facts.ttft.rids) // 5
    return long if few and held[long].sum() >= A_PART * held.sum() > 0 else long[:0]


def _answering(long: I64, usual: int, model: ServiceModel) -> ServiceModel:
    """``model`` with answers of the ``usual`` number of tokens in the place of the ``long`` ones."""
    turns = np.maximum(np.rint((usual - 1) / model.growth), 1).astype(np.int64)
    chosen = np.isin(model.rids, long)
    answer = np.where(chosen, np.rint(turns * model.growth).astype(np.int64) + 1, model.answer)
    return replace(model, turns=np.where(chosen, turns, model.turns), answer=answer)


def _more_blocks(model: ServiceModel) -> ServiceModel:
    return with_engines(model, blocks=MANY)


def _all_given(model: ServiceModel) -> ServiceModel:
    """``model`` in which no block is kept back."""
    engines = (
        replace(one, blocks=one.room.total[number % len(one.room.total)], margin=0, ahead=0)
        for number, one in enumerate(model.engines)
    )
    return replace(model, engines=tuple(engines))


def _small_blocks(model: ServiceModel) -> ServiceModel:
    """``model`` with as much memory in blocks of the usual size."""
    engines = []
    for one in model.engines:
        times = max(one.room.block // USUAL_BLOCK, 1)
        room = replace(one.room, block=one.room.block // times, total=tuple(of * times for of in one.room.total))
        engines.append(replace(one, blocks=one.blocks * times if one.blocks < MANY else MANY, room=room))
    return replace(model, engines=tuple(engines))


def _given_back(model: ServiceModel) -> ServiceModel:
    """``model`` in which requests give their blocks back when they end."""
    engines = (replace(one, room=replace(one.room, after=0)) for one in model.engines)
    return replace(model, engines=tuple(engines))


def _as_needed(model: ServiceModel) -> ServiceModel:
    """``model`` in which requests take blocks as their answers grow."""
    engines = (replace(one, room=replace(one.room, spare=0, reserved=False)) for one in model.engines)
    return replace(model, engines=tuple(engines))


def _unlost(model: ServiceModel) -> ServiceModel:
    return with_engines(model, lost=())
