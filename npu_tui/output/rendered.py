"""A table of a profile or a job as a block of a document, made of the rows of its JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from npu_tui.output.document import Cell, Table
from npu_tui.profile.table import Field, Record
from npu_tui.profile.table import Table as DataTable
from npu_tui.strings import say
from npu_tui.trace.text import duration_text


def rendered(table: DataTable, rows: Sequence[Record], id: str = "", /, **cells: Callable[[Record], Cell]) -> Table:
    """``rows`` of the JSON of ``table`` in the columns of a page; ``cells`` makes those of some columns.

    Columns without a word are left out.
    """
    columns = [(each, _column(table, each, rows, cells.get(each.name))) for each in table.page]
    known = [(field, column) for field, column in columns if any(cell.text for cell in column) or not rows]
    return Table(
        id or table.id,
        say(f"table.{id or table.id}"),
        tuple(field.heading for field, _ in known),
        tuple(field.column.is_number for field, _ in known),
        [list(row) for row in zip(*(column for _, column in known), strict=True)],
    )


def _column(
    table: DataTable, field: Field, rows: Sequence[Record], cell: Callable[[Record], Cell] | None
) -> list[Cell]:
    if cell is not None:
        return list(map(cell, rows))
    column, name = field.column, table.field(field.column.id).name
    scale = 1000 if column.unit == "ns" else 1  # JSON has microseconds
    values = [getattr(each, name) for each in rows]
    if not column.is_number:
        return [name_cell(each) if column.form == "name" else Cell(column.cell(each)) for each in values]
    return [Cell(say("report.unknown") if each is None else column.cell(each * scale), each) for each in values]


def name_cell(value: str | None, unknown: str = "report.unknown") -> Cell:
    """A text of the trace; ``unknown`` is said where there is none."""
    return Cell(say(unknown) if value is None else value, name=value is not None)


def time_cell(us: float | None) -> Cell:
    """A time in µs in the unit that suits it."""
    return Cell(say("report.unknown")) if us is None else Cell(duration_text(us * 1000), us)
