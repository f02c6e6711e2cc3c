"""The scene of a trace: what the view draws beside the slices, from what the analysis says of its launches."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import numpy as np

from npu_tui.analysis.device import device_slices
from npu_tui.analysis.launches.backlog import backlog, host_lead, waiting
from npu_tui.analysis.launches.dispatch import Dispatch
from npu_tui.analysis.launches.origin import busy_pairs
from npu_tui.strings import say
from npu_tui.trace.intervals import union
from npu_tui.trace.model import Trace
from npu_tui.view.scene import Chart, LinkMarks, LinkShape, Losses, Mark, Scene, Severity, Steps


def make_scene(traces: list[Trace], dispatches: list[list[Dispatch]]) -> Scene:
    """The scene of ``traces``, with the launches of every device of each."""
    pairs = list(zip(traces, dispatches, strict=True))
    marks, charts = [_marks(*pair) for pair in pairs], [_charts(*pair) for pair in pairs]
    return Scene(traces, marks, charts, [_losses(found) for found in dispatches])


def finding_marks(ladder: Iterable[tuple[int, Severity, list[tuple[int, int]]]]) -> list[Mark]:
    """The marks of findings, each a number, a severity and the places (start and end, ns) that prove it.

    The first finding is drawn last, over the others.
    """
    return [
        Mark(start, end, str(number), severity)
        for number, severity, places in reversed(list(ladder))
        for start, end in _stretches(places)
    ]


def _stretches(places: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Start and end of the times that ``places`` cover together, ns."""
    times = np.array(places, np.int64).reshape(-1, 2)
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
