"""How many rows the pages of a table hold."""

from __future__ import annotations

from npu_tui.ingest.database.pages import tree
from npu_tui.ingest.database.tables.connect import UNREADABLE, Database


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
