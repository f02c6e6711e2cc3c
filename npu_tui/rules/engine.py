"""Findings about the steps of an inference engine."""

from __future__ import annotations

import numpy as np

from npu_tui.analysis.engine_steps import EngineStep, fallen_out, phase_spans
from npu_tui.analysis.replay import ANY_THREAD, Change, HostCut
from npu_tui.analysis.thresholds import Threshold
from npu_tui.rules import pages
from npu_tui.rules.blame import sync_calls, sync_operations
from npu_tui.rules.facts import Facts
from npu_tui.rules.inputs import I64, NOTHING, Span, both, largest, length_of, together, without
from npu_tui.rules.model import Evidence
from npu_tui.rules.rule import SEVERITY_HIGH, SEVERITY_MEDIUM, Draft, Rule, runs_of, sentences, severity_of
from npu_tui.trace.intervals import covered_before, union
from npu_tui.trace.message import message
from npu_tui.trace.text import brief

EAGER_SHARE = Threshold("eager_share", 0.01)
ENGINE_HOST_SHARE = Threshold("engine_host_share", 0.03)
PREFILL_RATIO = Threshold("prefill_ratio", 3.0)
PADDING_SHARE = Threshold("padding_share", 0.25)
_WORTH_NAMING = 0.2
"""Share of the time of all phases from which one is named, and taken to be avoidable."""
_MOST_SHOWN = 10


def eager(facts: Facts) -> Draft | None:
    """Steps that launch every kernel by itself although graphs replay others of their kind."""
    low, high = facts.window.start, facts.window.end
    steps = facts.inputs.engine().steps
    alone = [step for step in fallen_out(steps) if low <= _begin(step) < high]
    if not alone:
        return None
    kinds = {step.kind for step in alone}
    alike = [step for step in steps if step.window is not None and step.captured is not None and step.kind in kinds]
    windows = np.array([(step.window.start, step.window.end) for step in alone if step.window is not None], np.int64)
    removes = both(facts.lost, (windows[:, 0], windows[:, 1]))
    share = facts.share(length_of(removes))
    if share < facts.limits[EAGER_SHARE]:
        return None
    sizes = [size for step in alone if (size := _size(step)) is not None]
    captured = [size for step in alike if step.captured != "eager" and (size := _size(step)) is not None]
    above = bool(sizes) and bool(captured) and min(sizes) > max(captured)
    longest = sorted(sorted(alone, key=lambda step: -(step.span or 0))[:_MOST_SHOWN], key=_begin)
    words = {"count": len(alone), "all": len(alike), "time": length_of(removes)}
    return Draft(
        severity_of(facts, share),
        message("finding.eager.title", **words),
        sentences(
            message("finding.eager.detail", **words),
            message("finding.eager.sizes", sizes=runs_of(sizes)) if sizes else "",
            message("finding.eager.above", most=max(captured)) if above else "",
        ),
        tuple(
            Evidence(
                _begin(step),
                _begin(step) + (step.span or 0),
                None,
                brief(step.name or "", 60),
                message("finding.eager.place", kernels=step.kernels),
                step.item if step.item >= 0 else None,
            )
            for step in longest
        ),
        removes=removes,
        verdict=message("finding.eager.verdict", **words),
    )


def host(facts: Facts) -> Draft | None:
    """The device waits while the host schedules, prepares or samples, in or between the calls of the engine."""
    called = [step for step in facts.inputs.engine().steps if step.item >= 0]
    if not called:
        return None
    phases = phase_spans(facts.trace)
    forward = phases.pop("forward", NOTHING)
    calls = np.array([(step.start, step.start + (step.host or 0)) for step in called], np.int64)
    between = (calls[:-1, 1], np.maximum(calls[1:, 0], calls[:-1, 1]))
    work = {
        name: without(span, forward)
        for name, span in (*phases.items(), ("between", without(union(*between), together(*phases.values(), NOTHING))))
    }
    waits = facts.span_of(np.concatenate((sync_calls(facts), sync_operations(facts))))
    work = {name: without(span, waits) for name, span in work.items()}
    floor = facts.floor
    idle = {name: both(facts.lost, (low + floor, high + floor)) for name, (low, high) in work.items()}
    time = length_of(together(*idle.values()))
    if facts.share(time) < facts.limits[ENGINE_HOST_SHARE]:
        return None
    longest = sorted(idle, key=lambda name: -length_of(idle[name]))
    shown = [name for name in longest if length_of(idle[name]) >= _WORTH_NAMING * time]
    cut = together(*(work[name] for name in shown))
    removes = _earlier(facts, cut, waits[1])
    cost = length_of(removes)
    share = facts.share(cost)
    words = {"time": cost, "share": share}
    return Draft(
        severity_of(facts, share),
        message("finding.engine_host.title", **words),
        sentences(
            message("finding.engine_host.detail", time=time),
            *(message(f"finding.engine_host.{name}", time=length_of(idle[name])) for name in shown),
        ),
        tuple(
            Evidence(low, high, None, "", message(f"finding.engine_host.{longest[0]}", time=high - low))
            for low, high in largest(idle[longest[0]])
        ),
        removes=removes,
        change=Change(host=(HostCut(ANY_THREAD, cut),)),
        verdict=message("finding.engine_host.verdict", **words),
    )


