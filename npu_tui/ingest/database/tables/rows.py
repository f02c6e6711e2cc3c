"""Rows of a table as whole columns, and the tables of a database whatever its schema is."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.ingest.database.tables.connect import UNREADABLE, Database
from npu_tui.ingest.database.tables.paged import rows_stored
from npu_tui.ingest.database.tables.pieces import ABSENT, Numbers, Walk, quoted
from npu_tui.ingest.times import INVALID

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]

_LATEST = 1 << 62
_MOST_VARIABLES = 500
_ROW_BYTES = 32
"""About what a row of the profiler's tables takes in the file; two whole databases have 40 and 42."""


class Table(Struct, frozen=True):
    """A table or view by its own ``name``; ``columns`` gives those of the file by their plain names.

    ``key`` is the column that is the row number, if there is one.
    """

    name: str
    columns: dict[str, str]
    key: str = ""


class Rows(Struct):
    """Columns of ``table`` in the order of its rows; ``number`` is the row number of each.

    Every array is (n,): int64, or float64 for those asked for as real. An empty cell is ``ABSENT`` or NaN.
    """

    table: str
    number: I64
    columns: dict[str, npt.NDArray[Any]]

    def __len__(self) -> int:
        return len(self.number)

    def __getitem__(self, column: str) -> I64:
        return self.columns[column]

    def real(self, column: str) -> F64:
        """A column that was asked for as real."""
        return self.columns[column]

    def time(self, column: str) -> I64:
        """Times in ns since 1970, ``INVALID`` where there is none; (n,), not to be written to."""
        values = self.columns[column]
        if not len(values) or (values.min() > 0 and values.max() < _LATEST):
            return values
        return np.where((values > 0) & (values < _LATEST), values, INVALID)

    def where(self, kept: npt.NDArray[Any]) -> Rows:
        """Those of the rows that ``kept`` picks, as numpy does."""
        columns = {name: values[kept] for name, values in self.columns.items()}
        return Rows(self.table, self.number[kept], columns)


def plain(name: str) -> str:
    """A name as all schemas write it: older ones have ``start_ns`` where newer ones have ``startNs``."""
    return name.replace("_", "").lower()


