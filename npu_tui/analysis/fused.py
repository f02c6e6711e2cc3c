"""How long one kernel takes that does the work of several: what it moves and computes, at the pace of the profile.

It reads what none of them wrote and writes what the last one does; what they hand to each other stays on the core. In
attention that is the scores, so its products no longer wait for memory either.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

from npu_tui.analysis.kernels import (
    BACKWARD,
    KernelTable,
    is_half,
    matrix_flops,
    sides_of_shapes,
    tensor_bytes,
    unquoted,
)
from npu_tui.analysis.limits import NOTABLE
from npu_tui.trace.arrays import F64, I64, Bools

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