def _earlier(facts: Facts, cut: Span, waited: I64) -> Span:
    """The waits of the idle device that end earlier if the host saves the time ``cut``.

    A host that is earlier by more than the device stays so for the next launches, until one of the ends ``waited`` of
    its waits for the device: that ends earlier only by as long as the device was idle by then.
    """
    launches = facts.launches
    if launches is None:
        return NOTHING
    lost = launches.lost - facts.lost_unasked
    losing = np.flatnonzero(lost > 0)
    made = facts.trace.links.source_time[launches.link[losing]]
    losing, made = losing[np.argsort(made, kind="stable")], np.sort(made)
    at = np.searchsorted(waited, made, "right")
    ahead = covered_before(*cut, made.astype(np.float64)).tolist()
    start, end = facts.busy
    worked = np.append(end, 0)[np.searchsorted(start, waited + facts.floor, "left") - 1]
    idle = np.maximum(waited + facts.floor - worked, 0)
    at_wait = np.append(0.0, covered_before(*cut, waited.astype(np.float64)) - idle)[at].tolist()
    saved = np.zeros(len(losing), np.int64)
    device, held, place = 0.0, 0.0, 0
    for k, (host_ahead, before, wait, most) in enumerate(
        zip(ahead, at_wait, at.tolist(), lost[losing].tolist(), strict=True)
    ):
        if wait > place:
            place, held = wait, max(held, before - device)
        gain = min(max(host_ahead - held - device, 0.0), most)
        saved[k] = round(gain)
        device += gain
    ready = launches.ready[losing]
    return union(ready[saved > 0], (ready + saved)[saved > 0])


def prefill(facts: Facts) -> Draft | None:
    """Prefills for which requests that already decode have to wait."""
    low, high = facts.window.start, facts.window.end
    steps = [step for step in facts.inputs.engine().steps if step.window is not None]
    decoding = [step.span or 0 for step in steps if step.kind == "decode"]
    if not decoding:
        return None
    usual = float(np.median(decoding))
    holds = [
        held
        for held in _between_decodes(steps)
        if low <= _begin(held[0]) < high and sum(step.span or 0 for step in held) >= facts.limits[PREFILL_RATIO] * usual
    ]
    if not holds:
        return None
    lengths = [sum(step.span or 0 for step in held) for held in holds]
    most = int(np.argmax(lengths))
    tokens = [step.call.tokens for step in holds[most]]
    time, longest = sum(lengths), lengths[most]
    shown = sorted(sorted(holds, key=lambda held: -sum(step.span or 0 for step in held))[:_MOST_SHOWN], key=_begin_of)
    return Draft(
        "info",
        message("finding.engine_prefill.title", count=len(holds), time=longest),
        sentences(
            message("finding.engine_prefill.detail", count=len(holds), time=time, usual=round(usual)),
            message("finding.engine_prefill.tokens", tokens=sum(count or 0 for count in tokens)) if all(tokens) else "",
        ),
        tuple(
            Evidence(
                _begin_of(held),
                _begin(held[-1]) + (held[-1].span or 0),
                None,
                brief(held[0].name or "", 60),
                message("finding.engine_prefill.place", count=len(held)),
                held[0].item if held[0].item >= 0 else None,
            )
            for held in shown
        ),
        weight=float(time),
    )


def _begin_of(steps: list[EngineStep]) -> int:
    return _begin(steps[0])


