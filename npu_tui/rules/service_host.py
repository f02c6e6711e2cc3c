"""Findings about the host of a service: what slows all that it does, and ranges that passes and requests wait for."""

from __future__ import annotations

from functools import partial

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.limits import ALMOST_ALL, EVEN, LITTLE, NEARLY_ALL, NOTABLE, SOME
from npu_tui.analysis.service_cost import FEWEST
from npu_tui.analysis.service_host import of_range, shared_of
from npu_tui.analysis.service_model import ServiceModel
from npu_tui.analysis.service_steps import Cycle
from npu_tui.analysis.service_timeline import TPOT
from npu_tui.rules.service_facts import SHORT, Cause, Remedy, ServiceFacts, draft_of
from npu_tui.trace.arrays import I64, summed
from npu_tui.trace.intervals import covered_within
from npu_tui.trace.message import message
from npu_tui.trace.service import DRAFTERS
from npu_tui.trace.text import brief


def shared(facts: ServiceFacts) -> Cause | None:
    """Each request that is open slows all that the host does, as where it shares a process with the engine."""
    begin, end, of = facts.tokenizing
    told = shared_of(facts.found, begin, end, facts.asked[of])
    if told is None:
        return None
    lat = facts.latencies
    own = summed(of, told.own, len(lat.start))
    remedy = _sooner(facts.freed(told.time), own)
    cost, tokens = _cost(facts, told.time)
    share = facts.tpot.shares(tokens[facts.tpot.rids])
    if remedy is None or not facts.worth((share[0], share[0]), remedy, NOTABLE):
        return None
    words = {"share": share[0], "each": told.each, "open": told.open, "times": 1 + told.each * told.open}
    draft = draft_of(
        share[0], "shared", "shared_detail", words, cost + np.minimum(own, lat.ttft_parts.sum(axis=1)),
        told.time.sum(axis=1), remedy,
    )  # fmt: skip
    return replace(draft, root=True)


def stops(facts: ServiceFacts) -> Cause | None:
    """The host stands still until the same moment of every period, in whatever it does then."""
    told = facts.stops
    if told is None:
        return None
    begin, end, of = facts.tokenizing
    own = summed(of, covered_within(told.begin, told.end, begin, end), len(facts.latencies.start))
    remedy = _sooner(facts.freed(told.time), own)
    cost, tokens = _cost(facts, told.time)
    first = cost - tokens + np.minimum(own, facts.cost())
    of_first, of_tokens = facts.ttft.shares(first[facts.ttft.rids]), facts.tpot.shares(tokens[facts.tpot.rids])
    if remedy is None or not any(facts.worth(one, remedy, NOTABLE) for one in (of_first, of_tokens)):
        return None
    lasting, sums = told.time.sum(axis=1), told.time.sum(axis=0)
    parts = sorted((part for part in Cycle if sums[part]), key=lambda part: -sums[part])
    share = max(of_first[0], of_tokens[0])
    words = {
        "share": share,
        "metric": facts.called(facts.ttft if of_first[0] >= of_tokens[0] else facts.tpot),
        "count": int(np.count_nonzero(lasting)), "time": int(lasting.sum()), "longest": told.lasting,
        "at": int(told.begin[1] - told.begin[0]), "first": of_first[0], "tokens": of_tokens[0], "period": told.period,
        "parts": [
            message("finding.service.stall_part", name=message(f"latency.part.{part.name}"),
                    share=float(sums[part] / max(sums.sum(), 1)))
            for part in parts
        ],
    }  # fmt: skip
    draft = draft_of(share, "stall_quota", "stops_detail", words, cost, lasting, remedy, "service_stall_quota")
    return replace(draft, root=True)


def _cost(facts: ServiceFacts, time: I64) -> tuple[I64, I64]:
    """What each request spent of ``time`` (steps, 7) in all of its steps, and in those after its first token."""
    found, lat = facts.found, facts.latencies
    each = time.sum(axis=1)[found.pair_step]
    later = found.pair_step > lat.token[found.pair_rid]
    return summed(found.pair_rid, each, len(lat.start)), summed(found.pair_rid[later], each[later], len(lat.start))


def _sooner(remedy: Remedy | None, own: I64) -> Remedy | None:
    """``remedy`` and the time ``own`` (requests,) less in the frontend."""
    if remedy is None:
        return None
    return partial(_both, remedy, own)


def _both(remedy: Remedy, own: I64, model: ServiceModel) -> ServiceModel:
    model = remedy(model)
    return replace(model, front=np.maximum(model.front - own[model.rids], 0))


def copies(facts: ServiceFacts) -> Cause | None:
    """A range takes as long in every forward pass, whatever that computes, as where weights are copied."""
    found, steps, spans = facts.found, facts.found.steps, facts.found.service.spans
    mine = found.serving
    least = NOTABLE * float(np.median(steps.forward[mine])) if len(mine) >= FEWEST else np.inf
    often = np.bincount(spans.name[(spans.rid < 0) & (spans.end - spans.start >= least)], minlength=1)
    for code in np.flatnonzero(often >= NEARLY_ALL * len(mine)).tolist():
        if any(word in found.service.text(code).lower() for word in DRAFTERS):  # drafts are reported as such
            continue
        time = of_range(found, code, Cycle.forward)
        if not _is_flat(facts, time[mine, Cycle.forward]) or (remedy := facts.freed(time)) is None:
            continue
        if not facts.gains(remedy):
            continue
        each = time[:, Cycle.forward]
        cost = summed(found.pair_rid, each[found.pair_step], len(facts.latencies.start))
        later = found.pair_step > facts.latencies.token[found.pair_rid]
        tokens = summed(found.pair_rid[later], each[found.pair_step[later]], len(facts.latencies.start))
        share = facts.tpot.shares(np.minimum(tokens, facts.cost(*TPOT))[facts.tpot.rids])[0]
        words = {
            "name": brief(found.service.text(code), SHORT), "share": share, "time": int(np.median(each[mine])),
            "few": int(steps.size[mine].min()), "many": int(steps.size[mine].max()),
            "tokens": int(steps.prompts[mine].max()),
        }  # fmt: skip
        return draft_of(share, "copies", "copies_detail", words, cost, each, remedy)
    return None


def _is_flat(facts: ServiceFacts, time: I64) -> bool:
    """Whether ``time`` of forward passes is part of each and the same in all, while the rest grows with the work."""
    mine, steps = facts.found.serving, facts.found.steps
    forward, prompts = steps.forward[mine], steps.prompts[mine]
    if (time > 0).mean() < NEARLY_ALL or time.sum() >= ALMOST_ALL * forward.sum():
        return False
    low, usual, high = np.quantile(time[time > 0], (LITTLE, 0.5, 1 - LITTLE))
    much = prompts > np.quantile(prompts, ALMOST_ALL)
    if much.sum() < SOME or high - low > NOTABLE * usual:
        return False
    rest = forward - time
    grows = float(np.median(rest[much])) - float(np.median(rest[~much]))
    return abs(float(np.median(time[much])) - float(np.median(time[~much]))) <= EVEN * grows
