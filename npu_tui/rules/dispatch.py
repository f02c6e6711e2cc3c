"""Findings about launches that come too late.

Sources: the MindStudio Insight walk-through (Free above 10 %, near-vertical launches, an interrupted pipeline) and the
free analysis of msprof-analyze.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.analysis.code_lines import CodeLine
from npu_tui.analysis.drains import CAUSES
from npu_tui.analysis.launches import NEAR_VERTICAL_US, STARVED_US, within_graphs
from npu_tui.analysis.limits import HALF, HARDLY_ANY, NAMED, NOTABLE, ROUNDING_NS, UNSEEN, Threshold
from npu_tui.analysis.overlap import slow_stage
from npu_tui.analysis.replay import Change, TaskCut
from npu_tui.rules import pages
from npu_tui.rules.blame import (
    LINKS_FEWEST,
    SYNC_BLOCKING,
    blamed_calls,
    compile_calls,
    dry,
    fixed_pauses,
    launch_blocking,
    queue_is_off,
)
from npu_tui.rules.cpu import thief
from npu_tui.rules.facts import Facts, once_per_device
from npu_tui.rules.inputs import NOTHING, Span, common, first_of_largest, largest, length_of, together, without
from npu_tui.rules.judged_path import blocked, task_gaps
from npu_tui.rules.model import Evidence, Severity
from npu_tui.rules.rule import (
    SEVERITY_HIGH,
    SEVERITY_MEDIUM,
    Draft,
    Rule,
    Skipped,
    Unexplained,
    advise,
    line_of,
    sentences,
    severity_of,
    stretches,
)
from npu_tui.trace.arrays import I64, Bools
from npu_tui.trace.intervals import covered_within
from npu_tui.trace.message import Message, Said, message
from npu_tui.trace.text import brief

STARVED_FEWEST = Threshold("starved_fewest", 5)
CLUSTER_MS = Threshold("cluster_ms", 1.0)
CLUSTER_IDLE = Threshold("cluster_idle", 0.5)


class _Starvation(Struct, frozen=True):
    """Launches that starve: ``chosen`` masks the launches of the window; they lie in so many ``ranges``."""

    chosen: Bools
    start: int
    end: int
    ranges: int


def _starvation(facts: Facts) -> _Starvation:
    """The ranges of launches in which the device idles most of the time, or all launches where there are none."""
    launches, limits = facts.asked, facts.limits
    assert launches is not None  # the rule asks for links
    time = facts.trace.links.target_time[launches.link]
    clusters = [
        cluster
        for cluster in facts.ranges
        if cluster.end - cluster.start >= limits[CLUSTER_MS] * 1e6
        and (cluster.idle_ratio or 0.0) > limits[CLUSTER_IDLE]
    ]
    if not clusters:
        return _Starvation(np.ones(len(time), np.bool_), int(time.min()), int(time.max()), 0)
    begin, until = np.array(sorted((cluster.start, cluster.end) for cluster in clusters)).T
    at = np.searchsorted(begin, time, "right") - 1
    chosen = (at >= 0) & (np.maximum.accumulate(until)[np.maximum(at, 0)] >= time)
    return _Starvation(chosen, int(begin[0]), int(until.max()), len(clusters))


def vertical(facts: Facts) -> Draft | Skipped | None:
    """Near-vertical launches that an idle device waited for."""
    launches, limits = facts.asked, facts.limits
    assert launches is not None
    if len(launches.link) < limits[LINKS_FEWEST]:
        return Skipped(message("finding.needs.links_fewest", count=len(launches.link), fewest=limits[LINKS_FEWEST]))
    if launches.starved.sum() < limits[STARVED_FEWEST] or facts.share(facts.sums.free) <= limits[FREE_SHARE]:
        return None
    place = _starvation(facts)
    removes = facts.lost_span(place.chosen)
    lost = float(launches.lost[place.chosen].sum())
    if facts.share(length_of(removes)) < limits[SEVERITY_MEDIUM]:
        return None
    starved_there = int(np.count_nonzero(launches.starved & place.chosen))
    links = int(np.count_nonzero(place.chosen))
    who, waited = stage_name(facts), message(f"finding.stage.waited.{blamed_stage(facts) or 'host'}")
    short = place.end - place.start < UNSEEN * place.start
    where = message("finding.between_exact" if short else "finding.between", start=place.start, end=place.end)
    lines = [line_of(code) for code, most in _worst_lines(facts)[:1] if most > HALF * lost]
    each = facts.per_unit(lost)
    words: dict[str, Said | int] = {"where": where, "who": waited, "each": each, "starved": starved_there}
    words["chip"] = facts.chip
    words["at"] = message("finding.vertical.at", line=lines[0]) if lines else ""
    return Draft(
        severity_of(limits, facts.share(lost)),
        message("finding.vertical.title", who=who, each=each, where=where, chip=facts.chip),
        _vertical_detail(facts, place, removes, starved_there, links),
        _vertical_evidence(facts, place),
        stage_advice(facts),
        removes,
        code_lines=tuple(code for code, _ in _worst_lines(facts)),
        verdict=message(f"finding.vertical.verdict{'' if place.ranges == 1 else '_many'}", **words),
        # Where it is known what slows the launches (who had the CPU, a queue that is off), half of it comes first.
        reach="broad" if queue_is_off(facts) or thief(facts) is not None else None,
    )


def _vertical_detail(facts: Facts, place: _Starvation, removes: Span, starved: int, links: int) -> Message:
    parts: list[Said] = [message("finding.vertical.starved", starved=starved, links=links)]
    idle = facts.dequeue_idle
    stage = blamed_stage(facts)
    if stage is not None and idle is not None:
        parts.append(message(f"finding.vertical.stage.{stage}", idle=idle))
    if stage != "python":
        parts.append(_calls_within(facts, removes))
    if lines := _worst_lines(facts):
        named = [message("finding.vertical.line", line=line_of(code), lost=lost) for code, lost in lines]
        parts.append(message("finding.vertical.lines", lines=named))
    parts.append(caveat(facts))
    return sentences(*parts)


def _worst_lines(facts: Facts) -> list[tuple[CodeLine, float]]:
    """The lines of user code that lose most of the device's time, with what they lose, ns."""
    return [(loss.code, loss.lost) for loss in facts.lines[:NAMED] if loss.code is not None]


