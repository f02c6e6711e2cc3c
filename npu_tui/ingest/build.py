"""Columns to a Trace: order, rows, links and counters."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu_tui.ingest.columns import Columns
from npu_tui.ingest.events import NO_PROCESS
from npu_tui.ingest.layers import ProcessPlan, plan_layers, thread_label
from npu_tui.ingest.pairing import pair_ends
from npu_tui.ingest.times import INVALID
from npu_tui.trace.binding import LaneIndex
from npu_tui.trace.classes import classify, step_number
from npu_tui.trace.depth import first_fit, sort_slices
from npu_tui.trace.model import HOST_TO_DEVICE, Counters, EventFile, Health, Lane, Layer, Links, Series, Slices, Trace
from npu_tui.trace.rows import Rows, make_rows
from npu_tui.trace.text import brief

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

STEPS_LANE = "Steps"


def build_trace(columns: Columns, path: str, files: tuple[EventFile, ...], rank: int | None, health: Health) -> Trace:
    """The trace of ``columns``; what cannot be placed is counted in ``health``."""
    columns.close()
    start, duration, usable = columns.slice_times()
    kept = np.flatnonzero(usable)
    start_ns = int(start[kept].min()) if len(kept) else _first_sample(columns)
    start = start[kept] - start_ns
    end = start + duration[kept]
    thread = np.array(columns.x_thread, np.int32)[kept]
    threads = columns.threads.values_in_order
    plans = plan_layers(
        columns.metadata,
        _categories_by_thread(columns, thread, np.array(columns.x_category, np.int32)[kept]),
        {pid for pid, _, _, _ in columns.series},
        {threads[code][0] for code in set(columns.l_thread)},
    )
    lane_of = _lane_codes(plans, columns.threads)
    lane = lane_of[thread] if len(thread) else np.zeros(0, np.int32)
    order = sort_slices(lane, start, end)
    kept = kept[order]
    slices = _slices(columns, plans, kept, lane[order], start[order], end[order])
    rows, lanes = _rows_and_lanes(columns, plans, slices, rank)
    counters = _counters(columns, plans, start_ns, health)
    layers = _layers(plans, lanes, counters, rank)
    links = _links(columns, lane_of, layers, lanes, slices, start_ns, health)
    for reason, count in columns.skipped.items():
        health.skip(reason, count)
    health.warnings += _oddities(columns, plans, lanes)
    return Trace(
        path=path,
        files=files,
        rank=rank,
        start_ns=start_ns,
        end=int(slices.end.max()) if len(slices) else 0,
        names=columns.names.values_in_order,
        categories=columns.categories.values_in_order,
        task_types=columns.task_types.values_in_order,
        stacks=columns.stacks.values_in_order,
        layers=layers,
        lanes=lanes,
        slices=slices,
        rows=rows,
        links=links,
        link_categories=columns.l_categories.values_in_order,
        counters=counters,
        events=dict(columns.phases),
        chunks=columns.chunks,
        health=health,
    )


def _oddities(columns: Columns, plans: list[ProcessPlan], lanes: list[Lane]) -> list[str]:
    """Sentences on processes with several names or with none to tell them by."""
    named = columns.metadata.process_name
    found = [
        f"process {pid} is named {brief(named[pid])} and {brief(other)}: both are shown under the first name"
        for pid, other in columns.metadata.other_names.items()
    ]
    astray = sum(lane.last - lane.first for lane in lanes if plans[lane.layer].pid == NO_PROCESS)
    return found + ([f"{astray:,} slices name no process: they are shown on a layer of their own"] if astray else [])


def _categories_by_thread(columns: Columns, thread: I32, category: I32) -> dict[tuple[int, int], set[str]]:
    """The (pid, tid) of every thread with slices, and the categories of these."""
    threads, categories = columns.threads.values_in_order, columns.categories.values_in_order
    found: dict[tuple[int, int], set[str]] = {}
    for code in np.unique(thread.astype(np.int64) * len(categories) + category).tolist():
        found.setdefault(threads[code // len(categories)], set()).add(categories[code % len(categories)])
    return found


def _first_sample(columns: Columns) -> int:
    times = columns.c_time.array()
    times = times[times != INVALID]
    return int(times.min()) if len(times) else 0


def _lane_codes(plans: list[ProcessPlan], threads: dict[tuple[int, int], int]) -> I32:
    """Lane index by thread code, -1 for threads without slices; (threads,) int32."""
    lane_of = np.full(len(threads), -1, np.int32)
    lane = 0
    for plan in plans:
        for tid in plan.threads:
            lane_of[threads[plan.pid, tid]] = lane
            lane += 1
    return lane_of


def _slices(columns: Columns, plans: list[ProcessPlan], kept: I64, lane: I32, start: I64, end: I64) -> Slices:
    name = np.array(columns.x_name, np.int32)[kept]
    category = np.array(columns.x_category, np.int32)[kept]
    return Slices(
        start=start,
        end=end,
        lane=lane,
        depth=first_fit(lane, start, end),
        name=name,
        category=category,
        op_class=_classes(columns, plans, lane, category, name),
        task_type=np.array(columns.x_task_type, np.int32)[kept],
        stream=np.array(columns.x_stream, np.int64)[kept],
        connection=np.array(columns.x_connection, np.int64)[kept],
        correlation=np.array(columns.x_correlation, np.int64)[kept],
        stack=np.array(columns.x_stack, np.int32)[kept],
        event=np.array(columns.x_event, np.int64)[kept],
    )


def _classes(columns: Columns, plans: list[ProcessPlan], lane: I32, category: I32, name: I32) -> npt.NDArray[np.int8]:
    """The class of every slice, decided once per (layer, category, name)."""
    layer_of_lane = np.array([i for i, plan in enumerate(plans) for _ in plan.threads], np.int64)
    if not len(lane):
        return np.zeros(0, np.int8)
    names, categories = columns.names.values_in_order, columns.categories.values_in_order
    key = (layer_of_lane[lane] * len(categories) + category) * len(names) + name
    distinct, inverse = np.unique(key, return_inverse=True)
    table = np.empty(len(distinct), np.int8)
    for i, code in enumerate(distinct.tolist()):
        rest, name_code = divmod(code, len(names))
        layer, category_code = divmod(rest, len(categories))
        table[i] = classify(plans[layer].kind, categories[category_code], names[name_code])
    return table[inverse]


def _rows_and_lanes(
    columns: Columns, plans: list[ProcessPlan], slices: Slices, rank: int | None
) -> tuple[Rows, list[Lane]]:
    """One row per (lane, depth) in lane order, the rows of the derived Steps lane last."""
    lane_count = sum(len(plan.threads) for plan in plans)
    bounds = np.searchsorted(slices.lane, np.arange(lane_count + 1))
    height = np.zeros(lane_count, np.int64)
    np.maximum.at(height, slices.lane, slices.depth + 1)
    first_row = np.concatenate(([0], np.cumsum(height)))
    lanes: list[Lane] = []
    for i, plan in enumerate(plans):
        for tid in plan.threads:
            at = len(lanes)
            label = thread_label(columns.metadata, plan.pid, tid)
            first, last = int(bounds[at]), int(bounds[at + 1])
            lanes.append(Lane(at, i, tid, label, rank, first, last, int(first_row[at]), int(height[at])))
    row = first_row[slices.lane] + slices.depth
    item = np.argsort(row, kind="stable")
    offset = np.searchsorted(row[item], np.arange(int(first_row[-1]) + 1))
    steps, depths = _steps(columns, plans, slices)
    if len(steps):
        kind = next(i for i, plan in enumerate(plans) if plan.kind == "python")
        rows_used = int(depths.max()) + 1
        by_row = np.argsort(depths, kind="stable")
        item = np.concatenate((item, steps[by_row]))
        counts = np.bincount(depths, minlength=rows_used)
        offset = np.concatenate((offset, offset[-1] + np.cumsum(counts)))
        lanes.append(Lane(lane_count, kind, -1, STEPS_LANE, rank, 0, 0, int(first_row[-1]), rows_used, derived=True))
    return make_rows(offset.astype(np.int64), item.astype(np.int32), slices.start[item], slices.end[item]), lanes


def _steps(columns: Columns, plans: list[ProcessPlan], slices: Slices) -> tuple[I64, I32]:
    """The ``ProfilerStep#N`` slices of the Python layers by start, and their rows in the derived lane."""
    python = [i for i, plan in enumerate(plans) if plan.kind == "python"]
    codes = [code for name, code in columns.names.items() if step_number(name) is not None]
    layer_of_lane = np.array([i for i, plan in enumerate(plans) for _ in plan.threads], np.int64)
    found = np.flatnonzero(np.isin(slices.name, codes)) if codes and python else np.zeros(0, np.int64)
    found = found[np.isin(layer_of_lane[slices.lane[found]], python)]
    found = found[np.lexsort((-slices.end[found], slices.start[found]))]
    return found, first_fit(np.zeros(len(found), np.int32), slices.start[found], slices.end[found])


