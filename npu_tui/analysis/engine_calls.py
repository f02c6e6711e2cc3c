"""The steps of an inference engine: what their names tell, what each of them launched, and when that ran.

Work belongs to the step that launched it. What has no launch, such as kernels of a graph, follows the last launch on
its stream; without any launch the clock decides.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from npu_tui.analysis.device import named_in
from npu_tui.analysis.launches import dequeue_of, enqueue_of, graph_launches
from npu_tui.native.spans import count_until
from npu_tui.trace.arrays import I64, Bools, BySlice
from npu_tui.trace.classes import OpClass
from npu_tui.trace.engine_names import EngineName, engine_name, with_mode
from npu_tui.trace.intervals import outermost
from npu_tui.trace.kineto import bound_launch_links
from npu_tui.trace.model import Trace
from npu_tui.trace.once import of_trace

_WORK = (OpClass.CUBE, OpClass.VECTOR, OpClass.COMMUNICATION)
_LATE = 2**62


def engine_calls(trace: Trace, items: I64) -> list[EngineName]:
    """What the names of the step slices ``items`` (by start) tell; the mode is that of a step within one, if any."""
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
    after = start >= reached[step]
    begun = np.full(count, _LATE)
    np.minimum.at(begun, step[after], start[after])
    begun = np.where(begun < _LATE, begun, np.maximum(first, reached))
    working = np.flatnonzero(first < _LATE)
    begun = np.maximum.accumulate(begun[working])
    until = np.append(begun[1:], np.maximum(last[working][-1:], begun[-1:]))
    windows: list[tuple[int, int] | None] = [None] * count
    for place, low, high in zip(working.tolist(), begun.tolist(), until.tolist(), strict=True):
        windows[place] = low, high
    return windows
