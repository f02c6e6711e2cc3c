from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
import pytest
from builders import bars, make_trace
from hypothesis import given
from hypothesis import strategies as st

from npu_tui.native.rows import slow_pieces as slow_pieces_of
from npu_tui.trace import folded_rows
from npu_tui.trace.classes import OpClass
from npu_tui.trace.folded_rows import flat_rows, folded_row, leaf_row
from npu_tui.trace.model import Trace

Piece = tuple[int, int, int]


def pieces(trace: Trace, lane: int = 0) -> list[Piece]:
    rows = leaf_row(trace, trace.lanes[lane])
    assert rows.offset.tolist() == [0, len(rows.item)]
    assert np.diff(rows.busy).tolist() == (rows.end - rows.start).tolist()
    return list(zip(rows.item.tolist(), rows.start.tolist(), rows.end.tolist(), strict=True))


def slow_pieces(trace: Trace) -> list[Piece]:
    slices = trace.slices
    every = range(len(slices))
    times = sorted({*slices.start.tolist(), *slices.end.tolist()})
    found: list[Piece] = []
    for low, high in zip(times, [*times[1:], times[-1]], strict=True):
        points = [k for k in every if slices.start[k] == slices.end[k] == low]
        found += [(k, low, low) for k in sorted(points, key=lambda k: slices.depth[k])]
        active = [k for k in every if slices.start[k] <= low and high <= slices.end[k] and low < high]
        if active:
            deepest = max(active, key=lambda k: slices.depth[k])
            if found and found[-1][0] == deepest and found[-1][2] == low:
                found[-1] = (deepest, found[-1][1], high)
            else:
                found.append((deepest, low, high))
    return found


def test_the_deepest_slice_hides_what_it_lies_in() -> None:
    trace = make_trace({"a": bars((0, 100), (20, 60), (30, 40))})
    assert pieces(trace) == [(0, 0, 20), (1, 20, 30), (2, 30, 40), (1, 40, 60), (0, 60, 100)]


def test_a_slice_without_duration_keeps_a_piece() -> None:
    trace = make_trace({"a": bars((0, 100), (50, 50))})
    assert pieces(trace) == [(0, 0, 50), (1, 50, 50), (0, 50, 100)]


def test_a_crossing_slice_stays() -> None:
    trace = make_trace({"a": bars((0, 50), (40, 90))})
    assert pieces(trace) == [(0, 0, 40), (1, 40, 90)]


def test_a_profiler_step_gives_way() -> None:
    step = (10, 90, "ProfilerStep#1", OpClass.STEP)
    trace = make_trace({"a": [*bars((0, 50), (60, 80)), step]})
    assert [trace.name_of(item) for item, _, _ in pieces(trace)] == ["op", "ProfilerStep#1", "op", "ProfilerStep#1"]


def test_an_empty_lane_has_an_empty_row() -> None:
    assert pieces(make_trace({"a": []})) == []


def test_lanes_of_any_depth() -> None:
    depth = 130
    trace = make_trace({"a": bars(*((k, 2 * depth - k) for k in range(depth)))})
    found = pieces(trace)
    assert [item for item, _, _ in found] == [*range(depth), *reversed(range(depth - 1))]


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 20)), min_size=1, max_size=25))
def test_as_the_obvious_way(spans: list[tuple[int, int]]) -> None:
    trace = make_trace({"other": bars((0, 1000)), "a": bars(*((start, start + size) for start, size in spans))})
    alone = make_trace({"a": bars(*((start, start + size) for start, size in spans))})
    assert [(item - 1, start, end) for item, start, end in pieces(trace, 1)] == slow_pieces(alone)


def test_a_folded_row_is_made_once_whichever_threads_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = make_trace({"a": bars((0, 100), (20, 60))})
    made, go_on = [], Event()

    def slowly(*given):
        made.append(given)
        assert go_on.wait(20)
        return slow_pieces_of(*given)

    monkeypatch.setattr(folded_rows, "pieces_of", slowly)
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(folded_row, trace, trace.lanes[0]) for _ in range(2)]
        go_on.set()
    assert asked[0].result() is asked[1].result() is trace.folded[trace.lanes[0].first_row]
    assert len(made) == 1


def test_rows_of_several_lanes_show_the_first_that_has_something() -> None:
    trace = make_trace({"a": bars((0, 10), (50, 60), (30, 30)), "b": bars((5, 30), (40, 70)), "c": []})
    flat = flat_rows([leaf_row(trace, lane) for lane in trace.lanes])
    found = list(zip(flat.item.tolist(), flat.start.tolist(), flat.end.tolist(), strict=True))
    assert found == [(0, 0, 10), (3, 10, 30), (1, 30, 30), (4, 40, 50), (2, 50, 60), (4, 60, 70)]
    assert len(flat_rows([]).item) == 0