def _layers(plans: list[ProcessPlan], lanes: list[Lane], counters: Counters, rank: int | None) -> list[Layer]:
    return [
        Layer(
            index=i,
            pid=plan.pid,
            name=plan.name,
            kind=plan.kind,
            rank=rank,
            device=plan.device,
            lanes=tuple(lane.index for lane in lanes if lane.layer == i and not lane.derived),
            series=tuple(series.index for series in counters.series if series.layer == i),
        )
        for i, plan in enumerate(plans)
    ]


def _counters(columns: Columns, plans: list[ProcessPlan], start_ns: int, health: Health) -> Counters:
    layer_of = {plan.pid: i for i, plan in enumerate(plans)}
    declared = list(columns.series)
    rank = sorted(range(len(declared)), key=lambda code: (layer_of[declared[code][0]], code))
    series = [
        Series(i, layer_of[pid], name, key, instance)
        for i, (pid, name, key, instance) in enumerate(declared[code] for code in rank)
    ]
    new_code = np.empty(len(declared), np.int64)
    new_code[rank] = np.arange(len(declared))
    time = columns.c_time.array()
    timed = time != INVALID
    health.skip("counter sample without a usable time", int(np.count_nonzero(~timed)))
    code = new_code[np.array(columns.c_series, np.int64)[timed]] if len(declared) else np.zeros(0, np.int64)
    time = time[timed] - start_ns
    value = np.array(columns.c_value, np.float64)[timed]
    order = np.lexsort((time, code))
    offset = np.searchsorted(code[order], np.arange(len(series) + 1)).astype(np.int64)
    return Counters(time[order], value[order], offset, series)


