"""Which threads of the host work for another device of the same trace."""

from __future__ import annotations

import numpy as np

from npu_tui.analysis.launches import dequeue_slices, enqueue_of
from npu_tui.trace.model import HOST_TO_DEVICE, Trace


def foreign_threads(trace: Trace, device: int | None) -> frozenset[int]:
    """Ids of the threads that launch to other devices and never to ``device``, and of those that feed only them.

    A thread that launches nothing may work for any device: it is nobody else's.
    """
    layers = [layer for layer in trace.layers if layer.kind in ("hardware", "communication") and layer.lanes]
    if len({layer.device for layer in layers}) < 2:
        return frozenset()
    of_lane = np.full(len(trace.lanes) + 1, -1, np.int64)
    for layer in layers:
        of_lane[list(layer.lanes)] = 1 if layer.device == device else 0
    links, slices = trace.links, trace.slices
    tid = np.array([lane.tid for lane in trace.lanes] + [-1], np.int64)
    link = trace.links_of(HOST_TO_DEVICE)
    link = link[(links.target_slice[link] >= 0) & (links.source_slice[link] >= 0)]
    reached = of_lane[slices.lane[links.target_slice[link]]]
    source = tid[slices.lane[links.source_slice[link]]]
    own, others = set(source[reached == 1].tolist()), set(source[reached == 0].tolist())
    dequeues = dequeue_slices(trace)
    entered = enqueue_of(trace, dequeues)
    known = entered >= 0
    launching, feeding = tid[slices.lane[dequeues[known]]], tid[slices.lane[entered[known]]]
    own |= set(feeding[np.isin(launching, list(own))].tolist())
    others |= set(feeding[np.isin(launching, list(others))].tolist())
    return frozenset(others - own)
