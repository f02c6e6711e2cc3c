"""Findings about what the batches of an inference engine compute: padding, context, rejected drafts."""

from __future__ import annotations

import re

import numpy as np
from msgspec import Struct

from npu_tui.analysis.engine_steps import EngineStep, phase_spans
from npu_tui.analysis.limits import NEARLY_ALL, Threshold
from npu_tui.analysis.replay import ANY_THREAD, Change, HostCut, TaskCut
from npu_tui.rules import pages
from npu_tui.rules.engine import places, steps_of
from npu_tui.rules.facts import Facts
from npu_tui.rules.inputs import NOTHING, Span, common, inside, length_of, together
from npu_tui.rules.rule import GRADES, SEVERITY_MEDIUM, Draft, Rule, about, runs_of, sentences, severity_of
from npu_tui.trace.arrays import F64, I64, Bools
from npu_tui.trace.intervals import union
from npu_tui.trace.message import message

PADDING_SHARE = Threshold("padding_share", 0.25)
ACCEPTED_SHARE = Threshold("accepted_share", 0.5)
_FEWEST = 8
"""Steps of equal batches from which a trend is one."""
_MOST_DRAFTS = 256  # more drafts a step no engine makes: names are untrusted, and each number of drafts is tried
_ATTENTION = re.compile(r"attention|attn|incre_?flash|prompt_?flash|fmha|(?:flash|ring|sparse)_?mla", re.IGNORECASE)


def _attends(facts: Facts) -> Bools:
    """Which of ``facts.kernels`` are attention; (kernels,)."""
    return facts.names_where(lambda name: _ATTENTION.search(name) is not None)[facts.trace.slices.name[facts.kernels]]


def _step_of(facts: Facts, steps: list[EngineStep]) -> I64:
    """The position in ``steps`` of the one that each of ``facts.kernels`` belongs to, -1 of none; (kernels,)."""
    engine = facts.inputs.engine()
    numbers = [step.number for step in engine.steps]
    place = {step.number: at for at, step in enumerate(steps)}
    chosen = np.array([*(place.get(number, -1) for number in numbers), -1], np.int64)
    return chosen[engine.step[engine.rows_of(facts.kernels)]]


def _times_in_steps(facts: Facts, of: I64, count: int, chosen: Bools) -> F64:
    """How long the ``chosen`` of ``facts.kernels`` take in each step by their steps ``of``, ns; (count,)."""
    at = np.flatnonzero(chosen & (of >= 0))
    return np.bincount(of[at], facts.length(facts.kernels[at]), count).astype(np.float64)


def _with_shorter_kernels(facts: Facts, items: I64, keep: F64) -> tuple[Change, Span]:
    """The run in which the kernels ``items`` take ``keep`` of their time, (n,) each, and what of it that removes.

    Shares are rounded to 0.01: each is a cut.
    """
    keep = np.round(np.clip(keep, 0, 1), 2).astype(np.float64)
    items, keep = items[keep < 1], keep[keep < 1]
    end = facts.trace.slices.end[items]
    removes = union(end - ((1 - keep) * facts.length(items)).astype(np.int64), end)
    return Change(tasks=tuple(TaskCut(items[keep == share], share) for share in np.unique(keep).tolist())), removes


def padding(facts: Facts) -> Draft | None:
    """Batches that are filled up to a captured size.

    Batches of other sizes show what that costs: by all kernels but attention, which reads no keys of padding.
    """
    steps, real, size = _filled_steps(facts)
    every, added = int(size.sum()), int((size - real).sum())
    if not added or added / every < facts.limits[PADDING_SHARE]:
        return None
    of, chosen = _step_of(facts, steps), ~_attends(facts)
    times = _times_in_steps(facts, of, len(steps), chosen)
    replayed = np.array([step.captured == "graph" for step in steps])
    sizes = np.unique(size[replayed])
    usual = [float(np.median(times[replayed & (size == one)])) for one in sizes.tolist()]
    known = len(sizes) > 1
    keep = np.ones(len(steps))
    if known:
        # Between two captured sizes a batch of its real size would take the time in between.
        keep = np.interp(real, sizes, usual) / np.maximum(np.interp(size, sizes, usual), 1)
    inside_steps = np.flatnonzero(chosen & (of >= 0))
    change, removes = _with_shorter_kernels(facts, facts.kernels[inside_steps], keep[of[inside_steps]])
    cost = length_of(removes)
    words = {"time": cost, "each": facts.per_unit(cost), "share": facts.share(cost)}
    costs = facts.share(cost) >= facts.limits[SEVERITY_MEDIUM]
    sizes_filled = runs_of(size[size > real].tolist())
    filled = [step for step, more in zip(steps, (size > real).tolist(), strict=True) if more]
    return Draft(
        severity_of(facts.limits, facts.share(cost)) if costs else "info",
        message("finding.engine_padding.title", share=added / every, count=len(filled)),
        sentences(
            message("finding.engine_padding.detail", added=added, count=every, sizes=sizes_filled),
            message(f"finding.engine_padding.{'cost' if known else 'unknown'}", **words),
        ),
        places(
            ([step] for step in filled),
            "engine_padding",
            lambda run: {"real": run[0].call.requests, "size": run[0].call.padded},
        ),
        removes=removes if costs else None,
        change=change if costs else None,
        weight=float(sum(step.span or 0 for step in filled)) * added / every,
        verdict=message("finding.engine_padding.verdict", **words),
    )


