"""Findings about requests of a service that wait though there is room for them: for a timer, a batch or an adapter."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.analysis.limits import HALF, HARDLY_ANY, LITTLE, NOTABLE, SOME
from npu_tui.analysis.service_cost import FEWEST
from npu_tui.analysis.service_model import ServiceModel, with_engines
from npu_tui.analysis.service_timeline import TTFT
from npu_tui.rules.rule import sentences
from npu_tui.rules.service_facts import SHORT, Cause, Remedy, ServiceFacts, draft_of
from npu_tui.trace.arrays import I64, summed
from npu_tui.trace.message import message
from npu_tui.trace.service import ADAPTERS, GRAMMARS, UNKNOWN
from npu_tui.trace.text import brief


def wait(facts: ServiceFacts) -> Cause | None:
    """Requests wait although the batch has room and blocks are free, or although nothing runs at all."""
    engines = facts.model.engines if facts.model else ()
    share = facts.ttft.share(TTFT.queue_other)
    for kind in ("timer", "looks", "patience"):
        time = max((getattr(engine, kind) for engine in engines), default=0.0)
        if time and facts.worth((share[0], share[0]), _impatient, NOTABLE):
            return draft_of(
                share[0], kind, f"{kind}_detail", {"share": share[0], "patience": time}, facts.cost(TTFT.queue_other),
                facts.held(TTFT.queue_other), _impatient, "service_looks" if kind == "looks" else "service_timer",
            )  # fmt: skip
    if not facts.knows_blocks:
        return None
    draft = draft_of(
        max(share), "wait", "wait_detail", {"share": max(share)}, facts.cost(TTFT.queue_other),
        facts.held(TTFT.queue_other), _at_once,
    )  # fmt: skip
    if not facts.holds:  # few waits count where something says what they are for
        adapters = _for_adapters(facts, draft)
        return adapters if adapters and adapters.remedy and facts.gains(adapters.remedy) else None
    kinds = _drained, _one_prompt, _for_adapters, _for_range
    return next((found for kind in kinds if (found := kind(facts, draft))), draft)


def _impatient(model: ServiceModel) -> ServiceModel:
    return with_engines(model, patience=0.0, timer=0.0, looks=0.0)


def _at_once(model: ServiceModel) -> ServiceModel:
    return replace(model, held=np.zeros_like(model.held))


def _drained(facts: ServiceFacts, draft: Cause) -> Cause | None:
    """Requests are taken in only once all of the batch before have ended."""
    found, steps = facts.found, facts.found.steps
    new = np.bincount(found.pair_step[found.entries], minlength=len(steps))
    before = np.append(False, steps.engine[1:] == steps.engine[:-1]) & (new > 0)
    alone = found.seated == new
    several = np.flatnonzero(before)[steps.size[np.flatnonzero(before) - 1] > 0]
    if len(several) < FEWEST or alone[several].mean() < 1 - LITTLE:
        return None
    share = max(facts.ttft.share(TTFT.queue_other))
    words = {"share": share, "count": len(several), "size": float(found.seated[several].mean())}
    told, explained = (message(f"finding.service.{key}", **words) for key in ("drained", "drained_detail"))
    return replace(draft, title=told, detail=explained, advice=("service_drained",))


def _one_prompt(facts: ServiceFacts, draft: Cause) -> Cause | None:
    """No pass takes in more than one prompt while others wait that there is room for."""
    found, steps = facts.found, facts.found.steps
    chunks = np.bincount(found.pair_step[found.pair_prompt], minlength=len(steps))
    held = found.serving[(found.queued == TTFT.queue_other)[found.serving]]
    if chunks.max(initial=0) != 1 or np.count_nonzero(chunks[held]) < max(FEWEST, HALF * len(held)):
        return None
    mine = held[chunks[held] > 0]
    words = {
        "share": draft.share, "count": len(mine), "tokens": round(float(np.median(steps.prompts[mine]))),
        "size": round(float(np.median(found.seated[mine]))), "most": int(found.seated.max()),
        "budget": int((steps.prompts + steps.decoded).max()),
    }  # fmt: skip
    told, explained = (message(f"finding.service.{key}", **words) for key in ("one_prompt", "one_prompt_detail"))
    return replace(draft, title=told, detail=explained, advice=("service_one_prompt",))


class OwnRanges(Struct, frozen=True, eq=False):
    """The ranges of requests with the code ``name``, and for how long each request (requests,) was in them, ns."""

    name: int
    time: I64


def ranges_within(facts: ServiceFacts, low: I64, high: I64, most: I64, but: Sequence[int] = ()) -> OwnRanges | None:
    """The kind of ranges of their own that requests are longest in from ``low`` to ``high``, for ``most`` ns each.

    None ``but`` others, nor such that last longer outside of these times.
    """
    spans = facts.found.service.spans
    rows = np.flatnonzero((spans.rid >= 0) & (spans.end > spans.start) & ~np.isin(spans.name, but))
    rows = rows[(low != UNKNOWN)[spans.rid[rows]]]
    rid, name = spans.rid[rows].astype(np.int64), spans.name[rows]
    inside = np.maximum(np.minimum(spans.end[rows], high[rid]) - np.maximum(spans.start[rows], low[rid]), 0)
    capped = np.minimum(inside, most[rid])
    lasting = (spans.end - spans.start)[rows]
    sums, here, whole = (np.bincount(name, time, minlength=1) for time in (capped, inside, lasting))
    sums = np.where(here >= HALF * whole, sums, 0)
    usual = int(sums.argmax())
    if not sums[usual]:
        return None
    mine = name == usual
    return OwnRanges(usual, np.minimum(summed(rid[mine], capped[mine], len(low)), most))


def _for_range(facts: ServiceFacts, draft: Cause) -> Cause | None:
    """Those that wait do so while a range of their own is open: what it makes they need first."""
    found, lat = facts.found, facts.latencies
    low = np.where(lat.first >= 0, lat.arrival, UNKNOWN)
    own = ranges_within(facts, low, found.steps.opened[lat.first], draft.cost)
    if own is None or own.time.sum() < HALF * max(int(draft.cost.sum()), 1):
        return None
    name, time = found.service.text(own.name), own.time
    share = facts.ttft.shares(np.minimum(time, lat.ttft_parts.sum(axis=1))[facts.ttft.rids])
    words = {
        "share": max(share), "name": brief(name, SHORT), "count": int(np.count_nonzero(time)),
        "all": len(facts.ttft.rids), "each": float(time[time > 0].mean()), "part": float(time.sum() / draft.cost.sum()),
    }  # fmt: skip
    grammar = any(word in name.lower() for word in GRAMMARS)
    told, explained = (message(f"finding.service.{key}", **words) for key in ("wait_range", "wait_range_detail"))
    advice = ("service_grammar",) if grammar else ("service_wait_range",)
    return replace(draft, title=told, detail=explained, cost=time, advice=advice)


def _for_adapters(facts: ServiceFacts, draft: Cause) -> Cause | None:
    """Adapters are loaded again and again: those that do not fit beside each other wait."""
    spans, service = facts.found.service.spans, facts.found.service
    named = [code for code, text in enumerate(service.texts) if any(word in text.lower() for word in ADAPTERS)]
    rows = np.flatnonzero(np.isin(spans.name, named) & (spans.end > spans.start))
    if len(rows) < max(SOME, HARDLY_ANY * len(facts.found.steps)):
        return None
    usual = int(np.bincount(spans.name[rows]).argmax())
    mine = rows[spans.name[rows] == usual]
    words = {
        "share": max(facts.ttft.share(TTFT.queue_other)), "name": brief(service.text(usual), SHORT), "count": len(mine),
        "steps": len(facts.found.steps), "each": float((spans.end - spans.start)[mine].mean()),
    }  # fmt: skip
    told, explained = (message(f"finding.service.{key}", **words) for key in ("adapters", "adapters_detail"))
    draft = replace(draft, title=told, detail=explained, advice=("service_adapters",))
    if (again := facts.again(mine)) is None:
        return draft if facts.holds else None
    told = message("finding.service.adapters_again", **words | again[0].args)
    loads = facts.freed(again[1])
    remedy = draft.remedy if loads is None else partial(_resident, loads)
    return replace(draft, title=told, detail=sentences(explained, again[0]), remedy=remedy)


def _resident(loads: Remedy, model: ServiceModel) -> ServiceModel:
    """``model`` without the ``loads`` of adapters, and without waits for them."""
    return _at_once(loads(model))
