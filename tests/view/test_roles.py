"""Lanes by what they are there for: their names, their order, and what the first screen shows of them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from npu_tui.load.errors import InputError
from npu_tui.load.load import load
from npu_tui.trace.folded_rows import flat_rows, leaf_row
from npu_tui.trace.model import Trace
from npu_tui.view.explorer import Explorer
from npu_tui.view.rows import RowIndex
from npu_tui.view.scene import LinkClasses, Scene, ScreenRow, roles

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
REAL = os.environ.get("NPU_TUI_TRACES", "")
PROFILES = [
    *sorted(path for path in FIXTURES.iterdir() if path.is_dir() and not path.name.startswith("_")),
    *(FIXTURES / "two_ranks" / f"rank{rank}_ascend_pt" for rank in (0, 1)),
    *(Path(REAL) / "text" / f"level{level}" / f"rank{rank}_ascend_pt" for level in (0, 1) for rank in (0, 1) if REAL),
    *([Path(REAL) / "single_card" / "trace_view.json"] if REAL else []),
]
SMALL = (80 - 16, 24 - 6)
"""Columns and rows of the lanes on a terminal of 80x24."""


def explored(trace: Trace, heads: bool = False, width: int = SMALL[0], height: int = SMALL[1]) -> Explorer:
    explorer = Explorer(Scene([trace], [LinkClasses.plain(len(trace.links))]), width, height)
    explorer.resize(width, height, heads)
    return explorer


def visible(explorer: Explorer) -> list[ScreenRow]:
    return explorer.rows[explorer.state.top : explorer.state.top + SMALL[1]]


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: "/".join(path.parts[-2:]))
def test_the_first_screen_shows_something_of_everything_that_ran(path: Path) -> None:
    try:
        trace = load(path)
    except InputError as error:
        pytest.skip(reason=f"no trace: {error}")
    rows = visible(explored(trace))
    shown = {trace.layers[row.layer].kind for row in rows if row.rows is not None}
    assert shown >= {layer.kind for layer in trace.layers if layer.lanes} - {"counter"}
    names = [row.name for row in rows]
    assert ("Free" in names) == any(lane.name == "Free" for lane in trace.lanes)
    streams = [lane for lane, role in zip(trace.lanes, roles(trace), strict=True) if role.kind == "compute"]
    if streams:
        assert any(stream.index in (row.lane, *row.lanes) for stream in streams for row in rows)


def test_threads_and_streams_are_named_by_their_role() -> None:
    trace = load(FIXTURES / "healthy")
    found = {
        (trace.layers[lane.layer].kind, lane.name): role.name
        for lane, role in zip(trace.lanes, roles(trace), strict=True)
        if not lane.derived
    }
    for kind in ("python", "cann"):
        assert found[kind, "Thread 284117"] == "main"
        assert found[kind, "Thread 287930"] == "backward"
        assert found[kind, "Thread 285402"] == "task queue"
    assert found["hardware", "Stream 0"] == "Stream 0"
    assert found["hardware", "Stream 2"] == "compute s2"
    assert found["hardware", "Stream 3"] == "copy s3"
    assert found["hardware", "Stream 4"] == "comm s4"
    assert found["overlap", "Free"] == "Free"


HELPERS = [("CANN", f"Thread {10 + k}", "Hccl@hcomAllReduce", 100 * k, 100 * k + 50) for k in range(12)]
LAUNCHING = [("CANN", "Thread 1", "AscendCL@launch", 0, 3_000), ("CANN", "Thread 2", "Hccl@launch", 0, 10)]
LAUNCHING += [("Ascend Hardware", "Stream 2", "kernel", 100, 200)]
LINK = ("HostToDevice", "1", ("CANN", "Thread 2", 5), [("Ascend Hardware", "Stream 2", 100)])


def test_workers_share_a_row(make_trace) -> None:
    trace = make_trace([*HELPERS, *LAUNCHING], links=[LINK])
    explorer = explored(trace, heads=True, height=60)
    names = [row.name for row in explorer.rows if row.opener and trace.layers[row.layer].kind == "cann"]
    assert names == ["CANN", "Thread 1", "Thread 2", "12 HCCL workers"]
    shared = explorer.rows[3]
    assert shared.rows is not None
    assert len(shared.rows.item) == 12
    explorer.state.focus = 3
    assert explorer.toggle_fold()
    assert [row.name for row in explorer.rows][3:15] == [f"Thread {10 + thread}" for thread in range(12)]
    assert explorer.toggle_fold()
    assert [row.name for row in explorer.rows][:4] == names


def test_a_slice_of_a_worker_stands_in_the_shared_row(make_trace) -> None:
    trace = make_trace([*HELPERS, *LAUNCHING])
    explorer = explored(trace)
    index = RowIndex(explorer.scene, explorer.rows)
    lanes = np.array([lane.index for lane in trace.lanes if lane.name.startswith("Thread ") and lane.tid >= 10])
    shared = next(i for i, row in enumerate(explorer.rows) if row.lanes)
    assert index.rows(0, lanes, np.zeros(len(lanes), np.int64)).tolist() == [shared] * 12


def test_a_folded_layer_shows_the_first_busy_lane_at_every_instant() -> None:
    trace = load(FIXTURES / "dispatch_bound")
    layer = next(layer for layer in trace.layers if layer.kind == "cann")
    leaves = [leaf_row(trace, trace.lanes[lane]) for lane in layer.lanes]
    flat = flat_rows(leaves)
    assert (flat.start[1:] >= flat.end[:-1]).all()
    for when in range(0, trace.end, max(trace.end // 997, 1)):
        at = int(np.searchsorted(flat.start, when, "right")) - 1
        found = int(flat.item[at]) if at >= 0 and flat.end[at] > when else -1
        wanted = -1
        for leaf in leaves:
            place = int(np.searchsorted(leaf.start, when, "right")) - 1
            if place >= 0 and leaf.end[place] > when:
                wanted = int(leaf.item[place])
                break
        assert found == wanted


def test_next_layer_goes_to_the_top() -> None:
    explorer = explored(load(FIXTURES / "dispatch_bound"), heads=True, height=12)
    explorer.list.keep_folds()
    explorer.folds.layers.clear()
    explorer.list.refold()
    explorer.move_row(-len(explorer.rows))
    explorer.move_layer(1)
    explorer.move_layer(1)
    assert explorer.state.top == explorer.state.focus > 0


def test_lanes_without_a_slice_in_view_are_left_out() -> None:
    trace = load(FIXTURES / "healthy")
    explorer = explored(trace, height=100)
    assert "Stream 0" in [row.name for row in explorer.rows]
    start, end = explorer.home_bounds()
    explorer.show(start + (end - start) // 3, start + (end - start) // 2)
    assert explorer.list.toggle_idle()
    assert "Stream 0" not in [row.name for row in explorer.rows]
    assert not explorer.list.toggle_idle()
    assert "Stream 0" in [row.name for row in explorer.rows]


def test_a_step_in_which_the_device_begins_nothing_is_no_opening_view(monkeypatch: pytest.MonkeyPatch) -> None:
    explorer = explored(load(FIXTURES / "healthy"))
    start, _ = step = explorer.home_bounds()
    assert step == explorer.scene.step_at(0)
    monkeypatch.setattr(type(explorer.scene), "step_at", lambda *_: (start, start + 1))
    assert explorer.home_bounds() == explorer.scene.whole
