"""Findings about launches that come too late.

Rules F01, F03 and F04 of the collected diagnosis rules: the MindStudio Insight walk-through (Free above 10 %, an
interrupted pipeline) and the free analysis of msprof-analyze.
"""

from __future__ import annotations

import numpy as np

from npu_tui.analysis.overlap import slow_stage
from npu_tui.analysis.thresholds import Threshold
from npu_tui.rules import pages
from npu_tui.rules.blame import SYNC_BLOCKING, blamed_calls, compile_calls, fixed_pauses, launch_blocking, queue_is_off
from npu_tui.rules.facts import Facts, once_per_device
from npu_tui.rules.inputs import I64, NOTHING, Span, both, largest, length_of, together, without
from npu_tui.rules.model import Evidence, Severity
from npu_tui.rules.rule import SEVERITY_HIGH, SEVERITY_MEDIUM, Draft, Rule, Skipped, advise, sentences, severity_of
from npu_tui.trace.message import Message, Said, message
from npu_tui.trace.text import brief

_SOURCES = ("MindStudio Insight walk-through 1-37, 1-50", "msprof-analyze free_analysis")
MOST_LINES = 3
"""How many lines of code a finding names."""

_ROUNDING_NS = 2
_EVEN = 0.1
"""How near to a half the idle share of the dequeue thread is where both stages are slow."""
_NOTABLE = 0.01
"""Copies are told from this share of Free on."""

FREE_SHARE = Threshold("free_share", 0.1)
FREE_SHARE_HIGH = Threshold("free_share_high", 0.2)
LATE_SHARE = Threshold("late_share", 0.5)


def free(facts: Facts) -> Draft | None:
    """Free above 10 % of the device's time, split by whose fault it is."""
    limits = facts.limits
    share = facts.share(facts.sums.free)
    if share <= limits[FREE_SHARE]:
        return None
    severity: Severity = "high" if share > limits[FREE_SHARE_HIGH] else "medium"
    idle = facts.free
    told = _told_elsewhere(facts)
    if facts.share(length_of(without(idle, told))) <= limits[FREE_SHARE]:
        severity = "info"
    known = facts.part.split is not None
    late, side = length_of(facts.host_late), length_of(facts.device_side)
    host_bound = known and late >= limits[LATE_SHARE] * facts.sums.free
    if not known:
        cause = message("finding.free.unknown")
    else:
        free = max(length_of(idle), 1)
        words = {"late": late / free, "side": side / free}
        copied = length_of(both(idle, _copied(facts))) / free
        cause = (
            message("finding.free.split_copied", copied=copied, **words)
            if copied >= _NOTABLE
            else message("finding.free.split", **words)
        )
    return Draft(
        severity,
        message("finding.free.title", time=facts.sums.free, share=share),
        sentences(
            message("finding.free.detail", count=len(idle[0]), time=facts.sums.free, cause=cause),
            message("finding.free.told", time=length_of(both(idle, told))) if severity == "info" else "",
        ),
        tuple(_free_place(facts, start, end) for start, end in largest(idle)),
        stage_advice(facts) if host_bound else advise("device_gaps"),
        facts.host_late if known else None,
        confidence="high" if known else "low",
        code_lines=tuple(line.code for line in facts.lines[:MOST_LINES] if line.code is not None),
    )


def _told_elsewhere(facts: Facts) -> Span:
    """Copies, which Free holds, and pauses of one length after kernels: other findings judge them."""
    pauses = fixed_pauses(facts)
    return together(_copied(facts), pauses.span if pauses is not None else NOTHING)


def _copied(facts: Facts) -> Span:
    device = facts.part.slices
    return facts.span_of(device.copy) if device is not None else NOTHING


def _free_place(facts: Facts, start: int, end: int) -> Evidence:
    slices, busy = facts.trace.slices, _busy(facts)
    busy = busy[np.abs(slices.start[busy] - end) <= _ROUNDING_NS]
    after = brief(facts.trace.name_of(int(busy[0]))) if len(busy) else message("finding.nothing")
    return Evidence(start, end, _free_lane(facts), "Free", message("finding.free.place", time=end - start, after=after))


