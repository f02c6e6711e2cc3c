"""A declared table as a block of a document, made of the rows of its JSON, and how values are written in words."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from npu_tui.output.document import Block, Cell, Code, Document, Heading, Items, Paragraph, Table
from npu_tui.profile.table import Record, ViewField, heading
from npu_tui.profile.table import Table as DataTable
from npu_tui.rules.model import SEVERITIES, Base
from npu_tui.strings import say
from npu_tui.trace import text as units
from npu_tui.trace.text import ticks_per_us


def ratio(part: float | None, whole: float | None) -> float | None:
    """``part`` of ``whole``, None where either is unknown or the whole is 0."""
    return None if part is None or not whole else round(part / whole, 6)


def report_time(us: float | None) -> str:
    """A time in µs in the unit that suits it; None is unknown."""
    return say("report.unknown") if us is None else units.time_text(us * units.ticks_per_us())


def report_share(value: float | None) -> str:
    """A share of 1 as a percentage; None is unknown."""
    return say("report.unknown") if value is None else units.share_text(value)


def or_unknown(value: object) -> object:
    """``value`` itself unless it is None."""
    return say("report.unknown") if value is None else value


Write = Callable[[Record], Cell]
"""The cell that a column has in a row."""


def rendered(
    table: DataTable,
    rows: Sequence[Record],
    id: str = "",
    blank: bool = False,
    title: str = "",
    base: Base | None = None,
    /,
    **cells: Write,
) -> Table:
    """``rows`` of the JSON of ``table`` as a page shows them; ``cells`` writes those of the columns that it names.

    The table is called ``id``, by default as ``table`` is, and has the ``title`` of that name. What is null is unknown;
    in a column with a question mark, and with ``blank`` in those of numbers, it is not there. A column without a word
    in any row is left out. Where not all rows fit, those stay that are ``longest``. What is saved or lost is told of
    one of what ``base`` names.
    """
    columns = [(field, cells.get(field.name) or _cell_writer(table, field, blank, base)) for field in table.page]
    columns = [(field, write) for field, write in columns if not rows or any(write(row).text for row in rows)]
    return Table(
        id or table.id,
        title or say(f"table.{id or table.id}"),
        tuple(field.heading(base) for field, _ in columns),
        tuple(field.column.is_number for field, _ in columns),
        rows,
        tuple(getattr(row, table.field(table.longest).name) or 0.0 for row in rows) if table.longest else (),
        cells=lambda row: [write(row) for _, write in columns],
    )


def _cell_writer(table: DataTable, field: ViewField, blank: bool, base: Base | None) -> Write:
    """The cell of a column by its kind."""
    column, name = field.column, table.field(field.column.id).name
    scale = ticks_per_us() if column.unit == "ns" else 1  # JSON has microseconds
    is_blank = field.optional or (blank and column.is_number)

    def write(row: Record) -> Cell:
        value = field.of_one(getattr(row, name), base)
        if value is None and is_blank:
            return Cell("", None)
        if not column.is_number:
            return name_cell(value) if column.form == "name" else Cell(column.cell(value))
        return Cell(say("report.unknown") if value is None else column.cell(value * scale), value)

    return write


def made_table(id: str, columns: str, rows: list[list[Cell]], title: str = "", base: Base | None = None) -> Table:
    """A table of ``rows`` that is declared nowhere.

    ``columns`` are the names of their headings, ``gain#`` that of numbers. A column without a word is left out.
    What is saved or lost is that of one of what ``base`` names.
    """
    names = columns.split()
    shown = [at for at in range(len(names)) if not rows or any(row[at].text for row in rows)]
    return Table(
        id,
        title or say(f"table.{id}"),
        tuple(heading(names[at].rstrip("#"), base) for at in shown),
        tuple(names[at].endswith("#") for at in shown),
        [[row[at] for at in shown] for row in rows],
    )


OWNERS = 8
"""Owners of a critical path that a page names; the others are one row."""


def first_owners(rows: Sequence[Record], sums: str, blank: str) -> list[Record]:
    """The first ``rows`` and all others in one, so that they add up: the figures ``sums`` do, what is ``blank`` is not.

    Whose a row is stands in ``title``, or where there is none in ``name``.
    """
    if len(rows) <= OWNERS + 1:
        return list(rows)
    rest = rows[OWNERS:]
    return [*rows[:OWNERS], sum_row(rest, say("report.path.more", count=len(rest)), sums, blank)]


def sum_row(rows: Sequence[Record], title: str, sums: str, blank: str) -> Record:
    """One row called ``title`` with the sums of ``rows``."""
    added = {name: sum(getattr(row, name) for row in rows) for name in sums.split()}
    called = "title" if hasattr(rows[0], "title") else "name"
    return replace(rows[0], kind="", **{called: title}, **dict.fromkeys(blank.split()), **added)


def finding_cells(number: int, severity: str) -> list[Cell]:
    """The first cells of a finding in a table: its number, which leads to it, and how grave it is."""
    return [
        Cell(str(number), number, link=f"finding-{number}"),
        Cell(say(f"severity.{severity}"), SEVERITIES.index(severity)),
    ]


def name_cell(value: str | None, unknown: str = "report.unknown") -> Cell:
    """A text of the trace; ``unknown`` is said where there is none."""
    return Cell(say(unknown) if value is None else value, name=value is not None)


def time_cell(us: float | None) -> Cell:
    """A time in µs in the unit that suits it."""
    return Cell(report_time(us), us)


def comparison_document(
    title: str, about: Sequence[str], blocks: Sequence[Block], not_judged: Sequence[str] = (), paths: Sequence[str] = ()
) -> Document:
    """What every comparison says: ``about`` its sides, ``blocks`` without empty tables, what is ``not_judged``.

    The command that says it ends it where ``paths`` are given.
    """
    some = [block for block in blocks if not isinstance(block, Table) or block.rows]
    told: list[Block] = [Paragraph(tuple(about), "faint"), *some]
    if not_judged:
        told += [Heading(say("compare.not_judged")), Items(tuple(not_judged))]
    if paths:
        told.append(Code((f"npu-tui compare {shlex.join(paths)}",)))
    return Document(title, told)
