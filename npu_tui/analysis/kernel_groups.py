"""Kernels gathered by type, name, shapes, core or data type, with what a table of operators shows of each group."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.analysis.kernels import Coded, Groups, KernelTable

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]

By = Literal["type", "shapes", "name", "name_shapes", "core", "dtype", "kernel"]
WAYS: tuple[By, ...] = "type", "shapes", "name", "name_shapes", "core", "dtype", "kernel"


class KernelGroup(Struct, frozen=True):
    """Kernels that are alike, times in ns; None is unknown.

    ``members`` gives the positions in the table, the slowest first. ``wait`` is their sum. ``speed`` is GB/s over all
    of them, ``ratios`` are weighted by time. ``outliers`` counts those that took far longer than others of their type
    and shapes.
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
    """``kernels`` gathered ``by`` something, most time first; types are told apart by core where that is known."""
    if not len(kernels):
        return []
    groups = Groups(_keys(kernels, by), kernels.duration)
    total, count = groups.total, groups.count
    p50, p90 = groups.percentile(50.0), groups.percentile(90.0)
    shortest, longest = groups.percentile(0.0), groups.percentile(100.0)
    first = groups.order[groups.first]
    wait = np.bincount(groups.of, kernels.wait, len(count))
    outliers = np.bincount(groups.of, kernels.outliers(), len(count))
    size, sized = _weighted(groups, kernels.bytes, np.ones(len(kernels))), _time(groups, kernels.bytes, kernels)
    busy = {
        name: (_weighted(groups, ratio, kernels.duration), _time(groups, ratio, kernels))
        for name, ratio in kernels.ratios.items()
    }
    columns = kernels.type, kernels.name, kernels.shapes, kernels.core, kernels.dtypes
    alike = [_common(groups, coded) for coded in columns]
    whole = int(total.sum())
    found = []
    for k in np.lexsort((first, -total)).tolist():
        own = int(first[k])
        texts = [coded.at(own) if same[k] else None for coded, same in zip(columns, alike, strict=True)]
        found.append(
            KernelGroup(
                type=texts[0] or "",
                name=texts[1] or "",
                shapes=texts[2],
                core=texts[3],
                dtypes=texts[4],
                count=int(count[k]),
                total=int(total[k]),
                share=int(total[k]) / whole if whole else 0.0,
                shortest=int(shortest[k]),
                p50=float(p50[k]),
                p90=float(p90[k]),
                longest=int(longest[k]),
                wait=int(wait[k]),
                speed=float(size[k] / sized[k]) if sized[k] else None,
                ratios={name: float(sums[k] / times[k]) if times[k] else None for name, (sums, times) in busy.items()},
                outliers=int(outliers[k]),
                members=partial(groups.items, k),
            )
        )
    return found


def _keys(kernels: KernelTable, by: By) -> I64:
    """A code per kernel, equal for those of one group."""
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
        key = np.unique(key, return_inverse=True)[1].astype(np.int64)  # products of many texts would overflow
    return key


def _common(groups: Groups, coded: Coded) -> npt.NDArray[np.bool_]:
    """Whether all kernels of a group have the same text; (groups,)."""
    code = coded.code[groups.order]
    low, high = np.minimum.reduceat(code, groups.first), np.maximum.reduceat(code, groups.first)
    return np.asarray((low == high) & (low >= 0))


def _weighted(groups: Groups, value: F64, weight: npt.ArrayLike) -> F64:
    known = np.isfinite(value)
    product = np.where(known, value, 0.0) * np.asarray(weight, np.float64)
    return np.asarray(np.bincount(groups.of, product, len(groups.count)), np.float64)


def _time(groups: Groups, value: F64, kernels: KernelTable) -> F64:
    """The time of the kernels whose ``value`` is known, ns; (groups,)."""
    known = np.where(np.isfinite(value), kernels.duration, 0).astype(np.float64)
    return np.asarray(np.bincount(groups.of, known, len(groups.count)), np.float64)