def _between_decodes(steps: list[EngineStep]) -> list[list[EngineStep]]:
    """Prefills, one or several in a row, after a decode and before one with more requests than they bring."""
    runs: list[list[EngineStep]] = []
    held: list[EngineStep] = []
    decoded = False
    for step in steps:
        if step.kind == "prefill":
            held.append(step)
            continue
        brought = [one.call.requests for one in held]
        known = None not in brought and step.kind == "decode"
        if held and decoded and known and (step.call.requests or 0) > sum(count or 0 for count in brought):
            runs.append(held)
        held, decoded = [], step.kind == "decode"
    return runs


def padding(facts: Facts) -> Draft | None:
    """Batches that are filled up to a captured size."""
    low, high = facts.window.start, facts.window.end
    steps = [
        (step, step.call.requests, step.call.padded)
        for step in facts.inputs.engine().steps
        if step.window is not None and low <= _begin(step) < high
    ]
    known = [(step, real, size) for step, real, size in steps if real is not None and size is not None and size >= real]
    every = sum(size for _, _, size in known)
    added = sum(size - real for _, real, size in known)
    if not added or added / every < facts.limits[PADDING_SHARE]:
        return None
    filled = [(step, real, size) for step, real, size in known if size > real]
    worst = sorted(sorted(filled, key=lambda row: row[1] - row[2])[:_MOST_SHOWN], key=lambda row: _begin(row[0]))
    return Draft(
        "info",
        message("finding.engine_padding.title", share=added / every, count=len(filled)),
        message(
            "finding.engine_padding.detail", added=added, count=every, sizes=runs_of([size for *_, size in filled])
        ),
        tuple(
            Evidence(
                _begin(step),
                _begin(step) + (step.span or 0),
                None,
                brief(step.name or "", 60),
                message("finding.engine_padding.place", real=real, size=size),
                step.item if step.item >= 0 else None,
            )
            for step, real, size in worst
        ),
        weight=float(sum(step.span or 0 for step, *_ in filled)) * added / every,
    )


def _begin(step: EngineStep) -> int:
    assert step.window is not None
    return step.window.start


def _size(step: EngineStep) -> int | None:
    """What graphs are captured for: the requests of a batch."""
    return step.call.requests if step.call.requests is not None else step.call.tokens


RULES: tuple[Rule, ...] = (
    Rule(
        "ENGINE.EAGER",
        cls="dispatch",
        inputs=("device", "overlap", "links"),
        check=eager,
        thresholds=(EAGER_SHARE, SEVERITY_MEDIUM, SEVERITY_HIGH),
        advice=("capture_sizes",),
        gpu=("capture_sizes",),
        pages=(pages.GRAPHS,),
        change="""\
-vllm serve MODEL
+vllm serve MODEL --compilation-config '{"cudagraph_capture_sizes": [1, 2, 4, 8, 16, 32, 64]}'
""",
        sources=("vllm-ascend: batches above the largest captured size run eagerly",),
        reach="cause",
    ),
    Rule(
        "ENGINE.HOST",
        cls="dispatch",
        inputs=("device", "overlap", "links"),
        check=host,
        thresholds=(ENGINE_HOST_SHARE, SEVERITY_MEDIUM, SEVERITY_HIGH),
        advice=("engine_async",),
        gpu=("engine_async",),
        pages=(pages.ASYNC,),
        change="""\
-vllm serve MODEL
+vllm serve MODEL --async-scheduling
""",
        sources=("vLLM: scheduling of the next step while the device works",),
        reach="cause",
    ),
    Rule(
        "ENGINE.PREFILL",
        cls="dispatch",
        inputs=("device", "overlap"),
        check=prefill,
        thresholds=(PREFILL_RATIO,),
        advice=("chunked_prefill",),
        gpu=("chunked_prefill",),
        pages=(pages.MINDIE,),
        change="""\
-vllm serve MODEL --no-enable-chunked-prefill
+vllm serve MODEL --enable-chunked-prefill --max-num-batched-tokens 2048
""",
        sources=("vLLM: prefill in chunks, in one batch with decodes",),
        reach="cause",
    ),
    Rule(
        "ENGINE.PADDING",
        cls="dispatch",
        inputs=("device", "overlap"),
        check=padding,
        thresholds=(PADDING_SHARE,),
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
)
