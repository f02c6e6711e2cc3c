"""Collectives and copies of a trace: which slices they are, and the args of these slices as columns.

A communication layer has one group lane per communicator, with the collectives, followed by the lanes ``Plane 0``,
``Plane 1``, ... with the tasks that carry them out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from npu_tui.trace.args import (
    ABSENT,
    MOST_BYTES,
    ArgColumn,
    CollectiveArgs,
    CommunicationArgs,
    PlaneArgs,
    SizedCopies,
    as_number,
)
from npu_tui.trace.arrays import I32, I64, Bools
from npu_tui.trace.intervals import inside, union
from npu_tui.trace.kineto import exchanges
from npu_tui.trace.model import HOST_TO_DEVICE, UNFINISHED, Lane, Layer, Trace
from npu_tui.trace.once import of_trace

NO_RANK = 4_294_967_295
"""What msprof writes where a task has no such rank."""

_MOST_RANKS = 1 << 31  # ranks are 32 bits wide
_LARGEST = 1 << 62  # a larger product has left 64 bits

_PLANE_ARGS = ("src rank", "dst rank", "size(Byte)", "link type")
_COLLECTIVE_ARGS = ("alg_type", "count", "data_type")
_BITS = re.compile(r"(\d+)")


NOTIFY_WAIT = "notify_wait"


def plane_task(name: str) -> str:
    """``name`` of a task of a plane, spelled one way: older writers have blanks in it."""
    return name.replace(" ", "_").lower()


def is_group_lane(name: str) -> bool:
    """Whether a lane of a communication layer holds collectives, not the tasks of one plane."""
    return not name.startswith("Plane ")


def groups_of(trace: Trace) -> list[tuple[Lane, list[Lane]]]:
    """The group lanes of every communication layer, each with its planes, which follow it in the profiler's order.

    Up to CANN 7 planes may come before the first group: they are those of that group.
    """
    groups: list[tuple[Lane, list[Lane]]] = []
    for layer in trace.layers:
        if layer.kind != "communication":
            continue
        before: list[Lane] = []
        planes = before
        for lane in (trace.lanes[index] for index in layer.lanes):
            if is_group_lane(lane.name):
                planes, before = ([] if planes is not before else before), []
                groups.append((lane, planes))
            else:
                planes.append(lane)
    return groups


def plane_tasks(trace: Trace) -> I64:
    """All slices on the plane lanes of communication layers, ascending."""
    return _slices_on([lane for _, planes in groups_of(trace) for lane in planes])


def collectives_of_groups(trace: Trace) -> I64:
    """The collectives: all slices on the group lanes of communication layers, and kernels; ascending."""
    of_groups = _slices_on([group for group, _ in groups_of(trace)])
    return _with_known_end(trace, np.sort(np.concatenate((of_groups, kernels_beside_groups(trace)))))


@of_trace
def kernels_beside_groups(trace: Trace) -> I64:
    """The kernels that exchange with other ranks by themselves, without those that a group lane has; ascending."""
    slices = trace.slices
    named = np.array([exchanges(name) for name in trace.names] + [False])
    if not named.any():
        return np.zeros(0, np.int64)
    kernel = np.array([kind in _KERNEL_TYPES or kind == _AI_CPU for kind in trace.task_types] + [False])
    streams = [lane for lane in trace.file_lanes if trace.layers[lane.layer].kind == "hardware"]
    items = _slices_on([lane for lane in streams if lane.index not in collective_streams(trace)])
    items = items[named[slices.name[items]] & (kernel[slices.task_type[items]] | (not kernel.any()))]
    told = _slices_on([group for group, _ in groups_of(trace)])
    spans = union(slices.start[told], slices.end[told])
    middle = slices.start[items] + (slices.end[items] - slices.start[items]) // 2
    alone: I64 = items[~inside(*spans, middle)]
    return alone


def _with_known_end(trace: Trace, items: I64) -> I64:
    """Those of ``items`` whose end is known."""
    if UNFINISHED not in trace.categories:
        return items
    ended: Bools = trace.slices.category[items] != trace.categories.index(UNFINISHED)
    return items[ended]


def _slices_on(lanes: Sequence[Lane]) -> I64:
    parts = [np.arange(lane.first, lane.last, dtype=np.int64) for lane in lanes]
    return np.sort(np.concatenate(parts)) if parts else np.zeros(0, np.int64)


def args_of_planes(trace: Trace) -> CommunicationArgs:
    """The args of tasks and collectives of communication layers."""
    tasks, collectives = plane_tasks(trace), collectives_of_groups(trace)
    wanted = trace.slices.event[np.concatenate((tasks, collectives))]
    columns = trace.args.columns(wanted, (*_PLANE_ARGS, *_COLLECTIVE_ARGS))
    source, target, size, link = (column[: len(tasks)] for column in columns[: len(_PLANE_ARGS)])
    algorithm, count, kind = (column[len(tasks) :] for column in columns[len(_PLANE_ARGS) :])
    planes = PlaneArgs(
        tasks,
        rank_numbers(source),
        rank_numbers(target),
        size.numbers(0, MOST_BYTES),
        _text_codes(link),
        [*link.texts, ""],
    )
    sizes = [_element_bytes(number, data) for number, data in zip(count.objects, kind.objects, strict=True)]
    collective_args = CollectiveArgs(
        collectives, _text_codes(algorithm), np.array(sizes, np.int64), [*algorithm.texts, ""]
    )
    return CommunicationArgs(planes, collective_args)


def rank_numbers(column: ArgColumn) -> I32:
    """The values of an arg such as ``dst rank`` as numbers, -1 where the value is not a rank; (n,)."""
    return column.numbers(0, _MOST_RANKS).astype(np.int32)


def _text_codes(column: ArgColumn) -> I32:
    """The index of each value in the texts of the column; the index after the last one stands for "no text"; (n,)."""
    code = column.text_codes
    return np.where(code < 0, len(column.texts), code).astype(np.int32)


def _element_bytes(count: object, kind: object) -> int:
    """Bytes of ``count`` elements of a type such as ``FP32`` or ``INT8``; -1 where unknown."""
    # ``BFP16`` has 2 bytes, ``INT8`` one; a 4-bit element counts as one.
    bits = _BITS.search(kind) if isinstance(kind, str) else None
    if bits is None or isinstance(count, bool) or not isinstance(count, int) or count <= 0:
        return -1
    size = count * max(int(bits[1]) // 8, 1)
    return size if size < _LARGEST else -1


_TASK_TYPES = frozenset({"PCIE_DMA_SQE", "SDMA_SQE"})
_NAME = "MEMCPY"
_SIZES = ("data size(Byte)", "size(B)")
_WAYS = ("memcpy direction", "operation")
"""Older and newest names of the args."""
_MOST = 1 << 50  # bytes: no copy is a petabyte


_EVENTS = ("EVENT", "PLACE_HOLDER")
_NOT_KERNELS = ("MEMCPY", "EVENT", "NOTIFY")


def names_like(names: list[str], rule: Callable[[str], bool]) -> Bools:
    """Which of ``names`` pass ``rule``; one more entry answers False for the code -1, "no name"."""
    return np.array([rule(name) for name in names] + [False])


def copy_marks(trace: Trace) -> tuple[Bools, Bools]:
    """Masks over the names and over the task types of the trace: which of them mark a copy on a hardware layer.

    (names + 1,) and (task types + 1,): the last entry answers for the code -1, "none".
    """
    names = [name.startswith(_NAME) for name in trace.names]
    return np.array([*names, False]), np.array([*map(_TASK_TYPES.__contains__, trace.task_types), False])


_NOTIFY = re.compile(r"notify[_ ](?:wait|record)", re.IGNORECASE)
_KERNEL_TYPES, _AI_CPU = frozenset({"AI_CORE", "AI_VECTOR_CORE", "MIX_AIC", "MIX_AIV"}), "AI_CPU"
"""A trace without any of the first has no task types for its kernels: then launches and names decide."""
_COMPUTING = _KERNEL_TYPES | {_AI_CPU, "DSA_SQE"}
"""Task types of msprof's ``Ascend Hardware`` slices that compute."""


