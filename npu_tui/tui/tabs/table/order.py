"""How the user wants a table of the panel: by which column it is sorted, and what its rows must contain."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace
from rich.text import Text

from npu_tui.strings import say
from npu_tui.tui.tabs.table.tab import GAP, Row, Table

_DOWN, _UP = "▾", "▴"


class Order(Struct, frozen=True):
    """``column`` (None: as the table comes), falling or not, and the ``wanted`` part of a row's text."""

    column: int | None = None
    falling: bool = True
    wanted: str = ""

    def beside(self, table: Table, step: int) -> Order:
        """Sort by the next (1) or previous (-1) column; numbers fall, words rise."""
        if not sortable(table):
            return self
        count = len(table.headings)
        column = (0 if step > 0 else count - 1) if self.column is None else (self.column + step) % count
        return self.by(table, column)

    def by(self, table: Table, column: int) -> Order:
        """Sort by ``column``; where that is done already, the other way round."""
        if not sortable(table):
            return self
        if column == self.column:
            return replace(self, falling=not self.falling)
        words = any(isinstance(row.values[column], str) for row in table.rows)
        return replace(self, column=column, falling=not words)


def sortable(table: Table) -> bool:
    """Whether every row says by what it is sorted."""
    return bool(table.rows) and all(row.values for row in table.rows)


def numeric(table: Table) -> frozenset[int]:
    """The columns that show numbers, as far as they are known, and nothing else.

    Words may be sorted by a number, as severities are: those are no numbers.
    """
    if not sortable(table):
        return frozenset()
    return frozenset(column for column in range(len(table.headings)) if _is_numeric(table.rows, column))


def _is_numeric(rows: list[Row], column: int) -> bool:
    known = [row for row in rows if row.values[column] is not None]
    return not any(isinstance(row.values[column], str) for row in known) and any(
        (text := _plain(row.cells[column])) and not text[0].isalpha() for row in known
    )


def _plain(cell: Text | str) -> str:
    return (cell.plain if isinstance(cell, Text) else cell).strip()


def arranged(table: Table, order: Order) -> Table:
    """``table`` filtered and sorted; its note says so."""
    rows, headings, notes = table.rows, table.headings, [table.note] if table.note else []
    if order.wanted:
        wanted = order.wanted.casefold()
        rows = [row for row in rows if wanted in _text(row)]
        notes.insert(0, say("panel.filtered", text=order.wanted, shown=len(rows), count=len(table.rows)))
    if sortable(table):
        column = order.column
        if column is not None and column < len(headings):
            known = [row for row in rows if row.values[column] is not None]
            unknown = [row for row in rows if row.values[column] is None]
            known.sort(key=lambda row: _key(row, column), reverse=order.falling)
            rows = known + unknown
            mark = _DOWN if order.falling else _UP
            headings = tuple(f"{name} {mark}" if i == column else name for i, name in enumerate(headings))
    at = None
    if table.at is not None:
        at = next((i for i, row in enumerate(rows) if row is table.rows[table.at]), None)
    return Table(headings, rows, GAP.join(notes), at, table.at_top, table.again)


def _key(row: Row, column: int) -> tuple[bool, float, str]:
    value = row.values[column]
    return (True, 0.0, value.casefold()) if isinstance(value, str) else (False, value or 0.0, "")


def _text(row: Row) -> str:
    return "\n".join(map(_plain, row.cells)).casefold()
