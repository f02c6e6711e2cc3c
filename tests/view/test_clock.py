"""Several traces on one clock: each is drawn where it lies, and shifting one moves nothing of the others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from builders import bars, make_trace
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from ranked import GUTTER, HEIGHT, TOP, WIDTH, explored, ranks, scene_of

from npu_tui.trace.model import HOST_TO_DEVICE
from npu_tui.view.caches import Frame
from npu_tui.view.explorer import Explorer
from npu_tui.view.grid import SPACE
from npu_tui.view.painter import Painter, spot_at
from npu_tui.view.scene import LinkMode, Scene, Selected

RULER = 1
OFFSETS = st.integers(-(10**15), 10**15)
NEAR = st.integers(-(10**7), 10**7)
MODES: st.SearchStrategy[LinkMode] = st.sampled_from(["off", "selection", "all"])


def drawn(explorer: Explorer) -> Frame:
    return Painter(explorer.scene).compose(explorer.rows, explorer.state, WIDTH, HEIGHT)


def cells(frame: Frame, lines: list[int]) -> list[np.ndarray]:
    """Characters, colours and attributes, but for the ruler's lines, which tell the scene's time."""
    char, fg, bg, attr = (
        part[lines].copy() for part in (frame.grid.char, frame.grid.fg, frame.grid.bg, frame.grid.attr)
    )
    char[char == ord("┊")] = SPACE
    fg[char == SPACE] = 0
    return [char, fg, bg, attr]


def same(one: Frame, other: Frame, lines: list[int]) -> None:
    for before, after in zip(cells(one, lines), cells(other, lines), strict=True):
        np.testing.assert_array_equal(before, after)


@given(st.lists(OFFSETS, min_size=1, max_size=4), st.data())
def test_times_come_back_from_the_clock_of_the_scene(offsets: list[int], data: st.DataObject) -> None:
    scene = Scene([make_trace({"a": bars((0, 10))})] * len(offsets), [], offsets=offsets)
    trace = data.draw(st.integers(0, len(offsets) - 1))
    time = data.draw(OFFSETS)
    assert scene.to_trace(trace, scene.to_scene(trace, time)) == time
    assert scene.to_scene(trace, scene.to_trace(trace, time)) == time
    times = np.array(data.draw(st.lists(OFFSETS)), np.int64)
    assert scene.to_trace(trace, scene.to_scene(trace, times)).tolist() == times.tolist()


@given(OFFSETS, st.floats(0, 1), st.floats(0.001, 1), st.integers(0, 30), MODES, st.data())
@settings(deadline=None, max_examples=18)
def test_one_trace_is_drawn_alike_at_any_offset(
    offset: int, at: float, share: float, focus: int, mode: LinkMode, data: st.DataObject
) -> None:
    """The lanes, links, counters, charts, minimap, findings and lost time; only the ruler tells the difference."""
    trace = ranks()[0]
    before, after = explored(scene_of(trace)), explored(scene_of(trace, offsets=[offset]))
    item = data.draw(st.integers(0, len(trace.slices) - 1))
    start, span = int(at * trace.end), max(int(share * trace.end), 96)
    before.show(start, start + span)
    state = before.state
    state.link_mode, state.selection, state.focus = mode, Selected(0, item), min(focus, len(before.rows) - 1)
    before.list.reveal()
    mask = np.zeros(len(trace.slices), np.bool_)
    mask[item::7] = True
    state.hit_masks, state.hits = [mask], np.sort(trace.slices.start[mask])
    state.range = (start + span // 3, start + span // 2)
    after.state = structs.replace(
        state,
        viewport=state.viewport.shifted(offset),
        cursor=state.cursor + offset,
        hits=state.hits + offset,
        range=(state.range[0] + offset, state.range[1] + offset),
    )
    one, other = drawn(before), drawn(after)
    same(one, other, [line for line in range(HEIGHT) if line != RULER])
    assert one.utilisation == other.utilisation
    np.testing.assert_array_equal(one.items, other.items)
    for x in (GUTTER, GUTTER + 40, WIDTH - 1):
        for y in (0, TOP + 3):
            found = [spot_at(f, e.rows, e.state, e.scene, x, y) for f, e in ((one, before), (other, after))]
            assert found[1] == structs.replace(found[0], time=None if found[0].time is None else found[0].time + offset)


@given(NEAR, st.integers(0, 1), MODES, st.floats(0, 0.9), st.floats(0.01, 1))
@settings(deadline=None, max_examples=12)
def test_a_shift_moves_the_rows_of_its_trace_only(by: int, moved: int, mode: LinkMode, at: float, share: float) -> None:
    explorer = explored(scene_of(*ranks()))
    low, high = explorer.scene.whole
    start = low + int(at * (high - low))
    explorer.show(start, start + max(int(share * (high - low)), 96))
    explorer.state.link_mode, explorer.state.cursor = mode, -1
    explorer.state.focus = next(i for i, row in enumerate(explorer.rows) if row.trace != moved)
    view = explorer.state.viewport
    before = drawn(explorer)
    explorer.shift(moved, by)
    assert explorer.state.viewport == view
    after = drawn(explorer)
    # The layers' and the traces' heads carry links through and void beyond the scene's ends, which the shift may move.
    kept = [y for y, i in enumerate(before.lane_rows) if i >= 0 and explorer.rows[i].trace != moved]
    for one, other in (
        zip(cells(before, [TOP + y for y in kept]), cells(after, [TOP + y for y in kept]), strict=True)
        if mode != "all"
        else ()
    ):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(before.items[kept], after.items[kept])
    explorer.state.viewport = view.shifted(by)
    shifted = drawn(explorer)
    mine = [y for y, i in enumerate(before.lane_rows) if i >= 0 and explorer.rows[i].trace == moved]
    np.testing.assert_array_equal(before.items[mine], shifted.items[mine])


def test_ranks_lie_where_they_were_recorded() -> None:
    first, second = ranks()
    scene = scene_of(first, second)
    assert scene.offsets == [0, second.start_ns - first.start_ns]
    for trace in (0, 1):
        start, end = scene.times(Selected(trace, 3))
        assert start + first.start_ns == scene.traces[trace].start_ns + int(scene.traces[trace].slices.start[3])
        assert end - start == int(scene.traces[trace].slices.end[3] - scene.traces[trace].slices.start[3])
    assert scene.labels == ["0", "1"]
    assert scene.start <= 0 < scene.end


def test_profiles_of_other_days_begin_together() -> None:
    first, second = ranks()
    later = replace(second, start_ns=second.start_ns + 86_400 * 10**9)
    scene = scene_of(first, later, replace(first, start_ns=0))
    assert scene.offsets == [0, 0, 0]
    assert scene.labels == ["A", "B", "C"]  # two of them are rank 0


def test_steps_of_a_rank_are_those_of_its_own_time() -> None:
    scene = scene_of(*ranks(), offsets=[0, 5_000])
    own = [step for step in scene.steps() if step[2].trace == 1]
    assert own == scene.steps(1)
    assert [step[0] - 5_000 for step in own] == [step[0] for step in scene_of(ranks()[1]).steps()]


def test_a_shift_is_undone_with_the_view() -> None:
    explorer = explored(scene_of(*ranks()))
    before = list(explorer.scene.offsets)
    explorer.shift(1, 12_345)
    assert explorer.scene.offsets == [before[0], before[1] + 12_345]
    assert explorer.undo()
    assert explorer.scene.offsets == before
    assert explorer.redo()
    assert explorer.scene.offsets == [before[0], before[1] + 12_345]


@pytest.mark.parametrize("rank", [0, 1])
def test_the_slice_under_the_cursor_is_that_of_its_rank(rank: int) -> None:
    explorer = explored(scene_of(*ranks(), offsets=[0, 777_777]))
    trace = ranks()[rank]
    item = int(trace.links.target_slice[trace.links_of(HOST_TO_DEVICE)[5]])
    explorer.select(Selected(rank, item))
    start = int(trace.slices.start[item]) + rank * 777_777
    assert explorer.state.cursor == start
    explorer.state.selection = None
    assert explorer.select_under_cursor()
    assert explorer.state.selection == Selected(rank, item)
    assert explorer.move_slice(1)
    assert explorer.state.selection is not None
    assert explorer.state.cursor == explorer.scene.times(explorer.state.selection)[0]
    assert explorer.mark_selection()
    assert explorer.state.range == explorer.scene.times(explorer.state.selection)
