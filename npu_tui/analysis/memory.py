"""Memory of a device over time, and which allocations were alive when."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.analysis.kernels import Coded

I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

Amount = Literal["allocated", "reserved", "active", "gap"]
"""What a curve is about; ``gap`` is reserved and not allocated, which is computed."""
AMOUNTS: tuple[Amount, ...] = "allocated", "reserved", "active"

NEVER = 2**62
"""The release of what was not released while profiling."""
BEFORE = -(2**62)
"""The allocation of what was there before profiling began."""
APP = "APP"
"""The component that is the whole process."""


class MemoryCurve(Struct, frozen=True):
    """Bytes ``value`` of one ``component`` from ``time`` (ns, strictly ascending) on; (n,)."""

    component: str
    amount: Amount
    time: I64
    value: I64

    @property
    def peak(self) -> tuple[int, int]:
        """When the most was reached first, ns, and how much that is."""
        at = int(self.value.argmax())
        return int(self.time[at]), int(self.value[at])

    def at(self, time: int) -> int | None:
        """What holds at ``time`` ns; None before the first record."""
        index = int(np.searchsorted(self.time, time, "right")) - 1
        return int(self.value[index]) if index >= 0 else None


class Allocations(Struct, frozen=True):
    """What operations allocated, one entry each: bytes ``size``, from ``start`` until ``end`` ns; (n,)."""

    name: Coded
    size: I64
    start: I64
    end: I64

    def __len__(self) -> int:
        return len(self.size)

    def alive(self, time: int) -> I64:
        """Those that are there at ``time`` ns, by position."""
        return np.flatnonzero((self.start <= time) & (self.end > time))

    @property
    def kept(self) -> I64:
        """Those that were never released, by position."""
        return np.flatnonzero((self.end == NEVER) & (self.start > BEFORE))


class Memory(Struct, frozen=True):
    """The ``curves`` of the allocators and the process, the ``allocations``, and reserved bytes by ``modules``."""

    curves: tuple[MemoryCurve, ...]
    allocations: Allocations
    modules: tuple[MemoryCurve, ...]

    @property
    def is_known(self) -> bool:
        """Whether any file told anything."""
        return bool(self.curves or self.modules or len(self.allocations))

    def all(self, amount: Amount) -> list[MemoryCurve]:
        """The curves of ``amount``, of every component and of the process."""
        return [each for each in self.curves if each.amount == amount]

    def fullest(self) -> tuple[int, int, int] | None:
        """When the allocator had reserved the most, ns, how much, and the most that was allocated of it then."""
        reserved, allocated = self.curve("reserved"), self.curve("allocated")
        if reserved is None or allocated is None:
            return None
        at = reserved.time[reserved.value == reserved.peak[1]]
        held = _held(allocated, at[at >= allocated.time[0]])
        return reserved.peak[0], reserved.peak[1], int(held.max(initial=0))

    def curve(self, amount: Amount) -> MemoryCurve | None:
        """The curve of the framework's allocator, the largest component that is not the process itself."""
        own = [each for each in self.curves if each.amount == amount and each.component != APP]
        return max(own, key=lambda each: (each.peak[1], -len(each.component)), default=None)

    @property
    def process(self) -> MemoryCurve | None:
        """What the whole process has reserved on the device."""
        return next((each for each in self.curves if each.component == APP and each.amount == "reserved"), None)

    def fragmented(self) -> tuple[int, int] | None:
        """When reserved was farthest above allocated, ns, and by how much; None where one of them is unknown."""
        gap = self.gap
        return None if gap is None else gap.peak

    @property
    def gap(self) -> MemoryCurve | None:
        """What is reserved and not allocated over time; None where one of them is unknown."""
        reserved, allocated = self.curve("reserved"), self.curve("allocated")
        if reserved is None or allocated is None:
            return None
        if np.array_equal(reserved.time, allocated.time):  # as one file has both
            return MemoryCurve(reserved.component, "gap", reserved.time, reserved.value - allocated.value)
        time = np.union1d(reserved.time, allocated.time)
        time = time[time >= max(reserved.time[0], allocated.time[0])]
        return MemoryCurve(reserved.component, "gap", time, _held(reserved, time) - _held(allocated, time))


def _held(curve: MemoryCurve, time: I64) -> I64:
    found: I64 = curve.value[np.searchsorted(curve.time, time, "right") - 1]
    return found


def memory_curve(component: str, amount: Amount, time: I64, value: I64) -> MemoryCurve:
    """The curve of records in any order; of several at the same time the highest counts, so that no peak is lost."""
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
    """The ``chosen`` allocations by operation and what ``places`` says of each (a line of code), most bytes first."""
    if not len(chosen):
        return []
    known: dict[tuple[int, object], int] = {}
    keys = zip(allocations.name.code[chosen].tolist(), places, strict=True)
    group = np.array([known.setdefault(key, len(known)) for key in keys], np.int64)
    found = []
    for number, (code, _) in enumerate(known):
        own = chosen[group == number]
        own = own[np.argsort(-allocations.size[own], kind="stable")]
        name = allocations.name.values[code] if code >= 0 else ""
        found.append(Holder(name, int(allocations.size[own].sum()), own))
    return sorted(found, key=lambda each: -each.size)
