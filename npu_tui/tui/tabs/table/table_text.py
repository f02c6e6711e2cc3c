"""Tables as text: in columns, and as CSV."""

from __future__ import annotations

import csv
import io
import re

from rich.cells import cell_len
from rich.text import Text

from npu_tui.trace.text import printable
from npu_tui.tui.tabs.table.tab import Table

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_FIGURE = re.compile(r"[-+][\d.,]+ ?[%\w/]{0,6}")


def row_cells(cells: tuple[Text | str, ...]) -> list[str]:
    """The cells of a row as plain texts."""
    return [printable(cell.plain if isinstance(cell, Text) else cell) for cell in cells]


def padded(texts: list[str]) -> list[str]:
    """``texts``, all as wide as the widest."""
    width = max(map(cell_len, texts), default=0)
    return [text + " " * (width - cell_len(text)) for text in texts]


def as_text(table: Table | None) -> list[str]:
    """Headings and rows in columns; empty without a table."""
    if table is None:
        return []
    rows = [list(table.headings), *(row_cells(row.cells) for row in table.rows)]
    columns = zip(*(padded(list(column)) for column in zip(*rows, strict=True)), strict=True)
    return ["  ".join(cells).rstrip() for cells in columns]


def _inert(cell: str) -> str:
    """``cell``, with an apostrophe before what a spreadsheet would run as a formula; figures are none."""
    return f"'{cell}" if cell[:1] in _FORMULA and not _FIGURE.fullmatch(cell) else cell


def as_csv(table: Table | None) -> list[str]:
    """Headings and rows as lines of CSV; empty without a table."""
    if table is None:
        return []
    lines = []
    for row in [list(table.headings), *(row_cells(row.cells) for row in table.rows)]:
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow(map(_inert, row))
        lines.append(line.getvalue())
    return lines
