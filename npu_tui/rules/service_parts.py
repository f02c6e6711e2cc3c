"""Findings about parts of TTFT and TPOT that a healthy service has little of, and the ways to queue and decode."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.limits import ALMOST_ALL, HALF, LITTLE, NEARLY_ALL, NOTABLE
from npu_tui.analysis.service_cost import given_before, line_of
from npu_tui.analysis.service_host import named_in, of_range, parts_of
from npu_tui.analysis.service_model import ServiceModel, with_engines
from npu_tui.analysis.service_steps import Cycle
from npu_tui.analysis.service_timeline import TPOT, TTFT
from npu_tui.rules.rule import sentences
from npu_tui.rules.service_engines import beside_others
from npu_tui.rules.service_facts import SHORT, SLOWER, Cause, Remedy, ServiceFacts, draft_of
from npu_tui.trace.arrays import F64, I64, Bools
from npu_tui.trace.intervals import covered_within, union
from npu_tui.trace.message import Message, message
from npu_tui.trace.service import ADAPTERS, DETOKENIZERS, GRAMMARS, SENDERS, UNKNOWN, Transfers
from npu_tui.trace.text import brief

FEWEST_REQUESTS = 10
"""Requests from which on a service is judged."""


def part(
    name: str, remedy: Remedy, first: TTFT | None, tokens: TPOT | None = None, shown: Cycle | None = None,
    least: float | None = None,
) -> Callable[[ServiceFacts], Cause | None]:  # fmt: skip
    """A check that a part of TTFT, or one of TPOT, is notable; ``shown`` is the column of cycles to pick steps by.

    A small part is notable where its remedy gains ``least`` (that of all parts).
    """
    firsts, others = (() if part is None else (part,) for part in (first, tokens))

    def check(facts: ServiceFacts) -> Cause | None:
        shares = facts.ttft.share(*firsts), facts.tpot.share(*others)
        if not any(facts.worth(one, remedy, least) for one in shares):
            return None
        (of_first, _), (of_tokens, _) = shares
        share = max(of_first, of_tokens)
        turns = np.maximum(facts.latencies.turns[facts.tpot.rids], 0)
        words = {
            "share": share, "first": of_first, "tokens": of_tokens,
            "mean": float(facts.ttft.part(*firsts).mean()) if len(facts.ttft.rids) else None,
            "each": float(facts.tpot.part(*others).sum() / max(turns.sum(), 1)),
        }  # fmt: skip
        kind = "tokens" if of_tokens >= of_first else "first"
        cycle = facts.found.steps.cycle
        blame = np.zeros(len(cycle), np.int64) if shown is None else cycle[:, shown]
        words |= {"usual": int(np.median(blame)), "longest": int(blame.max())} if shown is not None else {}
        cost = facts.cost(*firsts, *others)
        return draft_of(share, f"{name}_{kind}", f"{name}_detail", words, cost, blame, remedy)

    return check


def sampling(facts: ServiceFacts) -> Cause | None:
    """Sampling takes long: for some requests, ever longer with their answers, with the batch, or all the time."""
    found, told = _every_sampling(facts), facts.sampling
    if found and (growing := grows(facts, found, Cycle.sampling)) is not found:
        return growing
    found = by_name(facts, found, Cycle.sampling) if found else None
    if told is None or facts.model is None:
        return found
    steps, lat, serving = facts.found.steps, facts.latencies, facts.found.serving
    whole = max(float(steps.cycle[serving, Cycle.sampling].sum()), 1.0)
    words: dict[str, Any] = {"usual": int(told.fixed + told.each * float(steps.size[serving].mean()))}
    if told.token:
        kind, remedy = "given", _each_alike
        grown = np.bincount(facts.found.pair_step, given_before(facts.found), len(steps)) * told.token
        cost = np.bincount(facts.found.pair_rid, grown[facts.found.pair_step], len(lat.start)).astype(np.int64)
        words |= {"token": told.token, "longest": int(steps.cycle[serving, Cycle.sampling].max())}
    else:
        kind, remedy = "special", _none_special
        count = np.bincount(facts.found.pair_step, told.special[facts.found.pair_rid], len(steps))
        grown = told.extra * (np.minimum(count, 1) if told.once else count)
        cost = np.where(told.special, np.maximum(lat.turns, 0) * told.extra, 0).astype(np.int64)
        words |= {"count": int(told.special.sum()), "all": len(facts.ttft.rids), "extra": told.extra}
    share = max(facts.tpot.share(TPOT.sampling)[0], facts.ttft.share(TTFT.sampling)[0]) * float(grown.sum()) / whole
    if not facts.worth((share, share), remedy):
        return found
    title, detail = f"sampling_{kind}", f"sampling_{'once' if kind == 'special' and told.once else kind}_detail"
    if kind == "special" and (named := _that_takes(facts, grown.astype(np.float64))):
        title, detail = "sampling_named", f"sampling_named_{'once' if told.once else 'each'}"
        words |= named
    return draft_of(
        share, title, detail, words | {"share": share}, cost, grown.astype(np.int64), remedy,
        f"service_sampling_{kind}",
    )  # fmt: skip


def _that_takes(facts: ServiceFacts, grown: F64) -> dict[str, Any] | None:
    """The name of the ranges that take most of what sampling has ``grown`` by in each step (steps,), and how long."""
    spans, service = facts.found.service.spans, facts.found.service
    lasting = spans.end - spans.start
    sums = np.bincount(spans.name, lasting, minlength=1)
    sums[np.unique(service.batches.name)] = 0
    best, most = -1, NEARLY_ALL * float(grown.sum())
    usual = float(facts.found.steps.cycle[:, Cycle.sampling].sum() - grown.sum())
    for code in np.flatnonzero(sums >= most).tolist():
        time = of_range(facts.found, code, Cycle.sampling)[:, Cycle.sampling]
        besides = float(np.maximum(time - grown, 0).sum())
        both = float(np.minimum(time, grown).sum()) - besides
        if besides >= HALF * usual or time.sum() < HALF * sums[code]:  # all of sampling, or not of it
            continue
        if both > most:
            best, most = code, both
    if best < 0:
        return None
    name = brief(service.text(best), SHORT)
    return {"name": name, "times": int((spans.name == best).sum()), "time": int(sums[best])}


def _each_alike(model: ServiceModel) -> ServiceModel:
    engines = (replace(one, after=(*one.after[:2], 0.0)) for one in model.engines)
    return replace(model, engines=tuple(engines))


def _none_special(model: ServiceModel) -> ServiceModel:
    return replace(model, extra=None)


def by_name(facts: ServiceFacts, found: Cause, part: Cycle, *advice: str) -> Cause:
    """``found`` in a ``part`` of cycles by the names of the ranges that it lies in; as it is where none have it."""
    named = named_in(facts.found, *parts_of(facts.found.steps)[part])
    if not named:
        return found
    spans = facts.found.service.spans
    share = sum(one.share for one in named)
    words = {
        "names": [brief(facts.found.service.text(one.name), SHORT) for one in named], "part": share,
        "share": found.share * share, "count": sum(len(one.rows) for one in named),
        "time": sum(one.time for one in named),
        "longest": max(int((spans.end - spans.start)[one.rows].max()) for one in named),
    }  # fmt: skip
    texts = " ".join(facts.found.service.text(one.name).lower() for one in named)
    advice = advice or next(((of,) for of, told in _OF_NAMES.items() if any(word in texts for word in told)), ())
    time = of_range(facts.found, [one.name for one in named], part)
    remedy = found.remedy if share >= ALMOST_ALL else facts.freed(time) or found.remedy
    title = message(f"finding.service.named_{part.name}", **words)
    detail = sentences(message("finding.service.named_detail", **words), found.detail)
    return replace(found, title=title, detail=detail, blame=time[:, part], remedy=remedy, advice=advice)


_OF_NAMES = {"service_sampling_special": GRAMMARS, "service_adapters": ADAPTERS}  # advice by words of ranges


def grows(facts: ServiceFacts, found: Cause | None, part: Cycle) -> Cause | None:
    """``found`` in a ``part`` of cycles that takes longer later; as it is where that does not."""
    told = next((one for one in facts.grown if one.part == part), None)
    if told is None or found is None:
        return found
    others = tuple((one.since, one.until, one.more) for one in facts.grown if one is not told)
    steps = facts.found.steps
    over = np.minimum(told.over(steps.opened), steps.cycle[:, part]).astype(np.int64)
    words = {
        "part": message(f"latency.part.{part.name}"), "first": told.first, "last": told.last,
        "share": found.share * float(over.sum() / max(int(steps.cycle[:, part].sum()), 1)),
        "since": told.since - int(steps.opened.min()),
    }  # fmt: skip
    kind = "since" if told.at_once else "grows"
    title, detail = (message(f"finding.service.{kind}{key}", **words) for key in ("", "_detail"))
    named = named_in(facts.found, *parts_of(steps)[part])
    names = [brief(facts.found.service.text(one.name), SHORT) for one in named]
    return replace(
        found, title=title, detail=sentences(detail, message("finding.service.grows_in", names=names) if names else ""),
        blame=over, remedy=lambda model: with_engines(model, grows=others), advice=(f"service_{kind}",),
    )  # fmt: skip


def as_usual(part: str, model: ServiceModel) -> ServiceModel:
    """``model`` with that of a ``part`` around passes which no service is without, a little of the shortest pass."""
    engines = []
    for one in model.engines:
        each, fixed, _ = getattr(one, part)
        engines.append(replace(one, **{part: (0.0, min(fixed + each, LITTLE * one.cost.fixed), 0.0)}))
    return replace(model, engines=tuple(engines))


def _unsampled(model: ServiceModel) -> ServiceModel:
    return _none_special(as_usual("after", model))


_every_sampling = part("sampling", _unsampled, TTFT.sampling, TPOT.sampling, Cycle.sampling)


def scheduler(facts: ServiceFacts) -> Cause | None:
    """Scheduling takes long: ever longer with the requests that wait, or all the time."""
    each = max((engine.schedule[2] for engine in facts.model.engines), default=0.0) if facts.model else 0.0
    share = facts.tpot.share(TPOT.schedule)[0]
    if not each or not facts.worth((share, share), _unscanned, NOTABLE):
        every = _every_schedule(facts)
        growing = grows(facts, every, Cycle.schedule)
        return by_name(facts, every, Cycle.schedule) if every and growing is every else growing
    schedule = facts.found.steps.cycle[:, Cycle.schedule]
    words = {"share": share, "each": each, "usual": int(np.median(schedule)), "longest": int(schedule.max())}
    draft = draft_of(
        share, "scheduler_waiting", "scheduler_waiting_detail", words, facts.cost(TTFT.batching, TPOT.schedule),
        schedule, _unscanned, "service_scheduler_waiting",
    )  # fmt: skip
    return replace(draft, feeds=True)


def _unscanned(model: ServiceModel) -> ServiceModel:
    """``model`` in which scheduling takes as long as it does for one request, however many wait or run."""
    engines = (replace(one, schedule=(0.0, sum(one.schedule[:2]), 0.0)) for one in model.engines)
    return replace(model, engines=tuple(engines))


_every_schedule = part(
    "scheduler", lambda model: with_engines(model, schedule=(0.0, 0.0, 0.0)), TTFT.batching, TPOT.schedule,
    Cycle.schedule,
)  # fmt: skip


def bubble(facts: ServiceFacts) -> Cause | None:
    """Nothing runs between steps, nor is it a wait for another engine."""
    steps, told = facts.found.steps, facts.lockstep
    own = np.inf if told is None else told.gap * len(facts.found.serving)
    if 2 * own < steps.cycle[facts.found.serving, Cycle.bubble].sum() or (found := _every_bubble(facts)) is None:
        return None
    growing = grows(facts, found, Cycle.bubble)
    if growing is not found:
        return growing
    return _for_answers(facts, found) or by_name(facts, found, Cycle.bubble, "service_between")


def _for_answers(facts: ServiceFacts, found: Cause) -> Cause | None:
    """``found`` where tokens become text or are sent between steps, be it in another process: no step begins before.

    They fill these times and hardly last beyond them, which those that run beside the next step do.
    """
    service, cycle = facts.found.service, facts.found.steps.cycle[:, Cycle.bubble]
    names = [code for code, text in enumerate(service.texts) if text.lower() in (*DETOKENIZERS, *SENDERS)]
    time = of_range(facts.found, names, Cycle.bubble) if len(facts.found.engines) == 1 else None
    rows = np.flatnonzero(np.isin(service.spans.name, names))
    if time is None or not len(rows) or time.sum() < NEARLY_ALL * cycle.sum():
        return None
    lasting = (service.spans.end - service.spans.start)[rows]
    if time.sum() < NEARLY_ALL * lasting.sum() or (remedy := facts.freed(time)) is None:
        return None
    sums = np.bincount(service.spans.name[rows], lasting)
    mine = rows[service.spans.name[rows] == sums.argmax()]
    share = float(time.sum() / max(int(cycle.sum()), 1))
    words = {
        "names": [brief(service.text(int(sums.argmax())), SHORT)], "part": share, "share": found.share * share,
        "count": len(mine), "time": int(sums.max()),
        "longest": int((service.spans.end - service.spans.start)[mine].max()),
    }  # fmt: skip

    def apart(model: ServiceModel) -> ServiceModel:
        return replace(remedy(model), tail=model.tail * 0, close=model.close * 0)

    title, detail = (message(f"finding.service.{key}", **words) for key in ("named_bubble", "named_detail"))
    detail = sentences(detail, message("finding.service.bubble_answers"), found.detail)
    advice = "SERVICE.BUBBLE", "service_output_detokenizer"
    return replace(found, title=title, detail=detail, blame=time[:, Cycle.bubble], remedy=apart, advice=advice)


_every_bubble = part(
    "bubble", lambda model: with_engines(model, gap=0.0, dispatch=0.0), TTFT.bubble, TPOT.bubble, Cycle.bubble
)


_any_handover = part(
    "handover", lambda model: replace(model, handover=np.zeros_like(model.handover)), None, TPOT.handover
)  # fmt: skip


def _handover(facts: ServiceFacts) -> Cause | None:
    """Requests wait between prefill and decode: for transfers of others, where these come one after another."""
    found, lat, steps = _any_handover(facts), facts.latencies, facts.found.steps
    rids = facts.tpot.rids[facts.tpot.part(TPOT.handover) > 0]
    begun, ended = facts.found.pulls
    rids, pulls = rids[begun[rids] != UNKNOWN], np.flatnonzero(begun != UNKNOWN)
    if found is None:
        return None
    found = replace(found, advice=("service_handover",))
    if not len(rids):
        return found
    left = np.minimum(steps.end[lat.token[rids]], begun[rids])
    busy, time, alone = np.zeros(len(lat.start), np.int64), 0, 0
    for number in np.unique(lat.engine[pulls]).tolist():  # one after another to each of those that decode
        here, mine = pulls[lat.engine[pulls] == number], lat.engine[rids] == number
        begin, end = union(begun[here], ended[here])
        busy[rids[mine]] = covered_within(begin, end, left[mine], begun[rids][mine])
        time, alone = time + int((ended - begun)[here].sum()), alone + int((end - begin).sum())
    if busy.sum() < HALF * (begun[rids] - left).sum() or alone < ALMOST_ALL * time:
        return found
    between = lat.ttft_parts[:, [TTFT.output, TTFT.other, TTFT.bubble]].sum(axis=1)
    first = facts.ttft.shares(np.minimum(busy, between)[facts.ttft.rids])[0]
    metric, share = (facts.ttft, first) if first > found.share else (facts.tpot, found.share)
    words = {
        "share": share, "metric": facts.called(metric), "wait": float(busy[rids].mean()),
        "median": float(np.median((ended - begun)[pulls])),
    }  # fmt: skip

    def at_once(model: ServiceModel) -> ServiceModel:
        return replace(model, handover=np.maximum(model.handover - busy[model.rids], 0))

    def without(model: ServiceModel) -> ServiceModel:
        return at_once(replace(model, pull=np.zeros_like(model.pull)))

    told, explained = (message(f"finding.service.{key}", **words) for key in ("serial", "serial_detail"))
    kind, advice = _grows(facts)
    return replace(  # what each takes itself is the lesser matter: it is told besides
        found, title=told, detail=sentences(explained, kind if advice == "service_setup" else ""), remedy=at_once,
        instead=("pulls", without), advice=("service_serial", advice),
    )  # fmt: skip


def transfer(facts: ServiceFacts) -> Cause | None:
    """Keys and values come to decode late: their transfer takes long, or begins long after the prompt is computed."""
    pulls, waits = _pulls(facts), _handover(facts)
    return pulls if waits is None or (pulls is not None and pulls.share >= waits.share) else waits


def _pulls(facts: ServiceFacts) -> Cause | None:
    """The KV transfer to decode takes long: does it grow with the prompt, is one rank slower?"""
    both = ("first", facts.ttft.share(TTFT.transfer)), ("tokens", facts.tpot.share(TPOT.transfer))
    kind, shares = max(both, key=lambda one: one[1])
    if not facts.worth(shares, _at_once):
        return None
    pulls, told, mine, usual = _known_pulls(facts)
    beside = beside_others(usual) if len(usual) > 1 else np.ones(1)
    worst = int(np.argmax(beside))
    words: dict[str, Any] = {"share": max(shares)}
    detail, advice = _grows(facts)
    cost, remedy = facts.cost(TTFT.transfer, TPOT.transfer), _at_once
    if facts.limits[SLOWER] <= beside[worst]:
        slow, of_rank = int(pulls.rank[told][mine[worst][0]]), np.zeros(len(facts.found.service.rids), np.bool_)
        words |= {"rank": None if slow == UNKNOWN else slow, "times": float(beside[worst])}
        detail, kind = sentences(detail, message("finding.service.transfer_others")), "rank"
        of_rank[pulls.rid[told][mine[worst]]] = True
        cost, remedy = np.where(of_rank, cost, 0), partial(_shorter, of_rank, 1 / float(beside[worst]))
    return Cause(
        max(shares), message(f"finding.service.transfer_{kind}", **words), detail, cost,
        np.zeros(len(facts.found.steps), np.int64), remedy, (advice,),
    )  # fmt: skip


def _at_once(model: ServiceModel) -> ServiceModel:
    return replace(model, pull=np.zeros_like(model.pull))


def _shorter(chosen: Bools, factor: float, model: ServiceModel) -> ServiceModel:
    """``model`` with the transfers of the requests ``chosen`` scaled in length."""
    return replace(model, pull=np.where(chosen[model.rids], model.pull * factor, model.pull).astype(np.int64))


def _known_pulls(facts: ServiceFacts) -> tuple[Transfers, I64, list[I64], F64]:
    """The transfers, which of them have a length and a prompt, those of each rank, and what a usual one takes there."""
    pulls = facts.found.service.transfers
    told = np.flatnonzero((pulls.tokens > 0) & (pulls.end != UNKNOWN) & (pulls.start != UNKNOWN) & (pulls.rid >= 0))
    time, tokens = (pulls.end - pulls.start)[told], pulls.tokens[told]
    ranks, of = np.unique(pulls.rank[told], return_inverse=True)
    mine = [np.flatnonzero(of.ravel() == number) for number in range(len(ranks))]
    mine = [rows for rows in mine if len(rows) >= FEWEST_REQUESTS and len(np.unique(tokens[rows])) > 1]
    lines = [line_of(tokens[rows], time[rows]) for rows in mine]
    return pulls, told, mine, np.array([slope * tokens.mean() + offset for slope, offset in lines])


def _grows(facts: ServiceFacts) -> tuple[Message, str]:
    """Whether most of a transfer grows with its prompt or is the same for all; the advice for that."""
    pulls, told, mine, _ = _known_pulls(facts)
    time, tokens = (pulls.end - pulls.start)[told], pulls.tokens[told]
    lines = [line_of(tokens[rows], time[rows]) for rows in mine]
    per, related = 0.0, False
    if lines:
        per = float(np.median([slope for slope, _ in lines]))
        explained = sum(
            slope**2 * np.var(tokens[rows]) * len(rows) for (slope, _), rows in zip(lines, mine, strict=True)
        )
        every = sum(np.var(time[rows]) * len(rows) for rows in mine)
        related = float(explained / max(every, 1.0)) >= HALF and per * tokens.mean() >= HALF * time.mean()
    words = {"median": float(np.median(time)) if len(time) else None, "per": per}
    kind = "length" if related else "fixed"
    return message(f"finding.service.transfer_{kind}", **words), "SERVICE.TRANSFER" if related else "service_setup"
