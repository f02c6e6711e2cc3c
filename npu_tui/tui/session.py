"""Loaded traces with everything computed once for the screen."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np
import numpy.typing as npt

from npu_tui.analysis.backlog import backlog, host_lead, waiting
from npu_tui.analysis.device import device_slices
from npu_tui.analysis.dispatch import Dispatch, dispatch
from npu_tui.analysis.findings.model import Finding, Findings
from npu_tui.analysis.launches import busy_pairs
from npu_tui.analysis.overlap import Overlap, overlap
from npu_tui.strings import say
from npu_tui.trace.intervals import union
from npu_tui.trace.model import Trace
from npu_tui.view.scene import Chart, LinkMarks, LinkShape, Losses, Mark, Scene, Steps


@dataclass(frozen=True, slots=True)
class Starved:
    """A launch that an idle device waited for: where it started and what the waiting cost, ns."""

    trace: int
    item: int
    start: int
    lost: float


@dataclass(frozen=True, slots=True)
class Session:
    """The traces on screen: scene, dispatch and overlap with one entry per trace, starved launches by start (ns).

    ``findings`` of a trace come when they are computed.
    """

    scene: Scene
    dispatches: list[list[Dispatch]]
    overlaps: list[list[Overlap]]
    starved: list[Starved]
    starved_starts: npt.NDArray[np.int64]
    findings: dict[int, Findings] = field(default_factory=dict)

    def learn(self, index: int, found: Findings) -> None:
        """Take the findings of trace number ``index``; those that shorten the step are marked on its timeline."""
        self.findings[index] = found
        ladder = [
            (number, each)
            for number, each in enumerate(found.findings, 1)
            if each.step_after_ns is not None and each.part_of is None and not each.hidden
        ]
        # The first finding is drawn last, over the others.
        self.scene.findings[index] = [
            Mark(start, end, str(number), each.severity)
            for number, each in reversed(ladder)
            for start, end in _stretches(each)
        ]


def make_session(traces: list[Trace]) -> Session:
    """Everything the screen needs to know about ``traces``."""
    dispatches = [dispatch(trace) for trace in traces]
    marks = [_marks(trace, found) for trace, found in zip(traces, dispatches, strict=True)]
    starved = [
        Starved(index, int(trace.links.target_slice[link]), int(trace.links.target_time[link]), float(lost))
        for index, trace in enumerate(traces)
        for device in dispatches[index]
        for link, lost in zip(device.link[device.starved], device.lost[device.starved], strict=True)
    ]
    starved.sort(key=lambda launch: (launch.start, launch.trace))
    starts = np.array([launch.start for launch in starved], np.int64)
    charts = [_charts(trace, found) for trace, found in zip(traces, dispatches, strict=True)]
    losses = [_losses(found) for found in dispatches]
    return Session(
        Scene(traces, marks, charts, losses), dispatches, [overlap(trace) for trace in traces], starved, starts
    )


def _stretches(finding: Finding) -> list[tuple[int, int]]:
    """Start and end of the times that the evidence of ``finding`` covers, ns."""
    times = np.array([(place.start, place.end) for place in finding.evidence], np.int64).reshape(-1, 2)
    start, end = union(times[:, 0], times[:, 1])
    return list(zip(start.tolist(), end.tolist(), strict=True))


def _marks(trace: Trace, devices: list[Dispatch]) -> LinkMarks:
    marks = LinkMarks.plain(len(trace.links))
    for device in devices:
        shape = np.select(
            [device.near_vertical, device.shallow], [LinkShape.NEAR_VERTICAL, LinkShape.SHALLOW], LinkShape.QUEUED
        )
        marks.shape[device.link] = shape
        marks.lost[device.link] = np.rint(device.lost)
        marks.starved[device.link] = device.starved
    return marks


def _charts(trace: Trace, devices: list[Dispatch]) -> list[Chart]:
    """Lead and queue depth of every device that is launched to, under its Ascend Hardware layer."""
    found = []
    for device in devices:
        layers = [layer for layer in trace.layers if layer.kind == "hardware" and layer.lanes]
        layer = next((layer for layer in layers if layer.device == device.device), None)
        if layer is not None:
            found.append(Chart("lead", layer.index, say("chart.lead"), partial(_lead, trace, device)))
            found.append(Chart("depth", layer.index, say("chart.depth"), partial(_depth, trace, device)))
    return found


def _lead(trace: Trace, launches: Dispatch) -> Steps:
    """The lead of the launch that starts next: it is known until that launch starts."""
    lead, target = host_lead(trace, launches), trace.links.target_time[launches.link]
    known = ~np.isnan(lead)
    begins, first = np.unique(target[known], return_index=True)
    if len(begins) == 0:
        return Steps(begins, begins, 0)
    lowest = np.rint(np.minimum.reduceat(lead[known], first)).astype(np.int64)
    before = launches.ready[known][0]
    return Steps(np.append(min(before, begins[0] - 1), begins[:-1]), lowest, int(begins[-1]))


def _depth(trace: Trace, launches: Dispatch) -> Steps:
    """The launches in flight from the first one on."""
    device = next(device for device in device_slices(trace) if device.device == launches.device)
    time, depth, _ = backlog(trace, busy_pairs(trace, device, launches))
    time = np.rint(time).astype(np.int64)
    last = np.append(time[1:] != time[:-1], True)
    return Steps(time[last], depth[last], max(trace.end, int(time[-1]) + 1))


def _losses(devices: list[Dispatch]) -> Losses:
    found = [waiting(device) for device in devices]
    return Losses(*(np.concatenate(parts) for parts in zip(*found, strict=True))) if found else Losses.none()