def _calls_within(facts: Facts, span: Span) -> Said:
    """The calls of CANN that take most of ``span``; empty without any."""
    calls = [
        message("finding.vertical.call", name=brief(call.name), time=call.time, count=call.count)
        for call in blamed_calls(facts, span)
    ]
    return message("finding.vertical.calls", calls=calls) if calls else ""


def _vertical_evidence(facts: Facts, place: _Starvation) -> tuple[Evidence, ...]:
    launches = facts.asked
    assert launches is not None
    stream = main_stream(facts)
    evidence = [
        Evidence(
            cluster.start,
            cluster.end,
            stream,
            message("finding.vertical.range"),
            message(
                "finding.vertical.range_note",
                lost=cluster.lost,
                near=cluster.near_vertical,
                links=cluster.links,
                idle=cluster.idle_ratio or 0.0,
            ),
        )
        for cluster in facts.ranges
        if place.start <= cluster.start and cluster.end <= place.end and cluster.lost > 0
    ]
    worst = np.flatnonzero(place.chosen & launches.starved)
    worst = worst[first_of_largest(launches.lost[worst], 10)]
    for k in sorted(worst.tolist()):
        kernel = facts.place(int(facts.target[k]), message("finding.vertical.waited", lost=float(launches.lost[k])))
        # The place is the time that the device waited: it ends where the kernel starts.
        evidence.append(replace(kernel, start=int(launches.ready[k]), end=kernel.start))
    return tuple(evidence)


