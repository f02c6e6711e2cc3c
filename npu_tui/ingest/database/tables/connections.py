"""``CONNECTION_IDS``: which operations, queues and launches belong together."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu_tui.ingest.database.tables.joins import expanded, matched
from npu_tui.ingest.database.tables.rows import Tables

I64 = npt.NDArray[np.int64]


class Connections:
    """Numbers by the ``connectionId`` of rows of the framework, one or more for each."""

    def __init__(self, tables: Tables) -> None:
        table = tables.find("CONNECTION_IDS")
        rows = tables.read(table, ("id", "connectionId")) if table else None
        self._id = rows["id"] if rows is not None else np.zeros(0, np.int64)
        self._value = rows["connectionId"] if rows is not None else np.zeros(0, np.int64)
        self._there = rows is not None and len(rows) > 0

    def first_of(self, ids: I64) -> I64:
        """The first number of each of ``ids``, -1 without one; (n,). Without the table an id is its own number."""
        if not self._there:
            return ids
        at = matched(self._id, ids)
        return np.where(at >= 0, self._value[at], -1)

    def all_of(self, ids: I64) -> tuple[I64, I64]:
        """All pairs of a place in ``ids`` and a number of it; (pairs,) each."""
        if not self._there:
            place = np.flatnonzero(ids >= 0)
            return place, ids[place]
        place, at = expanded(self._id, ids)
        return place, self._value[at]
