"""Operators: the types of kernels and collectives by their names, compute time by type, tables of groups.

How long one kernel takes that does the work of several: what it moves and computes, at the pace of the profile. It
reads what none of them wrote and writes what the last one does; what they hand to each other stays on the core. In
attention that is the scores, so its products no longer wait for memory either.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.analysis.kernels import (
    BACKWARD,
    Coded,
    Groups,
    KernelTable,
    is_half,
    matrix_flops,
    sides_of_shapes,
    tensor_bytes,
    unquoted,
)
from npu_tui.analysis.launches import dequeued_launches
from npu_tui.analysis.limits import NOTABLE
from npu_tui.trace.arrays import F64, I64, Bools, BySlice, distinct
from npu_tui.trace.kineto import exchanges
from npu_tui.trace.model import Trace
from npu_tui.trace.recorder import recorder_of

TypesOf = Callable[[I64], tuple[list[str], I64]]
"""From slices (n,) to their distinct operator types and the index of each one's type; (n,)."""

_DEQUEUE = "Dequeue@"


_NUMBERED = re.compile(r"([A-Z][A-Za-z0-9]*?(?:V\d)?)\d*(?:_\d+)*")
_INSERTED = re.compile(r"(?:trans|\w+?)_(TransData|MemSet)(?:_\d+)*")
_IN_SCOPE = re.compile(r".*/([A-Z]\w*?)-op\d+")
_COMPILED = re.compile(r"([A-Z]\w*?)_[0-9a-f]{32}_high_(?:performance|precision)_\w+")
"""Names that carry a type without aclnn: ``Conv2D1``, ``MatMulV2_7`` and ``Cast_12``; what the graph engine inserts,
such as ``trans_TransData_0`` and ``ReduceSum7_MemSet``; operators of MindSpore, such as ``Default/net/MatMul-op3``;
what CANN compiles, such as ``Relu_5c5e58e043224cccf51a06108010ae13_high_performance_210000000``."""
_TYPED = _NUMBERED, _INSERTED, _IN_SCOPE, _COMPILED


@lru_cache(maxsize=1 << 16)  # of many names, and several rules ask
def operator_type(name: str, operation: str = "") -> str:
    """The operator type in a kernel's ``name``, as op_statistic.csv and kernel_details.csv give it.

    Only names of CANN's own operators carry a type. Kernels of Triton, of tilelang and of users count under their own
    name: the end of ``_attn_fwd_kernel`` is no type. ``operation`` is the name in the launching ``Dequeue@`` slice. It
    separates the operator ``MaxPoolWithArgmaxV1``, whose name ends with a digit, from a number that was appended.
    """
    if name.rstrip("-0123456789_").lower() == "memset":
        return "MemSet"  # older chips write ``MEMSET`` or ``memset_1``
    word = _last_word(name)
    if operation and word.startswith(operation) and word[len(operation) :].isdecimal():
        return operation
    if name.startswith("aclnn"):
        return word  # ``aclnnMatmul_MatMulCommon_MatMulV2`` is a MatMulV2
    return next((match[1] for form in _TYPED if (match := form.fullmatch(name))), name)


_TEMPLATE = re.compile(r"<[^<>]*>|\([^()]*\)")
_ANONYMOUS = re.compile(r"(?:\(anonymous namespace\)|<unnamed>|\{anonymous\})::")
"""How demanglers write a namespace without a name."""
_PART_OF_TAIL = re.compile(r"[0-9a-f]{8,}|\d+", re.IGNORECASE)
_MOST_NESTED = 64  # each round removes one level of templates; a hostile name may have any number


def foreign_type(name: str) -> str:
    """A kernel's ``name`` on a GPU without arguments of templates and calls, hashes and trailing digits."""
    name = _ANONYMOUS.sub("", name)
    for _ in range(_MOST_NESTED):
        before, name = name, _TEMPLATE.sub("", name)
        if before == name:
            break
    name = name.removeprefix("void ").strip()
    end = len(name)
    while (at := max(name.rfind("_", 0, end), name.rfind("-", 0, end))) >= 0:
        if not _PART_OF_TAIL.fullmatch(name, at + 1, end):
            break
        end = at
    return name[:end] or name


