"""A profiler database: opened read-only through SQLite, its tables and columns in bulk.

Two writers make such databases: torch_npu and MindSpore (``ascend_pytorch_profiler_<rank>.db``), described at
https://www.hiascend.com/document/detail/en/canncommercial/850/devaids/profiling/atlasprofiling_16_1145.html, and msprof
(``msprof_<time>.db``), at
https://gitcode.com/Ascend/msprof/blob/master/docs/en/user_guide/profile_data_file_references_db.md. Their schemas
changed with every version, so a column that is not there reads as absent.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.load.database_file import UNREADABLE, Database, as_text, tables_of
from npu_tui.load.times import INVALID
from npu_tui.trace.arrays import F64, I64
from npu_tui.trace.memory import RowRoom

ABSENT = -1
"""Stands for a cell that is empty, and for all of a column that is not there."""

LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1
"""The numbers that a row may have."""

# Rows at a time: few enough to be cancelled in between, and so that no text becomes too long for SQLite or memory.
_STEP = 1 << 16

_LATEST = 1 << 62  # of 146 years after 1970: a later time is damage, and differences of earlier ones fit into 64 bits
_MOST_VARIABLES = 500  # SQLite before 3.32 takes 999 in one statement
_ROW_BYTES = 32
"""About what a row of the profiler's tables takes in the file; two whole databases have 40 and 42."""


class DatabaseTable(Struct, frozen=True):
    """A table by its own ``name``; ``columns`` gives those of the file by their plain names.

    ``key`` is the column that is the row number, if there is one.
    """

    name: str
    columns: dict[str, str]
    key: str = ""


class DatabaseRows(Struct):
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

    def where(self, kept: npt.NDArray[Any]) -> DatabaseRows:
        """The rows that ``kept`` picks, as it would pick from an array."""
        columns = {name: values[kept] for name, values in self.columns.items()}
        return DatabaseRows(self.table, self.number[kept], columns)


def schema_name(name: str) -> str:
    """A name as all schemas write it: older ones have ``start_ns`` where newer ones have ``startNs``."""
    return name.replace("_", "").lower()