@once_per_device
def _busy(facts: Facts) -> I64:
    return np.zeros(0, np.int64) if facts.part.slices is None else np.flatnonzero(facts.part.slices.busy)


def _free_lane(facts: Facts) -> int | None:
    lanes = facts.part.lanes
    if lanes is None or lanes.layer is None:
        return None
    own = facts.trace.layers[lanes.layer].lanes
    return next((lane for lane in own if facts.trace.lanes[lane].name == "Free"), None)


def main_stream(facts: Facts) -> int | None:
    """The lane that most launches end in."""
    lanes = facts.trace.slices.lane[facts.target]
    return int(np.bincount(lanes).argmax()) if len(lanes) else None


STAGE_SHARE = Threshold("stage_share", 0.03)


def stage(facts: Facts) -> Draft | Skipped | None:
    """Which stage of the host is slow, where it is late for 3 % of the device's time or more."""
    idle = facts.dequeue_idle
    late = facts.host_late
    if facts.share(length_of(late)) < facts.limits[STAGE_SHARE]:
        return None
    slow = blamed_stage(facts)
    if slow is None or idle is None:
        return Skipped(message("finding.needs.dequeue"))
    calls = blamed_calls(facts, late)
    named = [
        message("finding.vertical.call", name=brief(each.name), time=each.time, count=each.count) for each in calls
    ]
    return Draft(
        "info" if _is_fed(facts, late) else "medium",
        message(f"finding.stage.title.{slow}", time=length_of(late)),
        sentences(
            message(f"finding.stage.detail.{slow}", idle=idle, late=length_of(late)),
            message("finding.vertical.calls", calls=named) if named else "",
        ),
        tuple(
            Evidence(start, end, _free_lane(facts), "Free", message("finding.stage.place", time=end - start))
            for start, end in largest(late)
        ),
        stage_advice(facts),
        late,
    )


def _is_fed(facts: Facts, lost: Span) -> bool:
    """Whether the device is busy enough to call the host in time: little is ``lost``, and little is free at all."""
    limits = facts.limits
    return facts.share(length_of(lost)) < limits[SEVERITY_HIGH] and facts.share(facts.sums.free) <= limits[FREE_SHARE]


DRAIN_SHARE = Threshold("drain_share", 0.03)
INTERRUPTIONS_FEWEST = Threshold("interruptions_fewest", 3)


def interrupt(facts: Facts) -> Draft | None:
    """Times the device ran dry, with what the host did instead of launching."""
    limits, found = facts.limits, facts.drains
    if not found:
        return None
    low = np.array([each.start for each in found]).astype(np.int64)
    high = np.array([each.end for each in found]).astype(np.int64)
    removes = without((low, high), facts.busy)
    share = facts.share(length_of(removes))
    cut = sum(each.interrupted for each in found)
    if share < limits[DRAIN_SHARE] and cut < limits[INTERRUPTIONS_FEWEST]:
        return None
    by_cause: dict[str, list[float]] = {}
    for each in found:
        by_cause.setdefault(each.cause, []).append(each.end - each.start)
    causes = [
        message("finding.interrupt.cause", cause=message(f"finding.cause.{cause}"), count=len(times), time=sum(times))
        for cause, times in sorted(by_cause.items(), key=lambda row: -sum(row[1]))
    ]
    stream = main_stream(facts)
    worst = sorted(sorted(found, key=lambda each: each.start - each.end)[:10], key=lambda each: each.start)
    return Draft(
        severity_of(facts, share) if share >= limits[DRAIN_SHARE] and not _is_fed(facts, removes) else "info",
        message("finding.interrupt.title", count=len(found), time=length_of(removes)),
        message("finding.interrupt.detail", count=len(found), filled=cut, causes=causes),
        tuple(
            Evidence(
                int(each.start),
                int(each.end),
                stream,
                message(f"finding.cause.{each.cause}"),
                message(
                    "finding.interrupt.place",
                    before=brief(facts.trace.name_of(each.before)),
                    after=brief(facts.trace.name_of(each.after)),
                ),
                each.after,
            )
            for each in worst
        ),
        (message("finding.advice.causes"), *stage_advice(facts)[:1]),
        together(removes) if length_of(removes) else NOTHING,
    )