def _last_word(name: str) -> str:
    """The last word of ``name`` that is no number."""
    words = name.split("_")
    while len(words) > 1 and words[-1].isdecimal():
        words.pop()
    return words[-1]


_OF_KERNEL = re.compile(
    r"\w*?ccl\w*?_(?:All_?Reduce|All_?Gather|Reduce_?Scatter|Broadcast|Reduce|Send_?Recv|All_?to_?All)", re.IGNORECASE
)


@lru_cache(maxsize=1 << 16)  # every collective has a unique name, and several rules ask
def collective_type(name: str) -> str:
    """The type of a collective: ``hcom_allReduce_`` of ``hcom_allReduce__586_0_1``, ``ncclDevKernel_AllReduce``."""
    if kernel := _OF_KERNEL.match(name):
        return kernel[0]
    if exchanges(name):  # a kernel by itself
        return foreign_type(operator_type(name))
    head, double, _ = name.partition("__")
    return f"{head}_" if double else _last_word(name).rstrip("0123456789") or name


def collective_types(trace: Trace, items: I64) -> tuple[I64, list[str]]:
    """The type of each of the collectives ``items``, (n,), as an index of the types, in order of first occurrence."""
    names, name = distinct(trace.slices.name[items])
    firsts = np.full(len(names), len(items))
    np.minimum.at(firsts, name, np.arange(len(items)))
    types: dict[str, int] = {}
    of_name = np.zeros(len(names), np.int64)
    for k in np.argsort(firsts).tolist():
        of_name[k] = types.setdefault(collective_type(trace.names[int(names[k])]), len(types))
    return of_name[name], list(types)


def kernel_types(trace: Trace, items: I64) -> tuple[list[str], I64]:
    """The distinct operator types of the kernels ``items`` by name, and the index of each one's type; (n,)."""
    slices, is_symbol = trace.slices, recorder_of(trace).names_are_symbols
    operation = _dequeued_names(trace, items)
    (names, name), (launching, launch) = distinct(slices.name[items]), distinct(operation)
    # A trace has millions of kernels but few pairs of name and launching operation: each pair is parsed once.
    pairs, code = distinct(name * len(launching) + launch)
    types: dict[str, int] = {}
    of_pair = np.zeros(len(pairs), np.int64)
    for k, (name_code, launch_code) in enumerate(
        zip(*(codes.tolist() for codes in np.divmod(pairs, len(launching))), strict=True)
    ):
        dequeue = int(launching[launch_code])
        queued = trace.names[dequeue].removeprefix(_DEQUEUE) if dequeue >= 0 else ""
        called = trace.names[int(names[name_code])]
        kind = foreign_type(called) if is_symbol else operator_type(called, queued)
        of_pair[k] = types.setdefault(kind, len(types))
    return list(types), of_pair[code]


def _dequeued_names(trace: Trace, items: I64) -> I64:
    """The name code of the ``Dequeue@operation`` slice that launched each of ``items``, -1 without one; (n,)."""
    link, dequeue = dequeued_launches(trace)
    named = np.array([name.startswith(_DEQUEUE) for name in trace.names] + [False])
    name = np.where(dequeue >= 0, trace.slices.name[dequeue], -1)
    known = named[name]
    target = trace.links.target_slice[link[known]]
    # Reversed: of several launches of one slice the last one counts.
    return BySlice(target[::-1], name[known][::-1]).of(items)


# --- Tables of groups ---

By = Literal["type", "shapes", "name", "name_shapes", "core", "dtype", "kernel"]
WAYS: tuple[By, ...] = "type", "shapes", "name", "name_shapes", "core", "dtype", "kernel"


class KernelGroup(Struct, frozen=True):
    """Kernels with the same key, such as type and shapes; times in ns. A text is None where the kernels differ in it.

    ``members`` gives the positions in the table, the slowest first. ``wait`` is the sum of their waits, ``speed`` is in
    GB/s over all of them, ``ratios`` are weighted by time. ``outliers`` counts kernels that took far longer than others
    of their type and shapes.
    """

    type: str
    name: str
    shapes: str | None
    core: str | None
    dtypes: str | None
    count: int
    total: int
    share: float
    shortest: int
    p50: float
    p90: float
    longest: int
    wait: int
    speed: float | None
    ratios: dict[str, float | None]
    outliers: int
    members: Callable[[], I64]

    @property
    def average(self) -> float:
        """Mean duration, ns."""
        return self.total / self.count


