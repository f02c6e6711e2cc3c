import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npu_tui.view.grid import Grid
from npu_tui.view.margins import anchor_text, draw_ruler, find_ticks
from npu_tui.view.palette import Ink
from npu_tui.view.viewport import Viewport

NONE = np.zeros(0, np.int64)


def drawn(view: Viewport, cursor: int | None = None, span: tuple[int, int] | None = None) -> str:
    grid = Grid.blank(1, view.width, Ink.TEXT, Ink.LANE)
    draw_ruler(grid, find_ticks(view), view, cursor, span, NONE)
    return grid.text(0)


@given(st.integers(-(10**9), 10**14), st.integers(0, 10**13), st.integers(1, 300))
def test_labels_never_repeat_or_touch(start: int, span: int, width: int) -> None:
    view = Viewport.around(start, start + span, width)
    ticks = find_ticks(view)
    assert len(set(ticks.labels)) == len(ticks.labels)
    for column, behind, label in zip(ticks.columns, ticks.columns[1:], ticks.labels, strict=False):
        assert column + 1 + len(label) < behind
    assert all(0 <= column < width for column in ticks.columns)


@pytest.mark.parametrize(
    ("start", "span", "labels"),
    [
        (0, 177_600_000, ["0ms", "20ms", "40ms"]),
        (54_000_000, 4_000_000, ["54.0ms", "54.5ms", "55.0ms"]),
        (83_512_000_000, 2_000_000, ["83.5120s", "83.5122s", "83.5124s"]),
        (0, 5_000, ["0.0µs", "0.5µs", "1.0µs"]),
        (40_000_000_000, 900_000_000_000, ["100s", "200s", "300s"]),
    ],
)
def test_steps_and_units(start: int, span: int, labels: list[str]) -> None:
    assert find_ticks(Viewport.around(start, start + span, 150)).labels[:3] == labels


def test_the_unit_is_the_same_at_every_width() -> None:
    for end, unit in ((5_300_000_000, "s"), (1_700_000_000, "s"), (800_000_000, "ms")):
        for width in (40, 60, 100, 160, 180):
            labels = find_ticks(Viewport.around(0, end, width)).labels
            assert {label.lstrip("0123456789.") for label in labels} == {unit}


def test_a_very_close_view_counts_from_an_anchor() -> None:
    ticks = find_ticks(Viewport.around(54_321_700, 54_323_000, 150))
    assert ticks.labels[:3] == ["+800ns", "+1000ns", "+1200ns"]
    assert ticks.anchor is not None
    assert anchor_text(ticks.anchor) == "T+54.321ms"


def test_range_and_cursor_stand_on_the_ruler() -> None:
    view = Viewport(0, 6_000_000, 60)
    assert drawn(view) == "╷0ms                ╷2ms                ╷4ms" + " " * 16
    assert drawn(view, 25, (2_500_000, 4_500_000)) == "╷0ms               2.5ms ▼━━━━ 2.000ms ━━━━━━ 4.5ms" + " " * 9
    wide = drawn(Viewport(0, 6_000_000, 90), None, (1_500_000, 4_500_000))
    assert " 1.50ms " in wide
    assert " 4.50ms " in wide


def test_a_narrow_range_has_its_length_beside_it() -> None:
    assert drawn(Viewport(0, 6_000_000, 60), None, (1_000_000, 1_200_000)).startswith("╷   1.0ms ━━ 200.0µs  1.2ms ")
    assert drawn(Viewport(0, 6_000_000, 60), None, (5_900_000, 6_200_000)).endswith(" 300.0µs ━")


def test_no_label_is_cut_by_the_cursor_or_the_edge() -> None:
    assert drawn(Viewport(0, 6_000_000, 60), 22).startswith("╷0ms                ╷ ▼ ")
    assert drawn(Viewport(0, 4_300_000, 43))[-3:] == "╷  "


@pytest.mark.parametrize("width", [1, 2, 3, 10])
def test_decades_on_a_few_columns_are_drawn(width: int) -> None:
    """One slice at the epoch beside others of today makes a view of 55 years."""
    view = Viewport.around(0, 9 * 10**18, width)
    assert all(0 <= column < width for column in find_ticks(view).columns)
    assert len(drawn(view)) == width
