"""Findings about how the steps of an inference engine are scheduled and launched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from npu_tui.analysis.engine_steps import EngineStep, fallen_out, phase_spans
from npu_tui.analysis.launches import graph_launches
from npu_tui.analysis.limits import A_PART, Threshold
from npu_tui.analysis.replay import ANY_THREAD, Change, HostCut
from npu_tui.rules import pages
from npu_tui.rules.blame import SYNC_SHARE, sync_calls, sync_operations
from npu_tui.rules.facts import Facts
from npu_tui.rules.inputs import MOST_PLACES, NOTHING, Span, common, largest, length_of, together, without
from npu_tui.rules.model import Evidence
from npu_tui.rules.rule import GRADES, SEVERITY_MEDIUM, Draft, Rule, about, runs_of, sentences, severity_of, stretches
from npu_tui.trace.arrays import I64
from npu_tui.trace.intervals import union
from npu_tui.trace.message import message
from npu_tui.trace.recorder import launch_links
from npu_tui.trace.text import brief

PREFILL_RATIO = Threshold("prefill_ratio", 3.0)


def steps_of(facts: Facts) -> list[EngineStep]:
    """The steps of an engine that begin on the device in the window."""
    steps = facts.inputs.engine().steps
    window = facts.window
    return [step for step in steps if step.window is not None and window.start <= step.window.start < window.end]


def _begin_of(step: EngineStep) -> int:
    """When a step begins on the device, ns."""
    assert step.window is not None
    return step.window.start


def places(
    runs: Iterable[Sequence[EngineStep]], subject: str, words: Callable[[Sequence[EngineStep]], dict[str, object]]
) -> tuple[Evidence, ...]:
    """The longest of ``runs``, which are steps one after another, in order of time, with the ``words`` of each."""
    longest = sorted(runs, key=lambda run: -_span(run))[:MOST_PLACES]
    return tuple(
        Evidence(
            _begin_of(run[0]),
            _begin_of(run[-1]) + (run[-1].span or 0),
            None,
            brief(run[0].name or "", 60),
            message(f"finding.{subject}.place", **words(run)),
            run[0].item if run[0].item >= 0 else None,
        )
        for run in sorted(longest, key=lambda run: _begin_of(run[0]))
    )


def _span(run: Sequence[EngineStep]) -> int:
    return sum(step.span or 0 for step in run)


def eager(facts: Facts) -> Draft | None:
    """Steps that launch every kernel by itself although graphs replay others of their kind."""
    steps = [step for step in facts.inputs.engine().steps if step.window is not None and step.captured is not None]
    inside = {step.number for step in steps_of(facts)}
    alone = [step for step in fallen_out(steps) if step.number in inside]
    alike = [step for step in steps if step.kind in {one.kind for one in alone}]
    replayed = [step for step in alike if step.captured != "eager"]
    cut = _launching(facts, alone, replayed)
    removes = common(facts.lost, facts.on_device(cut))
    share = facts.share(length_of(removes))
    if share < facts.limits[SYNC_SHARE]:
        return None
    sizes = [size for step in alone if (size := _size(step)) is not None]
    captured = [size for step in replayed if (size := _size(step)) is not None]
    above = bool(sizes) and bool(captured) and min(sizes) > max(captured)
    time = length_of(removes)
    words = {"count": len(alone), "all": len(alike), "time": time, "each": facts.per_unit(time)}
    title, detail = about("eager", **words)
    return Draft(
        severity_of(facts.limits, share),
        title,
        sentences(
            detail,
            message("finding.eager.sizes", sizes=runs_of(sizes)) if sizes else "",
            message("finding.eager.above", most=max(captured)) if above else "",
        ),
        places(([step] for step in alone), "eager", lambda run: {"kernels": run[0].kernels}),
        removes=removes,
        change=Change(host=(HostCut(ANY_THREAD, cut),)),
        verdict=message("finding.eager.verdict", **words),
    )


def _launching(facts: Facts, alone: list[EngineStep], replayed: list[EngineStep]) -> Span:
    """When the host launches in steps ``alone`` what graphs do in ``replayed`` ones, but for as long as these take.

    Launches before and after the graphs, such as those of sampling, belong to every step.
    """
    trace, links = facts.trace, facts.trace.links
    link = launch_links(trace)
    link = link[np.isin(links.target_slice[link], facts.kernels)]
    link = link[np.argsort(trace.slices.start[links.target_slice[link]], kind="stable")]
    start, made = trace.slices.start[links.target_slice[link]], links.source_time[link]
    call, graph = links.source_slice[link], graph_launches(trace, link)

    def launches(steps: list[EngineStep]) -> I64:
        """The first launch of each of ``steps`` and the one after its last: (2, steps)."""
        ends = [(step.window.start, step.window.end) for step in steps if step.window is not None]
        found: I64 = np.searchsorted(start, np.array(ends, np.int64).reshape(-1, 2).T)
        return found

    low, high = launches(replayed)
    graphs = np.flatnonzero(graph)
    first, last = np.searchsorted(graphs, low), np.searchsorted(graphs, high) - 1
    with_graph = first <= last
    if not with_graph.any():
        return NOTHING
    low, high, first, last = low[with_graph], high[with_graph], graphs[first[with_graph]], graphs[last[with_graph]]
    until = np.where(call[last] >= 0, trace.slices.end[call[last]], made[last])
    around = first - low, high - 1 - last, until - made[low]
    # The median of steps with graphs: a single one may have been held up.
    before, after, taken = (int(np.median(times)) for times in around)
    low, high = launches(alone)
    enough = high - low > before + after
    low, high = made[low[enough] + before], made[high[enough] - 1 - after] - taken
    return union(low[high > low], high[high > low])


def host(facts: Facts) -> Draft | None:
    """The device waits while the host schedules, prepares or samples, in or between the calls of the engine."""
    called = [step for step in facts.inputs.engine().steps if step.item >= 0]
    if not called:
        return None
    phases = phase_spans(facts.trace)
    forward = phases.pop("forward", NOTHING)
    calls = np.array([(step.start, step.start + (step.host or 0)) for step in called], np.int64)
    between = (calls[:-1, 1], np.maximum(calls[1:, 0], calls[:-1, 1]))
    phases["between"] = without(union(*between), together(*phases.values(), NOTHING))
    # Time in waits for the device is no work of the host.
    waits = together(forward, facts.span_of(np.concatenate((sync_calls(facts), sync_operations(facts)))))
    work = {name: without(span, waits) for name, span in phases.items()}
    idle = {name: common(facts.lost, facts.on_device(span)) for name, span in work.items()}
    time = length_of(together(*idle.values()))
    if facts.share(time) < facts.limits[SEVERITY_MEDIUM]:
        return None
    costs = {name: length_of(span) for name, span in idle.items()}
    longest = sorted(costs, key=lambda name: -costs[name])
    shown = [name for name in longest if costs[name] >= A_PART * time] or longest[:1]
    removes = together(*(idle[name] for name in shown))
    cost = length_of(removes)
    words = {"each": facts.per_unit(cost), "share": facts.share(cost)}
    return Draft(
        severity_of(facts.limits, facts.share(cost)),
        message("finding.engine_host.title", **words),
        sentences(
            message("finding.engine_host.detail", time=time),
            *(message(f"finding.engine_host.{name}", time=costs[name]) for name in shown),
        ),
        stretches(largest(idle[shown[0]]), "", f"finding.engine_host.{shown[0]}"),
        removes=removes,
        change=Change(host=(HostCut(ANY_THREAD, together(*(work[name] for name in shown))),)),
        verdict=message("finding.engine_host.verdict", **words),
    )


def prefill(facts: Facts) -> Draft | None:
    """Prefills for which requests that already decode have to wait."""
    steps = [step for step in facts.inputs.engine().steps if step.window is not None]
    inside = {step.number for step in steps_of(facts)}
    usual = float(np.median([float(step.span or 0) for step in steps if step.kind == "decode"] or [np.inf]))
    least = facts.limits[PREFILL_RATIO] * usual
    holds = [run for run in _between_decodes(steps) if run[0].number in inside and _span(run) >= least]
    if not holds:
        return None
    most = max(holds, key=_span)
    tokens = [step.call.tokens if (of_prompts := step.call.context_tokens) is None else of_prompts for step in most]
    time = sum(map(_span, holds))
    return Draft(
        "info",
        message("finding.engine_prefill.title", count=len(holds), time=_span(most)),
        sentences(
            message("finding.engine_prefill.detail", count=len(holds), time=time, usual=round(usual)),
            message("finding.engine_prefill.tokens", tokens=sum(count or 0 for count in tokens)) if all(tokens) else "",
        ),
        places(holds, "engine_prefill", lambda run: {"count": len(run)}),
        weight=float(time),
    )


def _between_decodes(steps: list[EngineStep]) -> list[list[EngineStep]]:
    """Runs of prefills between two decodes, if the second decode has more requests than the prefills add.

    Its other requests were held up by them. A mixed step is a run alone: it holds up its own decodes.
    """
    runs: list[list[EngineStep]] = []
    held: list[EngineStep] = []
    decoded = False
    for step in steps:
        if step.kind == "prefill":
            held.append(step)
            continue
        if step.kind == "mixed":
            runs.append([step])
        brought = [one.call.requests for one in held]
        known = None not in brought and step.kind == "decode"
        if held and decoded and known and (step.call.requests or 0) > sum(count or 0 for count in brought):
            runs.append(held)
        held, decoded = [], step.kind == "decode"
    return runs


def dummy(facts: Facts) -> Draft | None:
    """Steps without a request, which a data-parallel rank computes as the others of its group have some."""
    steps = steps_of(facts)
    alone = [step for step in steps if step.kind == "dummy"]
    time = sum(step.busy or 0 for step in alone)
    share = facts.share(time)
    if share < facts.limits[SEVERITY_MEDIUM] or len(alone) == len(steps):
        return None
    words = {"count": len(alone), "all": len(steps), "time": time, "share": share}
    return Draft(
        "info",
        *about("engine_dummy", **words),
        places(([step] for step in alone), "engine_dummy", lambda run: {}),
        weight=float(time),
        verdict=message("finding.engine_dummy.verdict", share=share),
    )


def _size(step: EngineStep) -> int | None:
    """What graphs are captured for: the requests of a batch."""
    return step.call.requests if step.call.requests is not None else step.call.tokens


RULES: tuple[Rule, ...] = (
    Rule(
        "ENGINE.EAGER",
        cls="dispatch",
        inputs=("device", "overlap", "links"),
        check=eager,
        thresholds=(SYNC_SHARE, *GRADES),
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
        thresholds=GRADES,
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
        "ENGINE.DUMMY",
        cls="dispatch",
        check=dummy,
        thresholds=(SEVERITY_MEDIUM,),
        advice=("dp_balance",),
        gpu=("dp_balance",),
        pages=(pages.MINDIE,),
        sources=(
            "vLLM: a data-parallel rank without requests computes dummy batches",
            "best practice dp_load_imbalance",
        ),
        reach="cause",
    ),
)
