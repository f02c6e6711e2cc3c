"""A trace in a few lines of plain text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from npu_tui.analysis.dispatch import Dispatch, dispatch
from npu_tui.analysis.overlap import COMMUNICATION, COMPUTING, FREE, NOT_OVERLAPPED, Overlap, overlap
from npu_tui.report.health import health_lines
from npu_tui.strings import say
from npu_tui.trace.model import Trace
from npu_tui.trace.text import brief
from npu_tui.trace.units import duration_text

D = TypeVar("D", Dispatch, Overlap)


def summary(trace: Trace) -> str:
    """Layers, lanes, steps, links by class, lost time and overlap of ``trace``."""
    lines = [
        say(
            "summary.trace",
            path=brief(trace.path, 4_096),
            size=trace.size / 1e6,
            events=f"{sum(trace.events.values()):,}",
            slices=f"{len(trace.slices):,}",
            links=f"{len(trace.links):,}",
            span=duration_text(trace.end),
        )
    ]
    lines += _section("summary.layers", _layers(trace))
    lines += _section("summary.steps", _steps(trace))
    lines += _section("summary.links", _links(trace))
    lines += _section("summary.dispatch", _by_device(dispatch(trace), _dispatch))
    lines += _section("summary.overlap", _by_device(overlap(trace), _overlap))
    lines += _section("summary.health", health_lines(trace))
    return "\n".join(lines) + "\n"


def _section(title: str, lines: list[str]) -> list[str]:
    return ["", say(title), *(f"  {line}" for line in lines)] if lines else []


def _layers(trace: Trace) -> list[str]:
    lines = []
    for layer in trace.layers:
        name = brief(layer.name)
        device = "" if layer.device is None else f" ({say('header.device', device=layer.device)})"
        if layer.series:
            lines.append(f"{name}{device}: {say('summary.counters', count=len(layer.series))}")
            continue
        lines.append(f"{name}{device}" + ("" if layer.lanes else f": {say('summary.no_slices')}"))
        for index in layer.lanes:
            lane = trace.lanes[index]
            count = f"{lane.last - lane.first:,}"
            lines.append("  " + say("summary.lane", name=brief(lane.name), count=count, rows=lane.rows))
    return lines


def _steps(trace: Trace) -> list[str]:
    lines = []
    for lane in trace.lanes:
        if lane.derived:
            low, high = trace.rows.offset[lane.first_row], trace.rows.offset[lane.first_row + lane.rows]
            for item in trace.rows.item[low:high].tolist():
                length = int(trace.slices.end[item] - trace.slices.start[item])
                lines.append(f"{brief(trace.name_of(item))}  {duration_text(length)}")
    return lines


def _links(trace: Trace) -> list[str]:
    lines = []
    for category in trace.link_categories:
        latency = trace.links.latency[trace.links_of(category)]
        if len(latency):
            lines.append(
                say(
                    "summary.link",
                    category=brief(category),
                    count=f"{len(latency):,}",
                    median=duration_text(float(np.median(latency))),
                    negative=int((latency < 0).sum()),
                )
            )
    return lines


def _by_device(devices: Sequence[D], lines_of: Callable[[D], list[str]]) -> list[str]:
    """The lines of every device, named where there are several."""
    if len(devices) == 1:
        return lines_of(devices[0])
    return [f"{say('header.device', device=device.device)}: {line}" for device in devices for line in lines_of(device)]


def _dispatch(device: Dispatch) -> list[str]:
    classes = say(
        "summary.classes",
        near=int(device.near_vertical.sum()),
        shallow=int(device.shallow.sum()),
        queued=int(device.queued.sum()),
        starved=int(device.starved.sum()),
        links=len(device.link),
    )
    return [classes, say("summary.lost", lost=duration_text(float(device.lost.sum())))]


def _overlap(device: Overlap) -> list[str]:
    parts = (
        (COMPUTING, device.computing),
        (COMMUNICATION, device.communication),
        (NOT_OVERLAPPED, device.not_overlapped),
        (FREE, device.free),
    )
    return [
        say("summary.part", name=name, time=duration_text(part), share=f"{device.ratio(part):.1%}")
        for name, part in parts
    ]
