"""The steps of an inference engine of a profile: by annotations, else by launches of graphs, else by the rhythm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from npu_tui.analysis.device import DeviceSlices, Window
from npu_tui.analysis.engine_steps import EngineSteps, engine_steps, kinds_by_kernels, padded_by_shapes
from npu_tui.analysis.kernels import KernelTable
from npu_tui.analysis.launches import Dispatch
from npu_tui.analysis.overlap import Intervals
from npu_tui.analysis.rhythm import Basis, is_serving
from npu_tui.analysis.steps import Step
from npu_tui.trace.intervals import intersection
from npu_tui.trace.model import Trace

if TYPE_CHECKING:
    from npu_tui.rules.facts import Facts


def engine_of(
    trace: Trace,
    steps: Sequence[Step],
    devices: Sequence[DeviceSlices],
    launches: Sequence[Dispatch],
    compute: npt.NDArray[np.bool_],
    facts_of: Callable[[], Sequence[Facts]],
    kernels_of: Callable[[], KernelTable],
) -> EngineSteps:
    """The steps of an engine in ``trace`` and the sign by which they begin; none where no engine works.

    ``compute`` are the kernels. ``facts_of`` gives what the rules read of each device, the tokens of a run without
    ``steps`` of its own among it, ``kernels_of`` the shapes of kernels.
    """

    def unasked() -> Intervals:
        """The time in which every device is idle because the engine has no request."""
        spans = [facts.unasked for facts in facts_of()] or [(trace.slices.start[:0],) * 2]
        return reduce(lambda span, other: intersection(*span, *other), spans)

    annotated = [step for step in steps if step.engine is not None]
    if annotated:
        found = engine_steps(trace, annotated, "annotations", devices, launches, unasked())
        return replace(found, steps=padded_by_shapes(found, kernels_of()))
    known = [step for step in steps if step.number is not None]
    basis: Basis = "profiler"
    if known and not is_serving(trace):
        return EngineSteps()
    if not known:
        rhythm = next((facts.rhythm for facts in facts_of() if facts.is_serving), None)
        if rhythm is None:
            return EngineSteps()
        basis = rhythm.by
        ends = np.append(rhythm.starts[1:], trace.end).tolist()
        known = [
            Step(None, number, -1, Window(start, end, whole=True))
            for number, (start, end) in enumerate(zip(rhythm.starts.tolist(), ends, strict=True), 1)
        ]
    calls = kinds_by_kernels(trace, np.flatnonzero(compute), [step.window or Window(0, 0) for step in known])
    known = [replace(step, engine=call) for step, call in zip(known, calls, strict=True)]
    return engine_steps(trace, known, basis, devices, launches, unasked())
