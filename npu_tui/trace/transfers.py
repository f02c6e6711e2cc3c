"""Collectives and copies of a trace: their lanes, and what the args of their slices say."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from npu_tui.trace.args import ABSENT, ArgColumn, CollectiveArgs, CommunicationArgs, Copies, PlaneArgs, as_number
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


Bools = npt.NDArray[np.bool_]

_TASK_TYPES = frozenset({"PCIE_DMA_SQE", "SDMA_SQE"})
_NAME = "MEMCPY"
_SIZES = ("data size(Byte)", "size(B)")
_WAYS = ("memcpy direction", "operation")
"""Older and newest names of the args."""
_MOST = 1 << 50


def copy_marks(trace: Trace) -> tuple[Bools, Bools]:
    """Which names and which task types of slices of hardware layers are those of copies.

    (names + 1,) and (task types + 1,); the last entry is that of none.
    """
    names = [name.startswith(_NAME) for name in trace.names]
    return np.array([*names, False]), np.array([*map(_TASK_TYPES.__contains__, trace.task_types), False])


def copy_slices(trace: Trace) -> I64:
    """The copies of all devices, as slices, ascending."""
    named, typed = copy_marks(trace)
    found = [np.zeros(0, np.int64)]
    for layer in trace.layers:
        for lane in (trace.lanes[each] for each in layer.lanes if layer.kind == "hardware"):
            own = slice(lane.first, lane.last)
            copied = named[trace.slices.name[own]] | typed[trace.slices.task_type[own]]
            found.append(lane.first + np.flatnonzero(copied))
    return np.sort(np.concatenate(found))


def copies_of(trace: Trace) -> Copies:
    """The copies that name their bytes, which a parsed copy of the trace knows, else read from the file and kept.

    Raises ``InputError`` if the file is gone or has changed.
    """
    return trace.copies or _read_copies(trace)


@of_trace
def _read_copies(trace: Trace) -> Copies:
    items = copy_slices(trace)
    columns = trace.args.columns(trace.slices.event[items], (*_SIZES, *_WAYS))
    told = np.flatnonzero(np.any([column.kind != ABSENT for column in columns[: len(_SIZES)]], axis=0))
    known, sizes, codes = [], [], []
    ways: dict[str, int] = {}
    for item, *values in zip(items[told].tolist(), *(column[told].objects for column in columns), strict=True):
        size, way = (next((str(each) for each in own if each), "") for own in (values[:2], values[2:]))
        number = as_number(size)
        if number is not None and 0 < number < _MOST:
            known.append(item)
            sizes.append(int(number))
            codes.append(ways.setdefault(way.lower() or "?", len(ways)))
    return Copies(np.array(known, np.int64), np.array(sizes, np.int64), np.array(codes, np.int32), list(ways))
