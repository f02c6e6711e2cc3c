"""Findings about an inference service: why requests wait, and what makes their tokens slow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.service_latency import TPOT, TTFT, surcharges
from npu_tui.analysis.service_replay import (
    MANY,
    ServiceModel,
    evenly,
    fitted,
    line_of,
    twice,
    undrafted,
    with_engines,
    work_of,
)
from npu_tui.analysis.service_steps import Cycle, Engine, Work, late_workers
from npu_tui.analysis.thresholds import AnyThreshold, Threshold
from npu_tui.rules.rule import Skipped, sentences
from npu_tui.rules.service_facts import (
    SHARE,
    SLOWER,
    SLOWEST,
    TAIL_SHARE,
    Draft,
    Remedy,
    ServiceFacts,
    ServiceRule,
)
from npu_tui.trace.arrays import F64, I64, Bools
from npu_tui.trace.message import Message, message
from npu_tui.trace.service import UNKNOWN
from npu_tui.trace.text import brief

RANK_LOAD = Threshold("service_rank_load", 1.3)
WAITING = Threshold("service_waiting", 1.0)
LONG_PROMPT = Threshold("service_long_prompt", 8.0)
ACCEPTED = Threshold("service_accepted", 0.3)
HIT_FALL = Threshold("service_hit_fall", 0.2)

_WORSE = 1.2
_CHUNK = 512
_FEWEST = 100
FEWEST_REQUESTS = 10
_BOOK = "https://gitcode.com/Ascend/msprof/tree/master/docs/zh/best_practices"


def _draft(
    share: float, title: str, detail: str, words: dict[str, Any], cost: I64, blame: I64, remedy: Remedy | None = None,
    *advice: str,
) -> Draft:  # fmt: skip
    told, explained = (message(f"finding.service.{key}", **words) for key in (title, detail))
    return Draft(share, told, explained, cost, blame, remedy, advice)


def _queue(facts: ServiceFacts) -> Draft | None:
    """Requests wait though there are blocks: the batch is full."""
    steps, waits = facts.found.steps, facts.ttft.part(TTFT.queue_full)
    shares, waiting = facts.ttft.shares(waits), facts.waiting(TTFT.queue_full)
    if not facts.notable(shares) or waiting < facts.limits[WAITING]:
        return None
    limited = facts.model is not None and any(engine.seqs < MANY for engine in facts.model.engines)
    now, then = facts.figures, facts.after(_more_room) if limited else None
    helps = (
        then is not None and then["ttft_p99"] < _ENOUGH * now["ttft_p99"] and then["tpot_p99"] < 1.5 * now["tpot_p99"]
    )
    words = {
        "share": max(shares), "most": int(steps.size.max()), "count": int((waits > 0).sum()), "all": len(waits),
        "mean": float(waits.mean()), "waiting": waiting, "tokens": int((steps.prompts + steps.decoded).max()),
    }  # fmt: skip
    kind = "room" if helps else "load"
    return _draft(
        max(shares), "queue", f"queue_{'places' if helps and not facts.knows_blocks else kind}", words,
        facts.cost(TTFT.queue_full), facts.held(TTFT.queue_full), _more_room if helps else twice, f"service_{kind}",
    )  # fmt: skip


_ENOUGH, _MORE = 0.5, 1.5


def _more_room(model: ServiceModel) -> ServiceModel:
    return with_engines(model, seqs=MANY)


def _kv(facts: ServiceFacts) -> Draft | None:
    """Requests wait for blocks of the KV cache, or lose theirs."""
    first, tokens = facts.ttft.share(TTFT.queue_blocks), facts.tpot.share(TPOT.preempted)
    if not (facts.notable(first) or facts.notable(tokens)):
        return None
    steps, batches = facts.found.steps, facts.found.service.batches
    short = steps.free[(steps.free != UNKNOWN) & (facts.found.queued == TTFT.queue_blocks)]
    total = int(batches.total_blocks.max()) if len(batches) else UNKNOWN
    kind = "first" if max(first) >= max(tokens) else "tokens"
    preempted = int((facts.latencies.tpot_parts[:, TPOT.preempted] > 0).sum())
    words = {
        "share": max(*first, *tokens), "first": max(first), "tokens": max(tokens), "preempted": preempted,
        "total": total if total > 0 else None, "free": int(np.median(short)) if len(short) else None,
        "steps": len(short),
    }  # fmt: skip
    return Draft(
        max(*first, *tokens), message(f"finding.service.kv_{kind}", **words),
        sentences(
            message(f"finding.service.kv_{'blocks' if total > 0 else 'left'}", **words) if len(short) else "",
            message("finding.service.kv_preempted", **words) if preempted else "",
        ),
        facts.cost(TTFT.queue_blocks, TPOT.preempted), facts.held(TTFT.queue_blocks),
        lambda model: with_engines(model, blocks=MANY),
    )  # fmt: skip


def _wait(facts: ServiceFacts) -> Draft | None:
    """Requests wait although the batch has room and blocks are free."""
    if not facts.holds:
        return None
    share = max(facts.ttft.share(TTFT.queue_other))
    return _draft(
        share, "wait", "wait_detail", {"share": share}, facts.cost(TTFT.queue_other), facts.held(TTFT.queue_other),
        lambda model: replace(model, held=np.zeros_like(model.held)),
    )  # fmt: skip


def _mix(facts: ServiceFacts) -> Draft | None:
    """Prompts are computed in or between the steps that decode, most of all a few long ones."""
    lat, steps = facts.latencies, facts.found.steps
    prompts = lat.prompt[facts.ttft.rids]
    if not len(prompts):
        return None
    usual = float(np.median(prompts))
    long = np.flatnonzero(lat.prompt >= facts.limits[LONG_PROMPT] * usual)
    few = 0 < len(long) <= len(prompts) // 5
    cost = facts.cost(TPOT.surcharge, TPOT.prompts)
    if few:
        pairs = facts.found.pair_prompt & np.isin(facts.found.pair_rid, long)
        of_long = np.zeros(len(steps), bool)
        of_long[facts.found.pair_step[pairs]] = True
        extra = np.where(steps.work == Work.prefill, steps.cycle.sum(axis=1), surcharges(steps)) * of_long
        total = np.append(0, np.cumsum(extra))
        passed = total[np.maximum(lat.last, lat.token) + 1] - total[lat.token + 1]
        cost = np.where((lat.token >= 0) & (lat.tpot != UNKNOWN), np.minimum(passed, cost), 0)
    shares = facts.tpot.shares(cost[facts.tpot.rids])
    if max(shares) < facts.limits[SHARE] if few else shares[0] < 2 * facts.limits[TAIL_SHARE]:
        return None
    chunked = facts.model is None or all(engine.chunked for engine in facts.model.engines)
    forward = steps.forward
    decode = forward[steps.work == Work.decode]
    words = {
        "share": max(shares), "count": len(long), "usual": round(usual), "longest": int(prompts.max()),
        "longest_step": int(forward.max()), "chunk": _CHUNK,
        "step": int(np.median(decode)) if len(decode) else None,
    }  # fmt: skip
    return _draft(
        max(shares), "mix_few" if few else "mix_all", "mix_detail", words, cost,
        np.where(steps.prompts > 0, forward, 0), None if chunked else _in_chunks,
        *(("service_apart",) if chunked else ("service_chunks", "service_apart")),
    )  # fmt: skip


def _in_chunks(model: ServiceModel) -> ServiceModel:
    return with_engines(model, chunked=True, budget=_CHUNK)


def _rank(facts: ServiceFacts) -> Draft | Skipped | None:
    """One of several engines is slower: its device, or the load that it is given."""
    engines: list[int] = np.flatnonzero(facts.found.serves).tolist()
    if len(engines) < 2:
        return None
    found, lat = facts.found, facts.latencies
    steps, work = found.steps, work_of(found)
    parts = [steps.of(number) for number in engines]
    if any(part.stop - part.start < _FEWEST for part in parts):
        return Skipped(message("finding.service.rank_few", fewest=_FEWEST))
    mean = work[np.isin(steps.engine, engines)].mean(axis=0)[None, :]
    costs = [fitted(work[part][steps.size[part] > 0], steps.forward[part][steps.size[part] > 0]) for part in parts]
    time = np.array([cost.of(mean)[0] for cost in costs])
    tokens = np.array([float((steps.prompts + steps.decoded)[part].sum()) for part in parts])
    counts = np.array([float((lat.engine[facts.ttft.rids] == number).sum()) for number in engines])
    starts = np.unique(np.concatenate([steps.start[part] for part in parts]) // _TOGETHER, return_counts=True)[1]
    apart = float((starts == 1).sum() / len(steps)) > 1 / 2
    worst = int(np.argmax(_beside(time)))
    if apart and facts.limits[SLOWER] <= (ratio := float(_beside(time)[worst])) < SLOWEST:
        slow, usual = engines[worst], engines[int(np.argsort(time)[(len(time) - 1) // 2])]

        def others_cost(model: ServiceModel) -> ServiceModel:
            changed = list(model.engines)
            changed[slow] = replace(changed[slow], cost=changed[usual].cost)
            return replace(model, engines=tuple(changed))

        share = 1 - 1 / ratio
        words: dict[str, Any] = {
            "engine": _named(found.engines[slow]), "ratio": ratio - 1, "share": share,
            "tokens": tokens[worst] / tokens.sum(),
        }  # fmt: skip
        return _draft(
            share, "rank_slow", "rank_slow_detail", words, _of_engine(facts, slow, share),
            np.where(steps.engine == slow, steps.forward, 0), others_cost, "service_device",
        )  # fmt: skip
    worst = int(np.argmax(_beside(tokens)))
    if not apart:
        return _waited_for(facts, engines[worst], _beside(tokens)[worst], tokens[worst] / tokens.sum(), mean)
    slowness = [_slowness(of.values, lat.engine[of.rids] == engines[worst]) for of in (facts.ttft, facts.tpot)]
    slowest = max((ratio for ratio in slowness if ratio is not None), default=1.0)
    if _beside(tokens)[worst] < facts.limits[RANK_LOAD] or slowest < _WORSE:
        return None
    by = "count" if _beside(counts)[worst] >= _WORSE else "lengths"
    words = {
        "engine": _named(found.engines[engines[worst]]), "load": tokens[worst] / tokens.sum(), "ranks": len(engines),
        "requests": int(counts[worst]), "all": int(counts.sum()), "times": slowest,
    }  # fmt: skip
    return _draft(
        1 - 1 / slowest, f"rank_{by}", "rank_load", words, _of_engine(facts, engines[worst], 1 - 1 / slowest),
        np.where(steps.engine == engines[worst], steps.size, 0),
        lambda model: evenly(model, np.array(engines)), "service_routing",
    )  # fmt: skip


def _workers(facts: ServiceFacts) -> Draft | None:
    """A worker begins late in every step, and the others of its engine wait for it."""
    found, steps = facts.found, facts.found.steps
    late = max(late_workers(found.service, found.keys, steps, found.engines), key=lambda one: one.lag, default=None)
    if late is None:
        return None
    part = steps.of(late.engine)
    lead = int(found.service.batches.process[steps.row[part.start]])
    # Its own steps are without what the others wait: that lies before them.
    usual = float(np.median(steps.forward[part])) + (late.lag if lead == late.process else 0)
    share = late.lag / max(usual, 1.0)
    if share < facts.limits[SHARE] or share > 1:
        return None
    words = {"worker": brief(found.service.text(late.process), _SHORT), "lag": late.lag, "share": share}

    def on_time(model: ServiceModel) -> ServiceModel:
        engines, own = list(model.engines), model.engines[late.engine]
        if lead == late.process:
            changed = replace(own, dispatch=max(own.dispatch - late.lag, 0.0))
        else:
            changed = replace(own, cost=replace(own.cost, fixed=max(own.cost.fixed - late.lag, 0.0)))
        engines[late.engine] = changed
        return replace(model, engines=tuple(engines))

    return _draft(
        share, "workers", "workers_detail", words, _of_engine(facts, late.engine, share),
        np.where(steps.engine == late.engine, steps.forward, 0), on_time,
    )  # fmt: skip


def _named(engine: Engine) -> Message:
    """What ``engine`` is called: by its DP rank, without one by its first process."""
    if engine.rank is None:
        return message("service.engine", name=brief(engine.processes[0], _SHORT))
    return message("service.dp_rank", rank=engine.rank)


_SHORT = 40


def _waited_for(facts: ServiceFacts, engine: int, ratio: float, load: float, mean: F64) -> Draft | None:
    """All ranks wait for ``engine``, which has most to do, in every step."""
    found, steps = facts.found, facts.found.steps
    part, work = steps.of(engine), work_of(found)
    cost = fitted(work[part], steps.forward[part])
    share = 1 - float(cost.of(mean)[0] / max(cost.of(work[part].mean(axis=0)[None, :])[0], 1.0))
    if ratio < facts.limits[RANK_LOAD] or share < facts.limits[SHARE]:
        return None
    words = {"engine": _named(found.engines[engine]), "share": share, "load": load}
    return _draft(
        share, "rank_wait", "rank_wait_detail", words, (facts.cost(*_COMPUTING) * share).astype(np.int64),
        np.where(steps.engine == engine, steps.size, 0), None, "service_routing",
    )  # fmt: skip


_COMPUTING = TTFT.prefill, TPOT.forward, TPOT.surcharge


_TOGETHER = 1_000_000
"""Steps of engines that wait for each other begin within a ms."""


def _beside(values: F64) -> F64:
    """Each value over the median of the others."""
    return np.array([value / max(float(np.median(np.delete(values, at))), 1.0) for at, value in enumerate(values)])


def _slowness(values: F64, here: Bools) -> float | None:
    """The mean of ``values`` here over that elsewhere; None where one of both has none."""
    return float(values[here].mean() / values[~here].mean()) if here.any() and (~here).any() else None


def _of_engine(facts: ServiceFacts, engine: int, share: float) -> I64:
    lat = facts.latencies
    time = np.where(lat.ttft == UNKNOWN, 0, lat.ttft) + np.where(lat.tpot == UNKNOWN, 0, lat.tpot)
    return np.where(lat.engine == engine, time * share, 0).astype(np.int64)


def _part(
    name: str, remedy: Remedy, first: TTFT, tokens: TPOT | None = None, shown: Cycle | None = None
) -> Callable[[ServiceFacts], Draft | None]:
    """A check for what a healthy service has little of: a part of TTFT, one of TPOT, ``shown`` in cycles of batches."""
    others = () if tokens is None else (tokens,)

    def check(facts: ServiceFacts) -> Draft | None:
        of_first, of_tokens = facts.ttft.share(first)[0], facts.tpot.share(*others)[0]
        share = max(of_first, of_tokens)
        if share < facts.limits[SHARE]:
            return None
        turns = np.maximum(facts.latencies.turns[facts.tpot.rids], 0)
        words = {
            "share": share, "first": of_first, "tokens": of_tokens,
            "mean": float(facts.ttft.part(first).mean()) if len(facts.ttft.rids) else None,
            "each": float(facts.tpot.part(*others).sum() / max(turns.sum(), 1)),
        }  # fmt: skip
        kind = "tokens" if of_tokens >= of_first else "first"
        cycle = facts.found.steps.cycle
        blame = np.zeros(len(cycle), np.int64) if shown is None else cycle[:, shown]
        return _draft(share, f"{name}_{kind}", f"{name}_detail", words, facts.cost(first, *others), blame, remedy)

    return check


def _transfer(facts: ServiceFacts) -> Draft | None:
    """The transfer of keys and values to decode: whether it grows with the prompt, and whether one rank is slower."""
    shares = facts.ttft.share(TTFT.transfer)
    if shares[0] < facts.limits[SHARE]:
        return None
    pulls = facts.found.service.transfers
    known = np.flatnonzero((pulls.tokens > 0) & (pulls.end != UNKNOWN) & (pulls.start != UNKNOWN) & (pulls.rid >= 0))
    time, tokens = (pulls.end - pulls.start)[known], pulls.tokens[known]
    ranks, of = np.unique(pulls.rank[known], return_inverse=True)
    mine = [np.flatnonzero(of.ravel() == number) for number in range(len(ranks))]
    mine = [rows for rows in mine if len(rows) >= FEWEST_REQUESTS and len(np.unique(tokens[rows])) > 1]
    lines = [line_of(tokens[rows], time[rows]) for rows in mine]
    per, related = 0.0, False
    if lines:
        per = float(np.median([slope for slope, _ in lines]))
        told = sum(slope**2 * np.var(tokens[rows]) * len(rows) for (slope, _), rows in zip(lines, mine, strict=True))
        every = sum(np.var(time[rows]) * len(rows) for rows in mine)
        related = per > 0 and float(told / max(every, 1.0)) >= _RELATED
    usual = np.array([slope * tokens.mean() + offset for slope, offset in lines])
    beside = _beside(usual) if len(lines) > 1 else np.ones(1)
    worst = int(np.argmax(beside))
    words = {"share": max(shares), "median": float(np.median(time)) if len(time) else None, "per": per}
    detail, factor = message(f"finding.service.transfer_{'length' if related else 'fixed'}", **words), 0.0
    of_rank = np.ones(len(facts.found.service.rids), np.bool_)
    if facts.limits[SLOWER] <= beside[worst] < SLOWEST:
        slow = int(pulls.rank[known][mine[worst][0]])
        more = {"rank": None if slow == UNKNOWN else slow, "times": float(beside[worst])}
        detail, factor = sentences(detail, message("finding.service.transfer_rank", **more)), 1 / float(beside[worst])
        of_rank[:] = False
        of_rank[pulls.rid[known][mine[worst]]] = True
    return Draft(
        max(shares), message("finding.service.transfer", **words), detail,
        np.where(of_rank, facts.cost(TTFT.transfer), 0), np.zeros(len(facts.found.steps), np.int64),
        lambda model: replace(
            model, pull=np.where(of_rank[model.rids], model.pull * factor, model.pull).astype(np.int64)
        ),
    )  # fmt: skip


_RELATED = 0.6
"""The share of the variance of transfers that the length of the prompt explains."""


def _prefix(facts: ServiceFacts) -> Draft | None:
    """Prompts are computed that were in the prefix cache before, or none of them ever is in it."""
    lat, requests = facts.latencies, facts.found.service.requests
    known = np.flatnonzero((requests.rid >= 0) & np.isfinite(requests.hit_rate))
    known = known[np.isin(requests.rid[known], facts.ttft.rids)]
    if len(known) < 2 * FEWEST_REQUESTS:
        return None
    rids, rates = requests.rid[known].astype(np.int64), requests.hit_rate[known]  # by start
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
        since = int(requests.start[known[cut]] - facts.found.steps.opened.min())
        words = {"before": before, "after": after, "since": since, "share": max(shares)}
        return _draft(
            max(shares), "prefix_fall", "prefix_fall_detail", words, cost, facts.found.steps.prompts,
            lambda model: replace(
                model, prompt=np.maximum(np.rint(model.prompt * less[model.rids]), 1).astype(np.int64)
            ),
        )  # fmt: skip
    share = facts.ttft.share(TTFT.prefill)[0]
    if rates.mean() > _NO_HITS or share < _MOSTLY:
        return None
    words = {"rate": float(rates.mean()), "share": share, "count": len(rates)}
    told, explained = (message(f"finding.service.{key}", **words) for key in ("prefix_none", "prefix_none_detail"))
    return Draft(share, told, explained, np.zeros(len(lat.prompt), np.int64), facts.found.steps.prompts, hint=True)


_NO_HITS, _MOSTLY = 0.02, 0.5


def _model(facts: ServiceFacts) -> Draft | None:
    """The same batch takes longer since a moment."""
    slower, found = facts.slower, facts.found
    if slower is None:
        return None
    share = 1 - 1 / slower.factor
    after = found.steps.start[np.maximum(facts.latencies.last, 0)] >= slower.since if len(found.steps) else False
    cost = np.where(after, facts.cost(*_COMPUTING) * share, 0).astype(np.int64)
    words = {
        "ratio": slower.factor - 1, "share": share, "since": slower.since - int(found.steps.opened.min()),
        "steps": int((found.steps.start >= slower.since).sum()), "all": len(found.steps),
    }  # fmt: skip
    return _draft(
        share, "model", "model_detail", words, cost,
        np.where(found.steps.start >= slower.since, found.steps.forward, 0),
        lambda model: with_engines(model, late=(MANY << 20, 1.0)),
    )  # fmt: skip


def _drafts(facts: ServiceFacts) -> Draft | None:
    """Drafting costs more than its accepted tokens save."""
    rows = facts.found.service.spec_decodes
    known = (rows.draft_tokens > 0) & (rows.accepted_tokens >= 0)
    if not known.any():
        return None
    ratio = float(rows.accepted_tokens[known].sum() / rows.draft_tokens[known].sum())
    shares = facts.tpot.share(TPOT.draft)
    if ratio >= facts.limits[ACCEPTED]:
        return None
    words = {"ratio": ratio, "share": shares[0], "per": ratio * float(rows.draft_tokens[known].mean())}
    return _draft(
        max(*shares, 1 - ratio), "drafts", "drafts_detail", words, facts.cost(TPOT.draft),
        facts.found.steps.cycle[:, Cycle.draft], undrafted,
    )  # fmt: skip


def _rule(
    id_: str, page: str, check: Callable[[ServiceFacts], Draft | Skipped | None], *thresholds: AnyThreshold,
    advice: tuple[str, ...] = (),
) -> ServiceRule:  # fmt: skip
    """A rule that follows ``page`` of Huawei's case book on the performance of services."""
    return ServiceRule(id_, "service", advice, ((page, f"{_BOOK}/{page}.md"),), "", thresholds, check=check)


