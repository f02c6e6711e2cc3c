"""Traces built by hand: a few lines say which slices, links and samples there are."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from npu_tui.load.args import JsonArgs
from npu_tui.native.cells import Levels
from npu_tui.trace.classes import OpClass
from npu_tui.trace.model import (
    Chunks,
    Counters,
    CounterSeries,
    Health,
    Lane,
    Layer,
    LayerKind,
    Links,
    Rows,
    Slices,
    Trace,
    make_rows,
)
from npu_tui.view.scene import LinkClasses, Scene, ScreenRow

Bar = tuple[int, int, str, OpClass]
"""Start, end, name and class of a slice."""


def bars(*times: tuple[int, int], name: str = "op", op_class: OpClass = OpClass.OP) -> list[Bar]:
    return [(start, end, name, op_class) for start, end in times]


def first_fit(slices: Sequence[Bar]) -> list[int]:
    """The lowest free row of each slice, in the order given."""
    ends: list[int] = []
    depths = []
    for start, end, _, _ in slices:
        depth = next((row for row, until in enumerate(ends) if until <= start), len(ends))
        ends[depth : depth + 1] = [end]
        depths.append(depth)
    return depths


def make_trace(
    lanes: dict[str, list[Bar]],
    kind: LayerKind = "hardware",
    links: Sequence[tuple[int, int, int, int, str]] = (),
    samples: dict[str, list[tuple[int, float]]] | None = None,
    end: int | None = None,
    rank: int | None = 0,
) -> Trace:
    """One layer of ``lanes``; links are (source slice, source time, target slice, target time, category)."""
    names: list[str] = []
    columns: dict[str, list[int]] = {key: [] for key in ("start", "end", "lane", "depth", "name", "op_class")}
    made: list[Lane] = []
    row_items: list[list[int]] = []
    for index, (lane_name, unsorted) in enumerate(lanes.items()):
        slices = sorted(unsorted, key=lambda bar: (bar[0], -bar[1]))
        depths = first_fit(slices)
        first, rows = len(columns["start"]), max(depths, default=-1) + 1
        made.append(Lane(index, 0, index, lane_name, rank, first, first + len(slices), len(row_items), rows))
        own: list[list[int]] = [[] for _ in range(rows)]
        for (start, stop, name, op_class), depth in zip(slices, depths, strict=True):
            own[depth].append(len(columns["start"]))
            if name not in names:
                names.append(name)
            values = (start, stop, index, depth, names.index(name), int(op_class))
            for key, value in zip(columns, values, strict=True):
                columns[key].append(value)
        row_items += own
    item = np.array([position for row in row_items for position in row], np.int32)
    offset = np.cumsum([0, *map(len, row_items)]).astype(np.int64)
    starts, ends = np.array(columns["start"], np.int64), np.array(columns["end"], np.int64)
    count = len(starts)
    none32, none64 = np.full(count, -1, np.int32), np.full(count, -1, np.int64)
    columns_of = {key: np.array(columns[key], np.int32) for key in ("lane", "depth", "name")}
    table = Slices(
        starts, ends, columns_of["lane"], columns_of["depth"], columns_of["name"], none32,
        np.array(columns["op_class"], np.int8), none32, none64, none64, none64, none32, none64,
    )  # fmt: skip
    categories = sorted({link[4] for link in links})
    ordered = sorted(links, key=lambda link: link[3])
    counters, series = make_counters(samples or {})
    layers = [Layer(0, 1, "Layer", kind, rank, 0, tuple(lane.index for lane in made), tuple(s.index for s in series))]
    chunks = Chunks(np.zeros(0, np.int32), *(np.zeros(0, np.int64) for _ in range(3)))
    return Trace(
        path="",
        files=(),
        rank=rank,
        start_ns=0,
        end=int(ends.max(initial=0)) if end is None else end,
        names=names,
        categories=[],
        task_types=[],
        stacks=[],
        layers=layers,
        lanes=made,
        slices=table,
        rows=make_rows(offset, item, starts[item], ends[item]),
        links=make_links(ordered, categories, columns_of["lane"]),
        link_categories=categories,
        counters=counters,
        events={},
        chunks=chunks,
        health=Health(),
        args=JsonArgs("", (), chunks, 0),
    )


def make_links(links: Sequence[tuple[int, int, int, int, str]], categories: list[str], lane: np.ndarray) -> Links:
    source, source_time, target, target_time = (np.array([link[k] for link in links], np.int64) for k in range(4))
    count = len(links)
    lanes = [np.where(item >= 0, lane[item] if len(lane) else -1, -1).astype(np.int32) for item in (source, target)]
    none = np.full(count, -1, np.int64)
    return Links(
        np.array([categories.index(link[4]) for link in links], np.int32), np.arange(count, dtype=np.int32),
        source_time, target_time, source.astype(np.int32), target.astype(np.int32), lanes[0], lanes[1], none, none,
    )  # fmt: skip


def make_counters(samples: dict[str, list[tuple[int, float]]]) -> tuple[Counters, list[CounterSeries]]:
    series = [CounterSeries(index, 0, name, "", "") for index, name in enumerate(samples)]
    flat = [sample for values in samples.values() for sample in values]
    offset = np.cumsum([0, *map(len, samples.values())]).astype(np.int64)
    time = np.array([time for time, _ in flat], np.int64)
    return Counters(time, np.array([value for _, value in flat], np.float64), offset, series), series


def one_row(*times: tuple[int, int]) -> Rows:
    """One row of slices that do not overlap, numbered from 0."""
    start, end = (np.array([pair[k] for pair in times], np.int64) for k in (0, 1))
    return make_rows(np.array([0, len(times)], np.int64), np.arange(len(times), dtype=np.int32), start, end)


def levels_of(rows: Rows) -> Levels:
    """The longest-slice queries of ``rows``."""
    return Levels(rows.offset, rows.item, rows.start, rows.end, rows.busy)


def make_scene(trace: Trace, starved: Sequence[int] = (), near: Sequence[int] = ()) -> Scene:
    """The scene of one trace; of its links those of ``starved`` lost 20 µs and those of ``near`` are near-vertical."""
    marks = LinkClasses.plain(len(trace.links))
    marks.shape[:] = 3
    marks.shape[list(near)] = 1
    marks.starved[list(starved)] = True
    marks.lost[list(starved)] = 20_000
    return Scene([trace], [marks])


def all_rows(
    trace: Trace, heads: bool = False, fold: Callable[[Lane], Rows | None] = lambda lane: None
) -> list[ScreenRow]:
    """The outline of a trace with one layer: every row of every lane, or the row that ``fold`` gives for a lane."""
    rows = [ScreenRow("layer", 0, 0, name="Layer", foldable=True)] if heads else []
    for lane in trace.lanes:
        leaf = fold(lane)
        if leaf is not None:
            rows.append(ScreenRow("leaf", 0, 0, lane.index, 0, -1, leaf, 0, lane.name, True, True, True))
            continue
        rows += [
            ScreenRow("slices", 0, 0, lane.index, depth, -1, trace.rows, lane.first_row + depth, lane.name, depth == 0)
            for depth in range(lane.rows)
        ]
    rows += [ScreenRow("counter", 0, 0, series=s.index, name=s.name) for s in trace.counters.series]
    return rows
