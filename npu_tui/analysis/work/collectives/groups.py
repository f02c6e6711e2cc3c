"""Which ranks of the job the ranks of a group of collectives are."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from npu_tui.analysis.work.collectives.collective import Collectives
from npu_tui.trace.model import Trace

I64 = npt.NDArray[np.int64]

Groups = Mapping[str, tuple[int, ...]]
"""The ranks of the job in every group, by the name of the group: ``parallel_group_info`` of profiler_metadata.json."""

_LANE = re.compile(r"Group (?P<name>.+?) Communication(?: Aicpu)?")


def with_ranks_of_job(trace: Trace, found: Collectives, groups: Groups) -> Collectives:
    """``found`` with ranks of the job in place of ranks of the group, where ``groups`` has the group of the lane."""
    came = found.arrivals
    most = np.full(len(found), -1, np.int64)
    np.maximum.at(most, came.owner, came.rank)
    lanes = trace.slices.lane[found.item]
    peer, rank = found.waits.peer.copy(), came.rank.copy()
    for lane in np.unique(lanes[found.has_arrivals]).tolist():
        ranks = np.array(_ranks(trace.lanes[lane].name, groups), np.int64)
        told = found.has_arrivals & (lanes == lane) & (most < len(ranks))
        own = told[came.owner]
        rank[own] = ranks[rank[own]]
        known = told & (peer >= 0) & (peer < len(ranks))
        peer[known] = ranks[peer[known]]
    return found.with_ranks(peer, rank)


def _ranks(lane: str, groups: Groups) -> tuple[int, ...]:
    """The ranks of the group that a lane is named after; where only one group has peers at all, those of it."""
    match = _LANE.fullmatch(lane)
    if match is None:
        return ()
    if match["name"] in groups:
        return groups[match["name"]]
    shared = {ranks for ranks in groups.values() if len(ranks) > 1}
    return next(iter(shared)) if len(shared) == 1 else ()
