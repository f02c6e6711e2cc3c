"""The tree of modules: what each ``nn.Module`` launched, in its forward pass and in its backward pass.

torch_npu and torch write a slice ``nn.Module: Linear_3`` around each call of a module if ``with_stack`` or
``with_modules`` is on (https://pytorch.org/docs/stable/profiler.html). A kernel belongs to the innermost module around
the operation that launched it; an operation of the backward pass to that of its forward operation.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.analysis.calls import tree_paths
from npu_tui.analysis.code_lines import forward_of
from npu_tui.analysis.device import DeviceSlices, Window
from npu_tui.analysis.kernels import KernelTable, is_half, matrix_flops
from npu_tui.analysis.launches import Around, Dispatch, operation_of, operation_pairs
from npu_tui.trace.arrays import F64, I64, Bools, BySlice, most_first
from npu_tui.trace.model import Trace
from npu_tui.trace.once import of_trace
from npu_tui.trace.recorder import recorder_of

ShapesOf = Callable[[I64], Sequence[object]]
"""From operations (n,) to their ``Input Dims``, None where those are not known."""

MODULE = "nn.Module: "
"""What the name of a slice of a module begins with."""
# Types of kernels whose FLOP count; all others have too few.
_MATRIX = re.compile(r"matmul|gmm|conv[23]d|attention", re.IGNORECASE)
_CONVOLUTION = re.compile(r"conv[23]d", re.IGNORECASE)
_BACKWARD = re.compile(r"backprop|grad", re.IGNORECASE)
_SHAPED = re.compile(r"::_?convolution")
"""The operation whose shapes are input and weight of a convolution."""
# Where height and width stand in a shape, by its format.
_SIDES: dict[str, slice] = {"NCHW": slice(2, 4), "NC1HWC0": slice(2, 4), "NHWC": slice(1, 3)}


class Module(Struct, frozen=True):
    """A module by its ``path``, the names of the modules around it and its own; None: in no module. Times in ns.

    All figures but ``device_self`` include the modules inside. ``operations`` launched ``kernels`` (copies too), in the
    forward pass ``device_total`` of them, in the backward pass ``backward``. ``device_self`` is of both. ``lost``
    is not-a-number without launches, ``flops`` where a kernel of matrices has unknown FLOP; ``half`` says whether all
    of those compute in 16 bits. ``items`` are the calls by start.

    For a ``borrowed`` one another profile says which kernels it launched: its calls and operations are not known, and
    ``items`` are its kernels.
    """

    path: tuple[str, ...] | None
    calls: int | None
    operations: int | None
    kernels: int
    device_self: int
    device_total: int
    backward: int
    lost: float
    flops: float
    half: bool
    items: I64
    borrowed: bool = False

    @property
    def total(self) -> int:
        """The time of the kernels of both passes."""
        return self.device_total + self.backward


class _Launched(Struct, frozen=True):
    """The slices that operations launched, (n,): the operation, the call of a module (-1: none), which pass."""

    item: I64
    operation: I64
    call: I64
    backward: Bools


def modules(
    trace: Trace,
    window: Window,
    devices: Sequence[DeviceSlices],
    launches: Sequence[Dispatch],
    kernels: KernelTable,
    shapes_of: ShapesOf,
) -> list[Module]:
    """The modules of what starts on ``devices`` in ``window``, each before those in it; at last what is in none.

    Collectives are left out, as they wait. Empty where the trace has no slices of modules. ``kernels`` give shapes,
    ``launches`` lost time.
    """
    around = _module_calls(trace)
    if not len(around.items):
        return []
    works = np.logical_or.reduce(
        [np.zeros(len(trace.slices), np.bool_), *(device.compute | device.copy for device in devices)]
    )
    launched = _launched(trace, window, around, works)
    paths, above, names = _paths(trace)
    path = BySlice(around.items, paths).of(launched.call)
    count = len(names)
    node = np.where(path >= 0, path, count)  # what is in no module comes last
    length = trace.slices.end[launched.item] - trace.slices.start[launched.item]
    lost = lost_of(trace, launches).of(launched.item)
    flops, wide = _flops(trace, launched, kernels, shapes_of)
    first_of_operation = np.zeros(len(node), np.bool_)
    first_of_operation[np.unique(launched.operation, return_index=True)[1]] = True
    unknown = ~np.isfinite(flops)
    weights: dict[str, npt.NDArray[np.generic]] = {
        "own": length, "forward": np.where(launched.backward, 0, length),
        "backward": np.where(launched.backward, length, 0), "lost": np.maximum(lost, 0),
        "flops": np.where(unknown, 0.0, flops), "unknown": unknown, "wide": wide, "kernels": np.ones(len(node)),
        "operations": first_of_operation,
    }  # fmt: skip
    sums = {name: _summed(node, values, count + 1) for name, values in weights.items()}
    own = sums.pop("own")
    for k in range(count - 1, -1, -1):  # a caller has a lower number than what is in it
        if above[k] >= 0:
            for values in sums.values():
                values[above[k]] += values[k]
    order = np.argsort(paths, kind="stable")
    calls = np.bincount(paths, minlength=count)
    members = np.split(around.items[order], np.cumsum(calls)[:-1])

    def row(k: int, full: tuple[str, ...] | None, items: I64) -> Module:
        return Module(
            full,
            calls=len(items),
            operations=int(sums["operations"][k]),
            kernels=int(sums["kernels"][k]),
            device_self=int(own[k]),
            device_total=int(sums["forward"][k]),
            backward=int(sums["backward"][k]),
            lost=float(sums["lost"][k]) if launches else math.nan,
            flops=math.nan if sums["unknown"][k] else float(sums["flops"][k]),
            half=not sums["wide"][k],
            items=items,
        )

    rows = [
        row(k, full, members[k])
        for k, full in _tree_order(trace, above, names, sums["forward"] + sums["backward"])
        if sums["kernels"][k] or window.holds(trace.slices.start[members[k]]).any()
    ]
    return rows + ([row(count, None, np.zeros(0, np.int64))] if sums["kernels"][count] else [])


@of_trace
def _module_calls(trace: Trace) -> Around:
    """The calls of modules."""
    named = np.array([name.startswith(MODULE) for name in trace.names] + [False])
    return Around(trace, named[trace.slices.name])


@of_trace
def _paths(trace: Trace) -> tuple[I64, list[int], list[int]]:
    """``tree_paths`` of the calls of modules: the node of each call, and parent and name of each node."""
    around = _module_calls(trace)
    return tree_paths(trace, around.items, around.parents())


@of_trace
def _slices_of_operations(trace: Trace) -> I64:
    """The slices that operations launched, (n,)."""
    return np.unique(operation_pairs(trace)[1])


def _summed(node: I64, values: npt.NDArray[np.generic], count: int) -> F64:
    return np.asarray(np.bincount(node, values.astype(np.float64), count), np.float64)


def _launched(trace: Trace, window: Window, around: Around, works: Bools) -> _Launched:
    slices = trace.slices
    item = _slices_of_operations(trace)
    item = item[works[item] & window.holds(slices.start[item])]
    operation = operation_of(trace, item)
    call = around.find(slices.lane[operation], slices.start[operation], slices.end[operation])
    backward = call < 0
    forward = forward_of(trace, operation)
    found = around.find(np.where(forward >= 0, slices.lane[forward], -1), slices.start[forward], slices.end[forward])
    return _Launched(item, operation, np.where(backward, found, call), backward & (found >= 0))


def lost_of(trace: Trace, launches: Sequence[Dispatch]) -> BySlice:
    """How long the idle device waited for the launch of each slice, ns."""
    target = [trace.links.target_slice[device.link].astype(np.int64) for device in launches]
    lost = [np.rint(device.lost).astype(np.int64) for device in launches]
    nothing = np.zeros(0, np.int64)
    return BySlice(np.concatenate([nothing, *target]), np.concatenate([nothing, *lost]))


def _tree_order(
    trace: Trace, above: Sequence[int], names: Sequence[int], time: F64
) -> list[tuple[int, tuple[str, ...]]]:
    """The nodes of the tree with their paths: a module before those in it, which stand by time, most first."""
    below: dict[int, list[int]] = {}
    for k in most_first(time[: len(names)], [trace.names[name] for name in names]):
        below.setdefault(above[k], []).append(k)
    ordered: list[tuple[int, tuple[str, ...]]] = []
    stack: list[tuple[int, tuple[str, ...]]] = [(k, ()) for k in reversed(below.get(-1, []))]
    while stack:
        k, outer = stack.pop()
        path = (*outer, trace.names[names[k]].removeprefix(MODULE))
        ordered.append((k, path))
        stack += [(inner, path) for inner in reversed(below.get(k, []))]
    return ordered


def _flops(trace: Trace, launched: _Launched, kernels: KernelTable, shapes_of: ShapesOf) -> tuple[F64, Bools]:
    """FLOP of each launched slice: 0 of no matrices, not-a-number where unknown; and whether in more than 16 bits."""
    row = BySlice(kernels.item[kernels.item >= 0], np.flatnonzero(kernels.item >= 0)).of(launched.item)
    known = row >= 0
    matrix, convolution, backward = (_matching(kernels, pattern, row) for pattern in (_MATRIX, _CONVOLUTION, _BACKWARD))
    products = matrix_flops(kernels)
    products = products[row] if len(products) else np.full(len(row), np.nan)
    flops = np.where(matrix, np.where(known, products, np.nan), recorder_of(trace).flops_unnamed)
    wide = matrix & ~np.append(kernels.dtypes.where(is_half), False)[row]
    at = np.flatnonzero(convolution)
    if len(at):
        forward = at[~backward[at]]
        of_call = _convolutions(trace, launched, kernels, forward, row, shapes_of)
        flops[at] = [of_call(int(call)) for call in launched.call[at].tolist()]
    return flops, wide


def _matching(kernels: KernelTable, pattern: re.Pattern[str], row: I64) -> Bools:
    """Whether the type of each row is like ``pattern``; no for -1."""
    fits = np.array([pattern.search(kind) is not None for kind in kernels.type.values] + [False])
    code = np.append(kernels.type.code, -1)[row]
    return np.asarray(fits[code])


def _convolutions(
    trace: Trace, launched: _Launched, kernels: KernelTable, forward: I64, row: I64, shapes_of: ShapesOf
) -> Callable[[int], float]:
    """FLOP of a convolution by the call of its module, which has the same forward and backward.

    A module with several has not-a-number. What goes in is known by ``aten::_convolution``: kernels pad channels.
    """
    calls = launched.call[forward].tolist()
    once = [k for k, call in zip(forward.tolist(), calls, strict=True) if call >= 0 and calls.count(call) == 1]
    if not once:
        return lambda call: math.nan
    slices, operation = trace.slices, launched.operation[once]
    shaped = np.array([_SHAPED.search(name) is not None for name in trace.names] + [False])
    shaped_operations = Around(trace, shaped[slices.name])
    outer = shaped_operations.find(slices.lane[operation], slices.start[operation], slices.end[operation])
    known = np.flatnonzero(outer >= 0)
    flops = {
        int(launched.call[k]): _flops_of(shapes, kernels.outputs.at(int(row[k])), _format(kernels, int(row[k])))
        for k, shapes in zip(np.array(once)[known].tolist(), shapes_of(outer[known]), strict=True)
    }
    return lambda call: flops.get(call, math.nan)


def _format(kernels: KernelTable, row: int) -> str:
    column = kernels.details.get("output_formats")
    return ((column.at(row) if column is not None else None) or "").replace('"', "").split(";")[0].strip()


def _flops_of(dims: object, output: str | None, layout: str) -> float:
    """2 · N · Ho · Wo · (Cout · Cin / groups · Kh · Kw) of a convolution, ``dims`` the shapes of input and weight.

    Not-a-number where a shape is missing, or fits no convolution over images.
    """
    try:
        shapes = dims if isinstance(dims, list) else [shape.split(",") for shape in str(dims).split(";")]
        entered, weight = shapes[:2]
        height, width = [int(side) for side in (output or "").split(";")[0].split(",")][_SIDES[layout]]
        if len(entered) != 4 or len(weight) != 4:
            return math.nan
        return 2.0 * int(entered[0]) * height * width * math.prod(int(side) for side in weight)
    except (ValueError, TypeError, KeyError):
        return math.nan
