"""The tables and columns of a profile in words, for people and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from npu_tui.profile.table import NAMES, Column, Kind, Table
from npu_tui.strings import say
from npu_tui.tables.schema import TABLES
from npu_tui.trace.text import cell_count, padded, wrapped

_WIDTH = 118


def listing_text(names: Iterable[str]) -> str:
    """The tables ``names`` with their columns and units, in lines."""
    lines: list[str] = []
    for name in names:
        columns = ", ".join(_with_unit(column) for column in TABLES[name].sql)
        lines += ["", f"{name}: {about(name)}", *wrapped(columns, _WIDTH, "    ", "    ")]
    return "\n".join(lines[1:]) + "\n"


def _with_unit(column: Column) -> str:
    return f"{column.id}[{column.unit}]" if column.unit else column.id


def about(table: str) -> str:
    """What the rows of ``table`` are."""
    return say(f"tables.{table}")


def table_listing(name: str, kinds: Mapping[str, Kind]) -> str:
    """What every column of the table ``name`` means, with type and unit, in lines; ``kinds`` are its columns."""
    table = TABLES[name]
    known = {column.id: column for column in table.sql}
    rows = [_row(known.get(column), column, kind) for column, kind in kinds.items()]
    widths = [max(cell_count(row[k]) for row in rows) for k in range(3)]
    lines = [f"{name}: {about(name)}", ""]
    for row in rows:
        cells = [padded(cell, width) for cell, width in zip(row, widths, strict=False)]
        lines.append("  ".join(["  " + cells[0], cells[1], cells[2], row[3]]).rstrip())
    return "\n".join(lines) + "\n"


def _row(column: Column | None, name: str, kind: Kind) -> tuple[str, str, str, str]:
    if column is None:
        return name, NAMES[kind], "", say("query.from_file")
    return name, column.type, column.unit, say(column.about)


def listing_object(names: Iterable[str]) -> list[dict[str, Any]]:
    """The tables ``names`` as an object for JSON: ``table``, ``about``, ``columns`` with name, type, unit, about."""
    return [_table_object(TABLES[name]) for name in names]


def _table_object(table: Table) -> dict[str, Any]:
    return {
        "table": table.id,
        "about": about(table.id),
        "columns": [
            {"name": column.id, "type": column.type, "unit": column.unit or None, "about": say(column.about)}
            for column in table.sql
        ],
    }