_GAPS = {
    "device": ("device_gaps",), "launches": ("record_launches",), "tasks": ("fewer_operators", "graph"),
    "graph": ("graph_gaps", "fused_in_graph"),
}  # fmt: skip
"""What to do by what most of Free is: the device waits, the launches are not known, every task takes time to start."""
# The recording that would show the cause.
_RECORDINGS = {"host": ("record_host",), "device": ("level1_tasks",), "launches": ("record_launches",)}

FREE_SHARE = Threshold("free_share", 0.1)


def free(facts: Facts) -> Draft | None:
    """Free above 10 % of the device's time, split by its cause."""
    limits = facts.limits
    share = facts.share(facts.sums.free)
    if share <= limits[FREE_SHARE]:
        return None
    severity = severity_of(limits, share)
    idle = facts.free
    elsewhere = _judged_elsewhere(facts)
    if facts.share(length_of(without(idle, elsewhere))) <= limits[FREE_SHARE]:
        severity = "info"
    known, free_ns = facts.part.split is not None, length_of(idle)
    late, side = length_of(facts.host_late), length_of(facts.device_side)
    copied = length_of(common(idle, _copied(facts)))
    parts = {"host": late, "device": side, "launches": facts.sums.free - copied - late - side}
    where = max(parts, key=parts.__getitem__) if known else "launches"
    inner, inside = graph_gaps(facts)
    where = "graph" if 2 * length_of(inner) > free_ns else where
    gaps = task_gaps(facts, side) if where == "device" else {}
    if not known:
        cause = message(facts.recorder.word("finding.free.unknown"))
    else:
        shares = {"late": late / max(free_ns, 1), "side": side / max(free_ns, 1)}
        cause = (
            message("finding.free.split_copied", copied=copied / max(free_ns, 1), **shares)
            if copied >= HARDLY_ANY * free_ns
            else message("finding.free.split", **shares)
        )
    told_ns = length_of(common(idle, elsewhere))
    told = message("finding.free.verdict_told", each=facts.per_unit(told_ns)) if severity == "info" else None
    where = "tasks" if gaps else where
    unexplained = message(facts.recorder.word(f"finding.free.unexplained.{where}"), **gaps)
    waits = blocked(facts, facts.device_side) if where == "device" else None
    explained = "explained" if gaps else "unexplained" if waits is None else "blocked"
    each = facts.per_unit(facts.sums.free)
    words = {"share": share, "each": each, "why": unexplained, "waits": waits or ""}
    verdict = message(f"finding.free.verdict_{explained}", **words)
    if where == "graph":
        words = {"count": len(inner[0]), "time": length_of(inner), "middle": float(np.median(inner[1] - inner[0]))}
        words["kernel"] = float(np.median(facts.length(inside)))
        words |= {"share": facts.share(length_of(inner)), "each": facts.per_unit(length_of(inner))}
        return Draft(
            severity,
            message("finding.free.title", each=each, share=share),
            sentences(
                message("finding.free.detail", count=len(idle[0]), time=facts.sums.free, cause=cause),
                message("finding.free.graph_gaps", **words),
            ),
            stretches(largest(inner), "Free", "finding.free.graph_place", _free_lane(facts)),
            _free_advice(facts, where),
            inner,
            verdict=message("finding.free.verdict_graph", **words),
            reach="broad",
            change=Change(tasks=(TaskCut(inside, gap=True),)),
        )
    return Draft(
        severity,
        message("finding.free.title", each=each, share=share),
        sentences(
            message("finding.free.detail", count=len(idle[0]), time=facts.sums.free, cause=cause),
            message("finding.free.task_gaps", **gaps) if gaps else "",
            message("finding.free.meanwhile", waits=waits) if waits is not None else "",
            message("finding.free.told", time=told_ns) if severity == "info" else "",
        ),
        tuple(_free_place(facts, *span) for span in largest(idle) if (span[1] - span[0]) * len(idle[0]) >= free_ns),
        _free_advice(facts, where),
        facts.device_side if gaps else facts.host_late if known else None,
        confidence="medium" if gaps else "high" if known else "low",
        code_lines=() if gaps else tuple(code for code, _ in _worst_lines(facts)),
        verdict=verdict if gaps else told,
        change=Change(tasks=(TaskCut(_busy(facts), gap=True),)) if gaps else None,
        reach="broad" if gaps else None,
        unexplained=None if gaps else Unexplained(without(idle, elsewhere), verdict, advise(*_RECORDINGS[where])),
    )


