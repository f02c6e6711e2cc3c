"""Findings about what slows the host of a service in all that it does: a cause of several parts, told once."""

from __future__ import annotations

from functools import partial

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.limits import NOTABLE
from npu_tui.analysis.service_host import shared_of
from npu_tui.analysis.service_model import ServiceModel
from npu_tui.analysis.service_steps import Cycle
from npu_tui.rules.service_facts import Cause, Remedy, ServiceFacts, draft_of
from npu_tui.trace.arrays import I64, summed
from npu_tui.trace.intervals import covered_within
from npu_tui.trace.message import message


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