def _filled_steps(facts: Facts) -> tuple[list[EngineStep], I64, I64]:
    """The steps of known captured size, their requests and that size; (n,) each."""
    rows = [
        (step, step.call.requests, step.call.padded)
        for step in steps_of(facts)
        if step.call.requests is not None and step.call.padded is not None and step.call.padded >= step.call.requests
    ]
    real, size = np.array([row[1:] for row in rows], np.int64).reshape(-1, 2).T
    return [step for step, *_ in rows], real, size


class _Growth(Struct, frozen=True):
    """Attention of ``steps`` with equal batches takes from ``low`` to ``high`` ns.

    ``keep`` (steps,) is the share of its time that it would take with the fewest keys.
    """

    steps: list[EngineStep]
    keep: F64
    low: float
    high: float


def context(facts: Facts) -> Draft | None:
    """Attention that takes the longer, the more context the requests of equal batches have."""
    groups: dict[tuple[int | None, int | None], list[EngineStep]] = {}
    for step in steps_of(facts):
        if step.call.kv_tokens and not step.call.context_tokens:
            groups.setdefault((step.call.requests, step.call.tokens), []).append(step)
    if not groups:
        return None
    attends = _attends(facts)
    grown = [growth for steps in groups.values() if (growth := _attention_growth(facts, steps, attends)) is not None]
    if not grown:
        return None
    steps = [step for growth in grown for step in growth.steps]
    of = _step_of(facts, steps)
    at = np.flatnonzero(attends & (of >= 0))
    change, removes = _with_shorter_kernels(
        facts, facts.kernels[at], np.concatenate([growth.keep for growth in grown])[of[at]]
    )
    cost = length_of(removes)
    share = facts.share(cost)
    if share < facts.limits[SEVERITY_MEDIUM]:
        return None
    most = max(grown, key=lambda growth: (growth.high - growth.low) * len(growth.steps))
    read = [step.call.kv_tokens or 0 for step in most.steps]
    words = {"time": cost, "each": facts.per_unit(cost), "share": share}
    course = {"fewest": min(read), "most": max(read), "low": most.low, "high": most.high}
    return Draft(
        severity_of(facts.limits, share),
        *about("engine_context", requests=most.steps[0].call.requests or 0, **course, **words),
        places(([step] for step in steps), "engine_context", lambda run: {"count": run[0].call.kv_tokens}),
        removes=removes,
        change=change,
        verdict=message("finding.engine_context.verdict", **words),
    )


def _attention_growth(facts: Facts, steps: list[EngineStep], attends: Bools) -> _Growth | None:
    """How attention grows with the keys that it reads in ``steps``; None where it does not."""
    read = np.array([step.call.kv_tokens for step in steps], np.float64)
    times = _times_in_steps(facts, _step_of(facts, steps), len(steps), attends)
    if len(steps) < _FEWEST or not np.ptp(read) or not np.ptp(times) or np.corrcoef(read, times)[0, 1] < NEARLY_ALL:
        return None
    slope, base = np.polyfit(read, times, 1).tolist()
    fitted = base + slope * read
    keep = 1 - slope * (read - read.min()) / np.maximum(times, 1)
    return _Growth(steps, keep, float(fitted.min()), float(fitted.max()))


