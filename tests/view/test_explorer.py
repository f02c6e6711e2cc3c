from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from npu_tui.trace.model import Trace
from npu_tui.view.explorer import Explorer
from npu_tui.view.moves import next_in_time
from npu_tui.view.scene import LinkClasses, Scene, Selected
from npu_tui.view.viewport import BURST_SECONDS

WIDTH, HEIGHT = 100, 10

WALK = [
    ("Python", "Thread 1", "ProfilerStep#1", 0, 10_000),
    ("Python", "Thread 1", "add", 1_000, 3_000),
    ("Python", "Thread 1", "mul", 3_000, 4_000),
    ("Python", "Thread 1", "inner", 3_200, 3_600),
    ("Python", "Thread 1", "add", 7_000, 8_000),
    ("Python", "Thread 1", "ProfilerStep#2", 10_000, 20_000),
    ("Python", "Thread 1", "sub", 12_000, 13_000),
    ("CANN", "Thread 1", "launch", 1_500, 1_700),
    ("Ascend Hardware", "Stream 2", "kernel", 5_000, 9_000),
    ("Ascend Hardware", "Stream 2", "kernel", 14_000, 19_000),
    ("HCCL", "Group 0 Communication", "hcom", 15_000, 17_000),
    ("HCCL", "Plane 0", "Notify_Wait", 15_000, 16_000),
]
COUNTERS = [("HBM", "read", 0, 1.0), ("HBM", "read", 19_000, 2.0), ("HBM", "write", 4_000, 1.0)]


