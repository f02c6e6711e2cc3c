"""The critical path: a lane above the layers, and underlined slices in all others."""

from __future__ import annotations

import numpy as np
import pytest

from npu_tui.profile.profile import Profile
from npu_tui.profile.scene import ShownPath, path_charts, shown_paths
from npu_tui.trace.classes import OpClass
from npu_tui.trace.model import Trace
from npu_tui.view.explorer import Explorer
from npu_tui.view.grid import SPACE, Attr
from npu_tui.view.painter import Painter, spot_at
from npu_tui.view.palette import IS_GROUND, Ink
from npu_tui.view.path_lane import PathMarks, RowMarks
from npu_tui.view.scene import LinkClasses, Scene, Selected

SIZE = 160, 45


@pytest.fixture(scope="module")
def shown(dispatch_bound: Trace) -> ShownPath:
    [found] = shown_paths(Profile(dispatch_bound))
    return found


def explorer_of(trace: Trace, shown: ShownPath) -> tuple[Explorer, Painter]:
    scene = Scene([trace], [LinkClasses.plain(len(trace.links))])
    scene.charts[0] = path_charts(trace, [shown])
    return Explorer(scene, *SIZE), Painter(scene)


def test_the_lane_stands_between_steps_and_layers(dispatch_bound: Trace, shown: ShownPath) -> None:
    explorer, _ = explorer_of(dispatch_bound, shown)
    at = next(number for number, row in enumerate(explorer.rows) if row.kind == "path")
    assert all(dispatch_bound.lanes[row.lane].derived for row in explorer.rows[:at])
    assert explorer.rows[at + 1].layer >= 0
    assert sum(row.kind == "path" for row in explorer.rows) == 1


def test_its_stretches_are_the_path_without_a_gap(shown: ShownPath) -> None:
    assert shown.lane is not None
    rows, path = shown.lane.rows, shown.found.path
    assert (rows.start[1:] == rows.end[:-1]).all()
    assert int((rows.end - rows.start).sum()) == shown.length == path.length
    assert len(shown.lane.names) == len(shown.found.owners)
    assert {OpClass.OP, OpClass.QUEUE} <= {OpClass(code) for code in shown.lane.op_class.tolist()}


def test_marks_add_up_to_the_stretches_of_one_thread(dispatch_bound: Trace, shown: ShownPath) -> None:
    """In the lane of Python a thread is in one innermost call at a time, so a lane has no more than the path."""
    assert shown.lane is not None
    marks = shown.lane.marks
    assert (marks.end > marks.start).all()
    for lane in np.unique(marks.lane).tolist():
        own = marks.in_lane(lane)
        assert (marks.start[own][1:] >= marks.end[own][:-1]).all()
        assert int((marks.end - marks.start)[own].sum()) <= shown.length
    stretch = marks.stretch
    path = shown.found.path
    assert (marks.start >= path.start[stretch] - abs(shown.told.floor)).all()
    assert (marks.end <= path.end[stretch] + abs(shown.told.floor)).all()
    for item in np.unique(shown.lane.rows.item[shown.lane.rows.item >= 0])[:50].tolist():
        assert len(marks.of_slice(dispatch_bound, item))


def test_columns_of_a_row_and_of_lanes_as_one() -> None:
    one = np.ones(3, np.int32)
    marks = PathMarks.sorted(
        np.array([1, 0, 1], np.int32), np.array([2, 0, 1], np.int32), np.array([50, 10, 0]), np.array([60, 20, 5]), one
    )
    edges, found = np.arange(0, 101, 10), RowMarks(marks)
    assert np.flatnonzero(found.columns(edges, 2, ())).tolist() == [5]
    assert np.flatnonzero(found.columns(edges, 7, ())).tolist() == []
    assert np.flatnonzero(found.columns(edges, 2, (0, 1))).tolist() == [0, 1, 5]


def test_what_is_on_the_path_is_underlined_unless_a_search_has_hits(dispatch_bound: Trace, shown: ShownPath) -> None:
    explorer, painter = explorer_of(dispatch_bound, shown)
    frame = painter.compose(explorer.rows, explorer.state, *SIZE)
    lines = frame.grid.attr[frame.lanes_top :, frame.gutter :] & int(Attr.UNDERLINE) > 0
    by_kind = {
        row.kind: lines[y].any()
        for y, index in enumerate(frame.lane_rows)
        if index >= 0 and (row := explorer.rows[index]).kind in ("path", "leaf")
    }
    assert by_kind == {"path": False, "leaf": True}
    assert not (lines & (frame.items < 0)).any()
    explorer.state.hit_masks = [np.zeros(len(dispatch_bound.slices), np.bool_)]
    frame = painter.compose(explorer.rows, explorer.state, *SIZE)
    assert not (frame.grid.attr & int(Attr.UNDERLINE)).any()


def test_a_bar_on_the_path_is_underlined_in_one_ink(dispatch_bound: Trace, shown: ShownPath) -> None:
    """Blanks have the ink of the name beside them: each change of colour is bytes on the wire."""
    explorer, painter = explorer_of(dispatch_bound, shown)
    explorer.resize(SIZE[0], SIZE[1], True)
    grid = painter.compose(explorer.rows, explorer.state, *SIZE).grid
    inside = (grid.attr & int(Attr.UNDERLINE) > 0) & (grid.char == SPACE) & ~IS_GROUND[grid.bg]
    assert inside.any()
    assert set(grid.fg[inside].tolist()) == {int(Ink.LABEL)}


def test_the_lane_is_named_and_leads_to_its_slices(dispatch_bound: Trace, shown: ShownPath) -> None:
    assert shown.lane is not None
    explorer, painter = explorer_of(dispatch_bound, shown)
    frame = painter.compose(explorer.rows, explorer.state, *SIZE)
    at = next(number for number, row in enumerate(explorer.rows) if row.kind == "path")
    y = frame.lane_rows.index(at)
    text = "".join(map(chr, frame.grid.char[frame.lanes_top + y]))
    assert "Critical path" in text
    assert "tolist" in text
    x = frame.gutter + text[frame.gutter :].index("tolist")
    found = spot_at(frame, explorer.rows, explorer.state, explorer.scene, x, frame.lanes_top + y)
    assert found.slice is not None
    assert "tolist" in dispatch_bound.name_of(found.slice.item)


def test_h_and_l_walk_the_stretches_of_the_lane(dispatch_bound: Trace, shown: ShownPath) -> None:
    assert shown.lane is not None
    explorer, _ = explorer_of(dispatch_bound, shown)
    explorer.go_to_chart(0, 0)
    assert explorer.focused is not None
    assert explorer.focused.kind == "path"
    explorer.go_to(int(shown.lane.rows.start[4]))
    for stretch in (5, 6, 5):
        assert explorer.move_slice(1 if stretch > shown.lane.at(explorer.state.cursor) else -1)
        assert explorer.state.cursor == shown.lane.rows.start[stretch]
        item = int(shown.lane.rows.item[stretch])
        assert explorer.state.selection == (Selected(0, item) if item >= 0 else None)
    assert not explorer.toggle_fold()
    assert explorer.list.toggle_pin()
    assert explorer.rows[0].kind == "path"
    assert explorer.rows[0].pinned
    explorer.list.toggle_pin()
    assert explorer.list.hide()
    assert not any(row.kind == "path" for row in explorer.rows)
