"""The ghost of a run with nothing changed is the run."""

from __future__ import annotations

import numpy as np
from jobs import job

from npu_tui.analysis.replay import NO_CHANGE
from npu_tui.profile.scene import ghost_charts


def test_the_ghost_of_an_unchanged_run_is_what_was_recorded() -> None:
    found = job("healthy")
    (_, replay) = found.replays[0]
    assert replay is not None
    charts = ghost_charts(replay.run(NO_CHANGE))
    assert charts
    slices, busy = found.trace.slices, found.device_slices[0].busy
    for chart in charts:
        assert chart.kind == "ghost"
        steps = chart.function()
        own = np.flatnonzero(busy & (slices.lane == chart.lane))
        length = int((np.diff(np.append(steps.time, steps.end)) * steps.value).sum())
        assert abs(length - int((slices.end[own] - slices.start[own]).sum())) <= len(own) or not len(own)
