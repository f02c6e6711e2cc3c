"""What a collective's own args tell, and which ranks of the job its group has."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from npu_tui.analysis.work.collectives.communication import Collective
from npu_tui.trace.communication_args import CollectiveArgs
from npu_tui.trace.model import Trace

I64 = npt.NDArray[np.int64]

Groups = Mapping[str, tuple[int, ...]]
"""The ranks of the job in every group, by the name of the group: ``parallel_group_info`` of profiler_metadata.json."""

_LANE = re.compile(r"Group (?P<name>.+?) Communication(?: Aicpu)?")


def with_own_args(found: Sequence[Collective], args: CollectiveArgs) -> list[Collective]:
    """``found`` with algorithm and size."""
    rows = np.searchsorted(args.item, np.array([each.item for each in found], np.int64))
    names, sizes = args.algorithm[rows].tolist(), args.size[rows].tolist()
    return [
        replace(each, algorithm=args.algorithms[name], size=size if size >= 0 else None)
        for each, name, size in zip(found, names, sizes, strict=True)
    ]


def with_ranks_of_job(trace: Trace, found: Sequence[Collective], groups: Groups) -> list[Collective]:
    """``found`` with ranks of the job in place of ranks of the group, where ``groups`` has the group of the lane."""
    of_lane = {lane.index: _ranks(lane.name, groups) for lane in trace.lanes}
    rows = []
    for each in found:
        ranks = of_lane[int(trace.slices.lane[each.item])]
        if each.arrivals is None or not ranks or max(rank for rank, _ in each.arrivals) >= len(ranks):
            rows.append(each)
            continue
        arrivals = [(ranks[rank], after) for rank, after in each.arrivals]
        peer = ranks[each.peer] if each.peer is not None and 0 <= each.peer < len(ranks) else each.peer
        rows.append(replace(each, arrivals=arrivals, peer=peer))
    return rows


def _ranks(lane: str, groups: Groups) -> tuple[int, ...]:
    """The ranks of the group that a lane is named after; where only one group has peers at all, those of it."""
    match = _LANE.fullmatch(lane)
    if match is None:
        return ()
    if match["name"] in groups:
        return groups[match["name"]]
    shared = {ranks for ranks in groups.values() if len(ranks) > 1}
    return next(iter(shared)) if len(shared) == 1 else ()
