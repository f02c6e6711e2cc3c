"""The finding about near-vertical launches: a device that waits for each of them.

Rule F02 of the collected diagnosis rules, from the MindStudio Insight walk-through.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from npu_tui.analysis.launches import NEAR_VERTICAL_US, STARVED_US
from npu_tui.analysis.thresholds import Threshold
from npu_tui.rules import pages
from npu_tui.rules.blame import LINKS_FEWEST, SYNC_SHARE, SyncSite, blamed_calls, compile_calls, starving, sync_site
from npu_tui.rules.dispatch import FREE_SHARE, MOST_LINES, blamed_stage, caveat, main_stream, stage_advice, stage_name
from npu_tui.rules.facts import Facts
from npu_tui.rules.inputs import Bools, Span, both, length_of
from npu_tui.rules.model import Evidence
from npu_tui.rules.rule import (
    SEVERITY_HIGH,
    SEVERITY_MEDIUM,
    Draft,
    Rule,
    Skipped,
    line_of,
    lines_of,
    sentences,
    severity_of,
)
from npu_tui.trace.message import Message, Said, message
from npu_tui.trace.text import brief


class _Starvation(Struct, frozen=True):
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
        if each.end - each.start >= limits[CLUSTER_MS] * 1e6 and (each.idle_ratio or 0.0) > limits[CLUSTER_IDLE]
    ]
    if not long_ranges and np.count_nonzero(near) < limits[VERTICAL_SHARE] * len(own.link):
        return None
    chosen = np.ones(len(own.link), np.bool_)
    if long_ranges:
        begin, until = np.array(sorted((each.start, each.end) for each in long_ranges)).T
        at = np.searchsorted(begin, time, "right") - 1
        chosen = (at >= 0) & (np.maximum.accumulate(until)[np.maximum(at, 0)] >= time)
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


STARVED_FEWEST = Threshold("starved_fewest", 5)
VERTICAL_SHARE = Threshold("vertical_share", 0.3)
CLUSTER_MS = Threshold("cluster_ms", 1.0)
CLUSTER_IDLE = Threshold("cluster_idle", 0.5)
CLUSTER_IDLE_HIGH = Threshold("cluster_idle_high", 0.1)


def vertical(facts: Facts) -> Draft | Skipped | None:
    """Near-vertical launches that an idle device waited for."""
    own, limits = facts.launches, facts.limits
    assert own is not None
    if len(own.link) < limits[LINKS_FEWEST]:
        return Skipped(message("finding.needs.links_fewest", count=len(own.link), fewest=limits[LINKS_FEWEST]))
    starved = int(np.count_nonzero(own.starved))
    if starved < limits[STARVED_FEWEST] or facts.share(facts.sums.free) <= limits[FREE_SHARE]:
        return None
    place = _starvation(facts)
    if place is None:
        return None
    removes = facts.lost_span(place.chosen)
    lost = float(own.lost[place.chosen].sum())
    severity = severity_of(facts, facts.share(lost))
    if facts.share(place.idle) >= limits[CLUSTER_IDLE_HIGH] and lost > place.idle / 2:
        severity = "high"
    found = int(np.count_nonzero(own.starved & place.chosen))
    links = int(np.count_nonzero(place.chosen))
    who, where = stage_name(facts), message("finding.between", start=place.start, end=place.end)
    compiling = both(starving(facts, compile_calls(facts)), removes)
    site = sync_site(facts)
    return Draft(
        severity,
        message("finding.vertical.title", who=who, lost=lost, where=where),
        _vertical_detail(facts, place, removes, site, found, links),
        _vertical_evidence(facts, place),
        _vertical_advice(facts, removes, compiling, site),
        removes,
        code_lines=tuple(line.code for line in facts.lines[:MOST_LINES] if line.code is not None),
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
    stage = blamed_stage(facts)
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
    lines = [each for each in facts.lines[:MOST_LINES] if each.code is not None]
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
    if side >= facts.limits[SEVERITY_MEDIUM] * (place.end - place.start):
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
    stream = main_stream(facts)
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


def _vertical_advice(facts: Facts, removes: Span, compiling: Span, site: SyncSite | None) -> tuple[Message, ...]:
    advice = []
    least = facts.limits[SYNC_SHARE] * facts.total
    if site is not None and (gain := length_of(both(site.span, removes))) >= least:
        advice.append(message("finding.advice.metrics", gain=gain / facts.count))
    if (gain := length_of(compiling)) >= least:
        advice.append(message("finding.advice.jit_compile_gain", gain=gain / facts.count))
    rest = [each for each in stage_advice(facts) if not (advice and each == message("finding.advice.jit_compile"))]
    return (*advice, *rest)


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
            VERTICAL_SHARE,
            CLUSTER_MS,
            CLUSTER_IDLE,
            CLUSTER_IDLE_HIGH,
            SEVERITY_MEDIUM,
            SEVERITY_HIGH,
        ),
        advice=("task_queue", "binding", "cann_cache", "jit_compile", "metrics_rarely", "fewer_operators"),
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
    ),
)
