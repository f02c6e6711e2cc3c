"""Sheets as one lazy frame: a query makes the columns and the rows that it needs, part by part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from npu_tui.tables.schema import Column, Kind
from npu_tui.tables.sheet import Labels, Numbers, Sheet, Words, numbers_series
from npu_tui.trace.once import once

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
        return Words([column.values() for sheet in self.sheets if isinstance(column := sheet.data[name], Labels)])

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
        return numbers_series(name, column, first, last)


def kinds_of(columns: Sequence[Column], sheets: Sequence[Sheet]) -> dict[str, Kind]:
    """The kinds of ``columns`` and of what ``sheets`` have beyond them, by name."""
    kinds: dict[str, Kind] = {column.name: column.kind for column in columns}
    for sheet in sheets:
        for name, data in sheet.data.items():
            kinds.setdefault(name, "label" if isinstance(data, Labels) else "real")
    return kinds


def filled(sheets: Sequence[Sheet], kinds: dict[str, Kind]) -> list[Sheet]:
    """``sheets`` with nulls for what only others have, columns in the order of ``kinds``."""
    return [Sheet(each.rows, {name: each.data.get(name) or _nothing(kind) for name, kind in kinds.items()})
            for each in sheets]  # fmt: skip


def _nothing(kind: Kind) -> Labels | Numbers:
    import numpy as np

    if kind == "label":
        return Labels(lambda: (), partial(_full, np.int64, -1))
    return Numbers(partial(_full, np.float64, np.nan)) if kind == "real" else Numbers(partial(_full, np.int64, -1), -1)


def _full(kind: Any, value: float, first: int, last: int) -> Any:
    import numpy as np

    return np.full(last - first, value, kind)
