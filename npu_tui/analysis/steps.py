"""Steps that the profiler marks, warm-up, and the spread of lengths.

``ProfilerStep#N`` marks a step; its window on the device begins with the first work that it launched. Warm-up are
leading steps that are longer than the later ones by more than those spread.
"""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.analysis.device import EVERYTHING, Window, named_in
from npu_tui.analysis.engine_calls import device_windows, engine_calls
from npu_tui.analysis.launches import dequeued_launches, enqueue_slices
from npu_tui.analysis.limits import NOTABLE, OUTLYING
from npu_tui.analysis.overlap import Overlap, OverlapLanes
from npu_tui.trace.arrays import I64, among, distinct
from npu_tui.trace.classes import repeated_number, step_number
from npu_tui.trace.engine_names import EngineName, engine_name
from npu_tui.trace.intervals import parted
from npu_tui.trace.model import Trace

_RECEIVE = "hcom_receive"


class Step(Struct, frozen=True):
    """A ``ProfilerStep#N`` slice; ``window`` is its time on the device, None where it launched nothing.

    Without any an iteration of a static graph, whose window is its own, or a range of the host such as ``step 3``.
    A profile without steps has one Step without name, number and slice (-1). Of an inference engine it is one call,
    of which the name tells more: they are numbered from 1, and the window of one ends where the next one begins.
    """

    name: str | None
    number: int | None
    item: int
    window: Window | None
    engine: EngineName | None = None


class StepSums(Struct, frozen=True):
    """The row of a step in step_trace_time.csv, ns; ``stage`` and ``preparing`` are None for an idle device."""

    overlap: Overlap
    stage: int | None
    bubble: int
    preparing: int | None


def steps(trace: Trace) -> list[Step]:
    """The steps of ``trace`` by time; where the device windows of two steps overlap, the first has the time.

    Numbers repeat where the profiler was started anew. What has the number of a step within that step is the same one
    on another lane.
    """
    marked = _step_slices(trace)
    if marked and engine_name(trace.name_of(marked[0])) is not None:
        return _engine_steps(trace, np.array(marked))
    numbered: list[tuple[int, int]] = []
    reached_by: dict[int, int] = {}
    for item in marked:
        name = trace.name_of(item)
        number = int(step_number(name) or repeated_number(name) or -1)
        if number >= 0 and int(trace.slices.start[item]) >= reached_by.get(number, -(2**62)):
            numbered.append((number, item))
            reached_by[number] = int(trace.slices.end[item])
    if not numbered:
        return [Step(None, None, -1, EVERYTHING)]
    if len(reached_by) == len(numbered):
        numbered.sort()
    items = np.array([item for _, item in numbered])
    on_device = trace.layers[trace.lanes[int(trace.slices.lane[items[0]])].layer].kind == "hardware"
    spans: list[tuple[int, int] | None]
    if on_device:
        spans = list(zip(trace.slices.start[items].tolist(), trace.slices.end[items].tolist(), strict=True))
    else:
        spans = _device_spans(trace, items)
    result, reached = [], -(2**62)
    for (number, item), span in zip(numbered, spans, strict=True):
        window = None
        if span is not None:
            window = Window(max(span[0], reached), max(span[1], reached), whole=True)
            reached = window.end
        result.append(Step(trace.name_of(item), number, item, window))
    return _in_turn(result)


def _in_turn(found: list[Step]) -> list[Step]:
    """``found``, where what reaches into the next step is cut."""
    begins = sorted(step.window.start for step in found if step.window is not None)
    turns = []
    for step in found:
        window = step.window
        if window is not None and (after := bisect_right(begins, window.start)) < len(begins):
            window = replace(window, until=max(begins[after], window.end))
        turns.append(replace(step, window=window))
    return turns


def _engine_steps(trace: Trace, items: I64) -> list[Step]:
    """The calls of an inference engine, whose slices ``items`` are by start."""
    windows: list[tuple[int, int] | None]
    start, end = trace.slices.start[items], trace.slices.end[items]
    if trace.layer_of(int(trace.slices.lane[items[0]])).kind == "hardware":
        windows = list(zip(start.tolist(), end.tolist(), strict=True))
    else:
        windows = device_windows(trace, start)
    calls = engine_calls(trace, items)
    return _in_turn([
        Step(trace.name_of(item), number, item, None if window is None else Window(*window, whole=True), call)
        for number, (item, window, call) in enumerate(zip(items.tolist(), windows, calls, strict=True), 1)
    ])  # fmt: skip