def _free_advice(facts: Facts, where: str) -> tuple[Message, ...]:
    if where == "host":
        return stage_advice(facts)
    return advise(*map(facts.recorder.word, _GAPS[where]))


@once_per_device
def graph_gaps(facts: Facts) -> tuple[Span, I64]:
    """When the device is free between two tasks of one replayed graph, and the tasks that such a time ends with."""
    pairs, slices = facts.part.pairs, facts.trace.slices
    inside = within_graphs(facts.trace, pairs) if pairs is not None else np.zeros(0, np.int64)
    if not len(inside):
        return NOTHING, inside
    start, end = facts.device_side
    begins = np.sort(slices.start[inside])
    at = np.minimum(np.searchsorted(begins, end - ROUNDING_NS), len(begins) - 1)
    within = np.abs(begins[at] - end) <= ROUNDING_NS
    return (start[within], end[within]), inside


def _judged_elsewhere(facts: Facts) -> Span:
    """Copies, which Free holds, and pauses of one length after kernels: other findings judge them."""
    pauses = fixed_pauses(facts)
    return together(_copied(facts), pauses.span if pauses is not None else NOTHING)


def _copied(facts: Facts) -> Span:
    device = facts.part.slices
    return facts.span_of(device.copy) if device is not None else NOTHING


def _free_place(facts: Facts, start: int, end: int) -> Evidence:
    slices, busy = facts.trace.slices, _busy(facts)
    busy = busy[np.abs(slices.start[busy] - end) <= ROUNDING_NS]
    after = facts.name_of(int(busy[0])) if len(busy) else message("finding.nothing")
    return Evidence(start, end, _free_lane(facts), "Free", message("finding.free.place", time=end - start, after=after))


@once_per_device
def _busy(facts: Facts) -> I64:
    return np.zeros(0, np.int64) if facts.part.slices is None else np.flatnonzero(facts.part.slices.busy)


def _free_lane(facts: Facts) -> int | None:
    lanes = facts.part.lanes
    if lanes is None or lanes.layer is None:
        return None
    layer = facts.trace.layers[lanes.layer].lanes
    return next((lane for lane in layer if facts.trace.lanes[lane].name == "Free"), None)


def main_stream(facts: Facts) -> int | None:
    """The lane that most launches end in."""
    lanes = facts.trace.slices.lane[facts.target]
    return int(np.bincount(lanes).argmax()) if len(lanes) else None


def stage(facts: Facts) -> Draft | Skipped | None:
    """Which stage of the host is slow, where it is late for 3 % of the device's time or more."""
    idle = facts.dequeue_idle
    late = facts.host_late
    if facts.share(length_of(late)) < facts.limits[SEVERITY_MEDIUM]:
        return None
    slow = blamed_stage(facts)
    if slow is None or idle is None:
        return Skipped(message("finding.needs.dequeue"))
    return Draft(
        _severity(facts, late),
        message(f"finding.stage.title.{slow}", each=facts.per_unit(length_of(late))),
        sentences(
            message(f"finding.stage.detail.{slow}", idle=idle, late=length_of(late)),
            _calls_within(facts, late),
        ),
        stretches(largest(late), "Free", "finding.stage.place", _free_lane(facts)),
        stage_advice(facts),
        late,
    )


def _severity(facts: Facts, lost: Span) -> Severity:
    """The severity of the time ``lost`` to late launches; info where the device is busy otherwise."""
    share = facts.share(length_of(lost))
    fed = share < facts.limits[SEVERITY_HIGH] and facts.share(facts.sums.free) <= facts.limits[FREE_SHARE]
    return "info" if fed else severity_of(facts.limits, share)


