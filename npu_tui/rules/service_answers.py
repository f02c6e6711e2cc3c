"""Findings about the answers of a service: those that are decoded past their end, and tokens that leave late."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.limits import ALMOST_ALL, FAR_LONGER, HALF, LITTLE, LONG_NS, NEARLY_ALL, NOTABLE, SOME
from npu_tui.analysis.service_model import ServiceModel
from npu_tui.analysis.service_timeline import TPOT, TTFT
from npu_tui.rules.rule import sentences
from npu_tui.rules.service_facts import Cause, ServiceFacts, draft_of
from npu_tui.rules.service_parts import FEWEST_REQUESTS, part
from npu_tui.trace.arrays import F64, I32, I64, summed
from npu_tui.trace.intervals import covered_within, union
from npu_tui.trace.message import message
from npu_tui.trace.service import DETOKENIZERS, SENDERS, TOKENIZERS, plus


def stop(facts: ServiceFacts) -> Cause | None:
    """Requests are decoded on for steps that add nothing to their answer, as where its end is looked for too seldom.

    An engine may notice an end one or two steps late.
    """
    found, lat = facts.found, facts.latencies
    rids = facts.tpot.rids[found.serves[lat.engine[facts.tpot.rids]]]
    over = np.zeros(len(lat.start), np.int64)
    over[rids] = np.maximum(lat.turns[rids] - (lat.tokens[rids] - 1), 0)
    over[over < SOME] = 0
    late = np.flatnonzero(over)
    turns = np.maximum(lat.turns[rids], 0).sum()
    if len(late) < max(SOME, LITTLE * len(rids)) or over.sum() < LITTLE * turns or not facts.gains(_on_time, LITTLE):
        return None
    share, every = float(over.sum() / turns), _multiple(lat.turns[rids] + 1)
    words = {
        "share": share, "count": len(late), "all": len(rids), "mean": float(over[late].mean()),
        "tokens": int(np.median(lat.tokens[late])), "every": every,
    }  # fmt: skip
    begin, end = np.maximum(lat.last[late] - over[late] + 1, 0), np.maximum(lat.last[late], 0)
    blame = np.zeros(len(found.steps) + 1, np.int64)
    np.add.at(blame, begin, 1)
    np.add.at(blame, end + 1, -1)
    cost = (lat.tpot_parts.sum(axis=1) * over / np.maximum(lat.turns, 1)).astype(np.int64)
    draft = draft_of(share, "stop", "stop_detail", words, cost, np.cumsum(blame)[:-1], _on_time)
    by_count = message("finding.service.stop_every", **words) if every else ""
    return replace(draft, detail=sentences(draft.detail, by_count))


def _multiple(steps: I64) -> int:
    """The largest number that divides nearly all of ``steps`` (n,), 0 where none but 1 does."""
    tried = np.arange(2, max(int(steps.max(initial=0)), 2) + 1)
    whole = np.array([(steps % one == 0).mean() for one in tried.tolist()])
    return int(tried[whole >= NEARLY_ALL].max(initial=0)) if len(steps) else 0


def _on_time(model: ServiceModel) -> ServiceModel:
    """``model`` in which no request takes more steps than its answer has tokens."""
    return replace(model, turns=np.minimum(model.turns, np.maximum(model.answer - 1, 0)))


_late = part(  # a healthy service has none of it
    "output", lambda model: replace(model, tail=model.tail * 0, close=model.close * 0), TTFT.output, TPOT.output,
    least=NOTABLE,
)  # fmt: skip


def output(facts: ServiceFacts) -> Cause | None:
    """Tokens leave late after their step: for the detokenizer, for clients that sending waits for, or by a timer."""
    found, lat, steps = _late(facts), facts.latencies, facts.found.steps
    if found is None:
        return None
    rids = facts.ttft.rids[lat.token[facts.ttft.rids] >= 0]
    low, high = steps.end[lat.token[rids]], (lat.start + lat.ttft)[rids]
    high = np.maximum(low, high)
    whole = max(int((high - low).sum()), 1)
    made, sent = facts.ranges(DETOKENIZERS), facts.ranges(SENDERS)
    words: dict[str, Any] = {"share": found.share}
    each, alone = _sends(sent, len(lat.start))
    slow = (each > LONG_NS) & (alone >= HALF * lat.tokens) & (lat.tokens > 0)
    if _tokenizes_meanwhile(facts, low, high):
        kind, asked = "tokenizer", facts.ranges(TOKENIZERS)
        words |= {"each": float((asked[1] - asked[0]).mean()), "busy": _busy(asked, facts)}
    elif covered_within(made[0], made[1], low, high).sum() >= HALF * whole:
        kind = "detokenizer"
        words |= {"busy": _busy(made, facts), "each": float((made[1] - made[0]).mean()), "size": steps.size.mean()}
    elif covered_within(sent[0], sent[1], low, high).sum() >= HALF * whole and slow.any():
        kind = "clients"
        words |= {"count": int(slow.sum()), "all": len(rids), "busy": _busy(sent, facts), "each": each[slow].mean()}
    elif (still := _stands_still(facts)) and covered_within(*still, low, high).sum() >= HALF * whole:
        kind, lasting = "loop", still[1] - still[0]
        words |= {"count": len(lasting), "each": float(lasting.mean()), "every": float(np.median(np.diff(still[0])))}
        own = covered_within(*still, lat.start, np.maximum(lat.arrival, lat.start))
        found = replace(found, remedy=partial(_goes_on, own, *still), cost=found.cost + np.where(lat.ttft > 0, own, 0))
    elif period := _period(facts, sent):
        kind, words["period"] = "timer", period
    else:
        return replace(found, detail=sentences(found.detail, message("finding.service.output_unknown")))
    title, detail = (message(f"finding.service.output_{key}", **words) for key in (kind, f"{kind}_detail"))
    return replace(found, title=title, detail=sentences(detail, found.detail), advice=(f"service_output_{kind}",))


def held_by_prompts(facts: ServiceFacts) -> bool:
    """Whether tokens leave late as the process that sends them makes tokens of prompts meanwhile."""
    lat = facts.latencies
    rids = facts.ttft.rids[lat.token[facts.ttft.rids] >= 0]
    low = facts.found.steps.end[lat.token[rids]]
    late = _late(facts) is not None
    return late and _tokenizes_meanwhile(facts, low, np.maximum(low, (lat.start + lat.ttft)[rids]))


def _tokenizes_meanwhile(facts: ServiceFacts, low: I64, high: I64) -> bool:
    """Whether prompts are tokenized by the process that sends for most of the times from ``low`` to ``high``."""
    service, (begin, end, _) = facts.found.service, facts.ranges(TOKENIZERS)
    texts, spans = service.texts, service.spans

    def processes(names: tuple[str, ...]) -> I32:
        codes = [code for code, text in enumerate(texts) if text.lower() in names]
        return spans.process[np.isin(spans.name, codes)]

    if not len(begin) or not np.isin(processes(TOKENIZERS), processes((*DETOKENIZERS, *SENDERS))).any():
        return False
    return bool(covered_within(*union(begin, end), low, high).sum() >= HALF * max(int((high - low).sum()), 1))


def _stands_still(facts: ServiceFacts) -> tuple[I64, I64] | None:
    """When no range of the processes that answer begins or ends for so long that several steps end; None where never.

    What each step gives is sent by them at once.
    """
    spans, steps, service = facts.found.service.spans, facts.found.steps, facts.found.service
    names = [code for code, text in enumerate(service.texts) if text.lower() in (*DETOKENIZERS, *SENDERS)]
    own = np.unique(spans.process[np.isin(spans.name, service.batches.name)])
    there = np.setdiff1d(np.unique(spans.process[np.isin(spans.name, names)]), own)
    mine = np.isin(spans.process, there)
    moments = np.unique(np.append(spans.start[mine], spans.end[mine]))
    if not len(moments):
        return None
    passed = np.diff(np.searchsorted(np.sort(steps.end[steps.size > 0]), moments))
    still = passed >= SOME
    if still.sum() < SOME or passed[still].sum() >= HALF * passed.sum():  # or it says little of what it does
        return None
    return moments[:-1][still], moments[1:][still]


def _goes_on(own: I64, begin: I64, end: I64, model: ServiceModel) -> ServiceModel:
    """``model`` with tokens that leave at once, and requests that come in sooner by ``own``.

    Those that are taken in together once it goes on, at ``end``, came one after another since ``begin``.
    """
    front, start = np.maximum(model.front - own[model.rids], 0), model.start.copy()
    order = np.argsort(start, kind="stable")
    usual = np.ptp(start) / max(len(start) - 1, 1)
    for low, high in zip(begin.tolist(), end.tolist(), strict=True):
        later = order[np.searchsorted(start[order], high - LONG_NS) :]
        apart = np.flatnonzero(np.diff(model.start[later], prepend=high) > NOTABLE * usual)
        heap = later[: int(apart[0]) if len(apart) else len(later)]
        start[heap] = np.linspace(low, high, len(heap) + 2)[1:-1].astype(np.int64)
    return replace(model, front=front, start=start, tail=model.tail * 0, close=model.close * 0)


def _busy(ranges: tuple[I64, I64, I64], facts: ServiceFacts) -> float:
    """The share of the time of all steps that ``ranges`` cover."""
    low, high = (np.array([int(of)]) for of in (facts.found.steps.opened.min(), facts.found.steps.end.max()))
    return float(covered_within(ranges[0], ranges[1], low, high)[0] / max(int(high[0] - low[0]), 1))


def _sends(sent: tuple[I64, I64, I64], count: int) -> tuple[F64, I64]:
    """How long sending to each request (n,) takes where ranges of ``sent`` are alone, and how often."""
    mine = sent[2] >= 0
    times = np.bincount(sent[2][mine], minlength=count)
    return summed(sent[2][mine], (sent[1] - sent[0])[mine], count) / np.maximum(times, 1), times


def _period(facts: ServiceFacts, sent: tuple[I64, I64, I64]) -> float:
    """The period at which tokens of a request are sent, ns, if it counts from the start of the request; else 0."""
    lat, rids = facts.latencies, facts.ttft.rids
    soon = FAR_LONGER * LONG_NS  # what the end of a request sends has no period
    amid = (sent[2] >= 0) & (sent[1] + soon < plus(lat.start, lat.whole)[sent[2]]) & np.isin(sent[2], rids)
    after = (sent[0] - lat.start[sent[2]])[amid]
    if len(after) < FEWEST_REQUESTS:
        after = lat.ttft[rids][lat.ttft[rids] + soon < lat.whole[rids]]
    if len(after) < FEWEST_REQUESTS:
        return 0.0
    for times in range(1, FAR_LONGER + 1):
        period = float(np.median(after)) / times
        whole = np.maximum(np.rint(after / period), 1)
        fitted = float((after @ whole) / (whole @ whole))
        # Chance brings a tenth of the moments so near to whole ones.
        if period > soon and (np.abs(after / fitted - whole) <= LITTLE).mean() >= ALMOST_ALL:
            return fitted
    return 0.0
