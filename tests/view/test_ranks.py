"""Going from rank to rank, and aligning one with another."""

from __future__ import annotations

import numpy as np
import pytest
from ranked import explored, ranks, scene_of

from npu_tui.view.explorer import Explorer
from npu_tui.view.scene import Selected
from npu_tui.view.start import (
    Edge,
    Start,
    align,
    apply_rows,
    find_slice,
    mark_base,
    move_rank,
    offsets_of,
    rows_text,
    slice_text,
    start_at,
)


def two() -> Explorer:
    return explored(scene_of(*ranks()))


def collective(rank: int, number: int) -> Selected:
    """The slice of one of the collectives that both ranks take part in."""
    trace = ranks()[rank]
    name = trace.names.index(f"hcom_allReduce__417_{number}_1")
    return Selected(rank, int(np.flatnonzero(trace.slices.name == name)[0]))


@pytest.mark.parametrize("edge", ["start", "end"])
@pytest.mark.parametrize("moved", [0, 1])
def test_a_rank_is_aligned_with_the_base(edge: Edge, moved: int) -> None:
    explorer = two()
    scene, base, other = explorer.scene, collective(1 - moved, 2), collective(moved, 2)
    assert align(explorer, edge) == "no_base"
    explorer.select(base)
    assert mark_base(explorer)
    assert align(explorer, edge) == "same_rank"
    before = scene.times(base)
    explorer.select(other)
    side = ("start", "end").index(edge)
    by = before[side] - scene.times(other)[side]
    assert align(explorer, edge) == by != 0
    assert scene.times(base) == before
    assert scene.times(other)[side] == before[side]
    assert explorer.state.selection == other
    assert explorer.state.viewport.start <= scene.times(other)[0] < explorer.state.viewport.end
    assert align(explorer, edge) == 0


def test_one_rank_cannot_be_aligned() -> None:
    explorer = explored(scene_of(ranks()[0]))
    assert align(explorer, "start") == "one_rank"
    assert not move_rank(explorer, 1)


def test_every_row_has_its_like_in_the_other_rank() -> None:
    explorer = two()
    explorer.resize(200, 200, True)
    mine = [i for i, row in enumerate(explorer.rows) if row.trace == 0]
    for index in mine:
        explorer.state.focus, explorer.state.cursor = index, 2_000_000
        row = explorer.focused
        assert move_rank(explorer, 1)
        other = explorer.focused
        assert row is not None
        assert other is not None
        assert (other.trace, other.kind, explorer.state.cursor) == (1, row.kind, 2_000_000)
        if not row.name.startswith("Thread"):
            assert other.name == row.name or row.kind == "trace"
        assert not move_rank(explorer, 1)
        assert move_rank(explorer, -1)
        assert explorer.focused is not None
        assert explorer.focused.name == row.name


def test_a_slice_is_named_by_its_time_on_the_clock_of_the_scene() -> None:
    explorer = two()
    explorer.set_offsets([0, 5_000_000])
    for wanted in (collective(0, 1), collective(1, 1), Selected(1, 7)):
        text = slice_text(explorer.scene, wanted)
        found = find_slice(explorer.scene, text, 0)
        assert found is not None
        assert explorer.scene.times(found) == explorer.scene.times(wanted)
        assert slice_text(explorer.scene, found) == text


def test_offsets_are_told_where_the_user_made_them() -> None:
    explorer = two()
    assert offsets_of(explorer.scene) == ()
    explorer.shift(1, -123_456_789)
    told = Start(offsets=offsets_of(explorer.scene))
    assert told.words() == [f"--offsets=0.000000ms,{(explorer.scene.offsets[1]) / 1e6:.6f}ms"]
    again = two()
    assert start_at(again, told) == ""
    assert again.scene.offsets == explorer.scene.offsets
    assert start_at(two(), Start(offsets=(0, 1, 2))) == "--offsets"


def test_a_folded_rank_is_told_and_opens_for_what_is_in_it() -> None:
    explorer = two()
    explorer.state.focus = next(i for i, row in enumerate(explorer.rows) if row.kind == "trace" and row.trace == 1)
    assert explorer.toggle_fold()
    assert [row.kind for row in explorer.rows if row.trace == 1] == ["trace"]
    again = two()
    assert apply_rows(again, rows_text(explorer))
    told = [[(row.kind, row.trace, row.name, row.depth, row.folded) for row in each.rows] for each in (again, explorer)]
    assert told[0] == told[1]
    assert again.list.key == explorer.list.key
    explorer.select(collective(1, 1))
    assert explorer.focused is not None
    assert explorer.focused.kind in ("slices", "leaf")
