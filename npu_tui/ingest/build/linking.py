"""Link ends paired by (category, id) and bound to slices."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.ingest.json.columns.pairing import link_keys, pair_ends
from npu_tui.ingest.json.columns.whole_columns import WholeColumns
from npu_tui.ingest.times import INVALID
from npu_tui.trace.binding import LaneIndex
from npu_tui.trace.message import message
from npu_tui.trace.model import HOST_TO_DEVICE, Health, Links, Slices

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]


class PairedEnds(Struct, frozen=True):
    """Timed link ends, and which belong together, by the time of the target.

    ``where`` is their place among all ends, ``time`` absolute ns, ``category`` and ``key`` one number each; (ends,).
    ``source`` and ``target`` are indices of these; (links,). What is left over is counted.
    """

    where: I64
    time: I64
    category: I32
    key: I32
    source: I64
    target: I64
    untimed: int
    lone_sources: int
    lone_targets: int


def paired_ends(whole: WholeColumns) -> PairedEnds:
    """The link ends of ``whole`` by (category, id); threads and events of the ends stay there."""
    time = whole.column("l_time", np.int64)
    where = np.flatnonzero(time != INVALID)
    category = whole.column("l_category", np.int32)[where]
    key = link_keys(category, whole.column("l_id", np.int64)[where], whole.column("l_high", np.int64)[where])
    pairs = pair_ends(key, whole.column("l_phase", np.int8)[where])
    untimed = len(time) - len(where)
    time = time[where]
    order = np.argsort(time[pairs.target], kind="stable")
    source, target = pairs.source[order], pairs.target[order]
    return PairedEnds(where, time, category, key, source, target, untimed, pairs.lone_sources, pairs.lone_targets)


def bound_links(
    whole: WholeColumns,
    ends: PairedEnds,
    lane_of: I32,
    python: set[int],
    bounds: I64,
    slices: Slices,
    start_ns: int,
    health: Health,
) -> Links:
    """The pairs of ``ends`` bound to slices, by target time.

    ``lane_of`` gives the lane of each thread code, ``bounds`` the first slice of each lane and the count of all,
    ``python`` the processes of the Python layers, ``start_ns`` the start of the trace. What is left over is counted in
    ``health``.
    """
    health.skip(message("skip.link_time"), ends.untimed)
    health.skip(message("skip.lone_source"), ends.lone_sources)
    health.skip(message("skip.lone_target"), ends.lone_targets)
    category, key, source, target = ends.category, ends.key, ends.source, ends.target
    time = ends.time - start_ns
    thread = whole.column("l_thread", np.int32)[ends.where]
    event = whole.column("l_event", np.int64)[ends.where]
    lane = lane_of[thread] if len(thread) else np.zeros(0, np.int32)
    index = LaneIndex(bounds[:-1], bounds[1:], slices.start, slices.end)
    target_slice = _bind(index, lane[target], time[target], np.full(len(target), -1, np.int64), slices)
    wanted = np.full(len(target), -1, np.int64)
    wanted[target_slice >= 0] = slices.connection[target_slice[target_slice >= 0]]
    source_slice = _bind(index, lane[source], time[source], wanted, slices)
    source_lane = lane[source].copy()
    to_device = whole.link_categories.get(HOST_TO_DEVICE, -1)
    astray = np.flatnonzero((source_slice < 0) & (category[source] == to_device))
    if len(astray):
        fallback = _python_lane_of_thread(whole, lane_of, python)[thread[source[astray]]]
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


def _python_lane_of_thread(whole: WholeColumns, lane_of: I32, python: set[int]) -> I32:
    """For every thread code the first lane of the same tid on a Python layer, -1 without one."""
    lanes = [(int(lane_of[code]), tid) for (pid, tid), code in whole.threads.items() if pid in python]
    lanes.sort(key=lambda found: -found[0])
    by_tid = {tid: lane for lane, tid in lanes if lane >= 0}
    return np.array([by_tid.get(tid, -1) for _, tid in whole.threads], np.int32)
