"""Frames of a trace at 200x50 from the key to the grid, as the benchmarks of snapshots and services measure them."""

from __future__ import annotations

import time

import numpy as np

from npu_tui.profile.profile import Profile
from npu_tui.trace.model import Trace
from npu_tui.tui.session import make_session, settle
from npu_tui.view.explorer import Explorer

FRAMES = 200


def frames_line(trace: Trace) -> str:
    """Median and 95th percentile of frames that pan and zoom over ``trace``, ms."""
    session = make_session([Profile(trace)])
    settle()
    explorer = Explorer(session.scene, 200, 40)
    times = []
    for number in range(FRAMES):
        begin = time.perf_counter()
        explorer.zoom(0.8 if number % 40 < 20 else 1.25)
        explorer.pan(0.1 if number % 2 else -0.05)
        session.painter.compose(explorer.rows, explorer.state, 200, 40)
        times.append(time.perf_counter() - begin)
    p50, p95 = np.percentile(times, (50, 95)) * 1000
    return f"frames: median {p50:.1f} ms, p95 {p95:.1f} ms, of {FRAMES}"
