"""What a collective's own args tell, and which ranks of the job its group has."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.analysis.work.collectives.communication import (
    PLANE_ARGS,
    Collective,
    PlaneArgs,
    groups_of,
    plane_args,
    plane_tasks,
)
from npu_tui.trace.model import Trace

I64 = npt.NDArray[np.int64]

Groups = Mapping[str, tuple[int, ...]]
"""The ranks of the job in every group, by the name of the group: ``parallel_group_info`` of profiler_metadata.json."""

_ARGS = ("alg_type", "count", "data_type")
_BITS = re.compile(r"(\d+)")
_LANE = re.compile(r"Group (?P<name>.+?) Communication(?: Aicpu)?")


class CommunicationArgs(Struct, frozen=True):
    """What the args of the communication layers tell: of ``planes``, and of the slices ``item`` of the groups; (n,).

    ``size`` of these is in bytes, None where unknown.
    """

    planes: PlaneArgs
    item: I64
    algorithm: list[str]
    size: list[int | None]


def communication_args(trace: Trace) -> CommunicationArgs:
    """The args, read from the file in one go. Raises ``InputError`` if that is gone or has changed."""
    tasks = plane_tasks(trace)
    lanes = [np.arange(group.first, group.last, dtype=np.int64) for group, _ in groups_of(trace)]
    items = np.sort(np.concatenate([*lanes, np.zeros(0, np.int64)]))
    wanted = trace.slices.event[np.concatenate((tasks, items))]
    columns = trace.args.columns(wanted, (*PLANE_ARGS, *_ARGS))
    of_planes = [column[: len(tasks)] for column in columns[: len(PLANE_ARGS)]]
    algorithm, count, kind = (column[len(tasks) :].objects for column in columns[len(PLANE_ARGS) :])
    return CommunicationArgs(
        plane_args(tasks, of_planes),
        items,
        [name if isinstance(name, str) else "" for name in algorithm],
        [_size(number, data) for number, data in zip(count, kind, strict=True)],
    )


def with_own_args(found: Sequence[Collective], args: CommunicationArgs) -> list[Collective]:
    """``found`` with algorithm and size."""
    rows = np.searchsorted(args.item, np.array([each.item for each in found], np.int64)).tolist()
    return [
        replace(each, algorithm=args.algorithm[row], size=args.size[row]) for each, row in zip(found, rows, strict=True)
    ]


def _size(count: object, kind: object) -> int | None:
    """Bytes of ``count`` elements of a type such as ``FP32`` or ``INT8``; None where either is not known."""
    bits = _BITS.search(kind) if isinstance(kind, str) else None
    if bits is None or isinstance(count, bool) or not isinstance(count, int) or count <= 0:
        return None
    return count * max(int(bits[1]) // 8, 1)


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
