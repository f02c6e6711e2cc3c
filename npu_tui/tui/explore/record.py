"""Everything that a row of a table says, a line for each column."""

from __future__ import annotations

from npu_tui.tui.tabs.table.tab import Row, Table
from npu_tui.tui.tabs.table.table_text import padded, row_cells


def record(table: Table, row: Row) -> str:
    """The headings of ``table`` with the cells of ``row``; columns without a word are left out."""
    pairs = [(name, cell) for name, cell in zip(table.headings, row_cells(row.cells), strict=True) if cell.strip()]
    names = padded([name for name, _ in pairs])
    return "\n".join(f"{name}   {cell}" for name, (_, cell) in zip(names, pairs, strict=True))
