"""Findings about an inference service: why requests wait, and what makes their tokens slow."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.limits import (
    A_PART,
    ALMOST_ALL,
    FAR_LONGER,
    HALF,
    LITTLE,
    NOTABLE,
    UNSEEN,
    AnyThreshold,
)
from npu_tui.analysis.service_blocks import MANY
from npu_tui.analysis.service_latency import surcharges
from npu_tui.analysis.service_model import ServiceModel, with_engines
from npu_tui.analysis.service_stalls import pieces_of
from npu_tui.analysis.service_steps import Cycle, Work
from npu_tui.analysis.service_timeline import TPOT, TTFT
from npu_tui.rules.rule import Skipped, sentences
from npu_tui.rules.service_answers import output, stop
from npu_tui.rules.service_drafts import ACCEPTED, drafts
from npu_tui.rules.service_engines import RANK_LOAD, rank, routed, slow_host, stale, stall, workers
from npu_tui.rules.service_facts import (
    HIT_FALL,
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
from npu_tui.rules.service_frontend import frontend
from npu_tui.rules.service_host import copies, shared, stops
from npu_tui.rules.service_parts import (
    FEWEST_REQUESTS,
    as_usual,
    bubble,
    by_name,
    grows,
    part,
    sampling,
    scheduler,
    transfer,
)
from npu_tui.rules.service_passes import model
from npu_tui.rules.service_repeats import repeats
from npu_tui.rules.service_requests import LONG_PROMPT, MORE, biggest, kv, lost_prefix, queue
from npu_tui.rules.service_waits import wait
from npu_tui.trace.arrays import F64, I64, Bools
from npu_tui.trace.message import Message, message
from npu_tui.trace.service import UNKNOWN

_CHUNK = 512  # tokens of a prompt per step, which the advice and its replay ask for
_BOOK = "https://gitcode.com/Ascend/msprof/tree/master/docs/zh/best_practices"


def _chunks(facts: ServiceFacts) -> Cause | None:
    """The budget of tokens of a step is small, so that a prompt takes many steps."""
    found, now = facts.found, facts.figures
    chunks = np.bincount(found.pair_rid[found.pair_prompt], minlength=len(facts.latencies.prompt))
    each = float(chunks[facts.ttft.rids].mean())
    if facts.model is None:
        return None
    budget = min(engine.budget for engine in facts.model.engines)
    if each < (_SEVERAL if budget < _USUAL else 2 * _SEVERAL):
        return None
    then = facts.after(_larger) if budget < MANY else None
    if then is None:
        return None
    sooner = then["e2e_mean"] < (1 - LITTLE) * now["e2e_mean"]  # whatever becomes of the distance of tokens
    if not (sooner or then["tpot_p99"] < MORE * now["tpot_p99"]):
        return None
    median, tail = (1 - then[name] / now[name] for name in ("ttft_p50", "ttft_p99"))  # NaN where the replay is off
    if not facts.notable((median, tail)):
        return None
    parts = facts.cost(TTFT.prefill, TTFT.other, TTFT.bubble, TTFT.batching)
    words = {"budget": budget, "chunks": each, "larger": _more_than(budget)}
    return draft_of(
        float(np.nanmax([median, tail])), "chunks", "chunks_detail", words,
        (parts * (1 - 1 / np.maximum(chunks, 1))).astype(np.int64),
        np.where(found.steps.prompts + found.steps.decoded >= budget, found.steps.prompts, 0), _larger,
    )  # fmt: skip


def _larger(model: ServiceModel) -> ServiceModel:
    engines = []
    for one in model.engines:
        larger = _more_than(one.budget)
        engines.append(replace(one, budget=larger, part=one.part * larger // one.budget) if one.chunked else one)
    return replace(model, engines=tuple(engines))


def _more_than(budget: int) -> int:
    """The budget that is tried in the place of a small one."""
    return max(_LARGER * budget, _USUAL)


_LARGER, _SEVERAL = 4, 2  # times the budget that is tried, and chunks from which it is worth trying; twice if usual
_USUAL = 2048  # tokens of a step that engines take without another setting


def _steady(check: Callable[[ServiceFacts], Cause | None], column: Cycle) -> Callable[[ServiceFacts], Cause | None]:
    """``check`` of a part of steps that is there time after time, not in stalls."""

    def steady(facts: ServiceFacts) -> Cause | None:
        found = facts.found
        return check(facts) if 2 * found.held[:, column].sum() <= found.steps.cycle[:, column].sum() else None

    return steady


def _mix(facts: ServiceFacts) -> Cause | None:
    """Prompts in or between steps that decode slow answers: a few long ones, or all of them."""
    lat, steps = facts.latencies, facts.found.steps
    prompts = lat.prompt[facts.ttft.rids]
    prompts = prompts[prompts > 0]
    if not len(prompts):
        return None
    usual = float(np.median(prompts))
    long = np.flatnonzero(lat.prompt >= facts.limits[LONG_PROMPT] * usual)
    few = 0 < len(long) <= len(prompts) // 5
    pairs, held = facts.found.pair_prompt & (np.isin(facts.found.pair_rid, long) | (not few)), facts.found.held
    shown = np.zeros(len(steps), bool)
    shown[facts.found.pair_step[pairs]] = True
    extra = (
        np.where(
            steps.work == Work.prefill, (steps.cycle - held).sum(axis=1), surcharges(steps, held[:, Cycle.forward])
        )
        * shown
    )
    total = np.append(0, np.cumsum(extra))
    passed = total[np.maximum(lat.last, lat.token) + 1] - total[lat.token + 1]
    cost = np.minimum(passed, facts.cost(TPOT.surcharge, TPOT.prompts))
    cost = np.where((lat.token >= 0) & (lat.tpot != UNKNOWN), cost, 0)
    shares = facts.tpot.shares(cost[facts.tpot.rids])
    chunked = facts.model is None or all(engine.chunked for engine in facts.model.engines)
    if few and chunked and len(biggest(facts)) and facts.notable(facts.ttft.share(TTFT.queue_blocks)):
        return None  # reported with the blocks for which the others wait
    remedy = _in_chunks if not chunked else partial(_elsewhere, long, round(usual)) if few else None
    if few and chunked and remedy and routed(facts) >= HALF * facts.gives(remedy) > 0:
        return None  # reported with the engine that is given most of them: the others have room for what it computes
    told = max(shares) >= facts.limits[SHARE] if few else shares[0] >= 2 * facts.limits[TAIL_SHARE]
    if not told and not chunked and facts.notable(shares):  # what chunks would gain decides: TTFT gets longer
        then = facts.after(_in_chunks)
        told = then is not None and then["tpot_p50"] < (1 - facts.limits[SHARE]) * facts.figures["tpot_p50"]
    if not told:
        return _whole(facts, long if few else long[:0], cost)
    forward = steps.forward
    decode = forward[steps.work == Work.decode]
    words = {
        "share": max(shares), "count": len(long), "usual": round(usual), "longest": int(prompts.max()),
        "longest_step": int(forward.max()), "chunk": _CHUNK, "budget": int((steps.prompts + steps.decoded).max()),
        "step": int(np.median(decode)) if len(decode) else None,
    }  # fmt: skip
    heads = few and chunked and _cuts(facts) and _sooner(facts, facts.after(_in_parts)) >= facts.limits[SHARE]
    kind = "head" if heads else "few" if few else "all" if chunked else "first"
    detail = "head_detail" if heads else "elsewhere" if few and chunked else "detail"
    advice = ("service_part", "service_apart") if heads else ("service_apart",)
    draft = draft_of(
        max(shares), f"mix_{kind}", f"mix_{detail}", words, cost, np.where(steps.prompts > 0, forward, 0),
        _in_parts if heads else remedy, *(advice if chunked else ("service_chunks", "service_apart")),
    )  # fmt: skip
    apart = ("apart", partial(_elsewhere, long, round(usual))) if few and (heads or not chunked) else None
    return replace(draft, instead=("chunks", _in_chunks) if few and chunked and not _cuts(facts) else apart)


def _sooner(facts: ServiceFacts, then: dict[str, float] | None) -> float:
    """The best share by which a percentile of TTFT is better ``then``."""
    names = [name for name in ("ttft_p50", "ttft_p99") if then and known(facts.figures, then, of=(name,))]
    return max((1 - then[name] / facts.figures[name] for name in names), default=0.0) if then else 0.0


def _cuts(facts: ServiceFacts) -> bool:
    """Whether prompts are seen to be computed in several steps."""
    return facts.model is not None and any(one.chunked and one.budget < MANY for one in facts.model.engines)


def _whole(facts: ServiceFacts, long: I64, cost: I64) -> Cause | None:
    """Prompts that are never cut hold up the tokens of others now and then, a few ``long`` ones or all of them.

    In chunks they take longer themselves: what is better is not the service's to say.
    """
    model, now = facts.model, facts.figures
    if model is None or _cuts(facts) or not now["itl_p99"] >= FAR_LONGER * now["itl_p50"] > 0:
        return None
    then = facts.after(_in_chunks)
    if then is None or not then["itl_p99"] < (1 - facts.limits[TAIL_SHARE]) * now["itl_p99"]:
        return None
    steps, lat = facts.found.steps, facts.latencies
    words = {
        "count": len(long), "usual": round(float(np.median(lat.prompt[facts.ttft.rids]))),
        "longest": int(lat.prompt[facts.ttft.rids].max()), "time": now["itl_p99"],
        "times": now["itl_p99"] / now["itl_p50"], "step": int(now["itl_p50"]), "longest_step": int(steps.forward.max()),
        "chunk": _CHUNK,
    }  # fmt: skip
    first = not all(engine.chunked for engine in model.engines)
    kind = "whole_few" if len(long) else "whole_first" if first else "whole"
    draft = draft_of(
        max(facts.tpot.shares(cost[facts.tpot.rids])), f"mix_{kind}", "mix_detail", words, cost,
        np.where(steps.prompts > 0, steps.forward, 0), _in_chunks, "service_chunks",
    )  # fmt: skip
    return replace(draft, hint=message("finding.service.mix_if", changes=facts.changes(then), **words), likely=True)


def _in_chunks(model: ServiceModel) -> ServiceModel:
    return with_engines(model, chunked=True, budget=_CHUNK)


def _in_parts(model: ServiceModel) -> ServiceModel:
    """``model`` in which a prompt takes a part of the tokens of a step only, as requests behind it can use the rest."""
    return replace(model, engines=tuple(replace(one, part=min(one.part, _CHUNK)) for one in model.engines))


def _elsewhere(long: I64, usual: int, model: ServiceModel) -> ServiceModel:
    """``model`` with prompts of the ``usual`` length in the place of the ``long`` ones."""
    return replace(model, prompt=np.where(np.isin(model.rids, long), usual, model.prompt))


def _prefix(facts: ServiceFacts) -> Cause | Skipped | None:
    """Prompts are computed anew that the prefix cache gave before, or gives to others, or it never gives any."""
    lat, requests = facts.latencies, facts.found.service.requests
    rows = np.flatnonzero((requests.rid >= 0) & np.isfinite(requests.hit_rate))
    rows = rows[np.isin(requests.rid[rows], facts.ttft.rids)]
    if len(rows) < 2 * FEWEST_REQUESTS:
        return _prefix_none(facts, np.zeros(0))
    rids, rates = requests.rid[rows].astype(np.int64), requests.hit_rate[rows]  # by start
    changed = _hits_end(facts, requests.start[rows], rates > _NO_HITS)
    if (lost := lost_prefix(facts)) is not None:
        if changed is None:
            return lost
        words = {**lost.title.args, **changed}
        told, explained, why = (message(f"finding.service.prefix_{key}", **words) for key in _CHANGED)
        return replace(lost, title=told, detail=sentences(explained, why), advice=("service_prefix_changed",))
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
        fall = draft_of(
            max(shares), "prefix_fall", "prefix_fall_detail", words, cost, facts.found.steps.prompts,
            lambda model: replace(
                model, prompt=np.maximum(np.rint(model.prompt * less[model.rids]), 1).astype(np.int64)
            ),
        )  # fmt: skip
        if changed is None:
            return fall
        why = message("finding.service.prefix_changed", **changed)
        return replace(fall, detail=sentences(fall.detail, why), advice=("service_prefix_changed",))
    return _prefix_none(facts, rates)


def _hits_end(facts: ServiceFacts, start: I64, hits: Bools) -> dict[str, float] | None:
    """The moment from which none of the requests that ``start`` then ``hits`` any more, with blocks free all the time.

    What is evicted is there again once one of them has computed it; None where chance or a lack of blocks may do that.
    """
    steps, room = facts.found.steps, facts.found.room
    last = int(np.flatnonzero(hits)[-1]) if hits.any() else len(hits) - 1
    rate = float(hits[: last + 1].mean()) if len(hits) else 0.0
    if (1 - rate) ** (len(hits) - 1 - last) > UNSEEN:
        return None
    since = int(start[last + 1])
    free = steps.free[(steps.opened >= since) & (steps.free != UNKNOWN)]
    total = max(room.total, default=0)
    if not len(free) or int(free.min()) < NOTABLE * total:
        return None
    return {"since": since - int(steps.opened.min()), "rate": rate, "free": int(free.min()), "total": total}


_CHANGED = "stopped", "stopped_detail", "changed"


def _prefix_none(facts: ServiceFacts, rates: F64) -> Cause | Skipped | None:
    """The prefix cache gives nothing, or much to few, though prompts may begin alike: their lengths speak for it."""
    lat, rids, block = facts.latencies, facts.ttft.rids, facts.found.room.block
    share, tokens = facts.ttft.share(TTFT.prefill)[0], facts.tpot.share(TPOT.surcharge, TPOT.prompts)[0]
    lengths = facts.asked[rids]
    least, usual, most = (float(np.quantile(lengths, share)) for share in (0.0, HALF, ALMOST_ALL))
    alike = len(lengths) >= _TELLING and least >= _FLOOR * usual and most > (1 + NOTABLE) * least
    hits = rates > _NO_HITS
    none = not hits.any()
    seldom = not none and hits.mean() < A_PART and float(rates[hits].mean()) > HALF
    mostly = share >= _MOSTLY or tokens >= facts.limits[TAIL_SHARE]
    if not ((none or seldom) and alike) and not (len(rates) and rates.mean() <= _NO_HITS and mostly):
        return None
    kind = "unknown" if not len(rates) else "none" if none else "seldom"
    words = {
        "rate": float(rates.mean()) if len(rates) else 0.0, "share": share, "tokens": tokens, "count": len(rates),
        "hits": int(hits.sum()), "least": round(least), "most": round(most),
    }  # fmt: skip
    shared = _if_shared(facts, int(least) // block * block if block else 0)
    if shared is None or not facts.gains(shared[0]):
        return Skipped(message("finding.service.prefix_unasked", **words)) if len(rates) and mostly else None
    told, explained = (message(f"finding.service.{key}", **words) for key in (f"prefix_{kind}", "prefix_none_detail"))
    explained = sentences(explained, message("finding.service.prefix_alike", **words) if alike else "")
    none_lost = np.zeros(len(lat.prompt), np.int64)
    return Cause(
        max(share, tokens),
        told,
        explained,
        none_lost,
        facts.found.steps.prompts,
        shared[0],
        hint=shared[1],
        likely=alike,
    )


def _if_shared(facts: ServiceFacts, floor: int) -> tuple[Remedy, Message] | None:
    """The remedy that all prompts have their first ``floor`` tokens in common, and what it would change, if known."""
    lat, rids = facts.latencies, facts.ttft.rids
    remedy = partial(_cached, floor, int((lat.start + lat.ttft)[rids].min()))
    then = facts.after(remedy) if floor > 0 else None
    if then is None or not known(facts.figures, then):
        return None
    return remedy, message("finding.service.prefix_if", floor=floor, changes=facts.changes(then))


def _cached(floor: int, since: int, model: ServiceModel) -> ServiceModel:
    """``model`` with ``floor`` tokens of each prompt ``since`` the first one in the prefix cache; the context stays."""
    prompt = np.where(model.start < since, model.prompt, np.maximum(model.prompt - floor, 1))
    return replace(model, prompt=prompt, cached=floor)


_TELLING, _FLOOR = 50, 0.7  # so many prompts that are this share of the median one at the least begin alike, maybe
_NO_HITS, _MOSTLY = 0.02, 0.5  # a mean rate up to this is nil; where prefill is less of TTFT hits would change little


def _inputs(facts: ServiceFacts) -> Cause | None:
    """The inputs of steps take long; whether they do by the tokens of prompts, or piece by piece."""
    found, steps = _every_input(facts), facts.found.steps
    token = max((engine.prepare[2] for engine in facts.model.engines), default=0.0) if facts.model else 0.0
    if found is None or (growing := grows(facts, found, Cycle.prepare)) is not found:
        return None if found is None else growing
    if token * float(steps.prompts.sum()) >= HALF * float(steps.cycle[:, Cycle.prepare].sum()):
        return replace(found, detail=sentences(found.detail, message("finding.service.inputs_grow", token=token)))
    if (pieces := pieces_of(facts.found, Cycle.prepare)) is None:
        return by_name(facts, found, Cycle.prepare)
    of_tokens = facts.tpot.share(TPOT.prepare)[0] >= facts.ttft.share(TTFT.prepare)[0]
    words = {
        "share": found.share, "metric": facts.called(facts.tpot if of_tokens else facts.ttft),
        "piece": pieces[0], "most": pieces[1], "size": int(steps.size.max()),
    }  # fmt: skip
    told, explained = (message(f"finding.service.{key}", **words) for key in ("pieces", "pieces_detail"))
    return replace(found, title=told, detail=sentences(explained, found.detail), advice=("service_pieces",))


_every_input = part("inputs", partial(as_usual, "prepare"), TTFT.prepare, TPOT.prepare, Cycle.prepare)


def _rank(facts: ServiceFacts) -> Cause | Skipped | None:
    found = slow_host(facts) or rank(facts)
    return found if isinstance(found, Cause) else stale(facts) or found


def _rule(
    id_: str, page: str, check: Callable[[ServiceFacts], Cause | Skipped | None], *thresholds: AnyThreshold,
    advice: tuple[str, ...] = (),
) -> ServiceRule:  # fmt: skip
    """A rule that follows ``page`` of Huawei's case book on the performance of services."""
    return ServiceRule(id_, "service", "service", advice, ((page, f"{_BOOK}/{page}.md"),), "", thresholds, check=check)