class Tables:
    """The tables of ``database`` by name, whatever its schema is.

    ``lost`` counts by table the rows that could not be read. Threads may read side by side; they take turns.
    """

    def __init__(self, database: Database, advance: Callable[[float], None] | None = None) -> None:
        """``advance`` is told how much of all tables has been read, 0..1."""
        self.database = database
        self._lock = threading.RLock()
        self._advance = advance
        self._done = 0
        self.lost: dict[str, int] = {}
        self.unreadable: list[str] = []
        self._connection = database.connection
        self.names = {plain(name): name for name in _names(self._connection)}
        self._tables: dict[str, Table | None] = {}
        self._indexes: dict[tuple[str, str], tuple[I64, I64]] = {}

    def find(self, *names: str) -> Table | None:
        """The first of the tables ``names`` that is there and has columns."""
        for name in names:
            key = plain(name)
            with self._lock:
                if key in self.names and key not in self._tables:
                    self._tables[key] = self._described(self.names[key])
            if (table := self._tables.get(key)) is not None:
                return table
        return None

    @cached_property
    def _total(self) -> int:
        """About how many rows all tables have."""
        total = 0
        for name in self.names.values():
            with contextlib.suppress(*UNREADABLE):
                (last,) = self._connection.execute(f"SELECT max(rowid) FROM {quoted(name)} NOT INDEXED").fetchone()
                total += last if isinstance(last, int) and last > 0 else 0
        return min(total, self.database.size // _ROW_BYTES)  # the numbers of rows may leave gaps

    def _described(self, name: str) -> Table | None:
        try:
            info = self._connection.execute(f"PRAGMA table_info({quoted(name)})").fetchall()
        except UNREADABLE:
            info = []
        columns = {plain(text): text for _, column, *_ in info if (text := as_text(column))}
        if not columns:
            self.unreadable.append(name)
        keys = [
            as_text(column) for _, column, kind, _, _, place in info if place and as_text(kind).upper() == "INTEGER"
        ]
        alone = len(keys) == 1 and sum(bool(place) for *_, place in info) == 1
        return Table(name, columns, keys[0] if alone else "") if columns else None

    def read(self, table: Table, whole: Sequence[str], real: Sequence[str] = ()) -> Rows:
        """The columns ``whole`` as whole numbers and ``real`` as real ones; one that is not there is all ``ABSENT``."""
        wanted = [table.columns.get(plain(name), "") for name in (*whole, *real)]
        kinds: list[Any] = [np.int64] * len(whole) + [np.float64] * len(real)
        there = [(name, kind) for name, kind in zip(wanted, kinds, strict=True) if name]
        with self._lock:
            number, *found = self._by_queries(table, there)
        given = iter(found)
        columns = {
            name: next(given) if column else np.full(len(number), ABSENT if kind is np.int64 else np.nan, kind)
            for name, column, kind in zip((*whole, *real), wanted, kinds, strict=True)
        }
        return Rows(table.name, number, columns)

    def _by_queries(self, table: Table, there: Sequence[tuple[str, Any]]) -> list[npt.NDArray[Any]]:
        """Row numbers and columns as SQLite finds them, also in a damaged table."""
        numbers = Numbers(self._connection, table.name, there)
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)
            self._walk(table, numbers.take)
        if numbers.lost:
            self.lost[table.name] = self.lost.get(table.name, 0) + numbers.lost
        found = numbers.whole()
        # A damaged row number ends SQLite's way through a table without a word.
        unsaid = rows_stored(self.database, table.name) - len(found[0])
        if unsaid > 0 and not self.database.changed():
            self.lost[table.name] = unsaid
        return found

    def texts(self, table: Table, key: str, value: str) -> dict[int, str]:
        """The texts in column ``value`` by the number in column ``key``."""
        found: dict[int, str] = {}
        if not {plain(key), plain(value)} <= table.columns.keys():
            return found
        names = [quoted(table.columns[plain(name)]) for name in (key, value)]
        query = f"SELECT {', '.join(names)} FROM {quoted(table.name)} NOT INDEXED WHERE rowid BETWEEN ? AND ?"

        def take(low: int, high: int) -> int:
            pairs = self._connection.execute(query, (low, high)).fetchall()
            found.update((number, as_text(text)) for number, text in pairs if isinstance(number, int))
            return len(pairs)

        with self._lock:
            self._walk(table, take)
        return found

    def _walk(self, table: Table, take: Callable[[int, int], int]) -> None:
        def taken(low: int, high: int) -> int:
            found = take(low, high)
            self._advanced(found)
            return found

        walk = Walk(self._connection, table.name, taken)
        try:
            walk.go()
        except UNREADABLE:
            self.unreadable.append(table.name)
        if walk.lost:
            self.lost[table.name] = walk.lost

    def _advanced(self, count: int) -> None:
        self._done += count
        if self._advance is not None:
            self._advance(min(self._done / max(self._total, 1), 1.0))

    def cells(self, table: Table, *columns: str) -> Iterator[tuple[Any, ...]]:
        """The cells of a small table row by row, as SQLite has them (texts as bytes, None where there is none)."""
        wanted = ", ".join(
            quoted(table.columns[key]) if (key := plain(name)) in table.columns else "NULL" for name in columns
        )
        try:
            for row in self._connection.execute(f"SELECT {wanted} FROM {quoted(table.name)} NOT INDEXED"):
                if self.database.cut and all(cell is None for cell in row):  # it stands for a page that is lost
                    self.lost[table.name] = self.lost.get(table.name, 0) + 1
                else:
                    yield row
        except UNREADABLE:
            self.unreadable.append(table.name)

    def rows(self, table: Table, columns: Sequence[str], numbers: Sequence[int]) -> list[dict[str, Any] | None]:
        """The cells of ``columns`` (plain names) in the rows of ``numbers``; None for a row that is not there.

        Raises one of ``UNREADABLE`` if they cannot be read.
        """
        names = "".join(f", {quoted(table.columns[column])}" for column in columns)
        found: dict[int, dict[str, Any]] = {}
        for first in range(0, len(numbers), _MOST_VARIABLES):
            batch = numbers[first : first + _MOST_VARIABLES]
            marks = ",".join("?" * len(batch))
            query = f"SELECT rowid{names} FROM {quoted(table.name)} WHERE rowid IN ({marks})"
            for number, *cells in self._connection.execute(query, batch):
                found[number] = dict(zip(columns, cells, strict=True))
        return [found.get(number) for number in numbers]

    def where(self, table: Table, key: str, value: int, most: int = 1) -> list[dict[str, Any]]:
        """The first ``most`` rows of ``table`` whose column ``key`` is ``value``, by plain names of columns.

        The profiler keeps no index by most numbers, so one is made when the first row is asked for. Raises
        one of ``UNREADABLE`` if they cannot be read.
        """
        if plain(key) not in table.columns:
            return []
        if table.columns[plain(key)] == table.key:
            numbers = [value]
        else:
            ordered, rows = self._index(table, key)
            first, last = np.searchsorted(ordered, [value, value + 1]).tolist()
            numbers = sorted(rows[first:last].tolist())[:most]
        found = self.rows(table, list(table.columns), numbers)
        return [row for row in found if row is not None]

    def _index(self, table: Table, key: str) -> tuple[I64, I64]:
        """The numbers in column ``key``, ascending, and the rows they stand in."""
        place = (table.name, plain(key))
        if place not in self._indexes:
            rows = self.read(table, (key,))
            order = np.argsort(rows[key], kind="stable")
            self._indexes[place] = rows[key][order], rows.number[order]
        return self._indexes[place]


def as_text(value: Any) -> str:
    """A cell as text; bytes that are no UTF-8 are those of a Chinese locale."""
    if not isinstance(value, bytes):
        return "" if value is None else str(value)
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("gb18030", errors="replace")


def _names(connection: sqlite3.Connection) -> list[str]:
    """The tables that the list of them still names."""
    names: list[str] = []
    try:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"):
            names.append(as_text(name))
    except UNREADABLE:
        pass
    return [name for name in names if name and not name.startswith("sqlite_")]