class DatabaseTables:
    """The tables of ``database`` by name, whatever its schema is.

    ``damaged`` are the tables of which not all could be read, ``views`` counts what only looks like one, ``lost_tasks``
    what the file says of tasks that it lacks. Threads may read side by side; they take turns.
    """

    def __init__(self, database: Database, most: int = HIGHEST) -> None:
        """``read`` gives the ``most`` first rows; ``advance`` is called with the share of all tables that was read."""
        self.database = database
        self._lock = threading.RLock()
        self.advance: Callable[[float], None] | None = None
        self._done = 0
        self._most = most
        self.damaged: list[str] = []
        self.lost_tasks = self.odd_cells = 0
        self._connection = database.connection
        listed, self.views = tables_of(self._connection)
        self._listed = frozenset(listed)
        self.names = {schema_name(name): name for name in reversed(listed)}
        self._tables: dict[str, DatabaseTable | None] = {}
        self._indexes: dict[tuple[str, str], tuple[I64, I64]] = {}

    def find(self, *names: str) -> DatabaseTable | None:
        """The first of the tables ``names`` that is there and has columns."""
        for name in names:
            key = schema_name(name)
            with self._lock:
                if key in self.names and key not in self._tables:
                    self._tables[key] = self._described(name if name in self._listed else self.names[key])
            if (table := self._tables.get(key)) is not None:
                return table
        return None

    @cached_property
    def _total(self) -> int:
        """About how many rows all tables have."""
        total = sum(map(self.last, self.names.values()))
        return min(total, self.database.size // _ROW_BYTES)  # the numbers of rows may leave gaps

    def last(self, name: str) -> int:
        """The highest number of a row of the table ``name`` as it stands in the file, usually how many there are."""
        with contextlib.suppress(*UNREADABLE):
            (last,) = self._connection.execute(f"SELECT max(rowid) FROM {quoted(name)} NOT INDEXED").fetchone()
            return last if isinstance(last, int) and last > 0 else 0
        return 0

    def _described(self, name: str) -> DatabaseTable | None:
        try:
            info = self._connection.execute(f"PRAGMA table_info({quoted(name)})").fetchall()
        except UNREADABLE:
            info = []
        columns = {schema_name(text): text for _, column, *_ in info if (text := as_text(column))}
        if any(text.lower() == "rowid" for text in columns.values()):
            columns = {}  # it hides the numbers of the rows, by which they are read
        if not columns:
            self.damaged.append(name)
        keys = [
            as_text(column) for _, column, kind, _, _, place in info if place and as_text(kind).upper() == "INTEGER"
        ]
        alone = len(keys) == 1 and sum(bool(place) for *_, place in info) == 1
        return DatabaseTable(name, columns, keys[0] if alone else "") if columns else None

    def select(self, name: str, whole: Sequence[str], real: Sequence[str] = ()) -> DatabaseRows:
        """What ``read`` gives of the table ``name``; no rows where it is not there."""
        table = self.find(name)
        if table is not None:
            return self.read(table, whole, real)
        columns: dict[str, npt.NDArray[Any]] = {column: np.zeros(0, np.int64) for column in whole}
        return DatabaseRows(name, np.zeros(0, np.int64), columns | {column: np.zeros(0) for column in real})

    def has_column(self, name: str, column: str) -> bool:
        """Whether the table ``name`` is there and has ``column``."""
        table = self.find(name)
        return table is not None and schema_name(column) in table.columns

    def read(self, table: DatabaseTable, whole: Sequence[str], real: Sequence[str] = ()) -> DatabaseRows:
        """The columns ``whole`` as whole numbers and ``real`` as real ones; one that is not there is all ``ABSENT``.

        A damaged table is read as far as SQLite comes, and noted in ``damaged``. Raises ``MemoryError`` where there is
        no room for so many rows.
        """
        names = {
            name: table.columns[schema_name(name)] for name in (*whole, *real) if schema_name(name) in table.columns
        }
        query = _Query(
            self._connection,
            table.name,
            [quoted(names[name]) for name in whole if name in names],
            [quoted(names[name]) for name in real if name in names],
        )
        pieces = [query.nothing()]
        lowest, step, room = LOWEST, min(_STEP, self._most), RowRoom()
        with self._lock, self._unchanged():
            while lowest <= HIGHEST and step:
                try:
                    piece = query.piece(lowest, step)
                except UNREADABLE:
                    self._note_damage(table)
                    step //= 2  # the rows before the damaged page are still there
                    continue
                if piece is None:
                    break
                room.take(len(piece[0]))
                pieces.append(piece)
                self._advanced(len(piece[0]))
                if self._most < HIGHEST:
                    break
                lowest = int(piece[0][-1]) + 1
        self.odd_cells += query.odd
        columns_of = [*map(list, zip(*pieces, strict=True))]
        pieces.clear()
        number, *known = map(_joined_column, columns_of)
        given = iter(known)
        columns: dict[str, npt.NDArray[Any]] = {}
        for name in (*whole, *real):
            absent = ABSENT if name in whole else np.nan
            columns[name] = next(given) if name in names else np.broadcast_to(absent, len(number))
        return DatabaseRows(table.name, number, columns)

    @contextlib.contextmanager
    def _unchanged(self) -> Iterator[None]:
        """The database is not written to meanwhile."""
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            if self._connection.in_transaction:  # an error may have ended it
                self._connection.execute("ROLLBACK")

    def _note_damage(self, table: DatabaseTable) -> None:
        if table.name not in self.damaged:
            self.damaged.append(table.name)

    def texts(self, table: DatabaseTable, key: str, value: str) -> dict[int, str]:
        """The texts in column ``value`` by the number in column ``key``."""
        if not {schema_name(key), schema_name(value)} <= table.columns.keys():
            return {}
        with self._lock:
            pairs = self.cells(table, key, value)
            texts = {number: as_text(text) for number, text in pairs if isinstance(number, int)}
            self._advanced(len(texts))
        return texts

    def _advanced(self, count: int) -> None:
        self._done += count
        if self.advance is not None:
            self.advance(min(self._done / max(self._total, 1), 1.0))

    def cells(self, table: DatabaseTable | None, *columns: str) -> Iterator[tuple[Any, ...]]:
        """The cells row by row, as SQLite has them (texts as bytes, None where there is none); none without a table.

        Raises ``MemoryError`` where there is no room for so many rows.
        """
        room = RowRoom()
        for count, cells in enumerate(() if table is None else self._cells(table, columns)):
            if not count % _STEP:
                room.take(_STEP)
            yield cells

    def _cells(self, table: DatabaseTable, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        wanted = ", ".join(
            quoted(table.columns[key]) if (key := schema_name(name)) in table.columns else "NULL" for name in columns
        )
        try:
            # A damaged table may lead in a circle: none has more rows than the file has bytes.
            query = f"SELECT {wanted} FROM {quoted(table.name)} NOT INDEXED LIMIT {self.database.size}"
            yield from self._connection.execute(query)
        except UNREADABLE:
            self._note_damage(table)

    def rows(self, table: DatabaseTable, columns: Sequence[str], numbers: Sequence[int]) -> list[dict[str, Any] | None]:
        """The cells of ``columns`` (plain names) in the rows of ``numbers``; None for a row that is not there.

        Raises one of ``UNREADABLE`` if they cannot be read.
        """
        names = "".join(f", {quoted(table.columns[column])}" for column in columns)
        rows: dict[int, dict[str, Any]] = {}
        for first in range(0, len(numbers), _MOST_VARIABLES):
            batch = numbers[first : first + _MOST_VARIABLES]
            marks = ",".join("?" * len(batch))
            query = f"SELECT rowid{names} FROM {quoted(table.name)} WHERE rowid IN ({marks})"
            for number, *cells in self._connection.execute(query, batch):
                rows[number] = dict(zip(columns, cells, strict=True))
        return [rows.get(number) for number in numbers]

    def where(self, table: DatabaseTable, key: str, value: int, most: int = 1) -> list[dict[str, Any]]:
        """The first ``most`` rows of ``table`` whose column ``key`` is ``value``, by plain names of columns.

        The profiler keeps no index by most numbers, so one is made when the first row is asked for. Raises
        one of ``UNREADABLE`` if they cannot be read.
        """
        if schema_name(key) not in table.columns:
            return []
        if table.columns[schema_name(key)] == table.key:
            numbers = [value]
        else:
            ordered, rows = self._index(table, key)
            first, last = np.searchsorted(ordered, [value, value + 1]).tolist()
            numbers = sorted(rows[first:last].tolist())[:most]
        found = self.rows(table, list(table.columns), numbers)
        return [row for row in found if row is not None]

    def _index(self, table: DatabaseTable, key: str) -> tuple[I64, I64]:
        """The numbers in column ``key``, ascending, and the rows they stand in."""
        place = (table.name, schema_name(key))
        if place not in self._indexes:
            rows = self.read(table, (key,))
            order = np.argsort(rows[key], kind="stable")
            self._indexes[place] = rows[key][order], rows.number[order]
        return self._indexes[place]


def _joined_column(pieces: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """One column of ``pieces``, which are given away: those of all columns would take as much memory again."""
    joined = pieces[-1] if len(pieces) < 3 else np.concatenate(pieces)
    pieces.clear()
    return joined


_OF_NUMBERS = b"0123456789,-"
_ODD = "(typeof({0}) = 'blob' OR (typeof({0}) = 'text' AND {0} NOT GLOB '*[0-9]*'))"
"""Whether a cell is a word, or bytes, where a number belongs."""


class _Query:
    """The rows of ``table`` as columns, a piece at a time: ``whole`` and ``real`` are its columns as SQL has them.

    SQLite joins each column of a piece into one text of numbers, which NumPy parses: faster than a Python object for
    each cell. Reals come as objects, since SQLite writes them with 15 digits.
    """

    def __init__(self, connection: sqlite3.Connection, table: str, whole: Sequence[str], real: Sequence[str]) -> None:
        self._connection = connection
        self._counts = len(whole), len(real)
        rows = f"FROM {quoted(table)} NOT INDEXED WHERE rowid"
        texts = "".join(f", group_concat(c{i})" for i in range(len(whole)))

        def joined(cell: str) -> str:
            cells = "".join(f", ifnull({cell.format(name)}, {ABSENT}) AS c{i}" for i, name in enumerate(whole))
            piece = f"SELECT rowid AS number{cells} {rows} >= ? ORDER BY rowid LIMIT ?"
            return f"SELECT count(*), min(number), max(number){texts} FROM ({piece})"

        # A cell that is no number is what SQLite makes of it: '12' is 12, 2.7 is 2, a word is 0.
        self._as_written, self._cast = joined("{}"), joined("CAST({} AS INTEGER)")
        self._odd = f"SELECT total({' + '.join(map(_ODD.format, whole)) or 0}) FROM (SELECT * {rows} BETWEEN ? AND ?)"
        self.odd = 0
        self._number = f"SELECT group_concat(number) FROM (SELECT rowid AS number {rows} >= ? ORDER BY rowid LIMIT ?)"
        reals = ", ".join(f"CAST({name} AS REAL)" for name in real)
        self._real = f"SELECT {reals} {rows} BETWEEN ? AND ? ORDER BY rowid LIMIT ?"

    def nothing(self) -> list[npt.NDArray[Any]]:
        """The columns of no row."""
        whole, real = self._counts
        return [np.zeros(0, kind) for kind in (*[np.int64] * (1 + whole), *[np.float64] * real)]

    def piece(self, lowest: int, most: int) -> list[npt.NDArray[Any]] | None:
        """Row numbers and columns of the first ``most`` rows from number ``lowest`` on, ascending; None without any.

        Raises one of ``UNREADABLE`` if they cannot be read.
        """
        count, first, last, columns = self._joined(lowest, most)
        if not count:
            return None
        number = np.arange(first, last + 1) if last - first + 1 == count else self._numbers(lowest, most)
        if self._counts[1]:
            reals = self._connection.execute(self._real, (first, last, count)).fetchall()
            columns += list(np.ascontiguousarray(np.array(reals, np.float64).reshape(-1, self._counts[1]).T))
        # Damaged pages may lead in a circle, or give other rows to the second query.
        if any(len(column) != count for column in (number, *columns)) or (number[1:] <= number[:-1]).any():
            raise sqlite3.DatabaseError("row numbers out of order")
        return [number, *columns]

    def _joined(self, lowest: int, most: int) -> tuple[int, int, int, list[npt.NDArray[Any]]]:
        """How many rows, the first and the last number, and the columns; words and bytes among them are counted."""
        with contextlib.suppress(ValueError, *UNREADABLE):  # not a number after all, or a word that is too long
            count, first, last, *texts = self._connection.execute(self._as_written, (lowest, most)).fetchone()
            if not count:
                return 0, 0, 0, []
            if not any(text.translate(None, _OF_NUMBERS) for text in texts):
                columns: list[npt.NDArray[Any]] = [np.fromstring(text, np.int64, sep=",") for text in texts]
                if all(len(column) == count for column in columns):
                    return count, first, last, columns
        count, first, last, *texts = self._connection.execute(self._cast, (lowest, most)).fetchone()
        self.odd += int(self._connection.execute(self._odd, (first, last)).fetchone()[0])
        return count, first, last, [np.fromstring(text or b"", np.int64, sep=",") for text in texts]

    def _numbers(self, lowest: int, most: int) -> I64:
        (text,) = self._connection.execute(self._number, (lowest, most)).fetchone()
        return np.fromstring(text or b"", np.int64, sep=",")


def quoted(name: str) -> str:
    """A name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'