def blamed_stage(facts: Facts) -> str | None:
    """``python`` or ``cann``, ``both`` where neither is clearly slower, None where it cannot be told."""
    idle = facts.dequeue_idle
    if idle is not None and abs(idle - 0.5) < _EVEN:
        return "both"
    return slow_stage(idle)


def stage_name(facts: Facts) -> Message:
    """The slow stage of the host in words."""
    return message(f"finding.stage.{blamed_stage(facts) or 'host'}")


def stage_advice(facts: Facts) -> tuple[Message, ...]:
    """What to change on the slow stage of the host."""
    if launch_blocking(facts) > facts.limits[SYNC_BLOCKING]:
        return advise("launch_blocking", "fewer_operators")
    stage = blamed_stage(facts)
    serving = facts.rhythm is not None and facts.rhythm.unit == "token"
    if queue_is_off(facts):
        rest = advise("inference", "binding") if serving else advise("binding", "fewer_operators")
        return (message("finding.environment.set_queue"), *rest)
    if serving:
        return advise("inference", "task_queue", "binding")
    if stage == "cann":
        compiles = not facts.has("cann") or len(compile_calls(facts)) > 0
        return advise("cann_cache", "jit_compile" if compiles else "graph", "binding")
    if stage == "python":
        return advise("task_queue", "binding", "fewer_operators")
    return advise("binding", "task_queue", "fewer_operators")


def caveat(facts: Facts) -> Said:
    """That the profiler itself slows the host down, where its settings say that it does."""
    settings = facts.inputs.setup.settings
    inflating = [name for name in ("with_stack", "profile_memory", "_l2_cache") if settings.get(name)]
    if inflating:
        return message("finding.caveat.profiled", settings=[name.lstrip("_") for name in inflating])
    stacks = bool(facts.trace.slices.stack.max(initial=-1) >= 0)
    return message("finding.caveat.profiled", settings=["with_stack"]) if stacks else ""


RULES: tuple[Rule, ...] = (
    Rule(
        "DISPATCH.FREE",
        cls="dispatch",
        inputs=("overlap",),
        check=free,
        thresholds=(FREE_SHARE, FREE_SHARE_HIGH, LATE_SHARE),
        advice=("task_queue", "binding", "fewer_operators", "device_gaps"),
        pages=(pages.PIPELINE, pages.TASK_QUEUE, pages.BINDING),
        change="""\
+export TASK_QUEUE_ENABLE=2
+export CPU_AFFINITY_CONF=2
""",
        sources=("MindStudio Insight walk-through 1-37, 1-50", "msprof-analyze free_analysis"),
    ),
    Rule(
        "DISPATCH.STAGE",
        cls="dispatch",
        inputs=("device", "overlap", "links"),
        check=stage,
        thresholds=(STAGE_SHARE,),
        advice=("task_queue", "binding", "fewer_operators", "cann_cache", "jit_compile"),
        pages=(pages.TASK_QUEUE, pages.BINDING, pages.COMPILE),
        change="""\
+export TASK_QUEUE_ENABLE=2
+export CPU_AFFINITY_CONF=2
""",
        sources=("MindStudio Insight walk-through 1-25, 1-26, 1-54, 1-55", "msprof-analyze free_analysis"),
    ),
    Rule(
        "DISPATCH.INTERRUPT",
        cls="dispatch",
        inputs=("device", "overlap", "links"),
        check=interrupt,
        thresholds=(DRAIN_SHARE, INTERRUPTIONS_FEWEST, SEVERITY_MEDIUM, SEVERITY_HIGH),
        advice=("causes", "task_queue", "binding"),
        pages=(pages.PIPELINE, pages.TUNING),
        change="""\
-    if torch.isnan(loss):
-        raise ValueError
+    bad |= torch.isnan(loss)
+    if step % 100 == 0 and bad.item():
+        raise ValueError
""",
        sources=("MindStudio Insight walk-through 1-52", "operator tuning guide 0-07"),
    ),
)
