"""Two memory snapshots beside each other: which line holds more in the second one, though its number has changed."""

from __future__ import annotations

from collections import defaultdict
from typing import Literal

import numpy as np
from msgspec import Struct

from npu_tui.analysis.code_lines import CodeLine
from npu_tui.analysis.snapshot import nameless, owners
from npu_tui.trace.arrays import I64
from npu_tui.trace.snapshot import NEVER, DeviceMemory, MemorySnapshot

_SAME_SIZES = 8.0
_SAME_LINE = 1.0
"""What lines of one function have in common: the sizes they allocate count more than their numbers, which shift."""


class Held(Struct, frozen=True):
    """What an owner holds at one moment: requested bytes, and blocks."""

    size: int = 0
    blocks: int = 0


class Holder(Struct, frozen=True):
    """What one owner holds at the peak and at the end; ``sizes`` are those of all blocks it ever allocated."""

    code: CodeLine | None
    peak: Held
    end: Held
    sizes: frozenset[int]


Kind = Literal["line", "no_stack", "before"]


class Pair(Struct, frozen=True):
    """One owner on both sides, None where a side does not have it.

    ``no_stack`` are the blocks without one, ``before`` those older than the history, without a stack.
    """

    kind: Kind
    base: Holder | None
    new: Holder | None


def _holders(snapshot: MemorySnapshot, device: DeviceMemory) -> tuple[list[Holder], list[Holder], Holder]:
    """The owners that have a line, those that have none (one at most), and what is older than the history."""
    lives, peak = device.lives, device.peak[0]

    def holder(code: CodeLine | None, members: I64) -> Holder:
        start, end, size = lives.start[members], lives.end[members], lives.size[members]
        at_peak, at_end = (start <= peak) & (end > peak), end == NEVER
        return Holder(
            code,
            Held(int(size[at_peak].sum()), int(at_peak.sum())),
            Held(int(size[at_end].sum()), int(at_end.sum())),
            frozenset(np.unique(size).tolist()),
        )

    found = [holder(owner.code, owner.members) for owner in owners(snapshot, device, np.flatnonzero(~nameless(device)))]
    older = holder(None, np.flatnonzero(nameless(device)))
    return [one for one in found if one.code is not None], [one for one in found if one.code is None], older


def pairs(base: tuple[MemorySnapshot, DeviceMemory], new: tuple[MemorySnapshot, DeviceMemory]) -> list[Pair]:
    """The owners of both sides, paired.

    Lines pair within a function, in their order, by the sizes that they allocate: where somebody adds a line above them
    all numbers shift. The folder does not count: the two runs may be of two checkouts.
    """
    (lines, none, older), (new_lines, new_none, new_older) = _holders(*base), _holders(*new)
    groups: dict[tuple[str, str], tuple[list[Holder], list[Holder]]] = defaultdict(lambda: ([], []))
    for side, holders in enumerate((lines, new_lines)):
        for one in holders:
            if one.code is not None:
                groups[one.code.file.replace("\\", "/").rpartition("/")[2], one.code.function][side].append(one)
    found = [pair for before, after in groups.values() for pair in _aligned(before, after)]
    if none or new_none:
        found.append(Pair("no_stack", next(iter(none), None), next(iter(new_none), None)))
    found.append(Pair("before", older, new_older))
    return found


def _aligned(base: list[Holder], new: list[Holder]) -> list[Pair]:
    """The lines of one function, those that are most alike paired first, as long as their order stays."""
    base, new = (sorted(side, key=lambda one: (one.code.file, one.code.line) if one.code else ("", 0))
                 for side in (base, new))  # fmt: skip
    alike = [
        (-_alike(before, after), row, column) for row, before in enumerate(base) for column, after in enumerate(new)
    ]
    partner: dict[int, int] = {}
    for worth, row, column in sorted(alike):
        if worth < 0 and all((row - other) * (column - its) > 0 for other, its in partner.items()):
            partner[row] = column
    found = [Pair("line", one, new[partner[row]] if row in partner else None) for row, one in enumerate(base)]
    return found + [Pair("line", None, one) for column, one in enumerate(new) if column not in partner.values()]


def _alike(base: Holder, new: Holder) -> float:
    same = base.code is not None and new.code is not None and base.code.line == new.code.line
    return _SAME_SIZES * len(base.sizes & new.sizes) / len(base.sizes | new.sizes) + _SAME_LINE * same
