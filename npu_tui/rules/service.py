"""Findings about an inference service: why requests wait, and what makes their tokens slow."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from msgspec.structs import astuple, replace

from npu_tui.analysis.limits import A_PART, HALF
from npu_tui.analysis.service_blocks import MANY
from npu_tui.analysis.service_cost import Cost
from npu_tui.analysis.service_latency import surcharges
from npu_tui.analysis.service_replay import (
    ServiceModel,
    accepted,
    twice,
    undrafted,
    with_engines,
)
from npu_tui.analysis.service_steps import Cycle, Work
from npu_tui.analysis.service_timeline import TPOT, TTFT, Metric
from npu_tui.analysis.thresholds import AnyThreshold, Threshold
from npu_tui.rules.rule import Skipped, sentences
from npu_tui.rules.service_engines import RANK_LOAD, rank, stall, workers
from npu_tui.rules.service_facts import (
    COMPUTING,
    SHARE,
    SLOWER,
    TAIL_SHARE,
    Cause,
    Remedy,
    ServiceFacts,
    ServiceRule,
    draft_of,
    known,
)
from npu_tui.rules.service_parts import FEWEST_REQUESTS, every_bubble, frontend, part, transfer
from npu_tui.trace.arrays import I64, Bools
from npu_tui.trace.intervals import union
from npu_tui.trace.message import Message, Said, message
from npu_tui.trace.service import UNKNOWN

LONG_PROMPT = Threshold("service_long_prompt", 8.0)
ACCEPTED = Threshold("service_accepted", 0.3)
HIT_FALL = Threshold("service_hit_fall", 0.2)

_CHUNK = 512  # tokens of a prompt per step, which the advice and its replay ask for
_BOOK = "https://gitcode.com/Ascend/msprof/tree/master/docs/zh/best_practices"


def _queue(facts: ServiceFacts) -> Cause | None:
    """Requests wait because the batch is full, though blocks are free or nothing tells of them."""
    steps = facts.found.steps
    found = [(facts.ttft, facts.ttft.part(TTFT.queue_full)), (facts.tpot, facts.tpot.part(TPOT.queue_full))]
    metric, waits = max(found, key=lambda one: max(one[0].shares(one[1])))
    shares = metric.shares(waits)
    if not facts.notable(shares):
        return _prompts_wait(facts)
    side, more = _short_side(facts)
    limited = facts.model is not None and any(engine.seqs < MANY for engine in facts.model.engines)
    now, then = facts.figures, facts.after(_more_room) if limited else None
    helps = then is not None and then["tpot_p99"] < _MORE * now["tpot_p99"]
    helps = helps and _earlier(metric, now, then) >= HALF * _earlier(metric, now, facts.after(more))
    empty = _without_queue(facts)
    # A burst of more than a step takes, and no limit that could be lifted: that is how the requests come.
    by_clients = not side and facts.model is not None and empty >= HALF
    by_clients = by_clients and facts.most(now, then) < facts.limits[SHARE]
    words = {
        "share": max(shares), "metric": facts.called(metric), "most": int(steps.size.max()),
        "count": int((waits > 0).sum()), "all": len(waits),
        "mean": float(waits.mean()), "tokens": int((steps.prompts + steps.decoded).max()), "empty": empty,
    }  # fmt: skip
    overtaken = facts.ttft.shares(facts.found.overtaken[facts.ttft.rids])
    if facts.model is not None and facts.model.rank is not None and facts.notable(overtaken):
        words |= {"share": max(overtaken), "over": int(np.count_nonzero(facts.found.overtaken[facts.ttft.rids]))}
        draft = draft_of(
            max(overtaken), "queue_overtaken", "queue_overtaken_detail", words, facts.found.overtaken,
            facts.held(TTFT.queue_full), _in_turn, "service_order",
        )  # fmt: skip
        return replace(draft, instead=("room", _more_room) if helps else ("second", more))
    kind = "room" if helps else "burst" if empty >= HALF else "load"
    title = f"queue_at_{side}" if side else "queue" if kind != "burst" else "queue_in_bursts"
    draft = draft_of(
        max(shares), title, f"queue_{'places' if helps and not facts.knows_blocks else kind}", words,
        facts.cost(TTFT.queue_full, TPOT.queue_full), facts.held(TTFT.queue_full),
        _more_room if helps else _spread if kind == "burst" and not side else more,
        f"service_{kind if helps or not side else side}",
    )  # fmt: skip
    said = message(f"finding.service.queue_{side}", **words) if side else ""
    aborts = any("abort" in text.lower() for text in facts.found.service.texts)
    gone = message("finding.service.queue_aborts") if kind != "burst" and not aborts else ""
    if by_clients:
        hint = _if_spread(facts)
        return replace(draft, hint=hint, remedy=_spread) if hint else None
    faster = ("faster", partial(_faster, facts.found.serves)) if side == "prefill" and not helps else None
    return replace(draft, detail=sentences(draft.detail, said, gone), instead=faster)


def _if_spread(facts: ServiceFacts) -> Said:
    """What it would be if the same requests came evenly; empty where that would hardly help the slowest ones."""
    now, then = facts.figures, facts.after(_spread)
    if then is None or facts.most(now, then) < facts.limits[TAIL_SHARE]:
        return ""
    best = max(known(now, then), key=lambda name: now[name] / then[name])
    words = {"figure": message(f"service.figure.{best}"), "now": now[best], "then": then[best]}
    return message("finding.service.queue_if_spread", **words)


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
    return replace(draft, instead=("faster", partial(_faster, found.serves)))


def _in_turn(model: ServiceModel) -> ServiceModel:
    return replace(model, rank=None)


_MORE = 1.5
"""More places are the remedy that gives half of what a second instance does, unless tokens take so much longer."""


def _spread(model: ServiceModel) -> ServiceModel:
    """``model`` with the same requests in the same time, one as long after the other."""
    order = np.argsort(model.start, kind="stable")
    start = np.empty_like(model.start)
    start[order] = np.linspace(model.start.min(), model.start.max(), len(order)).astype(np.int64)
    return replace(model, start=start)


def _earlier(metric: Metric, now: dict[str, float], then: dict[str, float] | None) -> float:
    """By how much what ``metric`` measures is shorter, the sum of the shares of both figures."""
    figures = [name for name in known(now, then) if name.startswith(metric.name)] if then else []
    return sum(max(1 - then[name] / now[name], 0.0) for name in figures) if then else 0.0


def _short_side(facts: ServiceFacts) -> tuple[str, Remedy]:
    """The side on which most requests wait, prefill or decode, where they are apart, and more instances of it."""
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


def _chunks(facts: ServiceFacts) -> Cause | None:
    """Steps take few tokens, so that prompts take many of them: with more, first tokens come earlier."""
    found, now = facts.found, facts.figures
    chunks = np.bincount(found.pair_rid[found.pair_prompt], minlength=len(facts.latencies.prompt))
    each = float(chunks[facts.ttft.rids].mean())
    if each < _SEVERAL or facts.model is None:
        return None
    budget = min(engine.budget for engine in facts.model.engines)
    then = facts.after(_larger) if budget < MANY else None
    if then is None or not then["tpot_p99"] < _MORE * now["tpot_p99"]:
        return None
    median, tail = (1 - then[name] / now[name] for name in ("ttft_p50", "ttft_p99"))  # NaN where the replay is off
    if not facts.notable((median, tail)):
        return None
    parts = facts.cost(TTFT.prefill, TTFT.other, TTFT.bubble, TTFT.batching)
    words = {"budget": budget, "chunks": each, "times": _LARGER}
    return draft_of(
        float(np.nanmax([median, tail])), "chunks", "chunks_detail", words,
        (parts * (1 - 1 / np.maximum(chunks, 1))).astype(np.int64),
        np.where(found.steps.prompts + found.steps.decoded >= budget, found.steps.prompts, 0), _larger,
    )  # fmt: skip


def _larger(model: ServiceModel) -> ServiceModel:
    engines = (replace(one, budget=_LARGER * one.budget if one.chunked else one.budget) for one in model.engines)
    return replace(model, engines=tuple(engines))


_LARGER, _SEVERAL = 4, 2  # times the budget that is tried, and chunks of a prompt from which it is worth trying


def _bubble(facts: ServiceFacts) -> Cause | None:
    """Nothing runs between steps, time after time."""
    of_stalls, whole = facts.found.paused.sum(), facts.found.steps.cycle[:, Cycle.bubble].sum()
    return every_bubble(facts) if 2 * of_stalls < whole else None


def _kv(facts: ServiceFacts) -> Cause | None:
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
        "steps": len(short),
    }  # fmt: skip
    then = facts.after(_unlost) if any(lost) else None
    leaks = then is not None and facts.most(facts.figures, then) >= HALF * facts.most(
        facts.figures, facts.after(_more_blocks)
    )
    kind = "lost" if leaks else "first" if max(first) >= max(tokens) else "tokens"
    return Cause(
        max(*first, *tokens), message(f"finding.service.kv_{kind}", **words),
        sentences(
            message(f"finding.service.kv_{'blocks' if total > 0 else 'left'}", **words) if len(short) else "",
            *(message(f"finding.service.kv_{name}", **words) for name in taken),
        ),
        facts.cost(TTFT.queue_blocks, TPOT.queue_blocks, TPOT.preempted), facts.held(TTFT.queue_blocks),
        _unlost if leaks else _more_blocks, ("service_lost" if leaks else "SERVICE.KV",),
    )  # fmt: skip


def _more_blocks(model: ServiceModel) -> ServiceModel:
    return with_engines(model, blocks=MANY)


def _unlost(model: ServiceModel) -> ServiceModel:
    return with_engines(model, lost=())


def _wait(facts: ServiceFacts) -> Cause | None:
    """Requests wait although the batch has room and blocks are free."""
    if not facts.holds:
        return None
    share = max(facts.ttft.share(TTFT.queue_other))
    return draft_of(
        share, "wait", "wait_detail", {"share": share}, facts.cost(TTFT.queue_other), facts.held(TTFT.queue_other),
        lambda model: replace(model, held=np.zeros_like(model.held)),
    )  # fmt: skip


def _mix(facts: ServiceFacts) -> Cause | None:
    """Prompts are computed in or between the steps that decode, most of all a few long ones."""
    lat, steps = facts.latencies, facts.found.steps
    prompts = lat.prompt[facts.ttft.rids]
    prompts = prompts[prompts > 0]
    if not len(prompts):
        return None
    usual = float(np.median(prompts))
    long = np.flatnonzero(lat.prompt >= facts.limits[LONG_PROMPT] * usual)
    few = 0 < len(long) <= len(prompts) // 5
    pairs, stuck = facts.found.pair_prompt & (np.isin(facts.found.pair_rid, long) | (not few)), facts.found.stuck
    shown = np.zeros(len(steps), bool)
    shown[facts.found.pair_step[pairs]] = True
    extra = np.where(steps.work == Work.prefill, steps.cycle.sum(axis=1) - stuck, surcharges(steps, stuck)) * shown
    total = np.append(0, np.cumsum(extra))
    passed = total[np.maximum(lat.last, lat.token) + 1] - total[lat.token + 1]
    cost = np.minimum(passed, facts.cost(TPOT.surcharge, TPOT.prompts))
    cost = np.where((lat.token >= 0) & (lat.tpot != UNKNOWN), cost, 0)
    shares = facts.tpot.shares(cost[facts.tpot.rids])
    chunked = facts.model is None or all(engine.chunked for engine in facts.model.engines)
    remedy = _in_chunks if not chunked else partial(_elsewhere, long, round(usual)) if few else None
    told = max(shares) >= facts.limits[SHARE] if few else shares[0] >= 2 * facts.limits[TAIL_SHARE]
    if not told and not chunked and facts.notable(shares):  # what chunks give to all decides: TTFT gets longer
        then = facts.after(_in_chunks)
        told = then is not None and then["tpot_p50"] < (1 - facts.limits[SHARE]) * facts.figures["tpot_p50"]
    if not told:
        return None
    forward = steps.forward
    decode = forward[steps.work == Work.decode]
    words = {
        "share": max(shares), "count": len(long), "usual": round(usual), "longest": int(prompts.max()),
        "longest_step": int(forward.max()), "chunk": _CHUNK,
        "step": int(np.median(decode)) if len(decode) else None,
    }  # fmt: skip
    draft = draft_of(
        max(shares), "mix_few" if few else "mix_all", "mix_elsewhere" if few and chunked else "mix_detail", words, cost,
        np.where(steps.prompts > 0, forward, 0), remedy,
        *(("service_apart",) if chunked else ("service_chunks", "service_apart")),
    )  # fmt: skip
    apart = ("apart", partial(_elsewhere, long, round(usual))) if few and not chunked else None
    return replace(draft, instead=apart)


def _in_chunks(model: ServiceModel) -> ServiceModel:
    return with_engines(model, chunked=True, budget=_CHUNK)


def _elsewhere(long: I64, usual: int, model: ServiceModel) -> ServiceModel:
    """``model`` with prompts of the ``usual`` length in the place of the ``long`` ones."""
    return replace(model, prompt=np.where(np.isin(model.rids, long), usual, model.prompt))


def _prefix(facts: ServiceFacts) -> Cause | None:
    """Prompts are computed that were in the prefix cache before, or none of them ever is in it."""
    lat, requests = facts.latencies, facts.found.service.requests
    rows = np.flatnonzero((requests.rid >= 0) & np.isfinite(requests.hit_rate))
    rows = rows[np.isin(requests.rid[rows], facts.ttft.rids)]
    if len(rows) < 2 * FEWEST_REQUESTS:
        return None
    rids, rates = requests.rid[rows].astype(np.int64), requests.hit_rate[rows]  # by start
    sums, cuts = np.append(0.0, np.cumsum(rates)), np.arange(FEWEST_REQUESTS, len(rates) - FEWEST_REQUESTS + 1)
    early, late = sums[cuts] / cuts, (sums[-1] - sums[cuts]) / (len(rates) - cuts)
    best = int(np.argmax((early - late) ** 2 * cuts * (len(rates) - cuts)))
    cut, before, after = int(cuts[best]), float(early[best]), float(late[best])
    if before - after >= facts.limits[HIT_FALL]:
        less = np.ones(len(lat.prompt))
        less[rids[cut:]] = (1 - before) / (1 - after)
        cost = (lat.ttft_parts[:, TTFT.prefill] * (1 - less)).astype(np.int64)
        shares = facts.ttft.shares(cost[facts.ttft.rids])
        if not facts.notable(shares):
            return None
        since = int(requests.start[rows[cut]] - facts.found.steps.opened.min())
        words = {"before": before, "after": after, "since": since, "share": max(shares)}
        return draft_of(
            max(shares), "prefix_fall", "prefix_fall_detail", words, cost, facts.found.steps.prompts,
            lambda model: replace(
                model, prompt=np.maximum(np.rint(model.prompt * less[model.rids]), 1).astype(np.int64)
            ),
        )  # fmt: skip
    share, tokens = facts.ttft.share(TTFT.prefill)[0], facts.tpot.share(TPOT.surcharge, TPOT.prompts)[0]
    if rates.mean() > _NO_HITS or (share < _MOSTLY and tokens < facts.limits[TAIL_SHARE]):
        return None
    words = {"rate": float(rates.mean()), "share": share, "tokens": tokens, "count": len(rates)}
    told, explained = (message(f"finding.service.{key}", **words) for key in ("prefix_none", "prefix_none_detail"))
    none = np.zeros(len(lat.prompt), np.int64)
    return Cause(max(share, tokens), told, explained, none, facts.found.steps.prompts, *_if_shared(facts))


def _if_shared(facts: ServiceFacts) -> tuple[Remedy | None, tuple[str, ...], Message]:
    """What it would be if all prompts began alike, for as long as the shortest one is."""
    lat, rids, block = facts.latencies, facts.ttft.rids, facts.found.room.block
    floor = int(lat.prompt[rids].min()) // block * block if block else 0
    remedy = partial(_cached, floor, int((lat.start + lat.ttft)[rids].min()))
    then = facts.after(remedy) if floor > 0 else None
    if then is None or not known(facts.figures, then):
        return None, (), message("finding.service.prefix_unknown")
    # Whose prefix is not cached yet is slow: the median says what it gives, where that is known.
    best = max(known(facts.figures, then), key=lambda name: (name.endswith("p50"), facts.figures[name] / then[name]))
    words = {"figure": message(f"service.figure.{best}"), "now": facts.figures[best], "then": then[best]}
    return remedy, (), message("finding.service.prefix_if", floor=floor, **words)


def _cached(floor: int, since: int, model: ServiceModel) -> ServiceModel:
    """``model`` with ``floor`` tokens of each prompt ``since`` the first one in the prefix cache; the context stays."""
    prompt = np.where(model.start < since, model.prompt, np.maximum(model.prompt - floor, 1))
    return replace(model, prompt=prompt, cached=floor)


_NO_HITS, _MOSTLY = 0.02, 0.5  # a mean rate up to this is none; where prefill is less of TTFT hits would change little


def _model(facts: ServiceFacts) -> Cause | None:
    """The same batch takes longer since a moment."""
    slower, found = facts.slower, facts.found
    if slower is None:
        return _sizes(facts)
    warms = slower.factor < 1
    factor = 1 / slower.factor if warms else slower.factor
    kind = "model_warm" if warms else "model_drift" if slower.is_slow else "model"
    share = 1 - 1 / (factor if not slower.is_slow else (1 + factor) / 2)  # half of it on average
    slow = (found.steps.start >= slower.since) != warms
    of_slow = slow[np.maximum(facts.latencies.token if warms else facts.latencies.last, 0)]
    cost = np.where(of_slow, facts.cost(*COMPUTING) * share, 0).astype(np.int64)
    words = {
        "ratio": factor - 1, "share": share, "since": slower.since - int(found.steps.opened.min()),
        "steps": int(slow.sum()), "all": len(found.steps),
    }  # fmt: skip
    return draft_of(
        share, kind, f"{kind}_detail", words, cost, np.where(slow, found.steps.forward, 0),
        partial(_as_fast, slower.factor if warms else 1.0), "service_warm" if warms else "SERVICE.MODEL",
    )  # fmt: skip


def _sizes(facts: ServiceFacts) -> Cause | None:
    """Steps of larger batches take longer at once, as where no graph of their size is captured."""
    jump, steps = facts.jump, facts.found.steps
    if jump is None or not len(steps):
        return None
    slow, share = steps.size > jump.size, 1 - 1 / jump.factor
    passed = np.append(0, np.cumsum(slow))
    lat = facts.latencies
    last, first = np.maximum(lat.last, 0), np.maximum(lat.token, 0)
    of_slow = (passed[last + 1] - passed[first]) / np.maximum(last + 1 - first, 1)
    words = {"ratio": jump.factor - 1, "size": jump.size, "steps": int(slow.sum()), "all": len(steps)}
    return draft_of(
        share * float(slow.mean()), "model_sizes", "model_sizes_detail", words,
        (facts.cost(*COMPUTING) * share * of_slow).astype(np.int64), np.where(slow, steps.forward, 0),
        lambda model: with_engines(model, beyond=(MANY, 1.0)), "service_sizes",
    )  # fmt: skip


def _as_fast(factor: float, model: ServiceModel) -> ServiceModel:
    """``model`` with forward passes that take ``factor`` of their cost all the time, where it changes now."""
    engines = (replace(one, late=(0, 0, factor) if one.late[2] != 1 else one.late) for one in model.engines)
    return replace(model, engines=tuple(engines))


def _drafts(facts: ServiceFacts) -> Cause | None:
    """Few of the drafted tokens are accepted."""
    rows = facts.found.service.spec_decodes
    known = (rows.draft_tokens > 0) & (rows.accepted_tokens >= 0)
    if not known.any():
        return None
    ratio = float(rows.accepted_tokens[known].sum() / rows.draft_tokens[known].sum())
    shares = facts.tpot.share(TPOT.draft)
    if ratio >= facts.limits[ACCEPTED]:
        return None
    each = float(rows.draft_tokens[known].mean())
    words = {"ratio": ratio, "share": shares[0], "per": ratio * each}
    draft = draft_of(
        max(*shares, 1 - ratio), "drafts", "drafts_detail", words, facts.cost(TPOT.draft),
        facts.found.steps.cycle[:, Cycle.draft], undrafted,
    )  # fmt: skip
    then, more = facts.after(undrafted), list[Message]()
    if then is not None and then["tpot_p50"] > 0:  # a step with drafts takes so many times as long as one without
        even = ((1 + ratio * each) * facts.figures["tpot_p50"] / then["tpot_p50"] - 1) / each
        more.append(message(f"finding.service.drafts_{'even' if even < 1 else 'never'}", even=even))
    return replace(draft, detail=sentences(draft.detail, *more), instead=("drafts", partial(accepted, 1 + each)))


def _rule(
    id_: str, page: str, check: Callable[[ServiceFacts], Cause | Skipped | None], *thresholds: AnyThreshold,
    advice: tuple[str, ...] = (),
) -> ServiceRule:  # fmt: skip
    """A rule that follows ``page`` of Huawei's case book on the performance of services."""
    return ServiceRule(id_, "service", "service", advice, ((page, f"{_BOOK}/{page}.md"),), "", thresholds, check=check)