class Clock:
    """Seconds that pass only when told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def rest(self) -> None:
        self.now += 2 * BURST_SECONDS


def explore(*traces: Trace, width: int = WIDTH, height: int = HEIGHT, clock: Clock | None = None) -> Explorer:
    scene = Scene(list(traces), [LinkClasses.plain(len(trace.links)) for trace in traces])
    return Explorer(scene, width, height, clock or Clock())


def named(explorer: Explorer, name: str, nth: int = 0) -> Selected:
    for index, trace in enumerate(explorer.scene.traces):
        found = [item for item in range(len(trace.slices)) if trace.name_of(item) == name]
        if found:
            return Selected(index, sorted(found, key=lambda item: trace.slices.start[item])[nth])
    raise AssertionError(f"no slice is called {name}")


def selected_name(explorer: Explorer) -> str | None:
    selected = explorer.state.selection
    return None if selected is None else explorer.scene.traces[selected.trace].name_of(selected.item)


def window(explorer: Explorer) -> tuple[int, int]:
    return explorer.state.viewport.start, explorer.state.viewport.end


def cursor_column(explorer: Explorer) -> int:
    return explorer.state.viewport.column(explorer.state.cursor)


def go(explorer: Explorer, lane: str, depth: int = 0, when: int | None = None) -> None:
    explorer.state.focus = next(
        at for at, row in enumerate(explorer.rows) if row.name == lane and row.depth == depth and row.kind != "layer"
    )
    if when is not None:
        explorer.state.cursor = when


@pytest.fixture(scope="session")
def walk_trace(make_trace) -> Trace:
    return make_trace(WALK, counters=COUNTERS)


@pytest.fixture
def walk(walk_trace) -> Explorer:
    return explore(walk_trace)


# --- opening


def test_opens_on_the_first_step_with_the_cursor_in_its_middle(walk):
    assert window(walk) == (0, 10_000)
    assert walk.state.cursor == 5_000
    assert walk.focused.name == "main"


def test_opens_on_the_whole_trace_where_there_are_no_steps(make_trace):
    explorer = explore(make_trace([("Ascend Hardware", "Stream 2", "a", 0, 500), ("CANN", "Thread 1", "b", 0, 2_000)]))
    assert window(explorer) == (0, 2_000)


# --- zoom


@pytest.mark.parametrize("factor", [1.25, 1 / 1.25, 4.0])
def test_zoom_keeps_the_cursors_column(walk, factor):
    walk.show(8_000, 12_000)
    walk.state.cursor = 10_234
    column = cursor_column(walk)
    walk.zoom(factor)
    assert cursor_column(walk) == column
    assert walk.state.viewport.span == round(4_000 / factor)


def test_zooming_in_to_the_end_and_out_again_does_not_drift(walk):
    walk.state.cursor = 6_234
    column = cursor_column(walk)
    for _ in range(60):
        walk.zoom(1.25)
    assert walk.state.viewport.span == WIDTH
    assert cursor_column(walk) == column
    for _ in range(20):
        walk.zoom(1 / 1.25)
    assert cursor_column(walk) == column


def test_zoom_out_ends_at_the_whole_trace(walk):
    for _ in range(60):
        walk.zoom(1 / 1.25)
    assert window(walk) == (0, 20_000)


def test_zoom_out_leaves_the_narrowest_view_again(walk):
    for _ in range(60):
        walk.zoom(1.25)
    walk.zoom(1 / 1.001)
    assert walk.state.viewport.span > WIDTH


def test_zoom_at_a_pointer_keeps_what_is_under_it(walk):
    column = walk.state.viewport.column(2_050)
    walk.zoom(2.0, at=2_050)
    assert walk.state.viewport.column(2_050) == column


def test_zoom_at_a_pointer_takes_along_a_cursor_that_would_leave_the_screen(walk):
    walk.state.cursor = 9_900
    walk.zoom(4.0, at=1_000)
    assert walk.state.viewport.start <= walk.state.cursor < walk.state.viewport.end


# --- pan


def test_pan_keeps_the_cursors_column(walk):
    walk.state.cursor = 6_234
    column = cursor_column(walk)
    walk.pan(0.1)
    assert window(walk) == (1_000, 11_000)
    assert cursor_column(walk) == column


@pytest.mark.parametrize("share", [0.1, -0.1, 0.5, -0.5])
def test_pan_moves_by_whole_columns_of_any_grid(walk, share):
    walk.show(6_007, 12_344)
    before, column = walk.state.viewport, cursor_column(walk)
    walk.pan(share)
    assert walk.state.viewport == before.panned(round(WIDTH * share))
    assert cursor_column(walk) == column


def test_pan_moves_the_cursor_where_the_view_cannot(walk):
    walk.state.cursor = 500
    walk.pan(-0.1)
    assert window(walk) == (0, 10_000)
    assert walk.state.cursor == 0


def test_pan_right_reaches_the_very_end(walk):
    walk.show(3_001, 3_700)
    for _ in range(300):
        walk.pan(0.1)
    assert walk.state.viewport.end >= 20_000
    assert cursor_column(walk) == WIDTH - 1


def test_a_narrow_screen_pans_by_one_column_at_least(walk_trace):
    explorer = explore(walk_trace, width=3)
    first = explorer.state.viewport.first
    explorer.pan(0.1)
    assert explorer.state.viewport.first == first + 1


def test_the_cursor_moves_by_columns_and_takes_the_view_along_at_the_edge(walk):
    walk.state.cursor = 0
    walk.move_cursor(1)
    assert (walk.state.cursor, window(walk)) == (100, (0, 10_000))
    walk.state.cursor = 9_950
    walk.move_cursor(1)
    assert (cursor_column(walk), window(walk)) == (WIDTH - 1, (100, 10_100))


def test_counters_outside_the_slices_can_be_reached(make_trace):
    trace = make_trace(WALK, counters=[("HBM", "read", -5_000, 1.0), ("HBM", "read", 30_000, 1.0)])
    explorer = explore(trace)
    for _ in range(100):
        explorer.pan(-0.5)
    assert explorer.state.viewport.start <= -5_000
    for _ in range(100):
        explorer.pan(0.5)
    assert explorer.state.viewport.end >= 30_000


# --- home


def test_home_is_the_step_around_the_cursor_and_then_the_whole_trace(walk):
    walk.show(11_000, 12_000)
    walk.state.cursor = 11_500
    walk.home()
    assert window(walk) == (10_000, 20_000)
    walk.home()
    assert window(walk) == (0, 20_000)
    walk.home()
    assert window(walk) == (10_000, 20_000)


def test_home_without_steps_is_the_whole_trace(make_trace):
    explorer = explore(make_trace([("Ascend Hardware", "Stream 2", "a", 0, 5_000)]))
    explorer.zoom(4.0)
    explorer.home()
    assert window(explorer) == (0, 5_000)


# --- rows


def test_rows_end_at_the_first_and_the_last(walk):
    walk.move_row(-1_000)
    assert walk.state.focus == 0
    walk.move_row(1_000)
    assert walk.state.focus == len(walk.rows) - 1


def test_moving_to_a_row_selects_what_is_under_the_cursor(walk):
    walk.state.cursor = 3_300
    walk.move_row(-1)
    walk.move_row(1)
    assert (walk.focused.name, selected_name(walk)) == ("main", "ProfilerStep#1")
    walk.move_row(1)
    assert selected_name(walk) == "mul"
    walk.move_row(1)
    assert selected_name(walk) == "inner"


def test_a_row_without_a_slice_under_the_cursor_keeps_the_selection(walk):
    go(walk, "main", 1, 3_300)
    walk.select_under_cursor()
    walk.state.cursor = 5_500
    walk.move_row(1)
    assert selected_name(walk) == "mul"


def test_a_thin_slice_counts_as_under_the_cursor_within_its_column(make_trace):
    explorer = explore(
        make_trace([("CANN", "Thread 1", "thin", 505_000, 505_010), ("CANN", "Thread 2", "b", 0, 10**6)])
    )
    go(explorer, "Thread 1", 0, 500_001)
    assert explorer.select_under_cursor()
    assert selected_name(explorer) == "thin"


def test_layers(walk):
    layers = []
    for _ in range(8):
        layers.append(walk.scene.traces[0].layers[walk.focused.layer].name)
        walk.move_layer(1)
    assert layers == ["Python", "CANN", "Ascend Hardware", "HCCL", "HBM", "HBM", "HBM", "HBM"]
    for _ in range(8):
        walk.move_layer(-1)
    assert walk.state.focus == 0


def test_previous_layer_goes_to_the_head_of_this_one_first(walk):
    go(walk, "compute s2")
    walk.move_layer(-1)
    assert (walk.focused.kind, walk.focused.name) == ("layer", "Ascend Hardware")


def test_the_cursors_row_stays_on_screen(walk_trace):
    explorer = explore(walk_trace, height=4)
    for rows in (1, 1, 1, 1, 5, -3, -20, 50):
        explorer.move_row(rows)
        assert explorer.state.top <= explorer.state.focus < explorer.state.top + 4


def test_scrolling_takes_the_cursors_row_along(walk_trace):
    explorer = explore(walk_trace, height=4)
    explorer.scroll(3)
    assert (explorer.state.top, explorer.state.focus) == (3, 3)
    explorer.scroll(-100)
    assert (explorer.state.top, explorer.state.focus) == (0, 3)


# --- slices


def test_slices_of_a_row_one_by_one(walk):
    go(walk, "main", 1, 0)
    names = []
    while walk.move_slice(1):
        names.append((selected_name(walk), walk.state.cursor))
    assert names == [("add", 1_000), ("mul", 3_000), ("add", 7_000), ("sub", 12_000)]
    assert walk.state.viewport.start <= 12_000 < walk.state.viewport.end
    assert walk.move_slice(-1)
    assert (selected_name(walk), walk.state.cursor) == ("add", 7_000)


def test_no_piece_of_a_leaf_row_is_jumped_over(make_trace):
    points = [("CANN", "Thread 1", name, 40, 40) for name in "ab"]
    explorer = explore(make_trace([*points, ("CANN", "Thread 1", "outer", 0, 9_000)]))
    explorer.state.focus = 1
    explorer.toggle_fold()
    explorer.state.cursor = 20
    seen = []
    while explorer.move_slice(1):
        seen.append(selected_name(explorer))
    assert seen == ["a", "b"]  # what is left of the outer one has begun before
    while explorer.move_slice(-1):
        seen.append(selected_name(explorer))
    assert seen == ["a", "b", "a", "outer"]


def test_a_slice_that_is_off_screen_comes_in_at_three_tenths(walk):
    walk.show(0, 2_000)
    go(walk, "main", 1, 1_500)
    walk.move_slice(1)
    assert walk.state.cursor == 3_000
    assert cursor_column(walk) == 30


def test_a_leaf_row_walks_from_begin_to_begin(walk):
    walk.list.keep_folds()
    walk.folds.lanes.add((0, 0))
    walk.resize(WIDTH, HEIGHT, False)
    go(walk, "main", 0, 2_999)
    seen = []
    while walk.move_slice(1):
        seen.append((selected_name(walk), walk.state.cursor))
    assert seen[:2] == [("mul", 3_000), ("inner", 3_200)]
    starts = [when for _, when in seen]
    assert starts == sorted(set(starts))
    for (name, when), before in zip(seen[1:], seen, strict=False):
        assert walk.scene.traces[0].name_of(walk.state.selection.item)
        assert (name, when) != before


def test_a_row_without_slices_has_no_next_one(walk):
    go(walk, "HBM")
    assert not walk.move_slice(1)
    assert not walk.select_under_cursor()


@pytest.mark.parametrize(
    ("when", "direction", "found"), [(0, 1, 0), (1, 1, 1), (5, 1, 1), (9, 1, None), (9, -1, 0), (1, -1, None)]
)
def test_next_in_time(when, direction, found):
    assert next_in_time(np.array([1, 9]), when, direction) == found


# --- folds


def test_fold_a_lane_and_open_it_again(walk):
    go(walk, "main", 2)
    assert walk.toggle_fold()
    assert (walk.focused.kind, walk.focused.name) == ("leaf", "main")
    assert walk.toggle_fold()
    assert (walk.focused.kind, walk.focused.depth) == ("slices", 0)


def test_a_lane_without_depth_folds_its_layer(walk):
    go(walk, "compute s2")
    walk.toggle_fold()
    assert (walk.focused.kind, walk.focused.name, walk.focused.folded) == ("layer", "Ascend Hardware", True)
    walk.toggle_fold()
    assert "compute s2" in [row.name for row in walk.rows]


def test_the_steps_cannot_be_folded(walk):
    go(walk, "Steps")
    assert not walk.toggle_fold()


def test_counter_curves_open_and_fold(walk):
    go(walk, "HBM")
    walk.toggle_fold()
    assert [row.name for row in walk.rows if row.kind == "counter"] == ["read", "write"]
    walk.toggle_fold()
    assert [row.name for row in walk.rows if row.kind == "counter"] == ["HBM"]


def test_a_counter_layer_of_one_curve_cannot_be_folded(make_trace):
    explorer = explore(make_trace(WALK, counters=COUNTERS[:2]))
    go(explorer, "HBM")
    assert not explorer.toggle_fold()


# --- select


def test_select_brings_cursor_row_and_view_along(walk):
    walk.zoom(4.0)
    kernel = named(walk, "kernel", 1)
    walk.select(kernel)
    assert walk.state.selection == kernel
    assert (walk.state.cursor, walk.focused.name) == (14_000, "compute s2")
    assert walk.state.viewport.start <= 14_000 < walk.state.viewport.end


def test_select_opens_a_folded_layer(walk):
    go(walk, "compute s2")
    walk.toggle_fold()
    walk.select(named(walk, "kernel"))
    assert (walk.focused.kind, walk.focused.name) == ("slices", "compute s2")


def test_select_opens_the_group_of_a_plane(walk):
    assert "Plane 0" not in [row.name for row in walk.rows]
    walk.select(named(walk, "Notify_Wait"))
    assert walk.focused.name == "Plane 0"


def test_select_in_a_folded_lane_goes_to_its_one_row(walk):
    go(walk, "main")
    walk.toggle_fold()
    walk.select(named(walk, "inner"))
    assert (walk.focused.kind, walk.focused.name) == ("leaf", "main")


def test_select_goes_to_the_depth_of_the_slice(walk):
    walk.select(named(walk, "inner"))
    assert (walk.focused.name, walk.focused.depth) == ("main", 2)


# --- fit


def test_fit_shows_the_selection_with_a_margin(walk):
    walk.select(named(walk, "kernel"))
    walk.fit(None)
    start, end = window(walk)
    assert 4_700 <= start <= 4_800
    assert 9_150 <= end <= 9_200


def test_fit_again_shows_the_ends_of_the_links_too(walk):
    walk.select(named(walk, "kernel"))
    walk.fit((1_500, 9_000))
    assert window(walk)[0] > 4_000
    walk.fit((1_500, 9_000))
    start, end = window(walk)
    assert start <= 1_500
    assert end >= 9_000


def test_fit_of_a_slice_without_duration(make_trace):
    explorer = explore(make_trace([("CANN", "Thread 1", "point", 700, 700), ("CANN", "Thread 2", "b", 0, 9_000)]))
    explorer.select(named(explorer, "point"))
    explorer.fit(None)
    assert explorer.state.viewport.span == WIDTH
    assert explorer.state.viewport.start <= 700 < explorer.state.viewport.end


def test_fit_without_a_selection_does_nothing(walk):
    before = walk.state.viewport
    assert not walk.fit(None)
    assert walk.state.viewport == before


# --- range


def test_the_selection_becomes_the_range_and_is_cleared_by_the_same_key(walk):
    assert not walk.mark_selection()
    walk.select(named(walk, "kernel"))
    walk.mark_selection()
    assert walk.state.range == (5_000, 9_000)
    walk.select(named(walk, "kernel", 1))
    walk.mark_selection()
    assert walk.state.range == (14_000, 19_000)
    walk.mark_selection()
    assert walk.state.range is None


def test_marks_snap_to_slice_edges_nearby(walk):
    go(walk, "compute s2", 0, 4_850)
    walk.mark()
    assert (walk.anchor, walk.state.range) == (5_000, (5_000, 5_000))
    walk.state.cursor = 9_150
    walk.mark()
    assert (walk.anchor, walk.state.range) == (None, (5_000, 9_000))


def test_marks_stay_where_no_edge_is_near(walk):
    go(walk, "compute s2", 0, 2_000)
    walk.mark()
    assert walk.anchor == 2_000


def test_the_range_under_way_follows_the_cursor(walk):
    go(walk, "compute s2", 0, 5_000)
    walk.mark()
    walk.move_cursor(5)
    assert walk.state.range == (5_000, 5_500)
    walk.pan(-0.1)
    assert walk.state.range == (walk.state.cursor, 5_000)
    walk.move_slice(1)
    assert walk.state.range == (5_000, 5_000)


def test_a_range_in_either_order(walk):
    walk.set_range(900, 300)
    assert walk.state.range == (300, 900)


def test_zoom_to_the_range(walk):
    assert not walk.zoom_to_range()
    walk.set_range(2_000, 4_000)
    assert walk.zoom_to_range()
    assert window(walk) == (2_000, 4_000)
    assert walk.state.viewport.start <= walk.state.cursor < walk.state.viewport.end


def test_an_empty_range_cannot_be_zoomed_to(walk):
    walk.set_range(2_000, 2_000)
    assert not walk.zoom_to_range()


# --- undo, links, deselect


def test_undo_and_redo_of_a_burst(walk_trace):
    clock = Clock()
    explorer = explore(walk_trace, clock=clock)
    opened = window(explorer)
    for _ in range(5):
        explorer.zoom(1.25)
        clock.now += BURST_SECONDS / 2
    zoomed = window(explorer)
    clock.rest()
    explorer.pan(0.5)
    panned = window(explorer)
    assert explorer.undo()
    assert window(explorer) == zoomed
    assert explorer.undo()
    assert window(explorer) == opened
    assert not explorer.undo()
    assert explorer.redo()
    assert explorer.redo()
    assert window(explorer) == panned
    assert not explorer.redo()


def test_undo_brings_back_row_cursor_and_selection(walk_trace):
    clock = Clock()
    explorer = explore(walk_trace, clock=clock)
    explorer.select(named(explorer, "kernel"))
    before = replace(explorer.place())
    clock.rest()
    explorer.select(named(explorer, "sub"))
    explorer.undo()
    assert explorer.place() == before


def test_undo_finds_the_row_after_folding(walk_trace):
    clock = Clock()
    explorer = explore(walk_trace, clock=clock)
    explorer.select(named(explorer, "inner"))
    clock.rest()
    explorer.select(named(explorer, "kernel"))
    explorer.folds.lanes.add((0, 0))
    explorer.resize(WIDTH, HEIGHT, False)
    explorer.undo()
    assert explorer.focused.name == "main"


def test_undo_after_a_resize_shows_the_same_times(walk_trace):
    explorer = explore(walk_trace)
    explorer.zoom(4.0)
    explorer.resize(50, HEIGHT, True)
    explorer.undo()
    assert window(explorer) == (0, 10_000)
    assert explorer.state.viewport.width == 50


def test_link_modes_go_round(walk):
    assert walk.state.link_mode == "selection"
    assert [walk.cycle_links() for _ in range(3)] == ["all", "off", "selection"]


def test_deselect_drops_one_thing_at_a_time(walk):
    walk.select(named(walk, "kernel"))
    walk.state.hits = np.array([5_000])
    walk.set_range(1, 5)
    walk.mark()
    assert walk.deselect()
    assert (walk.anchor, walk.state.range) == (None, None)
    walk.set_range(1, 5)
    assert walk.deselect()
    assert walk.state.range is None
    assert walk.deselect()
    assert not len(walk.state.hits)
    assert walk.deselect()
    assert walk.state.selection is None
    assert not walk.deselect()


# --- whatever comes

MOTIONS = {
    "zoom_in": lambda e: e.zoom(1.25),
    "zoom_out": lambda e: e.zoom(1 / 1.25),
    "zoom_in_fast": lambda e: e.zoom(4.0),
    "zoom_out_fast": lambda e: e.zoom(0.25),
    "zoom_at_left": lambda e: e.zoom(1.25, e.state.viewport.start),
    "zoom_at_right": lambda e: e.zoom(1.25, e.state.viewport.end - 1),
    "pan_left": lambda e: e.pan(-0.1),
    "pan_right": lambda e: e.pan(0.1),
    "pan_right_fast": lambda e: e.pan(0.5),
    "cursor_left": lambda e: e.move_cursor(-1),
    "cursor_right": lambda e: e.move_cursor(1),
    "home": Explorer.home,
    "fit": lambda e: e.fit((3, 17_000)),
    "undo": Explorer.undo,
    "redo": Explorer.redo,
    "row_up": lambda e: e.move_row(-1),
    "row_down": lambda e: e.move_row(1),
    "row_last": lambda e: e.move_row(len(e.rows)),
    "layer_up": lambda e: e.move_layer(-1),
    "layer_down": lambda e: e.move_layer(1),
    "scroll": lambda e: e.scroll(3),
    "scroll_back": lambda e: e.scroll(-3),
    "fold": Explorer.toggle_fold,
    "next": lambda e: e.move_slice(1),
    "previous": lambda e: e.move_slice(-1),
    "go": Explorer.select_under_cursor,
    "mark": Explorer.mark,
    "mark_selection": Explorer.mark_selection,
    "zoom_to_range": Explorer.zoom_to_range,
    "deselect": Explorer.deselect,
    "links": Explorer.cycle_links,
    "shrink": lambda e: e.resize(37, 3, False),
    "grow": lambda e: e.resize(150, 40, True),
    "one_cell": lambda e: e.resize(1, 1, False),
}


def check(explorer: Explorer) -> None:
    state, rows = explorer.state, explorer.rows
    assert 0 <= state.focus < max(len(rows), 1)
    assert 0 <= state.top < max(len(rows), 1)
    assert state.top <= state.focus
    assert (np.diff(state.viewport.edges()) > 0).all()
    assert state.viewport.start <= state.cursor < state.viewport.end
    assert state.range is None or state.range[0] <= state.range[1]
    if state.selection is not None:
        assert 0 <= state.selection.item < len(explorer.scene.traces[state.selection.trace].slices)


class Scenes(dict[str, list[Trace]]):
    """Traces by name, with a short text for failing examples."""

    def __repr__(self) -> str:
        return ", ".join(self)


@pytest.fixture(scope="session")
def scenes(walk_trace, dispatch_bound, make_trace) -> Scenes:
    return Scenes(
        walk=[walk_trace],
        fixture=[dispatch_bound],
        two=[walk_trace, make_trace(WALK[6:])],
        counters=[make_trace(counters=COUNTERS)],
        empty=[make_trace(links=[("HostToDevice", "1", ("CANN", "Thread 1", 0), [("CANN", "Thread 1", 5)])])],
        none=[],
        tiny=[make_trace([("CANN", "Thread 1", "a", 0, 1)])],
        point=[make_trace([("CANN", "Thread 1", "a", 0, 0), ("CANN", "Thread 2", "b", 500, 500)])],
    )


@pytest.mark.parametrize("name", ["walk", "fixture", "two", "counters", "empty", "none", "tiny", "point"])
@pytest.mark.parametrize("size", [(1, 1), (100, 10)])
def test_every_motion_from_the_opening_screen(scenes, name, size):
    for motion in MOTIONS:
        explorer = explore(*scenes[name], width=size[0], height=size[1])
        MOTIONS[motion](explorer)
        check(explorer)


@settings(max_examples=18, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(["walk", "fixture", "two", "counters", "tiny", "point"]),
    st.tuples(st.integers(1, 120), st.integers(1, 30)),
    st.lists(st.sampled_from(sorted(MOTIONS)), max_size=40),
)
def test_any_walk_keeps_the_state_valid(scenes, name, size, walk):
    clock = Clock()
    explorer = explore(*scenes[name], width=size[0], height=size[1], clock=clock)
    width = size[0]
    for step, motion in enumerate(walk):
        MOTIONS[motion](explorer)
        clock.now += 0.2 if step % 3 else 0.4
        width = {"shrink": 37, "grow": 150, "one_cell": 1}.get(motion, width)
        assert explorer.state.viewport.width == width
        check(explorer)
