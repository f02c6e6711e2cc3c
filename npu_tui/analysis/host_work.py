"""Work of the host that launches nothing: operations and frames of Python in which no thread launches or waits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from npu_tui.analysis.calls import is_memory_call
from npu_tui.analysis.device import HOST, named_in
from npu_tui.analysis.host_owners import WORK_NS
from npu_tui.analysis.launches import dequeue_slices, dequeued_launches, enqueue_slices
from npu_tui.analysis.limits import HALF, NEARLY_ALL
from npu_tui.analysis.replay_host import thread_numbers, waits_of
from npu_tui.trace.arrays import I64, distinct
from npu_tui.trace.intervals import covered_within, union
from npu_tui.trace.model import Lane, Trace
from npu_tui.trace.once import of_trace


@of_trace
def launch_times(trace: Trace) -> I64:
    """When threads launch: entries into the task queue, and launches without one; ascending, ns."""
    link, dequeue = dequeued_launches(trace)
    return np.sort(
        np.concatenate((trace.slices.start[enqueue_slices(trace)], trace.links.source_time[link[dequeue < 0]]))
    )


@of_trace
def idle_work(trace: Trace) -> I64:
    """Operations and frames of Python of 500 us or more without a launch or a wait inside, none inside another.

    Shorter operations count where they take as long together between two launches, such as those that augment images.
    They are on threads that launch, by start. A step, and a frame in which another thread launches, such as
    ``loss.backward()``, have launches inside. Fetching a batch, garbage collection and calls of CANN, such as those
    that take memory or compile, have findings of their own.
    """
    slices = trace.slices
    link, dequeue = dequeued_launches(trace)
    direct = link[dequeue < 0]
    enqueues, waits = enqueue_slices(trace), waits_of(trace)
    launched = launch_times(trace)
    waited = np.sort(np.concatenate((slices.start[waits], slices.end[waits])))
    _, number = thread_numbers(trace)
    lanes = np.unique(np.concatenate((slices.lane[enqueues], slices.lane[waits], trace.links.source_lane[direct])))
    launching = np.setdiff1d(number[lanes], [-1, *number[np.unique(slices.lane[dequeue_slices(trace)])].tolist()])
    lanes_of_work = [
        lane for lane in trace.lanes if number[lane.index] in launching and trace.layers[lane.layer].kind in HOST
    ]
    calls = [lane for lane in lanes_of_work if trace.layers[lane.layer].kind == "cann"]
    of_python = [lane for lane in lanes_of_work if lane not in calls]
    items = np.concatenate([np.zeros(0, np.int64), *(_long_in(trace, lane) for lane in of_python)])
    names, name = distinct(slices.name[items])
    items = items[~np.array([_has_finding(trace.names[code]) for code in names.tolist()], np.bool_)[name]]
    start, end = slices.start[items], slices.end[items]
    quiet = np.searchsorted(launched, start) == np.searchsorted(launched, end, "right")
    # Work may begin when a wait ends: sorting what aten::item has brought.
    quiet &= np.searchsorted(waited, start, "right") == np.searchsorted(waited, end)
    items = items[quiet]
    elsewhere = np.concatenate((waits, named_in(trace, calls, bool), named_in(trace, of_python, _has_finding)))
    items = items[~_is_mostly(trace, elsewhere, items, HALF)]
    frames = trace.categories.index("python_function") if "python_function" in trace.categories else -1
    is_frame = slices.category[items] == frames
    operations, framed = _outermost(trace, items[~is_frame]), _outermost(trace, items[is_frame])
    told = _is_mostly(trace, operations, framed, NEARLY_ALL)
    framed = framed[~told]
    short = np.zeros(0, np.int64)
    if "cpu_op" in trace.categories:
        short = _short(trace, of_python, np.sort(np.concatenate((launched, waited))), framed)
    short = short[~_is_mostly(trace, elsewhere, short, HALF)]
    work = _outermost(trace, np.unique(np.concatenate((operations, framed, short))))
    result: I64 = work[np.argsort(slices.start[work], kind="stable")]
    return result


def _long_in(trace: Trace, lane: Lane) -> I64:
    """The slices of ``lane`` of 500 us or more, ascending."""
    own = slice(lane.first, lane.last)
    return lane.first + np.flatnonzero(trace.slices.end[own] - trace.slices.start[own] >= WORK_NS)


def _short(trace: Trace, lanes: Sequence[Lane], events: I64, framed: I64) -> I64:
    """Operations on ``lanes`` that take 500 us together between two ``events``, none of which lies in ``framed``.

    Those inside another operation, such as ``aten::t`` of a linear, prepare its launch.
    """
    slices = trace.slices
    items = named_in(trace, lanes, lambda name: "::" in name or name.startswith("Optimizer."))
    items = _outermost(trace, items[slices.category[items] == trace.categories.index("cpu_op")])
    event = np.searchsorted(events, slices.start[items], "right")
    items, event = (each[(event > 0) & (event < len(events))] for each in (items, event))
    quiet = slices.end[items] <= events[event]
    items, event = items[quiet], event[quiet]
    time = slices.end[items] - slices.start[items]
    items = items[np.bincount(event, time, len(events))[event] >= WORK_NS]
    told = union(slices.start[framed], slices.end[framed])
    short: I64 = items[covered_within(*told, slices.start[items], slices.end[items]) == 0]
    return short


def _has_finding(name: str) -> bool:
    """Whether other findings are about slices of this name, or they are the profiler's own."""
    return name == "GC" or "dataloader" in name.lower() or "profiler" in name or is_memory_call(name)


def _is_mostly(trace: Trace, inner: I64, items: I64, share: float) -> npt.NDArray[np.bool_]:
    """Whether the slices ``inner`` cover ``share`` of each of ``items`` or more; (items,)."""
    start, end = trace.slices.start, trace.slices.end
    covered = covered_within(*union(start[inner], end[inner]), start[items], end[items])
    return covered >= share * (end[items] - start[items])


def _outermost(trace: Trace, items: I64) -> I64:
    """Those of ``items`` (ascending: by lane, start and, the longest first, end) that lie in no other one."""
    if not len(items):
        return items
    lane, end = trace.slices.lane[items].astype(np.int64), trace.slices.end[items]
    far = end + lane * (int(end.max()) + 1)
    outer = np.ones(len(items), np.bool_)
    outer[1:] = far[1:] > np.maximum.accumulate(far)[:-1]
    return items[outer]
