"""Sheets as one lazy frame: a query makes the columns and the rows that it needs, part by part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from npu_tui.profile.table import Array, Kind, Labels, Numbers, Sheet, Table
from npu_tui.trace.once import once
from npu_tui.trace.text import printable

if TYPE_CHECKING:
    import polars as pl

_ROWS = 1 << 20
"""Rows that are made at a time, so that a filter keeps memory small."""


class Scan:
    """The ``sheets`` (one per profile) of the table called ``name``, one below the other, with the same columns."""

    def __init__(self, name: str, sheets: Sequence[Sheet], kinds: dict[str, Kind]) -> None:
        self.name = name
        self.sheets = sheets
        self.kinds = kinds

    @once
    def words(self) -> dict[str, Words]:
        """The texts of every column that has texts."""
        return {name: self._words(name) for name, kind in self.kinds.items() if kind == "label"}

    def _words(self, name: str) -> Words:
        return Words([column.texts() for sheet in self.sheets if isinstance(column := sheet.data[name], Labels)])

    @once
    def schema(self) -> dict[str, Any]:
        """The types of polars by column."""
        import polars as pl

        types = {"whole": pl.Int64(), "real": pl.Float64(), "flag": pl.Boolean()}
        return {name: self.words[name].type if kind == "label" else types[kind] for name, kind in self.kinds.items()}

    def lazy(self) -> pl.LazyFrame:
        """All of it, nothing made yet."""
        from polars.io.plugins import register_io_source

        return register_io_source(self._frames, schema=self.schema, is_pure=True, explain_name=self.name)

    def _frames(
        self, columns: list[str] | None, predicate: pl.Expr | None, rows: int | None, batch: int | None
    ) -> Iterator[pl.DataFrame]:
        import polars as pl

        wanted = list(self.kinds) if columns is None else columns
        left = rows
        for number, sheet in enumerate(self.sheets):
            for first in range(0, max(sheet.rows, 1), _ROWS):
                last = min(first + _ROWS, sheet.rows)
                if left is not None:
                    last = min(last, first + left)
                frame = pl.DataFrame([self._column(name, number, sheet, first, last) for name in wanted])
                if not wanted:
                    frame = pl.DataFrame(height=last - first)
                if left is not None:
                    left -= last - first
                yield frame if predicate is None else frame.filter(predicate)
                if left == 0:
                    return

    def _column(self, name: str, number: int, sheet: Sheet, first: int, last: int) -> pl.Series:
        column = sheet.data[name]
        if isinstance(column, Labels):
            return self.words[name].series(name, number, column.part(first, last))
        assert isinstance(column, Numbers)  # SQL has no rows within rows
        return _series(name, column, first, last)


def kinds_of(table: Table, sheets: Sequence[Sheet]) -> dict[str, Kind]:
    """The kinds of the columns of ``table`` by name, and of what ``sheets`` have beyond them if it is extended."""
    kinds: dict[str, Kind] = {column.id: column.kind for column in table.sql}
    for sheet in sheets if table.extended else ():
        for name, data in sheet.data.items():
            kinds.setdefault(name, "label" if isinstance(data, Labels) else "real")
    return kinds


def filled(sheets: Sequence[Sheet], kinds: dict[str, Kind]) -> list[Sheet]:
    """``sheets`` with the columns ``kinds``, nulls for what only others have."""
    return [Sheet(each.rows, {name: each.data.get(name) or _nothing(kind) for name, kind in kinds.items()})
            for each in sheets]  # fmt: skip


def _nothing(kind: Kind) -> Labels | Numbers:
    if kind == "label":
        return Labels(lambda: (), partial(_full, np.int64, -1))
    return Numbers(partial(_full, np.float64, np.nan)) if kind == "real" else Numbers(partial(_full, np.int64, -1), -1)


def _full(kind: Any, value: float, first: int, last: int) -> Any:
    return np.full(last - first, value, kind)


class Words:
    """The distinct texts of one column of several sheets, sorted; every character of them is harmless."""

    def __init__(self, parts: Sequence[Sequence[str]]) -> None:
        import polars as pl

        shown = [[printable(text) for text in part] for part in parts]
        self._places: list[Array] = []
        whole = pl.Series("", [text for part in shown for text in part], pl.String)
        distinct = whole.unique().sort()
        self.type = pl.Enum(distinct)
        place = distinct.search_sorted(whole).to_numpy() if len(whole) else np.zeros(0, np.int64)
        at = 0
        for part in shown:
            self._places.append(np.append(place[at : at + len(part)], 0).astype(np.uint32))
            at += len(part)

    def series(self, name: str, sheet: int, codes: Array) -> pl.Series:
        """The texts of ``codes`` of the sheet number ``sheet``."""
        import polars as pl

        column = pl.Series(name, self._places[sheet][codes])
        if not len(self.type.categories):
            return pl.Series(name, [None] * len(codes), self.type)
        missing = codes < 0
        if missing.any():
            column = column.set(pl.Series(missing), None)
        return column.cat.to(self.type)


def _series(name: str, column: Numbers, first: int, last: int) -> pl.Series:
    """The rows ``[first, last)`` of a column of numbers; whole ones are 64 bits wide."""
    import polars as pl

    values = column.part(first, last)
    if values.dtype == np.bool_:
        return pl.Series(name, values)
    if values.dtype.kind == "f":
        return pl.Series(name, np.ascontiguousarray(values, np.float64), nan_to_null=True)
    whole = np.ascontiguousarray(values, np.int64)
    found = pl.Series(name, whole)
    if column.missing is not None and (gone := whole == column.missing).any():
        return found.set(pl.Series(gone), None)
    return found
