"""Steps: those that the profiler marks, odd ones, and those of an inference engine.

``ProfilerStep#N`` marks a step; its window on the device begins with the first work that it launched. Warm-up are
leading steps that are longer than the later ones by more than those spread.

Odd steps compute longer than their equals, by some kernels.

Nothing is said of steps that differ regularly, or by as much as all differ: gradients that are summed up over several
steps, batches of any length.

A step of an inference engine has what its name says, what it launched, and when that ran.

Work belongs to the step that launched it. What has no launch, such as kernels of a graph, follows the last launch on
its stream; without any launch the clock decides.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.analysis.device import EVERYTHING, Window, named_in
from npu_tui.analysis.launches import dequeue_of, dequeued_launches, enqueue_of, enqueue_slices, graph_launches
from npu_tui.analysis.limits import A_PART, EVEN, FEWEST_EQUALS, HALF, NEARLY_ALL, NOTABLE, OUTLYING, SOME
from npu_tui.analysis.overlap import Overlap, OverlapLanes
from npu_tui.native.spans import count_until
from npu_tui.trace.arrays import F64, I64, Bools, BySlice, among, distinct
from npu_tui.trace.classes import EngineName, OpClass, engine_name, repeated_number, step_number, with_mode
from npu_tui.trace.intervals import outermost, parted
from npu_tui.trace.model import Trace
from npu_tui.trace.once import of_trace
from npu_tui.trace.recorder import bound_launch_links

_RECEIVE = "hcom_receive"


class Step(Struct, frozen=True):
    """A ``ProfilerStep#N`` slice; ``window`` is its time on the device, None where it launched nothing.

    Without any an iteration of a static graph, whose window is its own, or a range of the host such as ``step 3``. A
    profile without steps has one Step without name, number and slice (-1). For an inference engine it is one call, and
    its name says more: they are numbered from 1, and the window of one ends where the next one begins.
    """

    name: str | None
    number: int | None
    item: int
    window: Window | None
    engine: EngineName | None = None


def called_steps(steps: Iterable[Step]) -> list[Step]:
    """Those of ``steps`` that are calls of an inference engine, by their names."""
    return [step for step in steps if step.engine is not None]


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
        # The same number within the step of that number is its mark on another lane.
        if number >= 0 and int(trace.slices.start[item]) >= reached_by.get(number, -(2**62)):
            numbered.append((number, item))
            reached_by[number] = int(trace.slices.end[item])
    if not numbered:
        return [Step(None, None, -1, EVERYTHING)]
    # With each number once the order is that of the numbers: marks of the device may lie in another one.
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
    """The calls of an inference engine; their slices ``items`` are by start."""
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
    # A receive waits for the stage before: torch_npu calls that the bubble, and leaves it out of the stage's time.
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
"""With fewer steps none of them can be called slow: what is usual cannot be separated from chance."""


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
    slower = 1 + A_PART if len(later) >= FEWEST_EQUALS else 2.0  # few may be equal by chance
    warm = 0
    while warm < len(lengths) // 2 and lengths[warm] > max(slower * usual, usual + OUTLYING * spread):
        warm += 1
    if not warm:
        return 0
    slow = lengths[warm:] > usual + HALF * (float(lengths[:warm].min()) - usual)
    return warm if np.mean(slow) <= NOTABLE else 0


def begins_within(lengths: npt.NDArray[np.int64], kernels: npt.NDArray[np.int64]) -> bool:
    """Whether recording began within the first of the steps, which last ``lengths`` ns and have so many ``kernels``.

    It is shorter, and has fewer kernels, than any of at least three others.
    """
    if len(lengths) <= FEWEST_STEPS:
        return False
    return all(int(column[0]) < NEARLY_ALL * int(column[1:].min()) for column in (lengths, kernels))


class StepSpread(Struct, frozen=True):
    """Percentiles in ns of the steps after the first ``warm_up`` ones."""

    warm_up: int
    p50: float
    p90: float
    p99: float


def step_spread(lengths: npt.NDArray[np.int64], warm_up: int | None = None) -> StepSpread | None:
    """The spread of steps that last ``lengths`` ns after ``warm_up`` ones, if that is known; None without steps."""
    if not len(lengths):
        return None
    warm = warm_up_steps(lengths) if warm_up is None else min(warm_up, len(lengths) - 1)
    p50, p90, p99 = np.percentile(lengths[warm:], (50, 90, 99)).tolist()
    return StepSpread(warm, p50, p90, p99)


class OddStep(Struct, frozen=True):
    """The step at place ``step`` has kernels (positions) that its ``model``, a usual step, does not have.

    ``first`` to ``last`` are the kernels between which those may lie that are its own alone, where there is one run of
    them of ``count`` kernels: it begins at one of these. Without a run (``count`` 0) ``kernels`` of each type take
    ``keep`` of their time in the model.
    """

    step: int
    model: int
    first: int
    last: int
    count: int
    kernels: I64
    keep: F64


def standing_out(times: I64) -> Bools:
    """Which of the steps that take ``times`` ns take longer than all others differ; (n,), none in most runs.

    Most steps agree, and at least three of them. Those that take longer every so many steps do what the others leave
    out: that is how the program works, and none of them stands out.
    """
    usual = float(np.median(times)) if len(times) else 0.0
    spread = float(np.median(np.abs(times - usual))) if len(times) else 0.0
    odd: Bools = times > max((1 + EVEN) * usual, usual + OUTLYING * spread)
    rest = times[~odd]
    if not odd.any() or len(rest) < SOME or odd.mean() >= HALF or usual <= 0:
        return np.zeros(len(times), np.bool_)
    if float(times[odd].min()) - usual < OUTLYING * float(np.abs(rest - usual).max()):
        return np.zeros(len(times), np.bool_)
    begins = np.flatnonzero(odd & ~np.append(False, odd[:-1]))
    regular = len(begins) > 1 and len(np.unique(np.diff(begins))) == 1
    return odd & (not regular)


def odd_steps(step: I64, kind: I64, length: I64, count: int) -> list[OddStep]:
    """The odd ones of ``count`` steps by their kernels in order of time: ``step`` (-1: none), ``kind``, ``length`` ns.

    (n,) each; kinds are codes from 0.
    """
    inside = np.flatnonzero(step >= 0)
    times = np.rint(np.bincount(step[inside], length[inside], count)).astype(np.int64)
    odd = standing_out(times)
    if not odd.any():
        return []
    usual = np.flatnonzero(~odd)
    model = int(usual[np.argsort(times[usual], kind="stable")[len(usual) // 2]])
    equal = np.flatnonzero(step == model)
    return [_compared(int(at), np.flatnonzero(step == at), model, equal, kind, length) for at in np.flatnonzero(odd)]


def _compared(at: int, own: I64, model: int, equal: I64, kind: I64, length: I64) -> OddStep:
    more = len(own) - len(equal)
    if more > 0:
        ahead = _alike(kind[own], kind[equal])
        behind = _alike(kind[own[::-1]], kind[equal[::-1]])
        if ahead + behind >= len(equal):
            return OddStep(at, model, len(equal) - behind, ahead, more, own, np.ones(len(own)))
    kinds = int(max(kind[own].max(initial=0), kind[equal].max(initial=0))) + 1
    took, usual = (np.bincount(kind[part], length[part], kinds) for part in (own, equal))
    keep = np.minimum(usual / np.maximum(took, 1.0), 1.0)[kind[own]]
    return OddStep(at, model, 0, 0, 0, own, keep)


def _alike(one: I64, other: I64) -> int:
    """How many of the first of both are the same."""
    shorter = min(len(one), len(other))
    differ = np.flatnonzero(one[:shorter] != other[:shorter])
    return int(differ[0]) if len(differ) else shorter


_WORK = (OpClass.CUBE, OpClass.VECTOR, OpClass.COMMUNICATION)
_LATE = 2**62  # ns, after any time


def engine_calls(trace: Trace, items: I64) -> list[EngineName]:
    """What the names of the step slices ``items`` (by start) say; the mode is that of a step within one, if any."""
    slices = trace.slices
    lanes = {trace.lanes[lane].index for lane in slices.lane[items].tolist()}
    named = named_in(trace, (trace.lanes[lane] for lane in lanes), lambda name: engine_name(name) is not None)
    inner = outermost(slices.start, slices.end, named[~np.isin(named, items)])
    at = np.searchsorted(slices.start[inner], slices.start[items], "left")
    calls = []
    for item, first in zip(items.tolist(), at.tolist(), strict=True):
        name, within = engine_name(trace.name_of(item)), None
        assert name is not None
        if first < len(inner) and slices.start[inner[first]] < slices.end[item]:
            within = engine_name(trace.name_of(int(inner[first])))
        calls.append(with_mode(name, within))
    return calls


class LaunchedWork(Struct, frozen=True):
    """The slices ``item`` of devices (ascending), the step that launched each, and whether a graph replays it; (n,).

    A step has all that is launched until the next one begins. -1 is what was launched before the first step. ``made``
    is when the host launched it, ns, -1 where no launch is known.
    """

    item: I64
    step: I64
    graph: Bools
    made: I64


def launched_by(trace: Trace, begins: I64) -> LaunchedWork:
    """What steps that begin at ``begins`` (n,), ascending on the clock of the host, did on devices.

    A slice without a launch belongs to the step of the last one with a launch on its stream, as the kernels of a graph
    do; on streams without any launch, to the step that launched the last work elsewhere. Without any launch in the
    trace the clock decides.
    """
    item, made, graph = _made(trace)
    if made is None:
        step = count_until(begins, trace.slices.start[item]) - 1
        return LaunchedWork(item, step, graph, np.full(len(item), -1))
    return LaunchedWork(item, np.where(made >= 0, count_until(begins, made), -1) - 1, graph, made)


@of_trace
def _made(trace: Trace) -> tuple[I64, I64 | None, Bools]:
    """The work of devices, when the host launched each (-1: not known; None without launches), and whether by a graph.

    A slice without a launch has that of the last one with a launch on its stream, else of the last work elsewhere.
    """
    slices, links = trace.slices, trace.links
    spans = [np.arange(lane.first, lane.last) for lane in trace.file_lanes if _on_device(trace, lane.layer)]
    item = np.concatenate(spans) if spans else np.zeros(0, np.int64)
    kinds = (*_WORK, OpClass.MEMORY)
    item = item[np.isin(slices.op_class[item], kinds)]
    typed = slices.task_type[item] >= 0
    item = item[typed] if typed.any() else item  # ranges of mstx on the device are no tasks
    link = bound_launch_links(trace)
    if not len(link) or not len(item):
        return item, None, np.zeros(len(item), np.bool_)
    enqueue = enqueue_of(trace, dequeue_of(trace, link))
    made = np.where(enqueue >= 0, slices.start[enqueue], links.source_time[link])
    led = BySlice(links.target_slice[link], np.arange(len(link))).of(item)
    begin = np.append(True, slices.lane[item[1:]] != slices.lane[item[:-1]])
    at = np.maximum.accumulate(np.where((led >= 0) | begin, np.arange(len(item)), 0))
    unknown, known = np.flatnonzero(led[at] < 0), np.flatnonzero(led >= 0)
    if len(unknown) and len(known):
        known = known[np.argsort(slices.start[item[known]], kind="stable")]
        before = count_until(slices.start[item[known]], slices.start[item[unknown]]) - 1
        at[unknown] = known[np.maximum(before, 0)]
    graph = np.append(graph_launches(trace, link), False)
    return item, np.append(made, -1)[led[at]], graph[led[at]]


def _on_device(trace: Trace, layer: int) -> bool:
    return trace.layers[layer].kind == "hardware"


def device_windows(trace: Trace, begins: I64) -> list[tuple[int, int] | None]:
    """When each step works on the device: from its first work to that of the next step, of the last one to its end.

    Work that runs while kernels of an earlier step still do, such as the copy of the next inputs, starts no step. None
    for a step that launched nothing.
    """
    slices, count = trace.slices, len(begins)
    work = launched_by(trace, begins)
    of_step = work.step >= 0
    item, step = work.item[of_step], work.step[of_step]
    start, end = slices.start[item], slices.end[item]
    first, last, kernels = np.full(count, _LATE), np.full(count, -_LATE), np.full(count, -_LATE)
    np.minimum.at(first, step, start)
    np.maximum.at(last, step, end)
    computing = np.isin(slices.op_class[item], _WORK)
    np.maximum.at(kernels, step[computing], end[computing])
    reached = np.append(-_LATE, np.maximum.accumulate(kernels)[:-1]) if count else kernels
    # Work before the last kernel of the earlier steps, such as the copy of the next inputs, runs beside them.
    after = start >= reached[step]
    begun = np.full(count, _LATE)
    np.minimum.at(begun, step[after], start[after])
    # A step whose work all runs beside earlier ones begins where their kernels end.
    begun = np.where(begun < _LATE, begun, np.maximum(first, reached))
    working = np.flatnonzero(first < _LATE)
    begun = np.maximum.accumulate(begun[working])
    until = np.append(begun[1:], np.maximum(last[working][-1:], begun[-1:]))
    windows: list[tuple[int, int] | None] = [None] * count
    for place, low, high in zip(working.tolist(), begun.tolist(), until.tolist(), strict=True):
        windows[place] = low, high
    return windows