INTERRUPTIONS_FEWEST = Threshold("interruptions_fewest", 3)


def interrupt(facts: Facts) -> Draft | None:
    """Times the device ran dry, with what the host did instead of launching."""
    limits, drains = facts.limits, dry(facts)
    if not len(drains):
        return None
    low, high = drains.start.astype(np.int64), drains.end.astype(np.int64)
    removes = without((low, high), facts.busy)
    share = facts.share(length_of(removes))
    cut = int(drains.interrupted.sum())
    if share < limits[SEVERITY_MEDIUM] and cut < limits[INTERRUPTIONS_FEWEST]:
        return None
    idle = np.bincount(drains.cause, covered_within(*removes, low, high), len(CAUSES)).astype(np.int64)
    counts = drains.counted()
    causes = [
        message("finding.interrupt.cause", cause=message(f"finding.cause.{cause}"), count=counts[cause], time=time)
        for time, cause in sorted(zip(idle.tolist(), CAUSES, strict=True), key=lambda row: -row[0])
        if cause in counts
    ]
    stream = main_stream(facts)
    worst = drains.taken(np.sort(first_of_largest(drains.end - drains.start, 10)))
    return Draft(
        _severity(facts, removes) if share >= limits[SEVERITY_MEDIUM] else "info",
        message("finding.interrupt.title", each=facts.per_unit(length_of(removes))),
        message("finding.interrupt.detail", count=len(drains), filled=cut, causes=causes),
        tuple(
            Evidence(
                start,
                end,
                stream,
                message(f"finding.cause.{cause}"),
                message("finding.interrupt.place", before=facts.name_of(before), after=facts.name_of(after)),
                after,
            )
            for start, end, cause, before, after in worst.rows()
        ),
        (message("finding.advice.causes"), *stage_advice(facts)[:1]),
        together(removes) if length_of(removes) else NOTHING,
    )


def blamed_stage(facts: Facts) -> str | None:
    """``python`` or ``cann``, ``both`` where neither is clearly slower, None where it is unknown."""
    idle = facts.dequeue_idle
    if idle is not None and abs(idle - 0.5) < NOTABLE:
        return "both"
    return slow_stage(idle)


def stage_name(facts: Facts) -> Message:
    """The slow stage of the host in words."""
    return message(f"finding.stage.{blamed_stage(facts) or 'host'}")


def stage_advice(facts: Facts) -> tuple[Message, ...]:
    """What to change on the slow stage of the host."""
    if facts.recorder.host_advice:
        return advise(*facts.recorder.host_advice)
    if launch_blocking(facts) > facts.limits[SYNC_BLOCKING]:
        return advise("launch_blocking", "fewer_operators", "graph")
    stage = blamed_stage(facts)
    if queue_is_off(facts):
        rest = advise("inference", "binding") if facts.is_serving else advise("binding", "fewer_operators", "graph")
        return (message("finding.advice.set_queue"), *rest)
    if facts.is_serving:
        return advise("inference", "task_queue", "binding")
    calls = blamed_calls(facts, facts.host_late)
    if any(call.name.startswith("hcom_") and 2 * call.time >= length_of(facts.host_late) for call in calls):
        return advise("merge_buckets", "binding")
    if stage == "cann":
        compiles = not facts.has("cann") or len(compile_calls(facts)) > 0
        return advise("cann_cache", "jit_compile" if compiles else "graph", "binding")
    if stage == "python":
        return advise("task_queue", "binding", "fewer_operators", "graph")
    return advise("binding", "task_queue", "fewer_operators", "graph")


