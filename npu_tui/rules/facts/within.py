"""One device of a profile within a window: what the devices of a profile share, and what of it is of the window."""

from __future__ import annotations

import numpy as np

from npu_tui.analysis.calls import HostOperators
from npu_tui.analysis.collectives import Collectives
from npu_tui.analysis.device import EVERYTHING, Window
from npu_tui.analysis.overlap import DevicePart
from npu_tui.analysis.steps import Step
from npu_tui.rules.facts.inputs import Inputs, Setup
from npu_tui.rules.facts.slices import TraceSlices
from npu_tui.trace.args import Copies, PlaneArgs
from npu_tui.trace.once import Known, once


class WithinWindow(TraceSlices):
    """One device of a trace within a window, ns.

    ``whole_steps`` tells whether the window is that of one step or of all, not a range of time. First steps that take
    far longer than the others are ``warm_up`` and no part of the window of the whole trace.
    """

    def __init__(self, part: DevicePart, inputs: Inputs) -> None:
        super().__init__(inputs.trace)
        self.part = part
        self._inputs = inputs
        self.limits = inputs.thresholds
        self.whole_steps = inputs.step is not None or inputs.window == EVERYTHING
        whole = inputs.window == EVERYTHING and inputs.step is None
        self.warm_up = self.warming_up(inputs.steps) if whole else ()
        self.window = inputs.window
        if self.warm_up and (last := self.warm_up[-1].window) is not None:
            self.window = Window(last.end, EVERYTHING.end, whole=True)
        self._kept = Known()

    @once
    def _since(self) -> int:
        """The end of the step before the chosen one, ns; before all without one."""
        ends = [each.window.end for each in self._inputs.steps if each.window is not None]
        return max((end for end in ends if end <= self.window.start), default=EVERYTHING.start)

    @property
    def setup(self) -> Setup:
        """Settings of the profiler, environment and groups of the job, as the files beside the trace tell."""
        return self._inputs.setup

    @property
    def planes(self) -> PlaneArgs:
        """Args of the tasks of all collectives."""
        return self._inputs.planes()

    @property
    def copies(self) -> Copies:
        """What copies between host and device say of themselves. Raises ``InputError`` if the file is gone."""
        return self._inputs.copies()

    @property
    def hosts(self) -> HostOperators:
        """The operations of the framework, of the whole trace."""
        return self._inputs.hosts()

    @once
    def steps(self) -> list[Step]:
        """The steps that have a number and touch the window on the device."""
        step, window = self._inputs.step, self.window
        numbered = [each for each in self._inputs.steps if each.number is not None and each.window is not None]
        return [
            each
            for each in numbered
            if step in (None, each.number) and each.window.end > window.start and each.window.start < window.end  # type: ignore[union-attr]
        ]

    @once
    def collectives(self) -> Collectives:
        """The collectives of this device that start in the window."""
        found = self._inputs.collectives()
        if self.part.slices is None:
            return found.taken(np.zeros(0, np.int64))
        return found.taken(
            self.part.slices.collective[found.item] & self.window.holds(self.trace.slices.start[found.item])
        )
