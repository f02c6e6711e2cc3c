"""Findings about launches that come too late.

Rules F01 to F04 of the collected diagnosis rules: the MindStudio Insight walk-through (Free above 10 %, near-vertical
HostToDevice links, an interrupted pipeline), the free analysis of msprof-analyze, and the lost time of the launches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npu_tui.analysis.findings.blame import (
    SyncSite,
    blamed_calls,
    compile_calls,
    launch_blocking,
    starving,
    sync_operations,
    sync_site,
)
from npu_tui.analysis.findings.facts import NOTHING, Bools, Facts, Span, both, largest, length_of, together, without
from npu_tui.analysis.findings.model import Evidence, Severity
from npu_tui.analysis.findings.phrases import advise, line_of, lines_of, sentences
from npu_tui.analysis.findings.rule import Draft, Rule, Skipped
from npu_tui.analysis.overlap.stage import slow_stage
from npu_tui.trace.message import Message, Said, message
from npu_tui.trace.text import brief

_SOURCES = ("MindStudio Insight walk-through 1-37, 1-50", "msprof-analyze free_analysis")
_LINES = 3
_EVEN = 0.1
"""How near to a half the idle share of the dequeue thread is where both stages are slow."""
_ROUNDING_NS = 2


def severity_of(facts: Facts, share: float) -> Severity:
    """The severity of something that takes ``share`` of the device's time, as msprof-analyze's advisor has it."""
    limits = facts.limits
    return "high" if share >= limits.severity_high else "medium" if share >= limits.severity_medium else "low"


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
    if launch_blocking(facts) > facts.limits.sync_blocking:
        return advise("launch_blocking", "fewer_operators")
    stage = blamed_stage(facts)
    if stage == "cann":
        return advise("cann_cache", "jit_compile", "binding")
    if stage == "python":
        return advise("task_queue", "binding", "fewer_operators")
    return advise("binding", "task_queue", "fewer_operators")


def caveat(facts: Facts) -> Said:
    """That the profiler itself slows the host down, where its settings say that it does."""
    settings = facts.beside.settings
    inflating = [name for name in ("with_stack", "profile_memory", "_l2_cache") if settings.get(name)]
    if inflating:
        return message("finding.caveat.profiled", settings=[name.lstrip("_") for name in inflating])
    stacks = bool((facts.trace.slices.stack >= 0).any())
    return message("finding.caveat.profiled", settings=["with_stack"]) if stacks else ""


def free(facts: Facts) -> Draft | None:
    """Free above 10 % of the device's time, split by whose fault it is."""
    limits = facts.limits
    share = facts.share(facts.sums.free)
    if share <= limits.free_share:
        return None
    severity: Severity = "high" if share > limits.free_share_high else "medium"
    idle = facts.free
    known = facts.part.split is not None
    late, side = length_of(facts.host_late), length_of(facts.device_side)
    host_bound = known and late >= limits.late_share * facts.sums.free
    if not known:
        cause = message("finding.free.unknown")
    else:
        words = {"late": late / facts.sums.free, "side": side / facts.sums.free}
        cause = message("finding.free.split", **words)
    return Draft(
        severity,
        message("finding.free.title", time=facts.sums.free, share=share),
        message("finding.free.detail", count=len(idle[0]), time=facts.sums.free, cause=cause),
        tuple(_free_place(facts, start, end) for start, end in largest(idle)),
        stage_advice(facts) if host_bound else advise("device_gaps"),
        facts.host_late if known else None,
        confidence="high" if known else "low",
        code_lines=tuple(line.code for line in facts.lines[:_LINES] if line.code is not None),
    )


def _free_place(facts: Facts, start: int, end: int) -> Evidence:
    slices, device = facts.trace.slices, facts.part.slices
    begins = (slices.start >= end - _ROUNDING_NS) & (slices.start <= end + _ROUNDING_NS)
    busy = np.flatnonzero(device.busy & begins) if device is not None else np.zeros(0, np.int64)
    after = brief(facts.trace.name_of(int(busy[0]))) if len(busy) else message("finding.nothing")
    return Evidence(start, end, _free_lane(facts), "Free", message("finding.free.place", time=end - start, after=after))


def _free_lane(facts: Facts) -> int | None:
    lanes = facts.part.lanes
    if lanes is None or lanes.layer is None:
        return None
    own = facts.trace.layers[lanes.layer].lanes
    return next((lane for lane in own if facts.trace.lanes[lane].name == "Free"), None)


@dataclass(frozen=True, slots=True)
class _Starvation:
    """Where launches starve: ``chosen`` masks the launches of the window."""

    chosen: Bools
    start: int
    end: int
    idle: float
    ranges: int


