"""Findings about the way of requests to the queue: ranges of their own, limits, acceptance and the tokenizer."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.limits import FAR_LONGER, HALF, LITTLE, MORE_THAN_ONE, NEARLY_ALL
from npu_tui.analysis.service_model import ServiceModel
from npu_tui.analysis.service_steps import ROUNDING
from npu_tui.analysis.service_timeline import TTFT
from npu_tui.rules.rule import sentences
from npu_tui.rules.service_answers import held_by_prompts
from npu_tui.rules.service_facts import SHARE, SHORT, Cause, ServiceFacts
from npu_tui.rules.service_parts import part
from npu_tui.rules.service_waits import ranges_within
from npu_tui.trace.arrays import summed
from npu_tui.trace.intervals import covered_within
from npu_tui.trace.message import message
from npu_tui.trace.service import FETCHERS, TOKENIZERS, UNKNOWN
from npu_tui.trace.text import brief


def frontend(facts: ServiceFacts) -> Cause | None:
    """Requests are long on their way to the queue: before the tokenizer, waiting for it, or within it.

    What a healthy service has, tokens made at the usual speed, is no cause: a small part does not count by its gain.
    """
    found, rids, lat = _every_frontend(facts), facts.ttft.rids, facts.latencies
    begin, end, of = facts.tokenizing
    if found is None or found.share < facts.limits[SHARE]:
        return None
    if told := _in_flight(facts, found) or _for_range(facts, found):
        return told
    if held_by_prompts(facts):  # told with the tokens that it holds up
        return None
    if not len(of):
        return found
    own, begun = summed(of, end - begin, len(lat.start)), np.full(len(lat.start), UNKNOWN)
    begun[of[::-1]] = begin[::-1]
    front = lat.ttft_parts[:, TTFT.frontend]
    waits, before = np.maximum(front - own, 0), np.where(begun == UNKNOWN, 0, np.clip(begun - lat.start, 0, front))
    # One thread begins the next one when it ends the last one, give or take what times are rounded by.
    order = np.argsort(moments := np.append(np.maximum(end - ROUNDING, begin), begin), kind="stable")
    running, moments = np.cumsum(np.where(order < len(begin), -1, 1)), moments[order]
    busy = np.flatnonzero(running[:-1] == running.max())  # all threads of the tokenizer
    full = covered_within(moments[busy], moments[busy + 1], lat.start, np.maximum(begun, lat.start))
    whole = max(float(front[rids].sum()), 1.0)
    words = {"own": float(own[rids].mean()), "waits": float(waits[rids].mean()), "share": found.share}
    detail = sentences(found.detail, message("finding.service.frontend_tokenizer", **words))

    def begun_at_once(model: ServiceModel) -> ServiceModel:
        return replace(model, front=np.maximum(model.front - before[model.rids], 0))

    if before[rids].sum() >= HALF * whole and np.minimum(full, before)[rids].sum() < HALF * before[rids].sum():
        title, detail = (message(f"finding.service.{key}", **words) for key in ("accept", "accept_detail"))
        return replace(found, title=title, detail=detail, remedy=begun_at_once, advice=("service_accept",))
    if before[rids].sum() >= HALF * whole:  # all threads of it are taken
        words |= {
            "threads": int(running.max()),
            "busy": float((moments[busy + 1] - moments[busy]).sum() / max(int(end.max() - begin.min()), 1)),
            "token": float(own[rids].sum() / max(int(facts.asked[rids].sum()), 1)),
        }
        # It has no time to spare: more of it is needed. Else they would be enough if it was quick.
        kind = "tokenizers" if words["busy"] >= NEARLY_ALL else "tokenizer_slow"
        title, detail = (message(f"finding.service.{key}", **words) for key in (kind, f"{kind}_detail"))
        found = replace(found, title=title, detail=detail, advice=(f"service_{kind}",))
        if kind == "tokenizer_slow":
            return replace(found, instead=("tokenizers", begun_at_once))
        return replace(found, remedy=begun_at_once, instead=("quick_tokenizer", _none_of_it))
    each = own / np.maximum(lat.prompt, 1)
    usual = float(np.quantile(each[rids], _FASTEST)) * np.maximum(lat.prompt, 1)
    far = (own > FAR_LONGER * usual) & (own > np.median(own[rids]))
    if (own * far)[rids].sum() >= HALF * max(own[rids].sum(), 1) and own[rids].sum() >= HALF * (
        whole - full[rids].sum()
    ):

        def as_fast(model: ServiceModel) -> ServiceModel:
            return replace(model, front=np.minimum(model.front, usual[model.rids].astype(np.int64)))

        words |= {"count": int(far[rids].sum()), "all": len(rids), "each": float(own[rids][far[rids]].mean())}
        title, detail = (message(f"finding.service.{key}", **words) for key in ("media", "media_detail"))
        return replace(found, title=title, detail=detail, remedy=as_fast, advice=("service_media",))
    if not LITTLE <= own[rids].mean() / max((waits + own)[rids].mean(), 1) <= HALF:
        return replace(found, detail=detail)

    def at_once(model: ServiceModel) -> ServiceModel:
        return replace(model, front=np.minimum(model.front, own[model.rids]))

    return replace(found, detail=detail, instead=("tokenizers", at_once))


def _for_range(facts: ServiceFacts, found: Cause) -> Cause | None:
    """Some requests are long on their way to the queue because of a range of their own beside the tokenizer."""
    service, lat = facts.found.service, facts.latencies
    front = lat.ttft_parts[:, TTFT.frontend]
    tokenizers = [code for code, text in enumerate(service.texts) if text.lower() in TOKENIZERS]
    own = ranges_within(facts, lat.start, lat.start + front, front, tokenizers)
    if own is None or own.time[facts.ttft.rids].sum() < HALF * max(int(front[facts.ttft.rids].sum()), 1):
        return None
    name, time = service.text(own.name), own.time
    words = {
        "share": facts.ttft.shares(time[facts.ttft.rids])[0], "name": brief(name, SHORT), "all": len(facts.ttft.rids),
        "count": int(np.count_nonzero(time)), "each": float(time[time > 0].mean()),
        "part": float(time.sum() / max(int(front.sum()), 1)),
    }  # fmt: skip

    def without(model: ServiceModel) -> ServiceModel:
        return replace(model, front=np.maximum(model.front - time[model.rids], 0))

    title, detail = (message(f"finding.service.{key}", **words) for key in ("front_range", "front_range_detail"))
    fetched = any(word in name.lower() for word in FETCHERS)
    advice = ("service_fetch",) if fetched else ("service_wait_range",)
    return replace(found, title=title, detail=detail, cost=time, remedy=without, advice=advice)


def _in_flight(facts: ServiceFacts, found: Cause) -> Cause | None:
    """Requests wait before the queue, once they are tokens, until one of so many under way has ended."""
    lat, rids = facts.latencies, facts.ttft.rids
    front = lat.ttft_parts[:, TTFT.frontend]
    _, end, of = facts.tokenizing
    ready = lat.start.copy()
    np.maximum.at(ready, of, end)
    came = lat.start + front
    known = np.flatnonzero((lat.start != UNKNOWN) & (lat.whole != UNKNOWN))
    waits = np.zeros(len(front), np.int64)
    waits[known] = np.clip((came - ready)[known], 0, front[known])
    if waits[rids].sum() < HALF * max(int(front[rids].sum()), 1):
        return None
    moments = np.append(came[known], (lat.start + lat.whole)[known])
    more = np.repeat((1, -1), len(known))
    order = np.lexsort((more, moments))  # one that leaves makes room for the next one
    moments, running = moments[order], np.cumsum(more[order])
    lasting = np.diff(moments, append=moments[-1:])
    most = int(np.median(running[np.searchsorted(moments, came[known[waits[known] > 0]], "right") - 1]))
    full = np.flatnonzero((running >= most) & (lasting > 0))
    if most < MORE_THAN_ONE or lasting[running > most].sum() > LITTLE * lasting[full].sum():
        return None
    inside, until = np.zeros(len(front), np.int64), came[known]
    inside[known] = covered_within(moments[full], moments[full] + lasting[full], until - waits[known], until)
    if inside[rids].sum() < NEARLY_ALL * waits[rids].sum():
        return None
    words = {
        "share": facts.ttft.shares(waits[rids])[0], "most": most, "waits": float(waits[rids].mean()),
        "part": float(inside[rids].sum() / waits[rids].sum()),
        "queue": float(facts.ttft.part(TTFT.queue_full, TTFT.queue_blocks).mean()),
    }  # fmt: skip

    def at_once(model: ServiceModel) -> ServiceModel:
        return replace(model, front=np.maximum(model.front - waits[model.rids], 0))

    title, detail = (message(f"finding.service.{key}", **words) for key in ("in_flight", "in_flight_detail"))
    return replace(found, title=title, detail=detail, cost=waits, remedy=at_once, advice=("service_in_flight",))


_FASTEST = 0.25  # the quantile of the tokenizer's time per token that is its usual one: most prompts may have images


def _none_of_it(model: ServiceModel) -> ServiceModel:
    return replace(model, front=np.zeros_like(model.front))


_every_frontend = part("frontend", _none_of_it, TTFT.frontend)
