"""The tables of profiles as lazy polars frames; a column is made when a query names it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.load.roles import RolePlaces
from npu_tui.profile.profile import Profile
from npu_tui.profile.table import (
    Array,
    CodedLabels,
    Column,
    Kind,
    Numbers,
    Table,
    TableSheet,
    constant,
    declared_tables,
)
from npu_tui.trace.message import Message
from npu_tui.trace.once import once
from npu_tui.trace.text import printable

if TYPE_CHECKING:
    import polars as pl

    from npu_tui.jobs.job import Job


TABLES: dict[str, Table] = {
    table.id: table for room in ("npu_tui.profile", "npu_tui.jobs") for table in declared_tables(room) if table.sql
}
"""Every table by name."""

ONE_PROFILE = tuple(name for name, table in TABLES.items() if table.subject == "profile")
"""The tables of one profile."""
OF_JOBS = tuple(name for name in TABLES if name not in ONE_PROFILE)
"""The tables that only a job has."""


_ROWS = 1 << 20
"""Rows that are made at a time, so that a filter keeps memory small."""


class Scan:
    """The ``sheets`` (one per profile) of the table called ``name``, one below the other, with the same columns."""

    def __init__(self, name: str, sheets: Sequence[TableSheet], kinds: dict[str, Kind]) -> None:
        self.name = name
        self.sheets = sheets
        self.kinds = kinds

    @once
    def _words(self) -> dict[str, SortedTexts]:
        columns = {
            name: [column for sheet in self.sheets if isinstance(column := sheet.data[name], CodedLabels)]
            for name, kind in self.kinds.items()
            if kind == "label"
        }
        return {name: SortedTexts([column.texts() for column in own]) for name, own in columns.items()}

    @property
    def texts(self) -> dict[str, pl.Series]:
        """The distinct texts of every column that has texts."""
        return {name: words.texts for name, words in self._words.items()}

    def lazy(self) -> pl.LazyFrame:
        """The whole table, nothing made yet."""
        from npu_tui.query.engine import lazy_frame, schema_of

        return lazy_frame(self.name, schema_of(self.kinds, self.texts), self.frames)

    def frames(self, columns: Sequence[str], rows: int | None = None) -> Iterator[pl.DataFrame]:
        """The ``columns`` of all rows, or of the first ``rows``, in pieces; a text is its place in ``texts``."""
        import polars as pl

        left = rows
        for number, sheet in enumerate(self.sheets):
            for first in range(0, max(sheet.rows, 1), _ROWS):
                last = min(first + _ROWS, sheet.rows)
                if left is not None:
                    last = min(last, first + left)
                    left -= last - first
                data = [self._column(name, number, sheet, first, last) for name in columns]
                yield pl.DataFrame(data) if data else pl.DataFrame(height=last - first)
                if left == 0:
                    return

    def _column(self, name: str, number: int, sheet: TableSheet, first: int, last: int) -> pl.Series:
        column = sheet.data[name]
        if isinstance(column, CodedLabels):
            return self._words[name].codes(name, number, column.part(first, last))
        assert isinstance(column, Numbers)  # SQL has no rows within rows
        return _series(name, column, first, last)


def kinds_of(table: Table, sheets: Sequence[TableSheet]) -> dict[str, Kind]:
    """The kinds of the columns of ``table`` by name, and of what ``sheets`` have beyond them if it is extended."""
    kinds: dict[str, Kind] = {column.id: column.kind for column in table.sql}
    for sheet in sheets if table.extended else ():
        for name, data in sheet.data.items():
            kinds.setdefault(name, "label" if isinstance(data, CodedLabels) else "real")
    return kinds


def filled(sheets: Sequence[TableSheet], kinds: dict[str, Kind]) -> list[TableSheet]:
    """``sheets`` with the columns ``kinds``, nulls for what only others have."""
    return [TableSheet(sheet.rows, {name: sheet.data.get(name) or _empty_column(kind) for name, kind in kinds.items()})
            for sheet in sheets]  # fmt: skip


def _in_ns(table: Table, sheet: TableSheet) -> TableSheet:
    """``sheet`` of a trace that counts picoseconds, with parts of nanoseconds."""

    def scaled(numbers: Numbers, first: int, last: int) -> Array:
        values = np.asarray(numbers.part(first, last))
        exact = values / 1000
        return exact if numbers.missing is None else np.where(values == numbers.missing, np.nan, exact)

    times = {column.id: sheet.data.get(column.id) for column in table.sql if column.unit == "ns"}
    data = {name: Numbers(partial(scaled, column)) for name, column in times.items() if isinstance(column, Numbers)}
    return replace(sheet, data=sheet.data | data)


def _ranked(sheet: TableSheet, profile: Profile) -> TableSheet:
    """``sheet`` with the rank of its ``profile`` in every row, unless rows have ranks of their own."""
    return replace(sheet, data={"rank": constant(profile.trace.rank), **sheet.data})


def _empty_column(kind: Kind) -> CodedLabels | Numbers:
    if kind == "label":
        return CodedLabels(lambda: (), partial(_full, np.int64, -1))
    if kind in ("real", "flag"):
        return Numbers(partial(_full, np.float64, np.nan) if kind == "real" else partial(_full, np.bool_, False))
    return Numbers(partial(_full, np.int64, -1), -1)


def _one_text(text: str) -> Sequence[str]:
    return [text]


def _full(kind: Any, value: float, first: int, last: int) -> Any:
    return np.full(last - first, value, kind)


class SortedTexts:
    """The distinct texts of one column of several sheets, sorted; every character of them is harmless."""

    def __init__(self, parts: Sequence[Sequence[str]]) -> None:
        import polars as pl

        shown = [[printable(text) for text in part] for part in parts]
        self._places: list[Array] = []
        texts = pl.Series("", [text for part in shown for text in part], pl.String)
        self.texts = texts.unique().sort()
        place = self.texts.search_sorted(texts).to_numpy() if len(texts) else np.zeros(0, np.int64)
        at = 0
        for part in shown:
            self._places.append(np.append(place[at : at + len(part)], 0).astype(np.uint32))
            at += len(part)

    def codes(self, name: str, sheet: int, codes: Array) -> pl.Series:
        """The places in ``texts`` of ``codes`` of the sheet number ``sheet``."""
        import polars as pl

        column = pl.Series(name, self._places[sheet][codes])
        missing = codes < 0
        return column.set(pl.Series(missing), None) if missing.any() else column


def _series(name: str, column: Numbers, first: int, last: int) -> pl.Series:
    """The rows ``[first, last)`` of a column of numbers; whole ones are 64 bits wide."""
    import polars as pl

    values = column.part(first, last)
    if values.dtype == np.bool_:
        return pl.Series(name, values)
    if values.dtype.kind == "f":
        return pl.Series(name, np.ascontiguousarray(values, np.float64), nan_to_null=True)
    integers = np.ascontiguousarray(values, np.int64)
    series = pl.Series(name, integers)
    if column.missing is not None and (gone := integers == column.missing).any():
        return series.set(pl.Series(gone), None)
    return series


_WORD = re.compile(r"(?:(?P<of>[A-Za-z_]\w*)\.)?(?P<word>[A-Za-z_]\w*)?\Z")
_TABLE_NEXT = re.compile(r"\b(?:from|join)\s+(?:\w+(?:\s+(?:as\s+)?\w+)?\s*,\s*)*\Z", re.IGNORECASE)
_ALIAS_NEXT = re.compile(r"\b(?:from|join)\s+(?:\w+(?:\s+(?:as\s+)?\w+)?\s*,\s*)*\w+\s+(?:as\s+)?\Z", re.IGNORECASE)
_NAMED = re.compile(r"\b(?:from|join)\s+(\w+)(?:\s+(?:as\s+)?(\w+))?", re.IGNORECASE)
_LISTED = re.compile(r",\s*(\w+)(?:\s+(?:as\s+)?(\w+))?")
_QUOTED = re.compile(r"'(?:[^']|'')*'")
_NO_ALIAS = ("where", "join", "on", "order", "group", "limit", "left", "right", "inner", "full", "cross", "union",
             "having", "qualify", "using", "as", "asof")  # fmt: skip


class Name(Struct, frozen=True):
    """A table or a column that the last word may become; ``text`` is the whole query with it, ``key`` says what it is.

    ``unit`` is that of a column's numbers, empty otherwise.
    """

    word: str
    text: str
    key: str
    unit: str = ""


_MOST_LOOKED_AT = 2_000
"""Characters of a query for whose last word names are offered."""


def possible_names(sql: str, names: Sequence[str]) -> list[Name]:
    """What the last word of ``sql`` may become, those that begin with it first; ``names`` are the tables there are.

    After FROM and JOIN tables, elsewhere columns of the tables that the query names, of all where it names none yet;
    the first word of all may be a table. Nothing inside of a quoted text, where an alias stands, and for a whole word.
    """
    if len(sql) > _MOST_LOOKED_AT or _QUOTED.sub("", sql).count("'") % 2:
        return []
    last = _WORD.search(sql)
    if last is None:  # pragma: no cover - it matches the empty word
        return []
    of, word = last["of"], (last["word"] or "").lower()
    before = sql[: last.start("word") if last["word"] else len(sql)]
    if of is None and (_TABLE_NEXT.search(before) or (word and not before.strip())):
        return _matching_names(word, ((name, before + name, f"tables.{name}", "") for name in names))
    if of is None and (not word or _ALIAS_NEXT.search(before)):
        return []
    tables_named = _tables_of(sql, names)
    tables = (
        [tables_named[of]]
        if of in tables_named
        else []
        if of is not None
        else list(dict.fromkeys(tables_named.values())) or list(names)
    )
    columns: dict[str, Column] = {}
    for table in tables:
        for column in TABLES[table].sql:
            columns.setdefault(column.id, column)
    return _matching_names(
        word, ((column.id, before + column.id, column.about, column.unit) for column in columns.values())
    )


def _matching_names(word: str, names: Iterable[tuple[str, str, str, str]]) -> list[Name]:
    """Those of ``names`` with ``word`` in them, those that begin with it first; none if one is ``word`` itself."""
    fitting = [Name(*name) for name in names if word in name[0]]
    if any(name.word == word for name in fitting):
        return []
    return sorted(fitting, key=lambda name: not name.word.startswith(word))


def _tables_of(sql: str, names: Sequence[str]) -> dict[str, str]:
    """The tables that ``sql`` names, by their names and by what it calls them."""
    plain = _QUOTED.sub("''", sql)
    tables: dict[str, str] = {}
    for begin in _NAMED.finditer(plain):
        pairs = [begin.groups()]
        at = begin.end()
        while follows := _LISTED.match(plain, at):
            pairs.append(follows.groups())
            at = follows.end()
        for table, alias in pairs:
            if table in names:
                tables[table] = table
                if alias and alias.lower() not in _NO_ALIAS:
                    tables[alias] = table
    return tables


class ProfileTables:
    """The tables of ``profiles``, which are opened when a query needs them; ``job`` is that of several ranks.

    A table has the rows of all profiles one below the other; ``rank`` distinguishes them. Those of a job are there with
    ``job`` only. Where a table needs args and the file of the trace is gone, asking for it raises ``InputError``.
    ``left_out`` says which profiles have no rows, as they could not be read; it is complete once ``profiles`` are
    opened.
    """

    def __init__(
        self,
        profiles: Callable[[], Sequence[Profile]],
        job: Callable[[], Job] | None = None,
        left_out: Sequence[Message] = (),
    ) -> None:
        self._profiles = profiles
        self.left_out = left_out
        self._made_job = job
        self._scans: dict[str, Scan] = {}
        self._lock = Lock()

    @once
    def profiles(self) -> Sequence[Profile]:
        """The profiles."""
        return self._profiles()

    @once
    def job(self) -> Job:
        """The job; raises ``KeyError`` for one profile alone."""
        if self._made_job is None:
            raise KeyError(OF_JOBS[0])
        return self._made_job()

    @property
    def names(self) -> list[str]:
        """The tables that are there, in the order of the schema."""
        return list(ONE_PROFILE if self._made_job is None else TABLES)

    def rows(self, name: str) -> int:
        """How many rows the table ``name`` has."""
        return sum(sheet.rows for sheet in self.scan(name).sheets)

    def columns(self, name: str) -> dict[str, Kind]:
        """The columns of the table ``name`` with their kinds, those from files beside the trace last."""
        return self.scan(name).kinds

    def scan(self, name: str) -> Scan:
        """The table ``name``, one of ``names``."""
        with self._lock:
            if name not in self._scans:
                sheets = self._sheets(name)
                kinds = kinds_of(TABLES[name], sheets)
                if any(profile.trace.is_fine for profile in self.profiles):
                    sheets = [_in_ns(TABLES[name], sheet) for sheet in sheets]
                    kinds |= {column.id: "real" for column in TABLES[name].sql if column.unit == "ns"}
                if any("role" in sheet.data for sheet in sheets):
                    kinds["role"] = "label"
                self._scans[name] = Scan(name, filled(sheets, kinds), kinds)
            return self._scans[name]

    def _sheets(self, name: str) -> list[TableSheet]:
        table = TABLES[name]
        if table.subject == "part":
            return [table.make(part) for part in self.job.parts]
        if table.subject == "job":
            return [table.make(self.job)]
        sheets = [_ranked(table.make(profile), profile) for profile in self.profiles]
        if not self._roles:
            return sheets
        roles = [CodedLabels(partial(_one_text, role), partial(_full, np.int64, 0)) for role in self._roles]
        return [replace(sheet, data=sheet.data | {"role": role}) for sheet, role in zip(sheets, roles, strict=True)]

    @once
    def _roles(self) -> list[str]:
        """The role of each profile in a job of several; empty where there are none."""
        if self._made_job is None:
            return []
        places = RolePlaces()
        folders = [None if profile.source is None else profile.source.folder for profile in self.profiles]
        roles = ["" if folder is None else places.with_metadata(folder.absolute()).role for folder in folders]
        return roles if len(set(roles)) > 1 else []


def tables_of(profile: Profile) -> ProfileTables:
    """The tables of one profile."""
    return ProfileTables(lambda: [profile])