@of_trace
def collective_streams(trace: Trace) -> frozenset[int]:
    """The lanes of streams that carry out collectives: they wait for other ranks, and copy without a launch.

    An export of hardware tasks alone (``task_time`` of msprof) has nothing else of its collectives.
    """
    kernel = np.array([kind in _KERNEL_TYPES for kind in trace.task_types] + [False])
    notify = np.array([_NOTIFY.match(name) is not None for name in trace.names] + [False])
    named, typed = copy_marks(trace)
    slices, lanes = trace.slices, []
    targets = trace.links.target_slice[trace.links_of(HOST_TO_DEVICE)]
    targets = targets[targets >= 0]
    copied = slices.lane[targets[named[slices.name[targets]] | typed[slices.task_type[targets]]]]
    launched = set(np.unique(copied).tolist())
    for layer in trace.layers:
        for lane in (trace.lanes[index] for index in layer.lanes if layer.kind == "hardware"):
            tasks = slice(lane.first, lane.last)
            if lane.index in launched or not notify[slices.name[tasks]].any():
                continue
            if not kernel[slices.task_type[tasks]].any():
                lanes.append(lane.index)
    return frozenset(lanes)


def copy_slices(trace: Trace) -> I64:
    """The copies (slices) of all devices, ascending; without those of collectives."""
    # Some writers name a copy (``MEMCPY_ASYNC``), others only give its task type.
    named, typed = copy_marks(trace)
    parts = [np.zeros(0, np.int64)]
    for layer in trace.layers:
        for lane in (trace.lanes[index] for index in layer.lanes if layer.kind == "hardware"):
            if lane.index in collective_streams(trace):
                continue
            slices_of_lane = slice(lane.first, lane.last)
            copied = named[trace.slices.name[slices_of_lane]] | typed[trace.slices.task_type[slices_of_lane]]
            parts.append(lane.first + np.flatnonzero(copied))
    return np.sort(np.concatenate(parts))