def _starvation(facts: Facts) -> _Starvation | None:
    own, limits = facts.launches, facts.limits
    assert own is not None
    time = facts.trace.links.target_time[own.link]
    near = own.near_vertical & ~_synchronous(facts)
    long_ranges = [
        each
        for each in facts.ranges
        if each.end - each.start >= limits.cluster_ms * 1e6 and (each.idle_ratio or 0.0) > limits.cluster_idle
    ]
    if not long_ranges and np.count_nonzero(near) < limits.vertical_share * len(own.link):
        return None
    chosen = np.zeros(len(own.link), np.bool_)
    for each in long_ranges:
        chosen |= (time >= each.start) & (time <= each.end)
    if not long_ranges:
        chosen[:] = True
    if not (chosen & (own.lost > 0)).any():
        return None
    spans = [(each.start, each.end) for each in long_ranges] or [(int(time.min()), int(time.max()))]
    idle = sum((each.idle_ratio or 0.0) * (each.end - each.start) for each in long_ranges)
    return _Starvation(chosen, spans[0][0], spans[-1][1], idle, len(long_ranges))


def _synchronous(facts: Facts) -> Bools:
    """Launches out of a blocking copy, whose line is near-vertical by nature."""
    assert facts.launches is not None
    source = facts.trace.links.source_slice[facts.launches.link]
    blocking = np.array([name.endswith("@aclrtMemcpy") for name in facts.trace.names] + [False])
    found: Bools = (source >= 0) & blocking[facts.trace.slices.name[source]]
    return found


def vertical(facts: Facts) -> Draft | Skipped | None:
    """Near-vertical launches that an idle device waited for."""
    own, limits = facts.launches, facts.limits
    assert own is not None
    if len(own.link) < limits.links_fewest:
        return Skipped(message("finding.needs.links_fewest", count=len(own.link), fewest=limits.links_fewest))
    starved = int(np.count_nonzero(own.starved))
    if starved < limits.starved_fewest or facts.share(facts.sums.free) <= limits.free_share:
        return None
    place = _starvation(facts)
    if place is None:
        return None
    removes = facts.lost_span(place.chosen)
    lost = float(own.lost[place.chosen].sum())
    severity = severity_of(facts, facts.share(lost))
    if facts.share(place.idle) >= limits.cluster_idle_high and lost > place.idle / 2:
        severity = "high"
    found = int(np.count_nonzero(own.starved & place.chosen))
    links = int(np.count_nonzero(place.chosen))
    who, where = stage_name(facts), message("finding.between", start=place.start, end=place.end)
    compiling = both(starving(facts, compile_calls(facts)), removes)
    site = sync_site(facts, sync_operations(facts))
    return Draft(
        severity,
        message("finding.vertical.title", who=who, lost=lost, where=where),
        _vertical_detail(facts, place, removes, site, found, links),
        _vertical_evidence(facts, place),
        _vertical_advice(facts, removes, compiling, site),
        removes,
        code_lines=tuple(line.code for line in facts.lines[:_LINES] if line.code is not None),
        verdict=message(
            "finding.vertical.verdict",
            where=where,
            idle=place.idle / max(place.end - place.start, 1),
            who=who,
            lost=lost,
            starved=found,
            links=links,
        )
        if place.ranges == 1
        else message("finding.vertical.verdict_many", who=who, lost=lost, starved=found, links=links),
    )


def _vertical_detail(
    facts: Facts, place: _Starvation, removes: Span, site: SyncSite | None, starved: int, links: int
) -> Message:
    parts: list[Said] = [message("finding.vertical.starved", starved=starved, links=links)]
    idle = facts.dequeue_idle
    stage = slow_stage(idle)
    if stage is not None and idle is not None:
        parts.append(message(f"finding.vertical.stage.{stage}", idle=idle))
    if stage != "python":
        calls = blamed_calls(facts, removes)
        if calls:
            named = [
                message("finding.vertical.call", name=brief(each.name), time=each.time, count=each.count)
                for each in calls
            ]
            parts.append(message("finding.vertical.calls", calls=named))
    lines = [each for each in facts.lines[:_LINES] if each.code is not None]
    if lines:
        named = [
            message("finding.vertical.line", line=line_of(each.code), lost=each.lost)
            for each in lines
            if each.code is not None
        ]
        parts.append(message("finding.vertical.lines", lines=named))
    if site is not None:
        parts.append(message("finding.vertical.site", **_site_words(site)))
    side = length_of(both(facts.device_side, (np.array([place.start]), np.array([place.end]))))
    if side >= facts.limits.severity_medium * (place.end - place.start):
        parts.append(message("finding.vertical.side", time=side))
    parts.append(caveat(facts))
    return sentences(*parts)


def _site_words(site: SyncSite) -> dict[str, object]:
    return {
        "place": lines_of(site.file, site.lines),
        "lost": site.lost,
        "device": site.device,
    }