def kernel_groups(kernels: KernelTable, by: By) -> list[KernelGroup]:
    """``kernels`` grouped ``by`` a key, most time first; groups by type or name are split by core where it is known."""
    if not len(kernels):
        return []
    groups = Groups(_group_codes(kernels, by), kernels.duration)
    total, count = groups.total, groups.count
    p50, p90 = groups.percentile(50.0), groups.percentile(90.0)
    shortest, longest = groups.percentile(0.0), groups.percentile(100.0)
    first = groups.order[groups.first]
    wait = np.bincount(groups.of, kernels.wait, len(count))
    outliers = np.bincount(groups.of, kernels.outliers(), len(count))
    size, sized = _weighted(groups, kernels.bytes, np.ones(len(kernels))), _known_time(groups, kernels.bytes, kernels)
    ratio_sums = {
        name: (_weighted(groups, ratio, kernels.duration), _known_time(groups, ratio, kernels))
        for name, ratio in kernels.ratios.items()
    }
    columns = kernels.type, kernels.name, kernels.shapes, kernels.core, kernels.dtypes
    # A text is shown where all members of a group have the same one.
    uniform = [_common(groups, coded) for coded in columns]
    total_time = int(total.sum())
    rows = []
    for k in np.lexsort((first, -total)).tolist():
        member = int(first[k])
        texts = [coded.at(member) if same[k] else None for coded, same in zip(columns, uniform, strict=True)]
        rows.append(
            KernelGroup(
                type=texts[0] or "",
                name=texts[1] or "",
                shapes=texts[2],
                core=texts[3],
                dtypes=texts[4],
                count=int(count[k]),
                total=int(total[k]),
                share=int(total[k]) / total_time if total_time else 0.0,
                shortest=int(shortest[k]),
                p50=float(p50[k]),
                p90=float(p90[k]),
                longest=int(longest[k]),
                wait=int(wait[k]),
                speed=float(size[k] / sized[k]) if sized[k] else None,
                ratios={
                    name: float(sums[k] / times[k]) if times[k] else None for name, (sums, times) in ratio_sums.items()
                },
                outliers=int(outliers[k]),
                members=partial(groups.items, k),
            )
        )
    return rows


def _group_codes(kernels: KernelTable, by: By) -> I64:
    """A code per kernel, equal within a group; (n,)."""
    if by == "kernel":
        return np.arange(len(kernels), dtype=np.int64)
    columns = {
        "type": (kernels.type, kernels.core),
        "name": (kernels.name, kernels.core),
        "shapes": (kernels.type, kernels.shapes),
        "name_shapes": (kernels.name, kernels.shapes),
        "core": (kernels.core,),
        "dtype": (kernels.dtypes,),
    }[by]
    key = np.zeros(len(kernels), np.int64)
    for coded in columns:
        key = key * (len(coded.values) + 1) + coded.code + 1
        key = np.unique(key, return_inverse=True)[1].astype(
            np.int64
        )  # renumbered at once: products of several columns would overflow
    return key


def _common(groups: Groups, coded: Coded) -> npt.NDArray[np.bool_]:
    """Whether all kernels of a group have the same known text; (groups,)."""
    code = coded.code[groups.order]
    low, high = np.minimum.reduceat(code, groups.first), np.maximum.reduceat(code, groups.first)
    return np.asarray((low == high) & (low >= 0))


def _weighted(groups: Groups, value: F64, weight: npt.ArrayLike) -> F64:
    """The sum of the known values of each group times their weights; (groups,)."""
    known = np.isfinite(value)
    product = np.where(known, value, 0.0) * np.asarray(weight, np.float64)
    return np.asarray(np.bincount(groups.of, product, len(groups.count)), np.float64)


def _known_time(groups: Groups, value: F64, kernels: KernelTable) -> F64:
    """The time of the kernels whose ``value`` is known, ns; (groups,)."""
    known = np.where(np.isfinite(value), kernels.duration, 0).astype(np.float64)
    return np.asarray(np.bincount(groups.of, known, len(groups.count)), np.float64)


