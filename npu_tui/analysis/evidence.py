"""What the figures of a profile cannot rest on: what of it could not be read, and a clock that jumps inside it.

What could not be read is told as a share of what the figures rest on, which a gate asks before it passes. The health of
a trace is events that could not be placed, unbound links, and oddities of its times.

Both clocks run evenly, so a jump shows where no even clocks could be: kernels begin before their launches though
earlier ones did not, or a stream runs late what its thread launched before all that the stream has already run.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

import numpy as np
from msgspec import Struct

from npu_tui.analysis.overlap import time_left_out
from npu_tui.native.rows import crossing
from npu_tui.trace.message import Message, message
from npu_tui.trace.model import MOST_DEVICES, Trace, bulk_of
from npu_tui.trace.recorder import bound_launch_links
from npu_tui.trace.service import UNKNOWN

if TYPE_CHECKING:
    from npu_tui.analysis.service_timeline import ServiceTimeline
from collections.abc import Iterator, Sequence

from npu_tui.analysis.device import DeviceSlices
from npu_tui.analysis.limits import A_PART, ENOUGH, HALF, NEXT_TASK_NS
from npu_tui.trace.arrays import I64, Bools
from npu_tui.trace.model import ASYNC_NPU

Evidence = Literal["slices", "links", "files"]
"""``files`` are those beside the trace."""

_SLICES: tuple[Evidence, ...] = ("slices",)
_LINKS: tuple[Evidence, ...] = ("links",)
_BOTH: tuple[Evidence, ...] = ("slices", "links")
_TAKEN: dict[str, tuple[Evidence, ...]] = {
    **dict.fromkeys(
        ("skip.slice_time", "skip.slice_duration", "skip.mark_time", "skip.lone_begin", "skip.lone_end"), _SLICES
    ),
    **dict.fromkeys(("skip.not_event", "skip.malformed", "odd.args", "odd.no_duration", "odd.no_name"), _SLICES),
    **dict.fromkeys(("odd.no_process", "odd.no_thread", "odd.service_impossible", "odd.service_nameless"), _SLICES),
    "odd.db_cells": _BOTH,
    **dict.fromkeys(("skip.launch_id", "skip.link_time", "skip.lone_source", "skip.lone_target"), _LINKS),
}
"""What a count of ``TraceHealth`` takes away; what was never shown takes nothing away."""

# Warnings of what is missing, an unknown number of events.
_UNCOUNTED: dict[str, tuple[Evidence, ...]] = {
    **dict.fromkeys(("odd.db_texts", "odd.untold", "odd.half_told"), _SLICES),
    **dict.fromkeys(("odd.clock_ahead", "odd.clock_behind"), _BOTH),
    **dict.fromkeys(("odd.devices", "odd.db_locked", "odd.db_written", "odd.db_tables", "odd.db_tables_more"), _BOTH),
    **dict.fromkeys(("odd.db_views", "odd.db_tasks"), _BOTH),
    "odd.db_connections": _LINKS,
    "input.too_long_later": _BOTH,
}

# Problems of a file beside the trace that take rows or cells away.
_FILES = ("companion.cut_off", "companion.cut_short", "companion.unreadable", "companion.not_numbers")

# Phases of the Trace Event Format that are not slices, samples or links; any other phase is damaged.
_PHASES = frozenset("NODSTpFcVva()=,n")


def half_recorded(found: ServiceTimeline) -> int:
    """Requests of a service that one table lacks though another one has them, as where its last rows were not written.

    One has ended with tokens, but no batches of all of them; or it was in batches, yet not in the first or the last of
    its engine, and is no request. Where no request is in both, tables have other names for them.
    """
    requests, latencies, steps = found.service.requests, found.latencies, found.steps
    named = requests.rid >= 0
    told, ended = np.zeros((2, len(latencies.start)), np.bool_)
    told[requests.rid[named]] = True
    ended[requests.rid[named & (requests.end != UNKNOWN)]] = True
    seen = latencies.first >= 0
    if not (told & seen).any():
        return 0
    unread = ended & (latencies.tokens > 1)
    unread[latencies.decoded] = False
    edge = np.append(True, np.diff(steps.engine) != 0)
    inside = ~edge[latencies.first] & ~np.append(edge[1:], True)[latencies.last]
    return int(np.count_nonzero(unread | (seen & ~told & inside)))


UNKNOWN_SHARE = 1.0
"""The share of what cannot be counted: all there is."""


class Loss(Struct, frozen=True):
    """Evidence of one kind that is not there: which ``share`` of it, and ``why``, which names the file."""

    kind: Evidence
    share: float
    why: Message


def losses_of(path: str, health: TraceHealth, problems: Iterable[Message] = ()) -> list[Loss]:
    """What the profile at ``path`` has lost, by the health of its trace and the ``problems`` of the files beside it."""
    losses = []
    if health.truncated:
        losses += [Loss(kind, UNKNOWN_SHARE, message("evidence.cut_off", path=path)) for kind in _BOTH]
    missing: dict[Evidence, int] = dict.fromkeys(_BOTH, 0)
    counts = [*health.skipped, *((warning, _count(warning)) for warning in health.warnings)]
    for reason, count in counts:
        for kind in _evidence_of_skip(reason):
            missing[kind] += count
    events: dict[Evidence, int] = {"slices": health.events, "links": sum(link.links for link in health.links)}
    for kind, count in missing.items():
        if count:
            every = max(events[kind] if kind == "slices" else events[kind] + count, count)
            losses.append(Loss(kind, count / every, message(f"evidence.{kind}", path=path, count=count, all=every)))
    for warning in health.warnings:
        why = message("evidence.damaged", path=path, why=warning)
        lost = _SLICES if warning.code in _FILES else _UNCOUNTED.get(warning.code, ())  # a table of a service
        share = warning.args.get("share")
        losses += [Loss(kind, share if isinstance(share, float) else UNKNOWN_SHARE, why) for kind in lost]
    resting: tuple[Evidence, ...] = (
        ("files",) if health.events else ("files", *_BOTH)
    )  # without a trace all rests on them
    for problem in problems:
        if problem.code in _FILES:
            why = message("evidence.damaged", path=path, why=problem)
            losses += [Loss(kind, UNKNOWN_SHARE, why) for kind in resting]
    return losses


def incomplete(losses: Iterable[Loss], allowed: float = 0.0) -> dict[Evidence, Message]:
    """The kinds of evidence that have lost more than ``allowed``, with the reason that weighs most."""
    worst = sorted((loss for loss in losses if loss.share > allowed), key=lambda loss: loss.share)
    return {loss.kind: loss.why for loss in worst}


def _count(warning: Message) -> int:
    count = warning.args.get("count", 1)
    return count if isinstance(count, int) else 1


def _evidence_of_skip(reason: Message) -> tuple[Evidence, ...]:
    if reason.code == "skip.phase":
        return () if reason.args["phase"] in _PHASES else _BOTH
    return _TAKEN.get(reason.code, ())


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
        warnings=trace.health.warnings + _of_devices(trace) + _overlap_left_out(trace),
    )


def _overlap_left_out(trace: Trace) -> list[Message]:
    return [
        message("odd.untold", layer=name, missing=lost, share=lost / whole)
        for name, lost, whole in time_left_out(trace)
    ]


def _of_devices(trace: Trace) -> list[Message]:
    kinds = ("hardware", "communication", "overlap")
    count = len({layer.device for layer in trace.layers if layer.kind in kinds and layer.lanes})
    return [message("odd.devices", count=count, most=MOST_DEVICES)] if count > MOST_DEVICES else []


def crossing_slices(trace: Trace) -> int:
    """How many slices start inside another one of their lane and end after it."""
    start, end = trace.slices.start, trace.slices.end
    spans = (slice(lane.first, lane.last) for lane in trace.lanes if lane.rows > 1 and not lane.derived)
    return sum(crossing(start[span], end[span]) for span in spans)


_LEAST_NS = 10_000_000  # a launch is never so long on its way; of a trace beyond 10 s ``_DRIFT`` is more
_DRIFT = 1e-3  # clocks may run apart by less than this share of a trace (quartz 0.0001, NTP slews by 0.0005)


class ClockJump(Struct, frozen=True):
    """From ``at`` (ns of the trace) on the host's clock is ``by`` ns ahead of what it was against the device's."""

    at: int
    by: int


class _ThreadLaunches(Struct, frozen=True):
    """Launches of one thread to one device; (n,) each. ``stream`` is the lane that runs them.

    ``idle_since`` is when the device had finished everything before, ``start`` itself where it was busy until then.
    """

    source: I64
    start: I64
    idle_since: I64
    stream: I64

    @property
    def latency(self) -> I64:
        """From the launch to the start, on two clocks, ns."""
        return self.start - self.source

    def taken(self, chosen: I64) -> _ThreadLaunches:
        """The launches at ``chosen``, in this order."""
        return _ThreadLaunches(self.source[chosen], self.start[chosen], self.idle_since[chosen], self.stream[chosen])

    def waited(self, least: int) -> Bools:
        """Which launches an idle device left waiting for ``least`` ns or longer, if the clocks are one; (n,)."""
        waited: Bools = (self.start - self.idle_since >= NEXT_TASK_NS) & (self.idle_since - self.source >= least)
        return waited

    def overtaken(self) -> I64:
        """How long each was launched before what its stream had already run, ns, 0 if it was not; (n,)."""
        order = np.argsort(self.stream, kind="stable")
        begun = np.append(True, np.diff(self.stream[order]) != 0)
        apart = (np.cumsum(begun) - 1) * (int(np.ptp(self.source)) + 1)  # streams one after another on one axis
        source = self.source[order] + apart
        overtaken = np.empty(len(order), np.int64)
        overtaken[order] = np.maximum.accumulate(source) - source
        return overtaken


def clock_jump(trace: Trace, devices: Sequence[DeviceSlices]) -> ClockJump | None:
    """The largest jump that the launches of any of ``devices`` show; None without one."""
    every = [_jump(launches) for device in devices for launches in _launches_of(trace, device)]
    return max(filter(None, every), key=lambda jump: abs(jump.by), default=None)


def _launches_of(trace: Trace, device: DeviceSlices) -> Iterator[_ThreadLaunches]:
    """What the launching calls of each thread lead to, and what its operations do."""
    links, slices, bulk = trace.links, trace.slices, bulk_of(trace)
    begun, ended = slices.start[device.busy], slices.end[device.busy]
    order = np.argsort(begun, kind="stable")
    begun, reached = begun[order], np.maximum.accumulate(ended[order])
    for link in (bound_launch_links(trace), trace.bound_links_of(ASYNC_NPU)):
        link = link[device.busy[links.target_slice[link]] & (links.source_lane[link] >= 0)]
        if bulk is not None:
            link = link[bulk.holds(links.source_time[link], links.target_time[link])]
        start, lane = links.target_time[link], links.source_lane[link]
        before = np.searchsorted(begun, start)
        since = np.where(before > 0, reached[np.maximum(before, 1) - 1], start) if len(begun) else start
        stream = slices.lane[links.target_slice[link]].astype(np.int64)
        every = _ThreadLaunches(links.source_time[link], start, np.minimum(since, start), stream)
        order = np.argsort(lane, kind="stable")
        for chosen in np.split(order, np.flatnonzero(np.diff(lane[order])) + 1):
            if len(chosen) >= 2 * ENOUGH:
                yield every.taken(chosen)


def _jump(launches: _ThreadLaunches) -> ClockJump | None:
    least = max(_LEAST_NS, round(_DRIFT * min(int(np.ptp(launches.source)), int(np.ptp(launches.start)))))
    by_source = launches.taken(np.argsort(launches.source, kind="stable"))
    by_start = launches.taken(np.lexsort((launches.source, launches.start)))
    for ordered, shown_by in ((by_source, _early), (by_start, _overtaken), (by_start, _stood)):
        first, shown = shown_by(ordered, least)
        # Of those after a jump the others wait on the device for longer than it is.
        if first >= ENOUGH and np.count_nonzero(shown) >= max(ENOUGH, A_PART * (len(ordered.source) - first)):
            by = _floor(ordered.latency[:first]) - _floor(ordered.latency[first:])
            if abs(by) >= least:
                return ClockJump(int(ordered.source[first]), by)
    return None


def _early(launches: _ThreadLaunches, least: int) -> tuple[int, Bools]:
    """The first launch that comes after its kernel, and which do from there on; ``launches`` by source."""
    early = launches.latency <= -least
    first = int(np.argmax(early))
    # With clocks that run evenly those before have waited, also on an idle device, for longer than the jump.
    before = launches.taken(np.arange(first))
    known = first > 0 and before.waited(_floor(launches.latency[first:]) + least).any()
    return first if known else 0, early[first:]


def _overtaken(launches: _ThreadLaunches, least: int) -> tuple[int, Bools]:
    """The launch that is overtaken by most, and which are from there on; ``launches`` by start."""
    overtaken = launches.overtaken()
    first = int(np.argmax(overtaken))
    known = overtaken[first] >= least
    return first if known else 0, launches.latency[first:] >= least


def _stood(launches: _ThreadLaunches, least: int) -> tuple[int, Bools]:
    """The first launch from which on all come late, as the device stood still, and which waited on an idle one."""
    soon = np.flatnonzero(launches.latency < least)
    first = int(soon[-1]) + 1 if len(soon) else 0
    waited = launches.taken(np.arange(first, len(launches.source))).waited(least)
    known = 0 < first < len(launches.source) and np.mean(waited) >= HALF
    return first if known and launches.start[first] - launches.start[first - 1] >= least else 0, waited


def _floor(latency: I64) -> int:
    return int(np.percentile(latency, 1, method="lower"))
