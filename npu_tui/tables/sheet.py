"""The columns of one table before polars sees them: arrays that are there already, or functions that make a part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.trace.text import printable

if TYPE_CHECKING:
    import polars as pl

Array = npt.NDArray[Any]
Part = Callable[[int, int], Array]
"""The values of the rows ``[first, last)``."""

_PLAIN = 4096


class Numbers(Struct, frozen=True):
    """Numbers or flags by rows; ``missing`` is the whole number that stands for null, not-a-number always does."""

    part: Part
    missing: int | None = None


class Labels(Struct, frozen=True):
    """Texts by rows: ``values`` at the code of each row, null below 0. ``values`` may be made when they are needed."""

    values: Callable[[], Sequence[str]]
    part: Part


Data = Numbers | Labels


class Sheet(Struct, frozen=True):
    """``rows`` rows of the columns ``data``, by name."""

    rows: int
    data: dict[str, Data]


def numbers(values: Array | Sequence[int | float | bool], missing: int | None = None) -> Numbers:
    """A column that is there."""
    array = np.asarray(values)
    return Numbers(lambda first, last: array[first:last], missing)


def optional(values: Sequence[float | None], whole: bool = True) -> Numbers:
    """A column of a few numbers, None for null."""
    if whole:
        return numbers(np.array([_NONE if each is None else each for each in values], np.int64), _NONE)
    return numbers(np.array([np.nan if each is None else each for each in values], np.float64))


_NONE = int(np.iinfo(np.int64).min)


def computed(part: Part, missing: int | None = None) -> Numbers:
    """A column whose parts are made when a query asks for them."""
    return Numbers(part, missing)


def constant(value: int | None, rows: int) -> Numbers:
    """The same number in every row, None for null."""
    del rows
    whole = _NONE if value is None else value
    return Numbers(lambda first, last: np.full(last - first, whole, np.int64), _NONE)


def coded(values: Sequence[str], codes: Array) -> Labels:
    """Texts that are numbered already."""
    return Labels(lambda: values, lambda first, last: codes[first:last])


def labels(texts: Sequence[str | None]) -> Labels:
    """A column of a few texts, None for null."""
    known: dict[str, int] = {}
    codes = np.array([-1 if text is None else known.setdefault(text, len(known)) for text in texts], np.int64)
    return coded(list(known), codes)


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


def numbers_series(name: str, column: Numbers, first: int, last: int) -> pl.Series:
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