def caveat(facts: Facts) -> Said:
    """The caveat that the profiler itself slows the host down, if its settings do so."""
    settings = facts.inputs.setup.settings
    inflating = [name for name in ("with_stack", "profile_memory", "_l2_cache") if settings.get(name)]
    if inflating:
        return message("finding.caveat.profiled", settings=[name.lstrip("_") for name in inflating])
    stacks = bool(facts.trace.slices.stack.max(initial=-1) >= 0)
    return message("finding.caveat.profiled", settings=["with_stack"]) if stacks else ""


RULES: tuple[Rule, ...] = (
    Rule(
        "DISPATCH.VERTICAL",
        cls="dispatch",
        inputs=("device", "overlap", "links"),
        check=vertical,
        thresholds=(
            LINKS_FEWEST,
            STARVED_FEWEST,
            FREE_SHARE,
            NEAR_VERTICAL_US,
            STARVED_US,
            CLUSTER_MS,
            CLUSTER_IDLE,
            SEVERITY_MEDIUM,
            SEVERITY_HIGH,
        ),
        advice=("task_queue", "binding", "cann_cache", "jit_compile", "metrics_rarely", "fewer_operators", "graph"),
        gpu=("fewer_operators", "gpu_graph"),
        pages=(pages.PIPELINE, pages.TASK_QUEUE, pages.BINDING, pages.ASYNC),
        change="""\
+export TASK_QUEUE_ENABLE=2
+export CPU_AFFINITY_CONF=2
""",
        sources=(
            "MindStudio Insight walk-through 1-38, 1-51",
            "operator tuning guide 0-06, 0-07",
            "MindStudio Insight: Host Bound",
        ),
        reach="place",
        words=("starved", "near_vertical", "queued", "lost", "idle", "batching"),
    ),
    Rule(
        "DISPATCH.FREE",
        cls="dispatch",
        inputs=("overlap",),
        check=free,
        thresholds=(FREE_SHARE, SEVERITY_MEDIUM, SEVERITY_HIGH),
        advice=("task_queue", "binding", "fewer_operators", "graph", "device_gaps", "graph_gaps", "fused_in_graph"),
        gpu=("fewer_operators", "gpu_graph", "gpu_device", "gpu_launches", "graph_gaps", "fused_in_graph"),
        pages=(pages.PIPELINE, pages.TASK_QUEUE, pages.BINDING),
        change="""\
+export TASK_QUEUE_ENABLE=2
+export CPU_AFFINITY_CONF=2
""",
        sources=("MindStudio Insight walk-through 1-37, 1-50", "msprof-analyze free_analysis"),
        reach="symptom",
        words=("idle", "host_late"),
    ),
    Rule(
        "DISPATCH.STAGE",
        cls="dispatch",
        inputs=("device", "overlap", "links"),
        check=stage,
        thresholds=(SEVERITY_MEDIUM, SEVERITY_HIGH, FREE_SHARE),
        advice=("task_queue", "binding", "fewer_operators", "graph", "cann_cache", "jit_compile"),
        pages=(pages.TASK_QUEUE, pages.BINDING, pages.COMPILE),
        change="""\
+export TASK_QUEUE_ENABLE=2
+export CPU_AFFINITY_CONF=2
""",
        sources=("MindStudio Insight walk-through 1-25, 1-26, 1-54, 1-55", "msprof-analyze free_analysis"),
        words=("host_late", "pipeline", "binding", "atb"),
    ),
    Rule(
        "DISPATCH.INTERRUPT",
        cls="dispatch",
        inputs=("device", "overlap", "links"),
        check=interrupt,
        thresholds=(INTERRUPTIONS_FEWEST, FREE_SHARE, SEVERITY_MEDIUM, SEVERITY_HIGH),
        advice=("causes", "task_queue", "binding"),
        gpu=("causes", "gpu_graph"),
        pages=(pages.PIPELINE, pages.TUNING),
        change="""\
-    if torch.isnan(loss):
-        raise ValueError
+    bad |= torch.isnan(loss)
+    if step % 100 == 0 and bad.item():
+        raise ValueError
""",
        sources=("MindStudio Insight walk-through 1-52", "operator tuning guide 0-07"),
        words=("drain",),
    ),
)