Tensor = tuple[int, str]
"""Its elements and their type: views give it other sides."""


def fused_times(table: KernelTable, rows: I64, run: I64, backward: bool, products: Bools) -> F64:
    """How long one kernel takes in place of the ``rows`` of each ``run``, ns, not-a-number where shapes are unknown.

    ``rows`` are in order of run and start, (n,); ``run`` counts from 0. ``products`` (kernels,) are those on the cube.
    Where a run has no two batched products, they stay as they are.
    """
    flops, pace = matrix_flops(table), _pace_of_products(table, products)
    like = np.zeros(len(rows), np.int64)
    kinds = table.details.get("output_types")
    for column in (table.type, table.shapes, table.dtypes, table.outputs, *([] if kinds is None else [kinds])):
        like = np.unique(like * (len(column.values) + 1) + column.code[rows] + 1, return_inverse=True)[1]
    ends = np.flatnonzero(np.append(np.diff(run) > 0, True)) + 1
    moved: dict[tuple[int, ...], tuple[float, float]] = {}
    times = np.full(len(ends), np.nan)
    for number, (first, last) in enumerate(zip(np.append(0, ends[:-1]).tolist(), ends.tolist(), strict=True)):
        own = rows[first:last]
        known = moved.setdefault(tuple(like[first:last].tolist()), (math.nan, math.nan))
        if math.isnan(known[0]):
            known = moved[tuple(like[first:last].tolist())] = _moved(table, own), float(flops[own].sum())
        cube = products[own]
        length, speed = table.duration[own].astype(np.float64), _speed(table, own[~cube])
        if speed <= 0:
            continue
        kept = float(length[cube].sum())
        batched = cube & table.type.taken(own).where(lambda kind: kind.startswith("BatchMatMul"))
        if np.count_nonzero(batched) > 1 and batched.sum() == cube.sum():
            work = float(flops[own[cube]].sum()) * (BACKWARD / 2 if backward else 1.0)  # four of five products
            kept = min(kept, work / pace) if pace > 0 and work > 0 else kept
        times[number] = max(known[0] / speed, kept)
    return times


def _speed(table: KernelTable, rows: I64) -> float:
    """GB/s of the kernels at ``rows`` that move most; 0 where that is unknown."""
    rows = rows[table.duration[rows] >= NOTABLE * table.duration[rows].max(initial=0)]
    total, time = float(table.bytes[rows].sum()), int(table.duration[rows].sum())
    return total / time if time and math.isfinite(total) else 0.0


def _pace_of_products(table: KernelTable, products: Bools) -> float:
    """FLOP a ns of the products in 16 bits that are not batched; 0 without any."""
    flops = matrix_flops(table)
    rows = products & table.dtypes.where(is_half) & (flops > 0)
    rows &= ~table.type.where(lambda kind: kind.startswith("BatchMatMul"))
    time = int(table.duration[rows].sum())
    return float(flops[rows].sum()) / time if time else 0.0


def _moved(table: KernelTable, rows: I64) -> float:
    """Bytes that the kernels at ``rows``, one after another, read of what none of them wrote, and the last one writes.

    A kernel that reads more of equal tensors than there are reads others. Not-a-number where a shape is unknown.
    """
    there: Counter[Tensor] = Counter()
    total, kinds = 0.0, table.details.get("output_types")
    written: list[Tensor] = []
    for row in rows.tolist():
        into = unquoted(None if kinds is None else kinds.at(row))
        read, written = _tensors(table.shapes.at(row), table.dtypes.at(row)), _tensors(table.outputs.at(row), into)
        for tensor, count in Counter(read).items():
            more = max(count - there[tensor], 0)
            total += more * _size(tensor)
            there[tensor] += more
        there.update(written)
        if not read or not written:
            return math.nan
    return total + sum(map(_size, written))


def _tensors(shapes: str | None, kinds: str | None) -> list[Tensor]:
    sides, types = sides_of_shapes(shapes), (kinds or "").split(";")
    if shapes is None or len(sides) != len(types):
        return []
    return [(math.prod(side), kind) for side, kind in zip(sides, types, strict=True) if side]


def _size(tensor: Tensor) -> float:
    return tensor_bytes(str(tensor[0]), tensor[1])