def _links(
    columns: Columns,
    lane_of: I32,
    layers: list[Layer],
    lanes: list[Lane],
    slices: Slices,
    start_ns: int,
    health: Health,
) -> Links:
    """Pairs of link ends, bound to slices, by target time."""
    time = columns.l_time.array()
    timed = np.flatnonzero(time != INVALID)
    health.skip("link end without a usable time", len(time) - len(timed))
    key = np.array(columns.l_key, np.int32)[timed]
    category = np.array(columns.l_category, np.int32)[timed]
    pairs = pair_ends(key, np.array(columns.l_phase, np.int8)[timed])
    health.skip("link source without target", pairs.lone_sources)
    health.skip("link target without source", pairs.lone_targets)
    time = time[timed] - start_ns
    thread = np.array(columns.l_thread, np.int32)[timed]
    event = np.array(columns.l_event, np.int64)[timed]
    order = np.argsort(time[pairs.target], kind="stable")
    source, target = pairs.source[order], pairs.target[order]
    lane = lane_of[thread] if len(thread) else np.zeros(0, np.int32)
    index = LaneIndex(
        np.array([item.first for item in lanes] or [0], np.int64),
        np.array([item.last for item in lanes] or [0], np.int64),
        slices.start,
        slices.end,
    )
    target_slice = _bind(index, lane[target], time[target], np.full(len(target), -1, np.int64), slices)
    wanted = np.full(len(target), -1, np.int64)
    wanted[target_slice >= 0] = slices.connection[target_slice[target_slice >= 0]]
    source_slice = _bind(index, lane[source], time[source], wanted, slices)
    source_lane = lane[source].copy()
    to_device = columns.l_categories.get(HOST_TO_DEVICE, -1)
    astray = np.flatnonzero((source_slice < 0) & (category[source] == to_device))
    if len(astray):
        python = _python_lane_of_thread(columns, lane_of, layers)
        fallback = python[thread[source[astray]]]
        source_slice[astray] = index.innermost(fallback, time[source[astray]])
        source_lane[astray] = np.where(source_slice[astray] >= 0, fallback, source_lane[astray])
    return Links(
        category=category[source],
        key=key[source],
        source_time=time[source],
        target_time=time[target],
        source_slice=source_slice.astype(np.int32),
        target_slice=target_slice.astype(np.int32),
        source_lane=source_lane,
        target_lane=lane[target],
        source_event=event[source],
        target_event=event[target],
    )


def _bind(index: LaneIndex, lane: I32, time: I64, connection: I64, slices: Slices) -> I64:
    found = index.exact(lane, time, connection, slices.connection)
    missing = np.flatnonzero(found < 0)
    found[missing] = index.innermost(lane[missing], time[missing])
    return found


def _python_lane_of_thread(columns: Columns, lane_of: I32, layers: list[Layer]) -> I32:
    """For every thread code the lane of the same tid on a Python layer, -1 without one."""
    python = {layer.pid for layer in layers if layer.kind == "python"}
    by_tid = {tid: int(lane_of[code]) for (pid, tid), code in columns.threads.items() if pid in python}
    return np.array([by_tid.get(tid, -1) for _, tid in columns.threads], np.int32)