def drafts(facts: Facts) -> Draft | None:
    """Tokens that are drafted and verified, but not accepted.

    From one step to the next the keys that attention reads grow by the accepted tokens. One probability for each draft
    says how many of fewer drafts are accepted; the number with the fewest ns a token counts.
    """
    steps = [step for step in steps_of(facts) if _drafted(step)]
    requests, tokens, read = (
        np.array([getattr(step.call, name) for step in steps], np.int64) for name in ("requests", "tokens", "kv_tokens")
    )
    made = np.diff(read)
    same = (np.diff(requests) == 0) & (np.diff(tokens) == 0) & (made >= requests[:-1]) & (made <= tokens[:-1])
    if same.sum() < _FEWEST:
        return None
    asked, taken = int((tokens - requests)[:-1][same].sum()), int((made - requests[:-1])[same].sum())
    if taken / asked >= facts.limits[ACCEPTED_SHARE]:
        return None
    width = max(round(asked / int(requests[:-1][same].sum())), 1)
    if width > _MOST_DRAFTS:  # names are untrusted
        return None
    tokens_of = _tokens_by_drafts(taken / asked * width, width)
    spans = phase_spans(facts.trace).get("draft", NOTHING)
    engine = facts.inputs.engine()
    items = facts.kernels[inside(spans, engine.made[engine.rows_of(facts.kernels)])]

    drafting = together(facts.span_of(items), common(facts.lost, facts.on_device(spans)))
    time = sum(step.span or 0 for step in steps)
    lasts = time - length_of(drafting) * (1 - np.arange(width + 1) / width)
    best = int(np.argmin(lasts / tokens_of))
    gain = round(time - float(lasts[best] * tokens_of[width] / tokens_of[best]))
    keep = best / width
    change, removes = _with_shorter_kernels(facts, items, np.full(len(items), keep))
    costs = facts.share(gain) >= facts.limits[SEVERITY_MEDIUM]
    words = {"accepted": taken, "count": asked, "share": taken / asked, "width": width, "best": best, "time": gain}
    title, detail = about("engine_drafts", mean=taken / asked * width, **words)
    return Draft(
        severity_of(facts.limits, facts.share(gain)) if costs else "info",
        title,
        sentences(detail, message(f"finding.engine_drafts.{'fewer' if best else 'off'}", **words) if costs else ""),
        places(
            ([step] for step in steps),
            "engine_drafts",
            lambda run: {"count": (run[0].call.tokens or 0) - (run[0].call.requests or 0)},
        ),
        removes=removes if costs else None,
        change=change | Change(host=(HostCut(ANY_THREAD, spans, keep),)) if costs else None,
        most=gain if costs else None,
        weight=float(time) * (1 - taken / asked),
        verdict=message("finding.engine_drafts.verdict", **words),
    )


def _drafted(step: EngineStep) -> bool:
    """Whether a step verifies drafts: it decodes more tokens than it has requests."""
    call = step.call
    return bool(call.kv_tokens and call.requests and not call.context_tokens and (call.tokens or 0) > call.requests)


def _tokens_by_drafts(mean: float, width: int) -> F64:
    """Tokens of a request and step with 0 to ``width`` drafts, ``mean`` of them accepted; (width + 1,)."""
    rates = np.linspace(0, 1, 1001)
    powers = np.cumsum(rates[:, None] ** np.arange(1, width + 1), axis=1)
    return np.append(1.0, 1 + powers[np.abs(powers[:, -1] - mean).argmin()])


RULES: tuple[Rule, ...] = (
    Rule(
        "ENGINE.PADDING",
        cls="compute",
        check=padding,
        thresholds=(PADDING_SHARE, *GRADES),
        advice=("padding_sizes",),
        gpu=("padding_sizes",),
        pages=(pages.GRAPHS,),
        change="""\
-vllm serve MODEL
+vllm serve MODEL --compilation-config '{"cudagraph_capture_sizes": [1, 2, 4, 8, 12, 16, 24, 32]}'
""",
        sources=("vllm-ascend: batches are filled up to a captured size",),
        reach="cause",
    ),
    Rule(
        "ENGINE.CONTEXT",
        cls="compute",
        check=context,
        thresholds=GRADES,
        advice=("shorter_context",),
        gpu=("shorter_context",),
        pages=(pages.MINDIE,),
        change="""\
-vllm serve MODEL
+vllm serve MODEL --max-model-len 16384
""",
        sources=("best practice batch_request_length_imbalance",),
        reach="cause",
    ),
    Rule(
        "ENGINE.DRAFTS",
        cls="compute",
        check=drafts,
        thresholds=(ACCEPTED_SHARE, *GRADES),
        advice=("fewer_drafts",),
        gpu=("fewer_drafts",),
        pages=(pages.MINDIE,),
        change="""\
-vllm serve MODEL --speculative-config '{"method": "mtp", "num_speculative_tokens": 4}'
+vllm serve MODEL --speculative-config '{"method": "mtp", "num_speculative_tokens": 1}'
""",
        sources=("vLLM: num_speculative_tokens",),
        reach="cause",
    ),
)