def _step_slices(trace: Trace) -> list[int]:
    """The slices of the derived Steps lanes by start."""
    items: list[int] = []
    for lane in trace.lanes:
        if lane.derived:
            low, high = trace.rows.offset[lane.first_row], trace.rows.offset[lane.first_row + lane.rows]
            items += trace.rows.item[low:high].tolist()
    return sorted(items, key=lambda item: int(trace.slices.start[item]))


def _device_spans(trace: Trace, items: I64) -> list[tuple[int, int] | None]:
    """The device window of each step: from the first kernel of its first launch to the last kernel of its last one.

    The window lasts at least until the step ends on the host. Launches belong to the step that enqueued them: with a
    task queue they are ordered by its correlation ids, without one by their own time. None for a step without launches.
    """
    slices, links = trace.slices, trace.links
    link, dequeue = dequeued_launches(trace)
    enqueues = enqueue_slices(trace)
    if len(enqueues) and (dequeue >= 0).any():
        link, dequeue = link[dequeue >= 0], dequeue[dequeue >= 0]
        launch_order, made_at, made = slices.correlation[dequeue], slices.start[enqueues], slices.correlation[enqueues]
        launched = among(made, launch_order)
        # Entries that launch nothing, such as events, have no kernel.
        made_at, made = made_at[launched], made[launched]
    else:
        launch_order = made = links.source_time[link]
        made_at = made
    target = links.target_slice[link]
    launches, launch_of_link = distinct(launch_order)
    first = np.full(len(launches), 2**62)
    last = np.full(len(launches), -(2**62))
    np.minimum.at(first, launch_of_link, slices.start[target])
    np.maximum.at(last, launch_of_link, slices.end[target])
    in_time = np.argsort(made_at, kind="stable")
    made_at, made = made_at[in_time], made[in_time]
    low = np.searchsorted(made_at, slices.start[items], "left")
    high = np.searchsorted(made_at, slices.end[items], "right")
    spans: list[tuple[int, int] | None] = [None] * len(items)
    launching = np.flatnonzero(low < high)
    if len(launching):
        bounds = np.column_stack((low[launching], high[launching])).ravel()
        made = np.append(made, 0)  # an index after the last one: the last step may end with the last launch
        earliest, latest = (
            np.searchsorted(launches, extreme.reduceat(made, bounds)[::2]) for extreme in (np.minimum, np.maximum)
        )
        begin, end = first[earliest].tolist(), np.maximum(last[latest], slices.end[items[launching]]).tolist()
        for k, span in zip(launching.tolist(), zip(begin, end, strict=True), strict=True):
            spans[k] = span
    return spans


def step_sums(trace: Trace, all_steps: list[Step], lanes: OverlapLanes) -> list[StepSums]:
    """The sums of each step by kind of time; what crosses the start of a step is split there."""
    groups = (
        lane
        for lane in trace.file_lanes
        if trace.layers[lane.layer].kind == "communication" and trace.layers[lane.layer].device == lanes.device
    )
    received = named_in(trace, groups, lambda name: name.startswith(_RECEIVE))
    received = received[np.argsort(trace.slices.start[received], kind="stable")]
    receive = trace.slices.start[received], trace.slices.end[received]
    kinds = (lanes.computing, lanes.communication, lanes.not_overlapped, lanes.free, lanes.copies, receive)
    windows = [step.window or Window(0, 0) for step in all_steps]
    bounds = np.array([(window.start, window.end) for window in windows], np.int64).reshape(-1, 2)
    spent = [_spent(*parted(start, end, np.sort(bounds[:, 0])), bounds) for start, end in kinds]
    rows = []
    for step, *spent_of_step in zip(all_steps, *spent, strict=True):
        (computing, communication, exposed, free, copies, bubble), _, _ = zip(*spent_of_step, strict=True)
        begins = [first for _, first, _ in spent_of_step if first is not None]
        ends = [last for _, _, last in spent_of_step if last is not None]
        working = [first for _, first, _ in spent_of_step[:2] if first is not None]
        origin = _host_start(trace, step)
        rows.append(
            StepSums(
                Overlap(lanes.device, computing, communication, exposed, free, copies),
                max(ends) - min(begins) - bubble if begins else None,
                bubble,
                min(working) - origin if working and origin is not None else None,
            )
        )
    return rows


