"""The steps of an inference engine of a profile: by annotations, else by launches of graphs, else by the rhythm."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.device import Window
from npu_tui.analysis.engine_steps import EngineSteps, engine_steps, kinds_by_kernels, padded_by_shapes
from npu_tui.analysis.rhythm import Basis, is_serving
from npu_tui.analysis.steps import Step
from npu_tui.trace.intervals import intersection

if TYPE_CHECKING:
    from npu_tui.profile.profile import Profile


def engine_of(profile: Profile) -> EngineSteps:
    """The steps of an engine in the whole of ``profile``, and what tells where they begin; none in training."""
    trace, facts = profile.trace, profile.whole.facts

    def figures(steps: list[Step], basis: Basis) -> EngineSteps:
        unasked = reduce(lambda span, other: intersection(*span, *other), [device.unasked for device in facts])
        return engine_steps(trace, steps, basis, profile.device_slices, profile.dispatch, unasked)

    annotated = [step for step in profile.steps if step.engine is not None]
    if annotated:
        found = figures(annotated, "annotations")
        return replace(found, steps=padded_by_shapes(found, profile.all_kernels))
    known = [step for step in profile.steps if step.number is not None]
    basis: Basis = "profiler"
    if known and not is_serving(trace):
        return EngineSteps()
    if not known:
        rhythm = next((device.rhythm for device in facts if device.is_serving), None)
        if rhythm is None:
            return EngineSteps()
        basis = rhythm.by
        ends = np.append(rhythm.starts[1:], trace.end).tolist()
        known = [
            Step(None, number, -1, Window(start, end, whole=True))
            for number, (start, end) in enumerate(zip(rhythm.starts.tolist(), ends, strict=True), 1)
        ]
    calls = kinds_by_kernels(trace, np.flatnonzero(profile.compute), [step.window or Window(0, 0) for step in known])
    return figures([replace(step, engine=call) for step, call in zip(known, calls, strict=True)], basis)
