"""The first rows of each table, for a picture while all of them are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npu_tui.ingest.database.tables.connect import UNREADABLE
from npu_tui.ingest.database.tables.pieces import ABSENT, quoted
from npu_tui.ingest.database.tables.rows import Rows, Table, Tables, plain

_ROWS = 20_000


class Beginning(Tables):
    """Tables that end after some thousand rows; what cannot be read of them is left to who reads them whole."""

    def read(self, table: Table, whole: Sequence[str], real: Sequence[str] = ()) -> Rows:
        """As ``Tables.read``, of the first rows."""
        wanted = [table.columns.get(plain(name), "") for name in (*whole, *real)]
        chosen = ", ".join(["rowid", *(quoted(name) if name else "NULL" for name in wanted)])
        try:
            query = f"SELECT {chosen} FROM {quoted(table.name)} NOT INDEXED LIMIT {_ROWS}"
            rows = self._connection.execute(query).fetchall()
        except UNREADABLE:
            rows = []
        number, *cells = zip(*rows, strict=True) if rows else ((),) * (len(wanted) + 1)
        columns: dict[str, Any] = {}
        for name, column in zip(whole, cells[: len(whole)], strict=True):
            columns[name] = np.array([each if isinstance(each, int) else ABSENT for each in column], np.int64)
        for name, column in zip(real, cells[len(whole) :], strict=True):
            numbers = [each if isinstance(each, (int, float)) else np.nan for each in column]
            columns[name] = np.array(numbers, np.float64)
        return Rows(table.name, np.array(number, np.int64), columns)