def _spent(start: I64, end: I64, bounds: I64) -> list[tuple[int, int | None, int | None]]:
    """For each of ``bounds`` (n, 2) the intervals that start in it: total length, first start, last end, ns.

    The intervals are sorted by start; start and end are None without any.
    """
    places = np.searchsorted(start, bounds)
    before = np.append(0, np.cumsum(end - start))
    total = np.diff(before[places])[:, 0].tolist()
    nonempty = np.flatnonzero(places[:, 1] > places[:, 0])
    firsts: list[int | None] = [None] * len(places)
    lasts = firsts.copy()
    if len(nonempty):
        first, last = start[places[nonempty, 0]], np.maximum.reduceat(np.append(end, 0), places[nonempty].ravel())[::2]
        for k, begun, ended in zip(nonempty.tolist(), first.tolist(), last.tolist(), strict=True):
            firsts[k], lasts[k] = begun, ended
    return list(zip(total, firsts, lasts, strict=True))


def _host_start(trace: Trace, step: Step) -> int | None:
    """The start of the step on the host, ns; without steps that of the first operation, None without either."""
    if step.item >= 0:
        return int(trace.slices.start[step.item])
    if "cpu_op" not in trace.categories:
        return None
    operations = trace.slices.start[trace.slices.category == trace.categories.index("cpu_op")]
    return int(operations.min()) if len(operations) else None


# --- Warm-up and spread ---

FEWEST_STEPS = 3
"""With fewer steps none of them can be called slow: nobody can tell what is usual from what is chance."""
_SLOWER = 1.2  # times as long as later steps, from which on a first one is warm-up
_FEW, _SLOWER_THAN_FEW = 4, 2.0
"""Up to this many later steps may be equal by chance: then a warm-up step must take twice as long."""
_AS_SLOW = 1 / 3
"""A later step that is slower by this share of the warm-up's excess is slow as well."""


def warm_up_steps(lengths: npt.NDArray[np.int64]) -> int:
    """How many of the steps that last ``lengths`` ns are warm-up; at most half of them.

    Warm-up are the leading steps that take a fifth longer than the median of the second half (twice as long if that
    half has few steps) and more than its spread explains. If more than a tenth of the later steps are slow as well,
    slow steps are normal in this run and none counts as warm-up.
    """
    if len(lengths) < FEWEST_STEPS:
        return 0
    later = lengths[len(lengths) // 2 :].astype(np.float64)
    usual = float(np.median(later))
    spread = float(np.median(np.abs(later - usual)))
    slower = _SLOWER if len(later) >= _FEW else _SLOWER_THAN_FEW
    warm = 0
    while warm < len(lengths) // 2 and lengths[warm] > max(slower * usual, usual + OUTLYING * spread):
        warm += 1
    if not warm:
        return 0
    slow = lengths[warm:] > usual + _AS_SLOW * (float(lengths[:warm].min()) - usual)
    return warm if np.mean(slow) <= NOTABLE else 0


_PART = 0.75
"""Of the kernels and of the time: equal steps differ by less."""


def begins_within(lengths: npt.NDArray[np.int64], kernels: npt.NDArray[np.int64]) -> bool:
    """Whether recording began within the first of the steps, which last ``lengths`` ns and have so many ``kernels``.

    It is shorter, and has fewer kernels, than any of at least three others.
    """
    if len(lengths) <= FEWEST_STEPS:
        return False
    return all(int(column[0]) < _PART * int(column[1:].min()) for column in (lengths, kernels))


class StepSpread(Struct, frozen=True):
    """Percentiles in ns of the steps after the first ``warm_up`` ones."""

    warm_up: int
    p50: float
    p90: float
    p99: float


def step_spread(lengths: npt.NDArray[np.int64]) -> StepSpread | None:
    """The spread of steps that last ``lengths`` ns; None without steps."""
    if not len(lengths):
        return None
    warm = warm_up_steps(lengths)
    p50, p90, p99 = np.percentile(lengths[warm:], (50, 90, 99)).tolist()
    return StepSpread(warm, p50, p90, p99)
