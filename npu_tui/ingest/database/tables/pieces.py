"""A way through the rows of a table in pieces, and the numbers of a piece.

SQLite itself writes the text of a column's whole numbers in one go, which numpy reads: five times as fast as a Python
object per cell. Reals lose bits in SQLite's texts, so they are objects. What a damaged table still holds is found by
halving the pieces that cannot be read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from npu_tui.ingest.database.tables.connect import PADDED, UNREADABLE

ABSENT = -1
"""Stands for a cell that is empty, and for all of a column that is not there."""

_STEP = 1 << 15
_LONGEST_STEP = 1 << 22
"""A text of SQLite may take 1e9 bytes; a number takes 21 at most."""

_SPARSE = 64
_PROBES = 4000
"""So many queries are spent on looking for what is readable in a damaged table."""


class Walk:
    """A way through the rows of a table in pieces, each taken in by ``take``, in halves where that fails.

    ``take`` is given the first and the last row number of a piece and returns how many rows there were; it raises
    one of ``UNREADABLE`` or ``ValueError`` where they cannot be read.
    """

    def __init__(self, connection: sqlite3.Connection, table: str, take: Callable[[int, int], int]) -> None:
        self.lost = 0
        self._connection = connection
        self._from = f"FROM {quoted(table)} NOT INDEXED"
        self._take = take
        self._probes = _PROBES

    def go(self) -> None:
        """Raises one of ``UNREADABLE`` if there is no way into the table."""
        low = self._lowest()
        if low is None:
            return
        high = self._highest()
        step = _STEP
        while low <= high:
            last = min(low + step - 1, high)
            taken = self._piece(low, last)
            low = last + 1
            step = step * 4 if taken < step // _SPARSE else min(step, _LONGEST_STEP)

    def _lowest(self) -> int | None:
        # The plus makes SQLite look at the rows themselves: the way to them may lead to a padded page.
        found = self._connection.execute(f"SELECT rowid {self._from} WHERE +rowid > ? LIMIT 1", (PADDED,)).fetchone()
        return int(found[0]) if found else None

    def _highest(self) -> int:
        """The highest row number; after a damaged end of the table the highest that can be reached."""
        try:
            (found,) = self._connection.execute(f"SELECT max(rowid) {self._from}").fetchone()
            if found > PADDED:
                return int(found)
        except UNREADABLE:
            pass
        reach = 0
        for power in range(48, -1, -1):
            try:
                query = f"SELECT 1 {self._from} WHERE rowid >= ? LIMIT 1"
                if self._connection.execute(query, (reach + (1 << power),)).fetchone() is not None:
                    reach += 1 << power
            except UNREADABLE:
                continue
        return reach

    def _piece(self, low: int, high: int) -> int:
        try:
            return self._take(low, high)
        except (*UNREADABLE, ValueError):
            self._probes -= 1
            if low == high or self._probes <= 0:
                self.lost += high - low + 1
                return 0
            middle = (low + high) // 2
            return self._piece(low, middle) + self._piece(middle + 1, high)


class Numbers:
    """The numbers in ``columns`` (name, type) of a table; the rows of padded pages are counted in ``lost``."""

    def __init__(self, connection: sqlite3.Connection, table: str, columns: Sequence[tuple[str, Any]]) -> None:
        self.lost = 0
        self._kinds = [kind for _, kind in columns]
        self._connection = connection
        self._from = f"FROM {quoted(table)} NOT INDEXED WHERE rowid BETWEEN ? AND ?"
        names = [(quoted(name), kind) for name, kind in columns]
        whole = [f"ifnull({name}, {ABSENT})" for name, kind in names if kind is np.int64]
        self._as_stored = self._aggregate(whole)
        whole = [f"ifnull(CAST({name} AS INTEGER), {ABSENT})" for name, kind in names if kind is np.int64]
        self._as_numbers = self._aggregate(whole)  # slower
        self._real = [f"CAST({name} AS REAL)" for name, kind in names if kind is not np.int64]
        self._pieces: list[list[npt.NDArray[Any]]] = []

    def _aggregate(self, cells: list[str]) -> str:
        return f"SELECT count(*){''.join(f', group_concat({cell})' for cell in cells)} {self._from}"

    def whole(self) -> list[npt.NDArray[Any]]:
        """Row numbers and columns of all that was taken."""
        pieces = self._pieces
        return [
            np.concatenate([piece[i] for piece in pieces]) if pieces else np.zeros(0, kind)
            for i, kind in enumerate([np.int64, *self._kinds])
        ]

    def take(self, low: int, high: int) -> int:
        """Take the rows ``low`` to ``high`` in, as ``Walk`` asks for it."""
        try:
            taken = self._taken(self._as_stored, low, high)
        except ValueError:
            taken = self._taken(self._as_numbers, low, high)
        if taken:
            self._pieces.append(taken)
        return len(taken[0]) if taken else 0

    def _taken(self, query: str, low: int, high: int) -> list[npt.NDArray[Any]]:
        """Row numbers and columns of the rows ``low`` to ``high``, nothing without any.

        Raises ``ValueError`` if a cell is no number as it is.
        """
        count, *texts = self._connection.execute(query, (low, high)).fetchone()
        if not count:
            return []
        whole = iter([_parsed(text, count) for text in texts])
        real = iter(self._reals(low, high, count))
        columns = [next(whole if kind is np.int64 else real) for kind in self._kinds]
        if count == high - low + 1:
            return [np.arange(low, high + 1, dtype=np.int64), *columns]
        (text,) = self._connection.execute(f"SELECT group_concat(rowid) {self._from}", (low, high)).fetchone()
        numbers = _parsed(text, count)
        there = numbers >= low  # those of padded pages are not
        if there.all():
            return [numbers, *columns]
        self.lost += int(np.count_nonzero(~there))
        return [numbers[there], *(values[there] for values in columns)]

    def _reals(self, low: int, high: int, count: int) -> list[npt.NDArray[Any]]:
        """The columns of reals, NaN where there is none. Raises ``ValueError`` if the rows are others meanwhile."""
        if not self._real:
            return []
        rows = self._connection.execute(f"SELECT {', '.join(self._real)} {self._from}", (low, high)).fetchall()
        if len(rows) != count:
            raise ValueError("not as many reals as rows")
        return list(np.ascontiguousarray(np.array(rows, np.float64).T))


def _parsed(text: bytes, count: int) -> npt.NDArray[np.int64]:
    """The whole numbers of a text. Raises ``ValueError`` if they are not as many as expected."""
    try:
        values = np.fromstring(text, np.int64, sep=",")
    except DeprecationWarning as error:  # the text ends elsewhere than in a number
        raise ValueError(str(error)) from error
    if len(values) != count:
        raise ValueError("not as many numbers as rows")
    return values


def quoted(name: str) -> str:
    """A name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'
