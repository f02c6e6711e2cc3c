"""From a collective to its tasks on planes and streams, and back: they have the same times."""

from __future__ import annotations

import numpy as np

from npu_tui.trace.classes import OpClass
from npu_tui.trace.model import LayerKind, Trace
from npu_tui.view.rows.outline import is_plane

_OF_COLLECTIVES = (OpClass.COMMUNICATION, OpClass.WAIT, OpClass.MEMORY, OpClass.OTHER)


def task_beside(trace: Trace, item: int, onward: bool) -> int | None:
    """Collective, task on a plane, task on a stream: the next one on this way, or the one before; None without.

    Of the tasks of a collective the longest is meant; where planes were not recorded, its longest task on a stream.
    """
    slices = trace.slices
    lane = trace.lanes[int(slices.lane[item])]
    kind, device = trace.layers[lane.layer].kind, trace.layers[lane.layer].device
    planes = _on(trace, "communication", device, True)
    groups = _on(trace, "communication", device, False)
    streams = _on(trace, "hardware", device, False)
    classes = slices.op_class[streams]
    streams = streams[np.isin(classes, _OF_COLLECTIVES)]
    if kind == "communication" and is_plane(trace, lane):
        return _twin(trace, item, streams) if onward else _around(trace, item, groups)
    if kind == "communication" and onward:
        found = _longest_inside(trace, item, planes)
        return _longest_inside(trace, item, streams) if found is None else found
    if kind == "hardware" and not onward and slices.op_class[item] in _OF_COLLECTIVES:
        found = _twin(trace, item, planes)
        return _around(trace, item, groups) if found is None and not len(planes) else found
    return None


def _on(trace: Trace, kind: LayerKind, device: int | None, planes: bool) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The slices on the lanes of such layers of a device; of communication either those of planes or of groups."""
    parts = [
        np.arange(lane.first, lane.last, dtype=np.int64)
        for lane in trace.file_lanes
        if (trace.layers[lane.layer].kind, trace.layers[lane.layer].device) == (kind, device)
        and (kind != "communication" or is_plane(trace, lane) == planes)
    ]
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _twin(trace: Trace, item: int, among: np.ndarray[tuple[int], np.dtype[np.int64]]) -> int | None:
    slices = trace.slices
    same = (slices.start[among] == slices.start[item]) & (slices.end[among] == slices.end[item])
    found = among[same]
    return int(found[0]) if len(found) else None


def _around(trace: Trace, item: int, among: np.ndarray[tuple[int], np.dtype[np.int64]]) -> int | None:
    slices = trace.slices
    holds = (slices.start[among] <= slices.start[item]) & (slices.end[among] >= slices.end[item])
    found = among[holds]
    return int(found[-1]) if len(found) else None


def _longest_inside(trace: Trace, item: int, among: np.ndarray[tuple[int], np.dtype[np.int64]]) -> int | None:
    slices = trace.slices
    inside = (slices.start[among] >= slices.start[item]) & (slices.end[among] <= slices.end[item])
    found = among[inside]
    return int(found[np.argmax(slices.end[found] - slices.start[found])]) if len(found) else None
