from collections.abc import Iterator

import numpy as np
from builders import levels_of, one_row
from hypothesis import given, settings
from hypothesis import strategies as st

from npu_tui.native.cells import Cells
from npu_tui.trace.model import Rows, make_rows
from npu_tui.view.levels import rasterise
from npu_tui.view.viewport import Viewport


@st.composite
def times(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Slices of one row: they follow each other with gaps and durations that may be 0."""
    steps = draw(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 40)), max_size=60))
    found, at = [], draw(st.integers(0, 50))
    for gap, size in steps:
        found.append((at + gap, at + gap + size))
        at += gap + size
    return found


def viewports() -> st.SearchStrategy[Viewport]:
    return st.builds(Viewport.around, st.integers(-100, 1500), st.integers(0, 2500), st.integers(1, 40))


def draw_row(spans: list[tuple[int, int]], view: Viewport) -> Cells:
    return rasterise([(one_row(*spans), 0, view)], view.width, levels_of)


def inside(span: tuple[int, int], low: int, high: int) -> bool:
    start, end = span
    return low <= start < high if start == end else start < high and end > low


def columns(view: Viewport) -> Iterator[tuple[int, int, int]]:
    edges = view.edges().tolist()
    yield from zip(range(view.width), edges[:-1], edges[1:], strict=True)


@given(times(), viewports())
def test_counts_busy_time_and_the_dominating_slice_are_exact(spans: list[tuple[int, int]], view: Viewport) -> None:
    cells = draw_row(spans, view)
    for x, low, high in columns(view):
        here = [k for k, span in enumerate(spans) if inside(span, low, high)]
        covered = {k: max(min(spans[k][1], high) - max(spans[k][0], low), 0) for k in here}
        assert cells.count[0, x] == len(here)
        assert cells.busy[0, x] == sum(covered.values())
        assert cells.item[0, x] == (max(here, key=lambda k: (covered[k], -k)) if here else -1)
        assert cells.position[0, x] == cells.item[0, x]


@settings(max_examples=15, deadline=None)
@given(times(), viewports())
def test_a_slice_in_view_lies_in_a_cell(spans: list[tuple[int, int]], view: Viewport) -> None:
    cells = draw_row(spans, view)
    for start, end in spans:
        if inside((start, end), view.start, view.end):
            first, last = view.column(start), view.column(max(end - 1, start))
            assert (cells.count[0, max(first, 0) : min(last, view.width - 1) + 1] > 0).all()


def test_ends_are_told_in_eighths() -> None:
    cells = draw_row([(25, 275)], Viewport(0, 400, 4))
    assert cells.count[0].tolist() == [1, 1, 1, 0]
    assert cells.start8[0, 0] == 2
    assert cells.end8[0, 2] == 6
    assert cells.from_left[0].tolist() == [False, True, True, False]
    assert cells.to_right[0].tolist() == [True, True, False, False]


def test_a_slice_without_duration_on_an_edge_lies_right_of_it() -> None:
    assert draw_row([(100, 100)], Viewport(0, 400, 4)).count[0].tolist() == [0, 1, 0, 0]


def test_rows_of_several_tables_and_empty_ones() -> None:
    one, other = one_row((0, 10)), one_row((10, 20), (30, 40))
    both: Rows = make_rows(np.array([0, 1, 1]), np.array([5], np.int32), np.array([20]), np.array([30]))
    view = Viewport(0, 40, 4)
    wanted = [(rows, row, view) for rows, row in ((other, 0), (None, -1), (one, 0), (both, 1), (both, 0), (one, 9))]
    cells = rasterise(wanted, 4, levels_of)
    assert cells.item.tolist() == [
        [-1, 0, -1, 1], [-1] * 4, [0, -1, -1, -1], [-1] * 4, [-1, -1, 5, -1], [-1] * 4
    ]  # fmt: skip


def test_the_same_rows_are_drawn_at_the_time_of_each_trace() -> None:
    one = one_row((0, 10))
    view = Viewport(0, 40, 4)
    cells = rasterise([(one, 0, view), (one, 0, view.shifted(-20)), (one, 0, view.shifted(5))], 4, levels_of)
    assert cells.item.tolist() == [[0, -1, -1, -1], [-1, -1, 0, -1], [0, -1, -1, -1]]
    assert cells.busy.tolist() == [[10, 0, 0, 0], [0, 0, 10, 0], [5, 0, 0, 0]]


def test_meeting_slices_name_both() -> None:
    cells = draw_row([(0, 130), (140, 400)], Viewport(0, 400, 4))
    assert (cells.item[0, 1], cells.other[0, 1], cells.leads[0, 1]) == (1, 0, False)
    assert cells.touches[0].tolist() == [True, False, True, True]