SERVICE_RULES = (
    _rule("SERVICE.KV", "kv_block_shortage", kv, SHARE, TAIL_SHARE,
          advice=("SERVICE.KV", "service_lost", "service_reserved", "service_answers", "service_head", "service_kept",
                  "service_size", "service_turns", "service_held", "service_gone")),
    _rule(
        "SERVICE.QUEUE", "request_wait_latency", queue, SHARE, TAIL_SHARE,
        advice=("service_room", "service_load", "service_burst", "service_prefill", "service_decode", "service_order",
                "service_gone", "service_limit"),
    ),
    _rule("SERVICE.WAIT", "request_wait_latency", wait, SHARE, TAIL_SHARE,
          advice=("SERVICE.WAIT", "service_timer", "service_looks", "service_drained", "service_adapters",
                  "service_grammar", "service_wait_range", "service_one_prompt")),
    _rule(
        "SERVICE.MIX", "batch_request_length_imbalance", _mix, SHARE, TAIL_SHARE, LONG_PROMPT,
        advice=("service_chunks", "service_apart", "service_part"),
    ),
    _rule("SERVICE.RANK", "dp_load_imbalance", _rank, SLOWER, RANK_LOAD,
          advice=("service_device", "service_routing", "service_joins", "service_rank_host", "service_stale")),
    _rule(
        "SERVICE.SCHEDULER", "scheduler_high_latency",
        _steady(scheduler, Cycle.schedule), SHARE,
        advice=("SERVICE.SCHEDULER", "service_scheduler_waiting", "service_grows", "service_since"),
    ),
    _rule(
        "SERVICE.INPUTS", "model_pre_post_processing_latency",
        _steady(lambda facts: None if workers(facts) else _inputs(facts), Cycle.prepare), SHARE,
        advice=("SERVICE.INPUTS", "service_pieces"),
    ),
    _rule("SERVICE.BUBBLE", "async_dual_launch_failure", _steady(bubble, Cycle.bubble), SHARE,
          advice=("SERVICE.BUBBLE", "service_between", "service_output_detokenizer")),
    _rule(
        "SERVICE.STALL", "request_wait_latency", lambda facts: stops(facts) or stall(facts), SHARE, TAIL_SHARE,
        advice=("service_stall", "service_stall_sizes", "service_stall_schedules", "service_stall_inputs",
                "service_stall_timer", "service_stall_quota", "service_store", "service_stall_passes",
                "service_stall_first", "service_again", "service_adapters"),
    ),
    _rule("SERVICE.CHUNKS", "service_vs_model_performance_gap", _chunks, SHARE, TAIL_SHARE),
    _rule(
        "SERVICE.SAMPLING", "sampler_high_latency", _steady(sampling, Cycle.sampling), SHARE,
        advice=("SERVICE.SAMPLING", "service_sampling_given", "service_sampling_special"),
    ),
    _rule(
        "SERVICE.FRONTEND", "model_pre_post_processing_latency",
        frontend, SHARE,
        advice=("SERVICE.FRONTEND", "service_accept", "service_tokenizers", "service_tokenizer_slow", "service_media",
                "service_fetch",
                "service_wait_range", "service_in_flight"),
    ),
    _rule(
        "SERVICE.OUTPUT", "model_pre_post_processing_latency", output, SHARE,
        advice=("SERVICE.OUTPUT", "service_output_detokenizer", "service_output_clients", "service_output_timer",
                "service_output_loop", "service_output_tokenizer"),
    ),
    _rule("SERVICE.COPIES", "service_vs_model_performance_gap", copies, SHARE),
    _rule("SERVICE.HOST", "gil_lock_preemption", shared, SHARE),
    _rule("SERVICE.STOP", "service_vs_model_performance_gap", stop, advice=("SERVICE.STOP",)),
    _rule("SERVICE.REPEATS", "request_wait_latency", repeats, SHARE,
          advice=("SERVICE.REPEATS", "service_copies_sent", "service_retries", "service_probes")),
    _rule("SERVICE.WORKERS", "framework_dispatch_desync", workers, SHARE),
    _rule(
        "SERVICE.TRANSFER", "kvcache_transfer_performance", transfer, SHARE, SLOWER,
        advice=("SERVICE.TRANSFER", "service_setup", "service_serial", "service_handover"),
    ),
    _rule(
        "SERVICE.MODEL", "model_performance_slo_degradation", model, SLOWER,
        advice=("SERVICE.MODEL", "service_warm", "service_sizes", "service_filled", "service_eager", "service_captured",
                "service_padded", "service_several_steps"),
    ),
    _rule("SERVICE.PREFIX", "prefix_cache_miss", _prefix, SHARE, TAIL_SHARE, HIT_FALL,
          advice=("SERVICE.PREFIX", "service_prefix_spread", "service_prefix_evicted", "service_prefix_changed")),
    _rule("SERVICE.DRAFTS", "service_vs_model_performance_gap", drafts, ACCEPTED,
          advice=("SERVICE.DRAFTS", "service_drafts_slow")),
)  # fmt: skip
"""The rules about a service."""
