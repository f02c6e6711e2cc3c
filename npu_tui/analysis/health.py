"""The health of a trace: events that could not be placed, unbound links, and oddities of its times."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from npu_tui.analysis.overlap import untold
from npu_tui.native.rows import crossing
from npu_tui.trace.message import Message, message
from npu_tui.trace.model import MOST_DEVICES, Trace
from npu_tui.trace.outlying import bulk_of


class LinkHealth(Struct, frozen=True):
    """Links of one category: all, those with an end on no slice, those that end before they begin."""

    category: str
    links: int
    unbound_sources: int
    unbound_targets: int
    negative: int


class TraceHealth(Struct, frozen=True):
    """The figures of ``:health`` and of the reports.

    ``skipped`` is (reason, count). ``crossing`` counts slices that overlap the slice around them instead of nesting in
    it. ``samples_outside`` counts counter samples before the first or after the last slice. ``far`` counts slices that
    an idle gap of ``far_gap`` ns (a day or more) separates from the bulk, as a wrong clock does.
    """

    events: int
    truncated: bool
    skipped: list[tuple[Message, int]]
    links: list[LinkHealth]
    crossing: int
    samples_outside: int
    far: int
    far_gap: int
    warnings: list[Message]

    @property
    def is_clean(self) -> bool:
        """Whether every event was placed and nothing else is wrong."""
        unbound = any(link.unbound_sources or link.unbound_targets for link in self.links)
        return not (self.truncated or self.skipped or unbound or self.far or self.warnings)


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
    bulk = bulk_of(trace)
    outside = (trace.counters.time < 0) | (trace.counters.time > trace.end)
    return TraceHealth(
        events=sum(trace.events.values()),
        truncated=trace.health.truncated,
        skipped=sorted(trace.health.skipped.items(), key=lambda reason: (-reason[1], reason[0].code)),
        links=links,
        crossing=crossing_slices(trace),
        samples_outside=int(np.count_nonzero(outside)) if len(trace.slices) else 0,
        far=0 if bulk is None else bulk.far,
        far_gap=0 if bulk is None else bulk.gap,
        warnings=trace.health.warnings + _of_devices(trace) + _untold(trace),
    )


def _untold(trace: Trace) -> list[Message]:
    return [message("odd.untold", layer=name, missing=lost, share=lost / whole) for name, lost, whole in untold(trace)]


def _of_devices(trace: Trace) -> list[Message]:
    kinds = ("hardware", "communication", "overlap")
    count = len({layer.device for layer in trace.layers if layer.kind in kinds and layer.lanes})
    return [message("odd.devices", count=count, most=MOST_DEVICES)] if count > MOST_DEVICES else []


def crossing_slices(trace: Trace) -> int:
    """How many slices start inside another one of their lane and end after it."""
    start, end = trace.slices.start, trace.slices.end
    spans = (slice(lane.first, lane.last) for lane in trace.lanes if lane.rows > 1 and not lane.derived)
    return sum(crossing(start[span], end[span]) for span in spans)