SERVICE_RULES = (
    _rule("SERVICE.KV", "kv_block_shortage", _kv, SHARE, TAIL_SHARE),
    _rule(
        "SERVICE.QUEUE", "request_wait_latency", _queue, SHARE, TAIL_SHARE, WAITING,
        advice=("service_room", "service_load"),
    ),
    _rule("SERVICE.WAIT", "request_wait_latency", _wait, SHARE, TAIL_SHARE),
    _rule(
        "SERVICE.MIX", "batch_request_length_imbalance", _mix, SHARE, TAIL_SHARE, LONG_PROMPT,
        advice=("service_chunks", "service_apart"),
    ),
    _rule("SERVICE.RANK", "dp_load_imbalance", _rank, SLOWER, RANK_LOAD, advice=("service_device", "service_routing")),
    _rule(
        "SERVICE.SCHEDULER", "scheduler_high_latency",
        _part("scheduler", lambda model: with_engines(model, schedule=(0.0, 0.0)),
              TTFT.batching, TPOT.schedule, Cycle.schedule), SHARE,
    ),
    _rule(
        "SERVICE.BUBBLE", "async_dual_launch_failure",
        _part("bubble", lambda model: with_engines(model, gap=0.0, dispatch=0.0),
              TTFT.bubble, TPOT.bubble, Cycle.bubble), SHARE,
    ),
    _rule(
        "SERVICE.SAMPLING", "sampler_high_latency",
        _part("sampling", lambda model: with_engines(model, after=(0.0, 0.0)),
              TTFT.sampling, TPOT.sampling, Cycle.sampling), SHARE,
    ),
    _rule(
        "SERVICE.FRONTEND", "model_pre_post_processing_latency",
        _part("frontend", lambda model: replace(model, front=np.zeros_like(model.front)), TTFT.frontend), SHARE,
    ),
    _rule("SERVICE.WORKERS", "framework_dispatch_desync", _workers, SHARE),
    _rule("SERVICE.TRANSFER", "kvcache_transfer_performance", _transfer, SHARE),
    _rule("SERVICE.MODEL", "model_performance_slo_degradation", _model, SLOWER),
    _rule("SERVICE.PREFIX", "prefix_cache_miss", _prefix, SHARE, TAIL_SHARE, HIT_FALL),
    _rule("SERVICE.DRAFTS", "service_vs_model_performance_gap", _drafts, ACCEPTED),
)  # fmt: skip
"""Every finding about a service."""
