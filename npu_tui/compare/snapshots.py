"""Two memory snapshots beside each other: which line holds more in the second one, though its number has changed."""

from __future__ import annotations

from typing import Literal

import numpy as np
from msgspec import Struct

from npu_tui.analysis.code_lines import CodeLine
from npu_tui.analysis.snapshot import nameless, owners, placed
from npu_tui.compare.operations import LineCost, line_changes
from npu_tui.profile.table import Column, TableSheet, columns, from_tuples, table
from npu_tui.trace.arrays import I64
from npu_tui.trace.snapshot import DeviceMemory, MemorySnapshot

Kind = Literal["line", "no_stack", "before"]


class OwnerPair(Struct, frozen=True):
    """One owner on both sides: its line, None without one, and its ``blocks``, positions in ``lives``.

    ``no_stack`` are the blocks without one, ``before`` those older than the history, without a stack.
    """

    kind: Kind
    codes: tuple[CodeLine | None, CodeLine | None]
    blocks: tuple[I64, I64]


def pairs(base: tuple[MemorySnapshot, DeviceMemory], new: tuple[MemorySnapshot, DeviceMemory]) -> list[OwnerPair]:
    """The owners of both sides, paired as lines of code are, by the sizes that they allocate."""
    found: list[OwnerPair] = []
    for change in line_changes(_owner_costs(*base), _owner_costs(*new)):
        one, other = change.base or _NOBODY, change.new or _NOBODY
        kind: Kind = "no_stack" if change.code is None else "line"
        found.append(OwnerPair(kind, (one.code, other.code), (one.items, other.items)))
    older = [np.flatnonzero(nameless(device)) for _, device in (base, new)]
    return [*found, OwnerPair("before", (None, None), (older[0], older[1]))]


_NOBODY = LineCost(None, 0, 0)


def _owner_costs(snapshot: MemorySnapshot, device: DeviceMemory) -> list[LineCost]:
    """The owners of all blocks, with the sizes of these as what they do."""
    found = owners(snapshot, device, np.flatnonzero(~nameless(device)))
    sizes = [tuple(map(str, np.unique(device.lives.size[owner.members]))) for owner in found]
    return [
        LineCost(owner.code, owner.size, len(owner.members), does, owner.members)
        for owner, does in zip(found, sizes, strict=True)
    ]


_OWN: dict[str, Column] = {
    **columns("whole", "bytes", "memory", "held_base held_new"),
    **columns("whole", "bytes", "memory_change", "held_delta"),
    **columns("whole", "", "count", "base_blocks new_blocks"),
    **columns("whole", "", "id", "base_line new_line"),
    **columns("label", "", "name", "base_where new_where"),
    **columns("label", "", "word", "kind base_place new_place"),
}


def holders_changed(found: list[OwnerPair], devices: tuple[DeviceMemory, DeviceMemory], at_end: bool) -> TableSheet:
    """Who of ``found`` holds anything at the peak, or ``at_end``, on either side, the largest difference first."""
    alive = [device.lives.alive(len(device.events) if at_end else device.peak[0]) for device in devices]
    rows = []
    for pair in found:
        blocks = [np.intersect1d(own, there) for own, there in zip(pair.blocks, alive, strict=True)]
        if any(map(len, blocks)):
            sizes = [int(device.lives.size[of].sum()) for device, of in zip(devices, blocks, strict=True)]
            known = pair.codes[1] or pair.codes[0]
            places = [(None, None) if code is None else (code.file, code.line) for code in map(placed, pair.codes)]
            function = None if known is None else known.function
            rows.append((pair.kind, function, *places[0], *places[1], *sizes, sizes[1] - sizes[0], *map(len, blocks)))
    rows.sort(key=lambda row: (-abs(row[8]), -row[7], row[4] or row[2] or "", row[5] or 0))
    names = "kind function base_where base_line new_where new_line held_base held_new held_delta base_blocks new_blocks"
    return from_tuples(rows, names, _OWN)


HELD = table(
    "held",
    holders_changed,
    json="kind function? base_where? base_line? new_where? new_line? base=held_base new=held_new delta=held_delta "
    "base_blocks new_blocks",
    page="difference=held_delta base=held_base new=held_new base_blocks new_blocks function base_place new_place",
    row="HeldRow",
    about="""What one owner holds at one moment on both sides.

    ``kind`` is ``line``, ``no_stack``, or ``before``: older than the history. Places are null where a side never
    allocated there.
    """,
    own=_OWN,
    types={"kind": Kind},
)
