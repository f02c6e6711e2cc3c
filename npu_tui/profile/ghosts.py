"""The ghost of a run: what every stream of a device would do with something changed."""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt

from npu_tui.analysis.replay import Run
from npu_tui.analysis.replay_device import COLLECTIVE, KERNEL
from npu_tui.strings import say
from npu_tui.trace.intervals import union
from npu_tui.view.scene import Chart, StepFunction

I64 = npt.NDArray[np.int64]


def ghost_charts(run: Run) -> list[Chart]:
    """A chart for each stream that ``run`` keeps busy: 1 while it runs something, 0 else."""
    tasks, trace = run.model.tasks, run.model.trace
    busy = np.isin(tasks.kind, (KERNEL, COLLECTIVE))
    found = []
    for stream in np.unique(tasks.stream[busy]).tolist():
        own = busy & (tasks.stream == stream)
        lane = trace.lanes[stream]
        function = partial(_busy, run.starts[own], run.ends[own])
        found.append(Chart("ghost", lane.layer, say("whatif.ghost"), function, lane=lane.index))
    return found


def _busy(start: I64, end: I64) -> StepFunction:
    """1 within ``[start, end)``, 0 between them."""
    low, high = union(start, end)
    time = np.stack((low, high), axis=1).reshape(-1)
    return StepFunction(time, np.tile(np.array([1, 0], np.int64), len(low)), int(high[-1]) if len(high) else 0)
