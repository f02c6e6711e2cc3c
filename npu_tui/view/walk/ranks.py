"""From one trace to another at the same time, and one trace shifted against the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from npu_tui.trace.model import Trace
from npu_tui.view.rows.outline import series_name
from npu_tui.view.rows.rowlist import RowKey
from npu_tui.view.scene import ScreenRow
from npu_tui.view.walk.explorer import Explorer

Edge = Literal["start", "end"]
Refusal = Literal["one_rank", "no_base", "no_slice", "same_rank"]
"""Why a trace cannot be shifted."""


def move_rank(explorer: Explorer, direction: int) -> bool:
    """Go to the same row of the next (1) or previous (-1) trace at the same time; False where there is none."""
    row, traces = explorer.focused, explorer.scene.traces
    other = explorer.trace + direction
    if row is None or not 0 <= other < len(traces):
        return False
    explorer.leave()
    explorer.list.focus_on(same_row(row, traces[row.trace], traces[other], other))
    explorer.list.reveal()
    explorer.state.selection = None
    explorer.select_under_cursor()
    return True


def same_row(row: ScreenRow, trace: Trace, other: Trace, index: int) -> RowKey:
    """What trace number ``index``, ``other``, has where ``trace`` has ``row``: its layer, lane and depth, or series.

    Layers are told by kind and name; lanes by name, else by their place in the layer, as threads have other numbers in
    every process.
    """
    if row.layer < 0:
        return index, -1, -1, 0, -1, -1
    layer = trace.layers[row.layer]
    same = [each for each in other.layers if (each.kind, each.name) == (layer.kind, layer.name)]
    if not same:
        return index, -1, -1, 0, -1, -1
    home, lane, series = same[0], -1, -1
    if row.lane >= 0:
        own = trace.lanes[row.lane]
        # Steps are no lane of their layer.
        beside = [each for each in other.lanes if each.layer == home.index and each.derived == own.derived]
        place = [each.index for each in trace.lanes if each.layer == own.layer and each.derived == own.derived]
        lane = _same(own.name, place.index(own.index), [each.index for each in beside], lambda i: other.lanes[i].name)
    elif row.series >= 0:
        name = _series_name(trace, row.series)
        place = list(layer.series)
        series = _same(name, place.index(row.series), list(home.series), lambda i: _series_name(other, i))
    return index, home.index, lane, row.depth, series, row.chart


def _series_name(trace: Trace, series: int) -> str:
    found = trace.counters.series[series]
    return series_name(found.name, found.instance)


def _same(name: str, place: int, others: list[int], name_of: Callable[[int], str]) -> int:
    named = [each for each in others if name_of(each) == name]
    return named[0] if named else others[min(place, len(others) - 1)] if others else -1


def mark_base(explorer: Explorer) -> bool:
    """Make the selected slice the one that other traces are aligned with; False where none is selected."""
    if explorer.state.selection is None:
        return False
    explorer.base = explorer.state.selection
    return True


def align(explorer: Explorer, edge: Edge) -> int | Refusal:
    """Shift the trace of the selected slice so that its ``edge`` meets that of the base; returns by how much, ns."""
    selected, scene = explorer.state.selection, explorer.scene
    if len(scene.traces) < 2:
        return "one_rank"
    if explorer.base is None:
        return "no_base"
    if selected is None:
        return "no_slice"
    if selected.trace == explorer.base.trace:
        return "same_rank"
    side = 0 if edge == "start" else 1
    by = scene.times(explorer.base)[side] - scene.times(selected)[side]
    explorer.shift(selected.trace, by)
    explorer.go_to(scene.times(selected)[0])
    return by
