"""What of a trace could not be placed as it stands, and what is odd about it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npu_tui.trace.model import Trace


@dataclass(frozen=True, slots=True)
class LinkHealth:
    """Links of one category: how many there are, have an end on no slice, or end before they begin."""

    category: str
    links: int
    unbound_sources: int
    unbound_targets: int
    negative: int


@dataclass(frozen=True, slots=True)
class TraceHealth:
    """Everything that ``:health`` and the reports say.

    ``skipped`` is (reason, count). ``crossing`` counts the slices that end after the one that was open last when they
    started. ``samples_outside`` counts counter samples before the first or after the last slice.
    """

    events: int
    truncated: bool
    skipped: list[tuple[str, int]]
    links: list[LinkHealth]
    crossing: int
    samples_outside: int
    warnings: list[str]

    @property
    def is_clean(self) -> bool:
        """Whether every event has its place."""
        unbound = any(link.unbound_sources or link.unbound_targets for link in self.links)
        return not (self.truncated or self.skipped or unbound or self.warnings)


def trace_health(trace: Trace) -> TraceHealth:
    """The health of ``trace``."""
    links = []
    for category in trace.link_categories:
        chosen = trace.links_of(category)
        links.append(
            LinkHealth(
                category,
                len(chosen),
                int(np.count_nonzero(trace.links.source_slice[chosen] < 0)),
                int(np.count_nonzero(trace.links.target_slice[chosen] < 0)),
                int(np.count_nonzero(trace.links.latency[chosen] < 0)),
            )
        )
    outside = (trace.counters.time < 0) | (trace.counters.time > trace.end)
    return TraceHealth(
        events=sum(trace.events.values()),
        truncated=trace.health.truncated,
        skipped=sorted(trace.health.skipped.items(), key=lambda reason: (-reason[1], reason[0])),
        links=links,
        crossing=crossing_slices(trace),
        samples_outside=int(np.count_nonzero(outside)) if len(trace.slices) else 0,
        warnings=list(trace.health.warnings),
    )


def crossing_slices(trace: Trace) -> int:
    """Slices that start while another of their lane is open and end after the one of these that started last."""
    slices = trace.slices
    crossing = 0
    for lane in trace.lanes:
        if lane.rows < 2 or lane.derived:
            continue
        own = slice(lane.first, lane.last)
        open_until: list[int] = []
        for start, end in zip(slices.start[own].tolist(), slices.end[own].tolist(), strict=True):
            while open_until and open_until[-1] <= start:
                open_until.pop()
            crossing += bool(open_until) and end > open_until[-1]
            open_until.append(end)
    return crossing
