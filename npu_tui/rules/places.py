"""Rows of tables as evidence: the slice that a row is joined to, else the time that it names."""

from __future__ import annotations

from collections.abc import Callable

from npu_tui.analysis.work.joined.kernels import KernelTable
from npu_tui.rules.facts.facts import Facts
from npu_tui.rules.facts.spans import I64
from npu_tui.rules.model import Evidence
from npu_tui.trace.message import Message, Said
from npu_tui.trace.text import brief

_MOST = 10
_SHAPES = 60


def kernel_place(facts: Facts, table: KernelTable, row: int, note: Said) -> Evidence:
    """The kernel at ``row`` of ``table``."""
    item = int(table.item[row])
    if item >= 0:
        return facts.place(item, note)
    start = int(table.start[row])
    return Evidence(start, start + int(table.duration[row]), None, brief(table.name.at(row) or ""), note)


def longest_kernels(
    facts: Facts, table: KernelTable, rows: I64, note: Callable[[int], Message], most: int = _MOST
) -> tuple[Evidence, ...]:
    """The longest of the kernels at ``rows``, in order of time; ``note`` gives the words for a row."""
    chosen = sorted(rows.tolist(), key=lambda row: -int(table.duration[row]))[:most]
    return tuple(kernel_place(facts, table, row, note(row)) for row in sorted(chosen, key=lambda row: table.start[row]))


def title_of(table: KernelTable, row: int) -> str:
    """Type and shapes of a kernel: ``MatMulV2 32,1024;1024,4096``."""
    words = [table.type.at(row) or table.name.at(row) or "", table.shapes.at(row) or ""]
    return brief(" ".join(word for word in words if word), _SHAPES)


def moment_place(time: int, name: Said, note: Said) -> Evidence:
    """A moment that is on no lane."""
    return Evidence(time, time + 1, None, name, note)
