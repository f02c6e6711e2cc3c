"""Two memory snapshots beside each other: which line holds more in the second one, though its number has changed."""

from __future__ import annotations

from typing import Literal

import numpy as np
from msgspec import Struct

from npu_tui.analysis.code_lines import CodeLine
from npu_tui.analysis.snapshot import nameless, owners
from npu_tui.compare.lines import LineCost, line_changes
from npu_tui.trace.arrays import I64
from npu_tui.trace.snapshot import DeviceMemory, MemorySnapshot

Kind = Literal["line", "no_stack", "before"]


class Pair(Struct, frozen=True):
    """One owner on both sides: its line, None without one, and its ``blocks``, positions in ``lives``.

    ``no_stack`` are the blocks without one, ``before`` those older than the history, without a stack.
    """

    kind: Kind
    codes: tuple[CodeLine | None, CodeLine | None]
    blocks: tuple[I64, I64]


def pairs(base: tuple[MemorySnapshot, DeviceMemory], new: tuple[MemorySnapshot, DeviceMemory]) -> list[Pair]:
    """The owners of both sides, paired as lines of code are, by the sizes that they allocate."""
    found: list[Pair] = []
    for change in line_changes(_lines(*base), _lines(*new)):
        one, other = change.base or _NOBODY, change.new or _NOBODY
        kind: Kind = "no_stack" if change.code is None else "line"
        found.append(Pair(kind, (one.code, other.code), (one.items, other.items)))
    older = [np.flatnonzero(nameless(device)) for _, device in (base, new)]
    return [*found, Pair("before", (None, None), (older[0], older[1]))]


_NOBODY = LineCost(None, 0, 0)


def _lines(snapshot: MemorySnapshot, device: DeviceMemory) -> list[LineCost]:
    """The owners of all blocks, with the sizes of these as what they do."""
    found = owners(snapshot, device, np.flatnonzero(~nameless(device)))
    sizes = [tuple(map(str, np.unique(device.lives.size[owner.members]))) for owner in found]
    return [
        LineCost(owner.code, owner.size, len(owner.members), does, owner.members)
        for owner, does in zip(found, sizes, strict=True)
    ]