def _vertical_evidence(facts: Facts, place: _Starvation) -> tuple[Evidence, ...]:
    own = facts.launches
    assert own is not None
    stream = _stream(facts)
    evidence = [
        Evidence(
            each.start,
            each.end,
            stream,
            message("finding.vertical.range"),
            message(
                "finding.vertical.range_note",
                lost=each.lost,
                near=each.near_vertical,
                links=each.links,
                idle=each.idle_ratio or 0.0,
            ),
        )
        for each in facts.ranges
        if place.start <= each.start and each.end <= place.end and each.lost > 0
    ]
    worst = np.flatnonzero(place.chosen & own.starved)
    worst = worst[np.argsort(-own.lost[worst], kind="stable")[:10]]
    for k in sorted(worst.tolist()):
        target = int(facts.target[k])
        note = message("finding.vertical.waited", lost=float(own.lost[k]))
        found = facts.place(target, note)
        evidence.append(Evidence(int(own.ready[k]), found.start, found.lane, found.name, found.note, target))
    return tuple(evidence)


def _stream(facts: Facts) -> int | None:
    """The lane that most launches end in."""
    lanes = facts.trace.slices.lane[facts.target]
    return int(np.bincount(lanes).argmax()) if len(lanes) else None


def _vertical_advice(facts: Facts, removes: Span, compiling: Span, site: SyncSite | None) -> tuple[Message, ...]:
    advice = []
    least = facts.limits.sync_share * facts.total
    if site is not None and (gain := length_of(both(site.span, removes))) >= least:
        advice.append(message("finding.advice.metrics", gain=gain / facts.count))
    if (gain := length_of(compiling)) >= least:
        advice.append(message("finding.advice.jit_compile_gain", gain=gain / facts.count))
    rest = [each for each in stage_advice(facts) if not (advice and each == message("finding.advice.jit_compile"))]
    return (*advice, *rest)


def stage(facts: Facts) -> Draft | Skipped | None:
    """Which stage of the host is slow, where it is late for 3 % of the device's time or more."""
    idle = facts.dequeue_idle
    late = facts.host_late
    if facts.share(length_of(late)) < facts.limits.stage_share:
        return None
    slow = blamed_stage(facts)
    if slow is None or idle is None:
        return Skipped(message("finding.needs.dequeue"))
    calls = blamed_calls(facts, late)
    named = [
        message("finding.vertical.call", name=brief(each.name), time=each.time, count=each.count) for each in calls
    ]
    return Draft(
        "medium",
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


def interrupt(facts: Facts) -> Draft | None:
    """Times the device ran dry, with what the host did instead of launching."""
    limits, found = facts.limits, facts.drains
    if not found:
        return None
    low = np.array([each.start for each in found]).astype(np.int64)
    high = np.array([each.end for each in found]).astype(np.int64)
    removes = without((low, high), facts.busy_span())
    share = facts.share(length_of(removes))
    cut = sum(each.interrupted for each in found)
    if share < limits.drain_share and cut < limits.interruptions_fewest:
        return None
    by_cause: dict[str, list[float]] = {}
    for each in found:
        by_cause.setdefault(each.cause, []).append(each.end - each.start)
    causes = [
        message("finding.interrupt.cause", cause=message(f"finding.cause.{cause}"), count=len(times), time=sum(times))
        for cause, times in sorted(by_cause.items(), key=lambda row: -sum(row[1]))
    ]
    stream = _stream(facts)
    worst = sorted(sorted(found, key=lambda each: each.start - each.end)[:10], key=lambda each: each.start)
    return Draft(
        severity_of(facts, share) if share >= limits.drain_share else "info",
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


RULES = (
    Rule(
        "DISPATCH.VERTICAL",
        "dispatch",
        ("device", "overlap", "links"),
        vertical,
        (
            "links_fewest",
            "starved_fewest",
            "free_share",
            "near_vertical_us",
            "starved_us",
            "vertical_share",
            "cluster_ms",
            "cluster_idle",
            "cluster_idle_high",
            "severity_medium",
            "severity_high",
        ),
        (
            "MindStudio Insight walk-through 1-38, 1-51",
            "operator tuning guide 0-06, 0-07",
            "MindStudio Insight: Host Bound",
        ),
        reach="place",
    ),
    Rule("DISPATCH.FREE", "dispatch", ("overlap",), free, ("free_share", "free_share_high", "late_share"), _SOURCES),
    Rule(
        "DISPATCH.STAGE",
        "dispatch",
        ("device", "overlap", "links"),
        stage,
        ("stage_share",),
        ("MindStudio Insight walk-through 1-25, 1-26, 1-54, 1-55", "msprof-analyze free_analysis"),
    ),
    Rule(
        "DISPATCH.INTERRUPT",
        "dispatch",
        ("device", "overlap", "links"),
        interrupt,
        ("drain_share", "interruptions_fewest", "severity_medium", "severity_high"),
        ("MindStudio Insight walk-through 1-52", "operator tuning guide 0-07"),
    ),
)