SERVICE_RULES = (
    _rule("SERVICE.KV", "kv_block_shortage", _kv, SHARE, TAIL_SHARE, advice=("SERVICE.KV", "service_lost")),
    _rule(
        "SERVICE.QUEUE", "request_wait_latency", _queue, SHARE, TAIL_SHARE,
        advice=("service_room", "service_load", "service_burst", "service_prefill", "service_decode", "service_order"),
    ),
    _rule("SERVICE.WAIT", "request_wait_latency", _wait, SHARE, TAIL_SHARE),
    _rule(
        "SERVICE.MIX", "batch_request_length_imbalance", _mix, SHARE, TAIL_SHARE, LONG_PROMPT,
        advice=("service_chunks", "service_apart"),
    ),
    _rule("SERVICE.RANK", "dp_load_imbalance", rank, SLOWER, RANK_LOAD, advice=("service_device", "service_routing")),
    _rule(
        "SERVICE.SCHEDULER", "scheduler_high_latency",
        part("scheduler", lambda model: with_engines(model, schedule=(0.0, 0.0)),
              TTFT.batching, TPOT.schedule, Cycle.schedule), SHARE,
    ),
    _rule(
        "SERVICE.INPUTS", "model_pre_post_processing_latency",
        part("inputs", lambda model: with_engines(model, prepare=(0.0, 0.0)),
              TTFT.prepare, TPOT.prepare, Cycle.prepare), SHARE,
    ),
    _rule("SERVICE.BUBBLE", "async_dual_launch_failure", _bubble, SHARE),
    _rule(
        "SERVICE.STALL", "request_wait_latency", stall, SHARE, TAIL_SHARE,
        advice=("service_stall", "service_stall_sizes"),
    ),
    _rule("SERVICE.CHUNKS", "service_vs_model_performance_gap", _chunks, SHARE, TAIL_SHARE),
    _rule(
        "SERVICE.SAMPLING", "sampler_high_latency",
        part("sampling", lambda model: with_engines(model, after=(0.0, 0.0)),
              TTFT.sampling, TPOT.sampling, Cycle.sampling), SHARE,
    ),
    _rule(
        "SERVICE.FRONTEND", "model_pre_post_processing_latency",
        frontend, SHARE,
    ),
    _rule(
        "SERVICE.OUTPUT", "model_pre_post_processing_latency",
        part("output", lambda model: replace(model, tail=np.zeros_like(model.tail)), TTFT.output), SHARE,
    ),
    _rule("SERVICE.WORKERS", "framework_dispatch_desync", workers, SHARE),
    _rule(
        "SERVICE.TRANSFER", "kvcache_transfer_performance", transfer, SHARE, SLOWER,
        advice=("SERVICE.TRANSFER", "service_serial", "service_handover"),
    ),
    _rule(
        "SERVICE.MODEL", "model_performance_slo_degradation", _model, SLOWER,
        advice=("SERVICE.MODEL", "service_warm", "service_sizes"),
    ),
    _rule("SERVICE.PREFIX", "prefix_cache_miss", _prefix, SHARE, TAIL_SHARE, HIT_FALL),
    _rule("SERVICE.DRAFTS", "service_vs_model_performance_gap", _drafts, ACCEPTED),
)  # fmt: skip
"""The rules about a service."""
