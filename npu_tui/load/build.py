"""Columns to a ``Trace``: slices sorted and placed in rows, links bound to them, counters in order.

For a large trace independent parts run side by side: sorting counters, pairing link ends, gathering columns, packing
slices into rows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from npu_tui.load.args import JsonArgs
from npu_tui.load.json_events import NO_PROCESS, NO_THREAD, place_number
from npu_tui.load.json_reader import WholeColumns
from npu_tui.load.kineto import renamed
from npu_tui.load.layers import (
    ProcessPlan,
    again,
    bound_links,
    distinct_links,
    doubled_slices,
    paired_ends,
    plan_layers,
    thread_label,
    twin_processes,
)
from npu_tui.load.times import INVALID
from npu_tui.native.library import library
from npu_tui.native.rows import first_fit
from npu_tui.trace.arrays import I8, I32, I64, sort_slices
from npu_tui.trace.classes import CLASS_OF_CATEGORY, STEP_TRACE, classify, engine_name, repeated_number, step_number
from npu_tui.trace.intervals import outermost
from npu_tui.trace.message import message
from npu_tui.trace.model import (
    Chunks,
    Counters,
    CounterSeries,
    EventFile,
    Health,
    Lane,
    Layer,
    Rows,
    Slices,
    Trace,
    make_rows,
)
from npu_tui.trace.text import brief

T = TypeVar("T")

STEPS_LANE = "Steps"

_SHOWN = frozenset("XCstfMBEbe")
_INSTANTS = frozenset("iInRP")

_DATED_NS = 10**17  # times after this moment of 1973 are of a calendar: among them 0 is no time

# Fewer events than this are put in order before another thread would have begun with the counters.
_SIDE_BY_SIDE = 1 << 16

_BLOCK = 1 << 16  # slices at a time whose keys stay in the processor's cache

# Columns of slices that nothing here looks at.
_IDS: tuple[tuple[str, type[np.signedinteger[Any]]], ...] = (
    ("task_type", np.int32),
    ("stream", np.int64),
    ("correlation", np.int64),
    ("stack", np.int32),
    ("event", np.int64),
)

_TABLE = 1 << 24  # codes below this are counted in a table, others sorted


def begun(compute: Callable[[], T], worth: bool) -> Callable[[], T]:
    """``compute`` in a thread that starts at once, or if it is not ``worth`` one, when the result is asked for.

    What is given back returns the result, or raises what ``compute`` raised.
    """
    if not worth:
        return cache(compute)
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(compute())
        except BaseException as error:  # it is raised where the result is asked for
            errors.append(error)

    def result() -> T:
        thread.join()
        if errors:
            raise errors[0]
        return results[0]

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return result


def build_trace(
    whole: WholeColumns,
    path: str,
    files: tuple[EventFile, ...],
    rank: int | None,
    health: Health,
    link: Callable[[], None] | None = None,
) -> Trace:
    """The trace of what was ``whole``, which is used up; what cannot be placed is counted in ``health``.

    ``link`` takes links into ``whole`` that are not there yet, between threads that have slices.
    """
    whole.close()
    renamed(whole.categories, whole.link_categories)
    large = whole.count >= _SIDE_BY_SIDE
    threads = whole.threads.values_in_order
    ends = _distinct(whole.peek("l_thread", np.int32), len(threads)).tolist() if link is None else []
    link_pids = {threads[code][0] for code in ends}
    pairing = begun(lambda: paired_ends(whole, link), large or link is not None)
    start, end, usable = _slice_times(whole)
    thread, category = whole.column("x_thread", np.int32), whole.column("x_category", np.int32)
    kept = None if usable.all() else np.flatnonzero(usable)
    if kept is not None:
        start, end, thread, category = start[kept], end[kept], thread[kept], category[kept]
    first = start
    if not len(start):
        first = whole.peek("c_time", np.int64)
        first = first[first != INVALID]
    start_ns = int(first.min()) if len(first) else 0
    start -= start_ns
    end -= start_ns
    counter_pids = {pid for pid, _, _, _ in whole.series}
    categories_of, further = _categories_by_thread(whole, thread, category)
    if further:
        health.warnings.append(message("odd.lanes", count=len(further), most=_MOST_LANES))
        categories_of[_FURTHER] = set()
    plans = plan_layers(whole.metadata, categories_of, counter_pids, link_pids)
    counting = begun(lambda: sorted_counters(whole, plans, start_ns), large)
    twins = twin_processes(plans, whole.threads.values_in_order, thread, start, end)
    twins = {pid: first for pid, first in twins.items() if pid not in counter_pids}
    plans = [plan for plan in plans if plan.pid not in twins]
    lane_of = _lane_codes(plans, whole.threads, further, twins)
    lane = lane_of[thread] if len(thread) else np.zeros(0, np.int32)
    order = sort_slices(lane, start, end)
    kept = order if kept is None else kept[order]
    lane, start, end = np.take(lane, order), np.take(start, order), np.take(end, order)
    category = np.take(category, order)
    streams = np.array([plan.kind in ("hardware", "overlap") for plan in plans for _ in plan.threads], np.bool_)
    doubled, alike = doubled_slices(lane, start, end, streams, lambda: whole.peek("x_name", np.int32)[kept])
    if alike:
        health.warnings.append(message("odd.alike", count=alike, all=len(doubled)))
    if doubled.any():
        single = ~doubled
        health.warnings.append(message("odd.doubled", count=int(np.count_nonzero(doubled)), all=len(single)))
        kept, lane, start, end, category = kept[single], lane[single], start[single], end[single], category[single]
    gathering = begun(lambda: {name: whole.in_order(f"x_{name}", dtype, kept) for name, dtype in _IDS}, large)
    # Without the library a thread would only take turns with this one.
    packing = begun(lambda: first_fit(lane, start, end), large and library() is not None)
    slices = _slices(whole, plans, kept, lane, start, end, category)
    bounds = np.searchsorted(lane, np.arange(max(sum(len(plan.threads) for plan in plans), 1) + 1))
    placing = begun(lambda: _rows_and_lanes(whole, plans, slices, packing, bounds, rank), large)
    python = {plan.pid for plan in plans if plan.kind == "python"}
    tasks = np.array([plan.kind in ("hardware", "communication") for plan in plans for _ in plan.threads], np.bool_)
    links = bound_links(whole, pairing(), lane_of, python, bounds, slices, start_ns, tasks, health)
    if twins:
        links = distinct_links(links)
    rows, lanes = placing()
    for name, column in gathering().items():
        setattr(slices, name, column)
    counters, untimed, twice = counting()
    health.skip(message("skip.sample_time"), untimed)
    if twice:
        health.warnings.append(message("odd.doubled_samples", count=twice))
    _note_health(whole, plans, lanes, slices, health)
    if (cropped := whole.metadata.cropped) is not None:
        health.cropped = low, high = cropped[0] - start_ns, cropped[1] - start_ns
        health.warnings.append(message("odd.cropped", start=low, end=high))
    chunks = Chunks(
        file=whole.column("chunk_file", np.int32),
        offset=whole.column("chunk_offset", np.int64),
        length=whole.column("chunk_length", np.int64),
        first_event=whole.column("chunk_first", np.int64),
    )
    return Trace(
        path=path,
        files=files,
        rank=rank,
        start_ns=start_ns,
        end=int(slices.end.max()) if len(slices) else 0,
        names=whole.names.values_in_order,
        categories=whole.categories.values_in_order,
        task_types=whole.task_types.values_in_order,
        stacks=whole.stacks.values_in_order,
        layers=_layers_of_lanes(plans, lanes, counters, rank),
        lanes=lanes,
        slices=slices,
        rows=rows,
        links=links,
        link_categories=whole.link_categories.values_in_order,
        counters=counters,
        events=dict(whole.phases),
        chunks=chunks,
        health=health,
        args=JsonArgs(path, files, chunks, whole.phases.total()),
    )


def _slice_times(whole: WholeColumns) -> tuple[I64, I64, npt.NDArray[np.bool_]]:
    """Absolute start and end of every slice, ns, and which of them are usable; (n,) each.

    Slices without a time or with a negative or endless duration are counted as skipped.
    """
    start, duration = whole.column("x_time", np.int64), whole.column("x_duration", np.int64)
    timed, lasting = start != INVALID, duration >= 0
    if len(start) and float(np.median(start)) > _DATED_NS:
        timed &= start != 0  # Kineto of 2021 writes 0 for kernels whose time it has lost
    whole.skipped["skip.slice_time"] += int(np.count_nonzero(~timed))
    whole.skipped["skip.slice_duration"] += int(np.count_nonzero(timed & ~lasting))
    duration += start
    return start, duration, timed & lasting


def _distinct(codes: npt.NDArray[Any], size: int) -> I64:
    """The values among ``codes``, ascending; all lie in ``[0, size)``."""
    if size > _TABLE:
        return np.unique(codes).astype(np.int64)
    seen = np.zeros(size, np.bool_)
    seen[codes] = True
    return np.flatnonzero(seen)


def _categories_by_thread(
    whole: WholeColumns, thread: I32, category: I32
) -> tuple[dict[tuple[int, int], set[str]], list[tuple[int, int]]]:
    """The (pid, tid) of threads with slices and the categories of these, and the threads beyond the most lanes."""
    threads, categories = whole.threads.values_in_order, whole.categories.values_in_order
    categories_of: dict[tuple[int, int], set[str]] = {}
    codes = _distinct(thread, len(threads))
    shown, further = codes[:_MOST_LANES], codes[_MOST_LANES:]
    key = thread.astype(np.int64) * len(categories) + category
    if len(further):
        key = key[thread < further[0]]
    for code in _distinct(key, (int(shown.max(initial=-1)) + 1) * len(categories)).tolist():
        categories_of.setdefault(threads[code // len(categories)], set()).add(categories[code % len(categories)])
    return categories_of, [threads[code] for code in further.tolist()]


def _lane_codes(
    plans: list[ProcessPlan], threads: dict[tuple[int, int], int], further: list[tuple[int, int]], twins: dict[int, int]
) -> I32:
    """Lane index by thread code, -1 without slices; (threads,) int32.

    All ``further`` ones share a lane, ``twins`` have those of the process that they equal.
    """
    lane_of = np.full(len(threads), -1, np.int32)
    for at, place in enumerate((plan.pid, tid) for plan in plans for tid in plan.threads):
        if place == _FURTHER and further:
            lane_of[[threads[one] for one in further]] = at
        else:
            lane_of[threads[place]] = at
    for (pid, tid), code in threads.items() if twins else ():
        if pid in twins and (twins[pid], tid) in threads:
            lane_of[code] = lane_of[threads[twins[pid], tid]]
    return lane_of


def _slices(
    whole: WholeColumns, plans: list[ProcessPlan], kept: I64, lane: I32, start: I64, end: I64, category: I32
) -> Slices:
    """The columns in the order of ``kept``; depth and ``_IDS`` are filled in later."""
    name = whole.in_order("x_name", np.int32, kept)
    later: Any = np.zeros(0, np.int32)
    return Slices(
        start=start,
        end=end,
        lane=lane,
        depth=later,
        name=name,
        category=category,
        op_class=_slice_classes(whole, plans, lane, category, name),
        task_type=later,
        stream=later,
        connection=whole.in_order("x_connection", np.int64, kept),
        correlation=later,
        stack=later,
        event=later,
    )


def _slice_classes(whole: WholeColumns, plans: list[ProcessPlan], lane: I32, category: I32, name: I32) -> I8:
    """The class of every slice, decided once per (layer, category, name)."""
    if not len(lane):
        return np.zeros(0, np.int8)
    names, categories = whole.names.values_in_order, whole.categories.values_in_order
    size = len(plans) * len(categories) * len(names)
    layer_of_lane = np.array([i for i, plan in enumerate(plans) for _ in plan.threads], np.int64)
    begin = layer_of_lane * (len(categories) * len(names))

    def keys(part: slice) -> I64:
        return np.take(begin, lane[part]) + category[part].astype(np.int64) * len(names) + name[part]

    # Keys in a table take linear time, in blocks, so that they are never there for all slices at once. Too many for a
    # table are sorted.
    blocks = [slice(at, at + _BLOCK) for at in range(0, len(lane), _BLOCK)]
    every = keys(slice(None)) if size > _TABLE else None
    if every is not None:
        distinct = np.unique(every)
    else:
        seen = np.zeros(size, np.bool_)
        for block in blocks:
            seen[keys(block)] = True
        distinct = np.flatnonzero(seen)
    decided = np.array([CLASS_OF_CATEGORY.get(category, -1) for category in categories], np.int8)
    # The category decides for most events of the host; only names of the others are looked at.
    host = np.array([plan.kind in ("python", "other") for plan in plans], np.bool_)
    layers, codes = np.divmod(distinct // len(names), len(categories))
    classes = np.where(host[layers], decided[codes], -1).astype(np.int8)
    for i in np.flatnonzero(classes < 0).tolist():
        kind, name_code = plans[int(layers[i])].kind, int(distinct[i]) % len(names)
        classes[i] = classify(kind, categories[int(codes[i])], names[name_code])
    if every is not None:
        return np.take(classes, np.searchsorted(distinct, every))
    table = np.empty(size, np.int8)
    table[distinct] = classes
    op_class = np.empty(len(lane), np.int8)
    for block in blocks:
        op_class[block] = np.take(table, keys(block))
    return op_class


def _rows_and_lanes(
    whole: WholeColumns,
    plans: list[ProcessPlan],
    slices: Slices,
    packing: Callable[[], I32],
    bounds: I64,
    rank: int | None,
) -> tuple[Rows, list[Lane]]:
    """One row per (lane, depth) in lane order, those of the derived Steps lane last; ``packing`` gives the depths."""
    slices.depth = packing()
    height = np.maximum.reduceat(slices.depth, bounds[:-1]).astype(np.int64) + 1 if len(slices) else bounds[:-1]
    first_row = np.concatenate(([0], np.cumsum(height)))
    lanes: list[Lane] = []
    for i, plan in enumerate(plans):
        for tid in plan.threads:
            at = len(lanes)
            label = thread_label(whole.metadata, plan.pid, tid)
            first, last = int(bounds[at]), int(bounds[at + 1])
            lanes.append(Lane(at, i, tid, label, rank, first, last, int(first_row[at]), int(height[at])))
    # With rows in 16 bits NumPy sorts by radix, in linear time.
    few = first_row[-1] <= 1 << 16
    row = np.take(first_row.astype(np.int32), slices.lane) + slices.depth
    item = np.argsort(row.astype(np.uint16) if few else row, kind="stable").astype(np.int32)
    offset = np.concatenate(([0], np.cumsum(np.bincount(row, minlength=int(first_row[-1])))))
    steps, depths = _step_slices(whole, plans, lanes, slices)
    if len(steps):
        layer = lanes[int(slices.lane[steps[0]])].layer
        counts = np.bincount(depths)
        item = np.concatenate((item, steps[np.argsort(depths, kind="stable")]))
        offset = np.concatenate((offset, offset[-1] + np.cumsum(counts)))
        first, rows_used = int(first_row[-1]), len(counts)
        lanes.append(Lane(len(lanes), layer, -1, STEPS_LANE, rank, 0, 0, first, rows_used, derived=True))
    item = item.astype(np.int32, copy=False)
    return make_rows(offset.astype(np.int64), item, slices.start[item], slices.end[item]), lanes


_MOST_LANES = 10_000  # each takes 6 kB and a tenth of a ms; the processes of a profile have some hundred threads
# The process and thread of the lane that those share for which there is none.
_FURTHER = (place_number("further threads"), place_number("further threads"))
_FEWEST_STEPS = 2  # a single slice called ``step 1`` says nothing of what repeats


def _step_slices(whole: WholeColumns, plans: list[ProcessPlan], lanes: list[Lane], slices: Slices) -> tuple[I64, I32]:
    """The slices that are steps by start, and their rows in the derived lane.

    They are the first of these that there are: steps of an inference engine, ``ProfilerStep#N`` on Python layers, on
    others of the host or on those of a device (ranges of mstx), the iterations of a static graph, ranges of the host
    such as ``train_step 3``, of those two the outermost. In a training run the calls of an engine are parts of its
    steps.
    """
    kinds = np.array([plans[lane.layer].kind for lane in lanes], np.str_)
    graph = np.array([lane.name.startswith(STEP_TRACE) for lane in lanes], np.bool_)
    host = np.isin(kinds, ("python", "cann", "other"))
    served = _slices_named(slices, whole.names, engine_name)
    # An autograd engine runs in training only: there calls of an engine, such as a rollout, are parts of a step.
    if len(served) and not any(name.startswith("autograd::engine") for name in whole.names):
        on_host = served[host[slices.lane[served]]]
        served = on_host if len(on_host) else served
        served = outermost(slices.start, slices.end, served)
        return served, np.zeros(len(served), np.int32)
    marked = _slices_named(slices, whole.names, step_number)
    steps = marked[:0]
    for places in (kinds == "python", host, ~host):
        steps = steps if len(steps) or not len(marked) else marked[places[slices.lane[marked]]]
    if not len(steps):
        repeated = _slices_named(slices, whole.names, repeated_number)
        for places in (graph, host):
            here = repeated[places[slices.lane[repeated]]] if len(repeated) and not len(steps) else steps
            if len(np.unique(slices.name[here])) >= _FEWEST_STEPS:
                steps = outermost(slices.start, slices.end, here)
    steps = steps[np.lexsort((-slices.end[steps], slices.start[steps]))]
    return steps, first_fit(np.zeros(len(steps), np.int32), slices.start[steps], slices.end[steps])


def _slices_named(slices: Slices, names: dict[str, int], number: Callable[[str], object]) -> I64:
    """The slices to whose name ``number`` gives anything."""
    codes = [code for name, code in names.items() if number(name) is not None]
    return np.flatnonzero(np.isin(slices.name, codes)) if codes else np.zeros(0, np.int64)


def sorted_counters(whole: WholeColumns, plans: list[ProcessPlan], start_ns: int) -> tuple[Counters, int, int]:
    """The samples of ``whole`` by series and time, in ns after ``start_ns``.

    With them how many have no time, and how many equal another one in series, time and value and are left out.
    """
    layer_of = {plan.pid: i for i, plan in enumerate(plans)}
    declared = list(whole.series)
    rank = sorted(range(len(declared)), key=lambda code: (layer_of[declared[code][0]], code))
    series = [
        CounterSeries(i, layer_of[pid], name, key, instance)
        for i, (pid, name, key, instance) in enumerate(declared[code] for code in rank)
    ]
    new_code = np.empty(len(declared), np.int32)
    new_code[rank] = np.arange(len(declared))
    time, value = whole.column("c_time", np.int64), whole.column("c_value", np.float64)
    code = whole.column("c_series", np.int32)
    timed = time != INVALID
    if not timed.all():
        time, value, code = time[timed], value[timed], code[timed]
    time -= start_ns
    code = np.take(new_code, code)
    order = sort_slices(code, time, time)
    time, value, code = np.take(time, order), np.take(value, order), np.take(code, order)
    # Writers that merge files repeat samples, and a curve needs each once.
    same = np.append(False, (code[1:] == code[:-1]) & (time[1:] == time[:-1]))[: len(time)]
    single = ~again(same, value)
    untimed, twice = len(timed) - len(time), len(single) - int(np.count_nonzero(single))
    if twice:
        time, value, code = time[single], value[single], code[single]
    offset = np.append(0, np.cumsum(np.bincount(code, minlength=len(series)))).astype(np.int64)
    return Counters(time, value, offset, series), untimed, twice


def _layers_of_lanes(plans: list[ProcessPlan], lanes: list[Lane], counters: Counters, rank: int | None) -> list[Layer]:
    lanes_of: list[list[int]] = [[] for _ in plans]
    for lane in lanes:
        if not lane.derived:
            lanes_of[lane.layer].append(lane.index)
    series_of: list[list[int]] = [[] for _ in plans]
    for series in counters.series:
        series_of[series.layer].append(series.index)
    return [
        Layer(
            index=i,
            pid=plan.pid,
            name=plan.name,
            kind=plan.kind,
            rank=rank,
            device=plan.device,
            lanes=tuple(lanes_of[i]),
            series=tuple(series_of[i]),
        )
        for i, plan in enumerate(plans)
    ]


def _note_health(
    whole: WholeColumns, plans: list[ProcessPlan], lanes: list[Lane], slices: Slices, health: Health
) -> None:
    """Note what has no place on any lane, and what is odd about the names of processes and slices."""
    for reason, count in sorted(whole.skipped.items()):  # in one order, whichever reader met which first
        if not reason.startswith("odd."):
            health.skip(message(reason), count)
        elif count:
            health.warnings.append(message(reason, count=count))
    health.skip(message("skip.not_event"), whole.phases[""])
    health.skip(message("skip.instant"), sum(whole.phases[phase] for phase in _INSTANTS))
    for phase, count in whole.phases.items():
        if phase and phase not in _SHOWN and phase not in _INSTANTS:
            health.skip(message("skip.phase", phase=brief(phase)), count)
    process_name = whole.metadata.process_name
    for pid, other in whole.metadata.other_names.items():
        health.warnings.append(
            message("odd.process_names", pid=pid, first=brief(process_name[pid]), other=brief(other))
        )
    without = {"odd.no_process": 0, "odd.no_thread": 0}
    for lane in lanes:
        if plans[lane.layer].pid == NO_PROCESS:
            without["odd.no_process"] += lane.last - lane.first
        elif lane.tid == NO_THREAD:
            without["odd.no_thread"] += lane.last - lane.first
    no_name = whole.names.get("", -1)
    without["odd.no_name"] = int(np.count_nonzero(slices.name == no_name)) if no_name >= 0 else 0
    health.warnings += [message(code, count=count) for code, count in without.items() if count]
    of_host = np.array([plans[lane.layer].kind in ("python", "cann", "other") for lane in lanes], np.bool_)
    steps = _slices_named(slices, whole.names, step_number)
    steps = steps[of_host[slices.lane[steps]]]
    steps = steps[np.lexsort((slices.end[steps], slices.start[steps], slices.name[steps]))]
    name, start, end = slices.name[steps], slices.start[steps], slices.end[steps]
    at_once = (name[1:] == name[:-1]) & (start[1:] < end[:-1]) & ((start[1:] > start[:-1]) | (end[1:] > end[:-1]))
    if at_once.any():
        first = np.flatnonzero(at_once)[start[1:][at_once].argmin()]
        health.warnings.append(message("odd.ranks_merged", step=whole.names.values_in_order[name[first]]))
