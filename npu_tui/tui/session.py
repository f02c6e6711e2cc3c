"""Loaded traces with everything computed once for the screen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from npu_tui.analysis.dispatch import Dispatch, dispatch
from npu_tui.analysis.overlap import Overlap, overlap
from npu_tui.trace.model import Trace
from npu_tui.view.scene import LinkMarks, LinkShape, Scene


@dataclass(frozen=True, slots=True)
class Starved:
    """A launch that an idle device waited for: where it started and what the waiting cost, ns."""

    trace: int
    item: int
    start: int
    lost: float


@dataclass(frozen=True, slots=True)
class Session:
    """The traces on screen: scene, dispatch and overlap with one entry per trace, starved launches by start (ns)."""

    scene: Scene
    dispatches: list[list[Dispatch]]
    overlaps: list[list[Overlap]]
    starved: list[Starved]
    starved_starts: npt.NDArray[np.int64]


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
    return Session(Scene(traces, marks), dispatches, [overlap(trace) for trace in traces], starved, starts)


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
