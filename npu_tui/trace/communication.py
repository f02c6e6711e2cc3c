"""The lanes of communication layers, and what the args of their slices tell."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from npu_tui.trace.arg_column import ArgColumn
from npu_tui.trace.communication_args import CollectiveArgs, CommunicationArgs, PlaneArgs
from npu_tui.trace.model import Lane, Trace
from npu_tui.trace.once import of_trace

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

NO_RANK = 4_294_967_295
"""What msprof writes for a rank that a task has none of."""

_MOST_RANKS = 1 << 31
_MOST_BYTES = 1 << 44
"""No task moves as many bytes, so that the sum over those of a collective stays in 64 bits."""
_LARGEST = 1 << 62

_PLANE_ARGS = ("src rank", "dst rank", "size(Byte)", "link type")
_COLLECTIVE_ARGS = ("alg_type", "count", "data_type")
_BITS = re.compile(r"(\d+)")


def is_group_lane(name: str) -> bool:
    """Whether a lane of the communication layer holds whole collectives, not the tasks of one plane."""
    return not name.startswith("Plane ")


def groups_of(trace: Trace) -> list[tuple[Lane, list[Lane]]]:
    """The group lanes of every communication layer with their planes, which follow them by thread id."""
    found: list[tuple[Lane, list[Lane]]] = []
    for layer in trace.layers:
        if layer.kind != "communication":
            continue
        group: Lane | None = None
        for lane in sorted((trace.lanes[index] for index in layer.lanes), key=lambda lane: lane.tid):
            if is_group_lane(lane.name):
                group = lane
                found.append((lane, []))
            elif group is not None:
                found[-1][1].append(lane)
    return found


def plane_tasks(trace: Trace) -> I64:
    """All slices on the plane lanes of communication layers, ascending."""
    return _slices_on([lane for _, planes in groups_of(trace) for lane in planes])


def group_slices(trace: Trace) -> I64:
    """All slices on the group lanes of communication layers, which are the collectives, ascending."""
    return _slices_on([group for group, _ in groups_of(trace)])


def _slices_on(lanes: Sequence[Lane]) -> I64:
    found = [np.arange(lane.first, lane.last, dtype=np.int64) for lane in lanes]
    return np.sort(np.concatenate(found)) if found else np.zeros(0, np.int64)


def communication_args(trace: Trace) -> CommunicationArgs:
    """The args, which a parsed copy knows, else read from the file in one go and kept.

    Raises ``InputError`` if the file is gone or has changed.
    """
    return trace.communication or _read_args(trace)


@of_trace
def _read_args(trace: Trace) -> CommunicationArgs:
    tasks, collectives = plane_tasks(trace), group_slices(trace)
    wanted = trace.slices.event[np.concatenate((tasks, collectives))]
    columns = trace.args.columns(wanted, (*_PLANE_ARGS, *_COLLECTIVE_ARGS))
    source, target, size, link = (column[: len(tasks)] for column in columns[: len(_PLANE_ARGS)])
    algorithm, count, kind = (column[len(tasks) :] for column in columns[len(_PLANE_ARGS) :])
    planes = PlaneArgs(
        tasks, rank_numbers(source), rank_numbers(target), size.numbers(0, _MOST_BYTES), _codes(link), [*link.texts, ""]
    )
    sizes = [_size(number, data) for number, data in zip(count.objects, kind.objects, strict=True)]
    own = CollectiveArgs(collectives, _codes(algorithm), np.array(sizes, np.int64), [*algorithm.texts, ""])
    return CommunicationArgs(planes, own)


def rank_numbers(column: ArgColumn) -> I32:
    """The values of an arg such as ``dst rank`` as numbers, -1 where one is no rank or too large to be true; (n,)."""
    return column.numbers(0, _MOST_RANKS).astype(np.int32)


def _codes(column: ArgColumn) -> I32:
    """The place of each text in those of the column, the one after them for anything else; (n,)."""
    code = column.text_codes
    return np.where(code < 0, len(column.texts), code).astype(np.int32)


def _size(count: object, kind: object) -> int:
    """Bytes of ``count`` elements of a type such as ``FP32`` or ``INT8``; -1 where that is not known."""
    bits = _BITS.search(kind) if isinstance(kind, str) else None
    if bits is None or isinstance(count, bool) or not isinstance(count, int) or count <= 0:
        return -1
    size = count * max(int(bits[1]) // 8, 1)
    return size if size < _LARGEST else -1
