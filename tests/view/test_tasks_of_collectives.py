"""From a collective over its planes to its streams, and back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from npu_tui.load.load import load
from npu_tui.view.moves import task_beside
from npu_tui.view.outline import is_plane

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", ["communication_bound", "newest_torch_npu"])
def test_a_collective_leads_to_a_task_on_a_plane_and_on_to_its_stream_and_back(name: str):
    trace = load(ROOT / "fixtures" / name)
    slices = trace.slices
    groups = [
        lane
        for lane in trace.file_lanes
        if trace.layers[lane.layer].kind == "communication" and not is_plane(trace, lane)
    ]
    collectives = np.concatenate([np.arange(lane.first, lane.last) for lane in groups]).tolist()
    assert collectives
    for item in collectives:
        plane = task_beside(trace, item, True)
        assert plane is not None
        assert is_plane(trace, trace.lanes[int(slices.lane[plane])])
        task = task_beside(trace, plane, True)
        assert task is not None
        assert trace.layers[trace.lanes[int(slices.lane[task])].layer].kind == "hardware"
        assert (slices.start[task], slices.end[task]) == (slices.start[plane], slices.end[plane])
        back = task_beside(trace, task, False)
        assert back is not None
        assert (slices.start[back], slices.end[back]) == (slices.start[plane], slices.end[plane])
        assert task_beside(trace, plane, False) == item


def test_without_planes_a_collective_leads_to_a_task_on_a_stream():
    trace = load(ROOT / "fixtures" / "level0")
    lane = next(lane for lane in trace.file_lanes if trace.layers[lane.layer].kind == "communication")
    task = task_beside(trace, lane.first, True)
    assert task is not None
    assert trace.layers[trace.lanes[int(trace.slices.lane[task])].layer].kind == "hardware"
    assert task_beside(trace, task, False) == lane.first