def work_of_tasks(trace: Trace, layers: Sequence[Layer]) -> tuple[Bools, Bools, Bools]:
    """Masks over all slices of what the ``layers`` of a device compute, exchange with other ranks and copy; (n,)."""
    slices = trace.slices
    hardware = [trace.lanes[lane] for layer in layers if layer.kind == "hardware" for lane in layer.lanes]
    lanes = [trace.lanes[lane] for layer in layers if layer.kind == "communication" for lane in layer.lanes]
    groups = [lane for lane in lanes if is_group_lane(lane.name)]
    copied, copying = copy_marks(trace)
    computing, of_core = (names_like(trace.task_types, kinds.__contains__) for kinds in (_COMPUTING, _KERNEL_TYPES))
    compute, copy = (np.zeros(len(slices), np.bool_) for _ in range(2))
    spans = [slice(lane.first, lane.last) for lane in hardware]
    has_types = False
    for span in spans:
        kind = slices.task_type[span]
        copy[span] = copied[slices.name[span]] | copying[kind]
        compute[span] = computing[kind]
        has_types |= bool(of_core[kind].any())
    # A writer without task types: a kernel is what a launch leads to and no name excludes.
    if not has_types:
        targets = trace.links.target_slice[trace.links_of(HOST_TO_DEVICE)]
        launched = np.zeros(len(slices), np.bool_)
        launched[targets[targets >= 0]] = True
        no_kernel = names_like(trace.names, lambda name: name.startswith(_NOT_KERNELS))
        for span in spans:
            compute[span] |= launched[span] & ~no_kernel[slices.name[span]]
    # Older chips run copies on the AI CPU, whose task type counts as compute.
    for span in spans:
        compute[span] &= ~copy[span]
    exchanging = on_lanes(trace, [lane for lane in hardware if lane.index in collective_streams(trace)])
    copy &= ~exchanging
    moving = compute & names_like(trace.names, exchanges)[slices.name]
    compute &= ~moving
    if groups:
        alone = np.zeros(len(slices), np.bool_)
        alone[kernels_beside_groups(trace)] = True
        return compute, on_lanes(trace, groups) | (moving & alone), copy
    event = names_like(trace.names, lambda name: name.startswith(_EVENTS))
    return compute & ~exchanging, moving | (exchanging & ~event[slices.name]), copy


def on_lanes(trace: Trace, lanes: Sequence[Lane]) -> Bools:
    """Which slices lie on ``lanes``; (n,)."""
    mask = np.zeros(len(trace.slices), np.bool_)
    for lane in lanes:
        mask[lane.first : lane.last] = True
    return mask


def copies_of(trace: Trace) -> SizedCopies:
    """The copies with a known size, from the parsed copy of the trace or else from its file, which is read once.

    Raises ``InputError`` if the file is gone or has changed.
    """
    return trace.copies or _read_copies(trace)


@of_trace
def _read_copies(trace: Trace) -> SizedCopies:
    items = copy_slices(trace)
    columns = trace.args.columns(trace.slices.event[items], (*_SIZES, *_WAYS))
    sized = np.flatnonzero(np.any([column.kind != ABSENT for column in columns[: len(_SIZES)]], axis=0))
    copies, sizes, codes = [], [], []
    ways: dict[str, int] = {}
    for item, *values in zip(items[sized].tolist(), *(column[sized].objects for column in columns), strict=True):
        size, way = (next((str(value) for value in cells if value), "") for cells in (values[:2], values[2:]))
        number = as_number(size)
        if number is not None and 0 < number < _MOST:
            copies.append(item)
            sizes.append(int(number))
            codes.append(ways.setdefault(way.lower() or "?", len(ways)))
    return SizedCopies(np.array(copies, np.int64), np.array(sizes, np.int64), np.array(codes, np.int32), list(ways))
