"""The requests of a service as its replay serves them: a trace with the states of each request when they are then.

Batches are left out: the replay forms others, which no recorded one stands for. So are requests that it does not serve,
such as those whose begin or end was not recorded.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from msgspec.structs import replace as changed

from npu_tui.analysis.film import as_nature, assembled
from npu_tui.analysis.service_model import ServiceModel
from npu_tui.analysis.service_replay import moments
from npu_tui.trace.arrays import I64
from npu_tui.trace.model import Trace

_STATES = "queued", "prefill", "decode"
"""The states of a request as the trace names them; each ends where the next one begins."""


def served_trace(trace: Trace, model: ServiceModel) -> Trace:
    """``trace`` with its requests as ``model`` serves them; a state that is over before it begins takes no time."""
    assert trace.service is not None
    run, slices, service = moments(model), trace.slices, trace.service
    place = np.full(len(service.rids), -1, np.int64)
    place[model.rids] = np.where(np.isfinite(run.last), np.arange(len(model.rids)), -1)
    rid_of_name = dict(zip(service.rids, range(len(service.rids)), strict=True))
    rid_of = np.array([rid_of_name.get(name, -1) for name in trace.names], np.int64)
    request = np.where(rid_of[slices.name] >= 0, place[rid_of[slices.name]], -1)
    # Of times since 1970 a float has 256 ns: what is added to the begin of a request has all of them.
    come = run.come - trace.start_ns
    first, last = (come + np.rint(np.nan_to_num(when - run.come)).astype(np.int64) for when in (run.first, run.last))
    begun = np.clip(come + np.rint(np.nan_to_num(run.begun - run.come)).astype(np.int64), come, first)
    bounds: list[I64] = [come, begun, first, np.maximum(last, first)]
    start, end, kept = slices.start.copy(), slices.end.copy(), np.zeros(len(slices), np.bool_)
    for at, state in enumerate(_STATES):
        code = trace.categories.index(state) if state in trace.categories else -1
        mine = np.flatnonzero((slices.category == code) & (request >= 0))
        start[mine], end[mine], kept[mine] = bounds[at][request[mine]], bounds[at + 1][request[mine]], True
    moved = as_nature(trace, replace(trace, slices=changed(slices, start=start, end=end)))
    none = np.zeros(0, np.int64)
    return assembled(trace, moved, np.flatnonzero(kept), (none, none, none))[0]
