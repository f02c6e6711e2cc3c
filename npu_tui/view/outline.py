"""Which rows the lane area has: layers and lanes, folded or open, as a flat list."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from npu_tui.trace.model import Lane, Layer, Trace
from npu_tui.trace.rows import Rows
from npu_tui.view.scene import Chart, Scene, ScreenRow

DEEP = 8
"""Lanes with more rows than this start folded."""

LeafRows = Callable[[int, int], Rows]
"""Gives the leaf row of (trace, lane)."""


@dataclass(slots=True)
class Folds:
    """Which layers and lanes are folded, as (trace, index)."""

    layers: set[tuple[int, int]] = field(default_factory=set)
    lanes: set[tuple[int, int]] = field(default_factory=set)


def is_plane(trace: Trace, lane: Lane) -> bool:
    """Whether a lane holds the tasks of one plane of the collective group above it."""
    return trace.layers[lane.layer].kind == "communication" and lane.name.startswith("Plane ")


def default_folds(scene: Scene) -> Folds:
    """Deep lanes, the planes of collective groups and the counter layers are folded."""
    folds = Folds()
    for index, trace in enumerate(scene.traces):
        for layer in trace.layers:
            if layer.series and not layer.lanes:
                folds.layers.add((index, layer.index))
        for lane in trace.lanes:
            if lane.rows > DEEP or _planes(trace, lane):
                folds.lanes.add((index, lane.index))
    return folds


def outline(scene: Scene, folds: Folds, leaf_rows: LeafRows, heads: bool = True) -> list[ScreenRow]:
    """All rows from top to bottom: steps, then layers in the profiler's order, counter layers last.

    ``heads`` says whether layers get a row of their own above their lanes; folded layers always do.
    """
    rows: list[ScreenRow] = []
    for index, trace in enumerate(scene.traces):
        for lane in trace.lanes:
            if lane.derived:
                rows += _lane_rows(index, trace, lane, folds, leaf_rows)
        for layer in sorted(trace.layers, key=lambda layer: not layer.lanes):
            own = _layer_rows(index, trace, layer, folds, leaf_rows, heads)
            rows += own
            if own and not own[0].folded:
                rows += _chart_rows(index, scene.charts[index], layer)
    return rows


def _layer_rows(
    index: int, trace: Trace, layer: Layer, folds: Folds, leaf_rows: LeafRows, heads: bool
) -> list[ScreenRow]:
    if not layer.lanes and not layer.series:
        return []
    folded = (index, layer.index) in folds.layers
    if layer.series and not layer.lanes and (folded or len(layer.series) == 1):
        first = layer.series[0]
        many = len(layer.series) > 1
        return [ScreenRow("counter", index, layer.index, series=first, name=layer.name, foldable=many, folded=many)]
    rows = []
    if heads or folded or not layer.lanes:
        rows.append(ScreenRow("layer", index, layer.index, name=layer.name, foldable=True, folded=folded))
    if folded:
        return rows
    for lane in layer.lanes:
        if not _hidden_plane(index, trace, trace.lanes[lane], folds):
            rows += _lane_rows(index, trace, trace.lanes[lane], folds, leaf_rows)
    for series in layer.series:
        item = trace.counters.series[series]
        rows.append(ScreenRow("counter", index, layer.index, series=series, name=series_name(item.name, item.instance)))
    return rows


def _chart_rows(index: int, charts: list[Chart], layer: Layer) -> list[ScreenRow]:
    return [
        ScreenRow("chart", index, layer.index, name=chart.name, chart=number)
        for number, chart in enumerate(charts)
        if chart.layer == layer.index
    ]


def series_name(name: str, instance: str) -> str:
    """The name of a counter curve, with its instance where several share the name."""
    return f"{name} {instance}" if instance else name


def _lane_rows(index: int, trace: Trace, lane: Lane, folds: Folds, leaf_rows: LeafRows) -> list[ScreenRow]:
    folded = (index, lane.index) in folds.lanes
    foldable = lane.rows > 1 or bool(_planes(trace, lane))
    if folded and lane.rows > 1:
        rows = leaf_rows(index, lane.index)
        return [ScreenRow("leaf", index, lane.layer, lane.index, 0, -1, rows, 0, lane.name, True, True, True)]
    return [
        ScreenRow(
            kind="slices",
            trace=index,
            layer=lane.layer,
            lane=lane.index,
            depth=depth,
            rows=trace.rows,
            row=lane.first_row + depth,
            name=lane.name,
            opener=depth == 0,
            foldable=foldable,
            folded=folded,
        )
        for depth in range(lane.rows)
    ]


def _planes(trace: Trace, lane: Lane) -> list[int]:
    """The plane lanes that belong to a group lane: those that follow it up to the next group."""
    layer = trace.layers[lane.layer]
    if layer.kind != "communication" or is_plane(trace, lane) or lane.index not in layer.lanes:
        return []
    planes = []
    for other in layer.lanes[layer.lanes.index(lane.index) + 1 :]:
        if not is_plane(trace, trace.lanes[other]):
            break
        planes.append(other)
    return planes


def _hidden_plane(index: int, trace: Trace, lane: Lane, folds: Folds) -> bool:
    if not is_plane(trace, lane):
        return False
    layer = trace.layers[lane.layer]
    before = [
        other for other in layer.lanes[: layer.lanes.index(lane.index)] if not is_plane(trace, trace.lanes[other])
    ]
    return bool(before) and (index, before[-1]) in folds.lanes
