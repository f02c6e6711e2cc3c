"""Columns of a table from the pages of the file, where these are as SQLite usually writes them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy.typing as npt

from npu_tui.ingest.database.pages import tree
from npu_tui.ingest.database.pages.columns import Layout, read_columns, read_intact
from npu_tui.ingest.database.pages.tree import UnusualError
from npu_tui.ingest.database.tables.connect import UNREADABLE, Database
from npu_tui.ingest.database.tables.pieces import quoted
from npu_tui.ingest.scanner.library import library

_BEGIN = "BEGIN"
_END = "ROLLBACK"


def read_pages(
    database: Database, table: str, wanted: Sequence[tuple[str, Any]], advance: Callable[[int], None]
) -> list[npt.NDArray[Any]] | None:
    """Row numbers and the columns ``wanted`` (name, int64 or float64) of ``table``; (n,) each.

    None where SQLite has to read them: without a compiled library, for a view, a table without row numbers, one that is
    damaged, or cells that are no numbers. Nobody can change the table meanwhile.
    """
    return _held(database, table, wanted, partial(read_columns, advance=advance))


def read_intact_pages(
    database: Database, table: str, wanted: Sequence[tuple[str, Any]]
) -> list[npt.NDArray[Any]] | None:
    """The same of a damaged ``table``: the rows of all pages that are as SQLite writes them."""
    return _held(database, table, wanted, read_intact)


def _held(
    database: Database, table: str, wanted: Sequence[tuple[str, Any]], read: Callable[..., list[npt.NDArray[Any]]]
) -> list[npt.NDArray[Any]] | None:
    """What ``read`` makes of the pages of ``table`` while nobody may write."""
    compiled = library()
    connection, pages = database.connection, database.pages
    if compiled is None or pages is None:
        return None
    try:
        connection.execute(_BEGIN)
    except UNREADABLE:
        return None
    try:
        layout, places = _layout(connection, table, [name for name, _ in wanted])
        whole = [(place, kind) for place, (_, kind) in zip(places, wanted, strict=True)]
        return read(compiled, pages, layout, whole)
    except (*UNREADABLE, UnusualError, OSError):
        return None
    finally:
        if connection.in_transaction:
            connection.execute(_END)


def rows_stored(database: Database, table: str) -> int:
    """How many rows the pages of ``table`` hold; 0 where only SQLite knows what is on them."""
    query = "SELECT rootpage FROM sqlite_master WHERE type = 'table' AND name = ?"
    if database.pages is None:
        return 0
    try:
        found = database.connection.execute(query, (table,)).fetchall()
        if len(found) != 1 or not isinstance(found[0][0], int) or not found[0][0]:
            return 0
        return tree.rows_stored(database.pages, found[0][0])
    except (*UNREADABLE, OSError):
        return 0


def _layout(connection: sqlite3.Connection, table: str, wanted: list[str]) -> tuple[Layout, list[int]]:
    """How the rows of ``table`` are stored, and the places of the columns ``wanted`` in them.

    Raises ``UnusualError`` for a table of another kind, one of ``UNREADABLE`` if SQLite cannot say.
    """
    query = "SELECT rootpage, sql FROM sqlite_master WHERE type = 'table' AND name = ?"
    found = connection.execute(query, (table,)).fetchall()  # from here on nobody else may write
    info = connection.execute(f"PRAGMA table_xinfo({quoted(table)})").fetchall()
    if len(found) != 1 or not isinstance(found[0][0], int) or not isinstance(found[0][1], bytes):
        raise UnusualError
    root, sql = found[0]
    if sql.upper().startswith(b"CREATE VIRTUAL") or any(hidden for *_, hidden in info):
        raise UnusualError
    places = {column.decode(): place for place, column, *_ in info}
    keys = [(column, kind) for _, column, kind, _, _, place, _ in info if place]
    key = -1
    if len(keys) == 1 and keys[0][1].upper() == b"INTEGER":
        if b"DESC" in sql.upper():  # then the key may be a column of its own
            raise UnusualError
        key = places[keys[0][0].decode()]
    at = [places[name] for name in wanted]
    if any(info[place][4] is not None for place in at):  # a row older than the column has its default
        raise UnusualError
    return Layout(root, len(info), key), at
