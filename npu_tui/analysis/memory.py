"""Device memory over time: curves of the allocators and of the process, and the allocations behind them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from msgspec import Struct

from npu_tui.analysis.kernels import Coded
from npu_tui.trace.arrays import I64

Amount = Literal["allocated", "reserved", "active", "gap"]
"""The quantity of a curve; ``gap`` is reserved minus allocated and is computed."""
AMOUNTS: tuple[Amount, ...] = "allocated", "reserved", "active"

NEVER = 2**62
"""The end of an allocation that was not released while profiling."""
BEFORE = -(2**62)
"""The start of an allocation that existed before profiling began."""
APP = "APP"
"""The component that stands for the process as a whole."""


class MemoryCurve(Struct, frozen=True):
    """Bytes ``value`` of one ``component`` from ``time`` (ns, strictly ascending) on; (n,)."""

    component: str
    amount: Amount
    time: I64
    value: I64

    @property
    def peak(self) -> tuple[int, int]:
        """The time of the first maximum, ns, and its bytes."""
        at = int(self.value.argmax())
        return int(self.time[at]), int(self.value[at])

    def at(self, time: int) -> int | None:
        """The bytes at ``time`` ns; None before the first record."""
        index = int(np.searchsorted(self.time, time, "right")) - 1
        return int(self.value[index]) if index >= 0 else None


class Allocations(Struct, frozen=True):
    """The allocations of operations: ``size`` bytes, alive in ``[start, end)`` ns; (n,).

    Those of a memory snapshot have a ``line``, a code of ``lines``, and a ``maker``, their slice (-1 without one).
    """

    name: Coded
    size: I64
    start: I64
    end: I64
    line: I64 | None = None
    lines: Sequence[object] = ()
    maker: I64 | None = None

    def __len__(self) -> int:
        return len(self.size)

    def alive(self, time: int) -> I64:
        """The positions of the allocations that are alive at ``time`` ns."""
        return np.flatnonzero((self.start <= time) & (self.end > time))

    @property
    def kept(self) -> I64:
        """The positions of the allocations made while profiling and not released."""
        return np.flatnonzero((self.end == NEVER) & (self.start > BEFORE))


class MemoryUse(Struct, frozen=True):
    """The ``curves`` of the allocators and the process, the ``allocations``, and reserved bytes by ``modules``."""

    curves: tuple[MemoryCurve, ...]
    allocations: Allocations
    modules: tuple[MemoryCurve, ...]

    @property
    def is_known(self) -> bool:
        """Whether any file has memory data."""
        return bool(self.curves or self.modules or len(self.allocations))

    def all(self, amount: Amount) -> list[MemoryCurve]:
        """The curves of ``amount`` of all components, the process included."""
        return [curve for curve in self.curves if curve.amount == amount]

    def fullest(self) -> tuple[int, int, int] | None:
        """When the allocator had reserved most, ns, how much, and the most that was allocated then."""
        reserved, allocated = self.curve("reserved"), self.curve("allocated")
        if reserved is None or allocated is None:
            return None
        at = reserved.time[reserved.value == reserved.peak[1]]
        # Reserved memory stays at its peak for a while: the most that is in use meanwhile shows what is wasted.
        allocated_then = _values_at(allocated, at[at >= allocated.time[0]])
        return reserved.peak[0], reserved.peak[1], int(allocated_then.max(initial=0))

    def curve(self, amount: Amount) -> MemoryCurve | None:
        """The curve of the framework's allocator: the largest component other than the process."""
        candidates = [curve for curve in self.curves if curve.amount == amount and curve.component != APP]
        return max(candidates, key=lambda curve: (curve.peak[1], -len(curve.component)), default=None)

    @property
    def process(self) -> MemoryCurve | None:
        """The memory that the process has reserved on the device."""
        return next((curve for curve in self.curves if curve.component == APP and curve.amount == "reserved"), None)

    def fragmented(self) -> tuple[int, int] | None:
        """When reserved minus allocated was largest, ns, and its bytes; None where one of them is unknown."""
        gap = self.gap
        return None if gap is None else gap.peak

    @property
    def gap(self) -> MemoryCurve | None:
        """Reserved minus allocated over time; None where one of them is unknown."""
        reserved, allocated = self.curve("reserved"), self.curve("allocated")
        if reserved is None or allocated is None:
            return None
        if np.array_equal(reserved.time, allocated.time):  # the usual case: one file records both
            return MemoryCurve(reserved.component, "gap", reserved.time, reserved.value - allocated.value)
        time = np.union1d(reserved.time, allocated.time)
        time = time[time >= max(reserved.time[0], allocated.time[0])]
        return MemoryCurve(reserved.component, "gap", time, _values_at(reserved, time) - _values_at(allocated, time))


def _values_at(curve: MemoryCurve, time: I64) -> I64:
    values: I64 = curve.value[np.searchsorted(curve.time, time, "right") - 1]
    return values


def memory_curve(component: str, amount: Amount, time: I64, value: I64) -> MemoryCurve:
    """The curve of records in any order; among several at one time the highest counts, which keeps every peak."""
    step = np.diff(time)
    if (step < 0).any():
        order = np.argsort(time, kind="stable")
        time, value = time[order], value[order]
        step = np.diff(time)
    if (step > 0).all():
        return MemoryCurve(component, amount, time, value)
    first = np.flatnonzero(np.append(True, step != 0))
    return MemoryCurve(component, amount, time[first], np.maximum.reduceat(value, first))


class Holder(Struct, frozen=True):
    """The allocations ``members`` of one operation at one line of code, the largest first."""

    name: str
    size: int
    members: I64


def holders(allocations: Allocations, chosen: I64, places: list[object]) -> list[Holder]:
    """The ``chosen`` allocations grouped by operation and place (such as a line of code), most bytes first."""
    if not len(chosen):
        return []
    known: dict[tuple[int, object], int] = {}
    keys = zip(allocations.name.code[chosen].tolist(), places, strict=True)
    group = np.array([known.setdefault(key, len(known)) for key in keys], np.int64)
    rows = []
    for number, (code, _) in enumerate(known):
        members = chosen[group == number]
        members = members[np.argsort(-allocations.size[members], kind="stable")]
        name = allocations.name.values[code] if code >= 0 else ""
        rows.append(Holder(name, int(allocations.size[members].sum()), members))
    return sorted(rows, key=lambda holder: -holder.size)
