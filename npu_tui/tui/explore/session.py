"""Loaded traces with everything computed once for the screen."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from npu_tui.analysis.findings.model import Findings
from npu_tui.analysis.launches.dispatch import Dispatch, dispatch
from npu_tui.analysis.overlap.sums import Overlap, overlap
from npu_tui.analysis.thresholds import Thresholds
from npu_tui.report.scene import finding_marks, make_scene
from npu_tui.trace.model import Trace
from npu_tui.view.scene import Scene


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

    ``findings`` of a trace come when they are computed. A session that is not ``whole`` shows a part of a trace that is
    still loading.
    """

    scene: Scene
    dispatches: list[list[Dispatch]]
    overlaps: list[list[Overlap]]
    starved: list[Starved]
    starved_starts: npt.NDArray[np.int64]
    findings: dict[int, Findings] = field(default_factory=dict)
    whole: bool = True

    def learn(self, index: int, found: Findings) -> None:
        """Take the findings of trace number ``index``; those that shorten the step are marked on its timeline."""
        self.findings[index] = found
        self.scene.findings[index] = finding_marks(
            (number, each.severity, [(place.start, place.end) for place in each.evidence])
            for number, each in enumerate(found.findings, 1)
            if each.step_after_ns is not None and each.part_of is None and not each.hidden
        )


def make_session(traces: list[Trace], whole: bool = True, limits: Thresholds | None = None) -> Session:
    """What the screen needs to know about ``traces``, which may not be ``whole`` yet; ``limits`` class launches."""
    dispatches = [dispatch(trace, limits) for trace in traces]
    starved = [
        Starved(index, int(trace.links.target_slice[link]), int(trace.links.target_time[link]), float(lost))
        for index, trace in enumerate(traces)
        for device in dispatches[index]
        for link, lost in zip(device.link[device.starved], device.lost[device.starved], strict=True)
    ]
    starved.sort(key=lambda launch: (launch.start, launch.trace))
    starts = np.array([launch.start for launch in starved], np.int64)
    scene = make_scene(traces, dispatches)
    return Session(scene, dispatches, [overlap(trace) for trace in traces], starved, starts, whole=whole)
