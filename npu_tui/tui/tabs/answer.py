"""The answer to a query typed after ``:sql``: a row of it leads to its slice, or to its time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from npu_tui.query.frames import ONE_PROFILE, TABLES, tables_of
from npu_tui.query.query import QueryError, about, query
from npu_tui.strings import say, words
from npu_tui.trace.text import brief, printable
from npu_tui.tui.tabs.table import GAP, Content, Context, Place, Row, Stretch, Table, known_columns
from npu_tui.view.scene import Selected

_MOST = 1000
"""Rows that are shown."""

_SLICES = ("slice", "target_slice", "op", "launch", "source_slice", "after_slice", "before_slice")
_STARTS = ("start", "time", "target_time", "source_time")
_LONGEST = 80


def answered(now: Context, sql: str) -> Content:
    """The answer to ``sql`` over the tables of the profile at the cursor, or what is wrong with it.

    Without a query the tables there are, for the name of one its columns.
    """
    if not sql:
        return _listed("table", ((name, "", about(name)) for name in ONE_PROFILE))
    if sql in ONE_PROFILE:
        known = {column.id: column for column in TABLES[sql].sql}
        columns = ((name, known.get(name)) for name in tables_of(now.profile).columns(sql))
        return _listed(
            "column",
            (
                (name, "", say("query.from_file")) if one is None else (name, one.unit, say(one.about))
                for name, one in columns
            ),
        )
    try:
        frame = query(tables_of(now.profile), sql, _MOST + 1)
    except QueryError as error:
        return words(error.message)
    names = frame.columns
    rows = [_row(now, dict(zip(names, cells, strict=True))) for cells in frame.head(_MOST).iter_rows()]
    if not rows:
        return say("query.tab.none")
    shown = say("query.tab.rows", count=len(rows))
    note = GAP.join([shown, say("query.tab.more")]) if len(frame) > _MOST else shown
    return Table(tuple(map(_heading, names)), rows, note)


def _heading(name: str) -> str:
    """The name of a column, with its unit where it is one of the schema that has the same in every table."""
    units = {column.unit for table in TABLES.values() for column in table.sql if column.id == name}
    unit = units.pop() if len(units) == 1 else ""
    return " ".join(part for part in (brief(printable(name), _LONGEST), unit) if part)


def _listed(what: str, lines: Iterable[tuple[str, str, str]]) -> Table:
    """Names of tables or columns with their units and what they are."""
    headings = (say(f"sql.{what}"), say("sql.unit"), say("sql.about"))
    rows = [Row(line, (), line) for line in lines]
    return known_columns(Table(headings, rows, say("sql.listed")))


def _row(now: Context, cells: dict[str, Any]) -> Row:
    texts = tuple(_text(value) for value in cells.values())
    values = tuple(
        value if isinstance(value, (int, float)) or value is None else str(value) for value in cells.values()
    )
    return Row(texts, _places(now, cells), values)


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.3f}" if isinstance(value, float) else brief(printable(str(value)), _LONGEST)


def _places(now: Context, cells: dict[str, Any]) -> tuple[Place, ...]:
    """The slice that a row names, else the time."""
    trace = now.profile.trace
    for name in _SLICES:
        item = cells.get(name)
        if type(item) is int and 0 <= item < len(trace.slices):
            return (Selected(now.trace, item),)
    for name in _STARTS:
        start = cells.get(name)
        if type(start) is int:
            end = cells.get("end")
            length = cells.get("duration")
            until = end if type(end) is int else start + length if type(length) is int else start
            return (Stretch(start, max(until, start + 1), now.trace),)
    return ()
