"""Rows as columns: what ranks recorded comes in millions, and Python objects for all of it would take gigabytes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar, overload

import numpy as np

from npu_tui.trace.arrays import F64, I32, I64

SAME_CALL = 2_000
"""ns within which a collective of a trace and one of communication.json start that are the same."""
ROUNDED = 500
"""ns by which times of communication.json may be off: its µs are floats, which two readers turn into different ns."""

Row = TypeVar("Row")


class RowColumns(Sequence[Row]):
    """A table that is a sequence of its rows; a row becomes an object when it is asked for."""

    __slots__ = ()

    @abstractmethod
    def row_at(self, place: int) -> Row:
        """The row at ``place``, which is there."""

    @overload
    def __getitem__(self, at: int) -> Row: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Row, ...]: ...
    def __getitem__(self, at: int | slice) -> Row | tuple[Row, ...]:
        if isinstance(at, slice):
            return tuple(map(self.row_at, range(*at.indices(len(self)))))
        if not -len(self) <= at < len(self):
            raise IndexError(at)
        return self.row_at(at % len(self))


@dataclass(frozen=True, slots=True, eq=False)
class Names(RowColumns[str]):
    """Texts; ``code`` (n,) indexes ``texts``, which many ranks may share and which may have a text twice."""

    texts: tuple[str, ...]
    code: I32

    @staticmethod
    def of(names: Sequence[str]) -> Names:
        """``names``, as they are where they have codes."""
        return names if isinstance(names, Names) else Names(tuple(names), np.arange(len(names), dtype=np.int32))

    def __len__(self) -> int:
        return len(self.code)

    def row_at(self, place: int) -> str:
        """The text at ``place``."""
        return self.texts[int(self.code[place])]

    def __iter__(self) -> Iterator[str]:
        return map(self.texts.__getitem__, self.code.tolist())


class TextCodes:
    """Numbers from 0 on for texts, the same for all ``Names`` that are asked for."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        # Ranks of one summary share their texts, so these are numbered once. The texts are kept beside their numbers,
        # as an id may be given again to another tuple.
        self._known: dict[int, tuple[tuple[str, ...], I32]] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def texts(self) -> Iterable[str]:
        """The texts in the order of their numbers."""
        return self._numbers

    def of(self, names: Names) -> I32:
        """The number of every name, (n,)."""
        known = self._known.get(id(names.texts))
        if known is None:
            numbers = self._numbers
            of_text = np.array([numbers.setdefault(text, len(numbers)) for text in names.texts], np.int32)
            known = self._known[id(names.texts)] = names.texts, of_text
        return known[1][names.code]


MOST_ROUNDS = 40  # an end for a median polish that goes round


class Grouped:
    """Values in ``count`` groups: ``group`` (n,) says which one each belongs to. Made once, asked often."""

    def __init__(self, group: I64, count: int) -> None:
        self.count = count
        order = np.argsort(group, kind="stable")
        sizes = np.bincount(group, minlength=count)
        first = np.cumsum(sizes) - sizes
        # Groups of one size are the rows of a matrix, so that a median of all of them is one call.
        self._same_size = []
        for size in np.unique(sizes[sizes > 0]).tolist():
            groups = np.flatnonzero(sizes == size)
            self._same_size.append((groups, order[first[groups][:, None] + np.arange(size)]))

    def medians(self, value: F64) -> F64:
        """The median of every group, NaN for one without values; (count,)."""
        medians = np.full(self.count, np.nan)
        for groups, places in self._same_size:
            low, high = (places.shape[1] - 1) // 2, places.shape[1] // 2
            ordered = np.partition(value[places], (low, high), axis=1)
            medians[groups] = (ordered[:, low] + ordered[:, high]) / 2
        return medians

    def low_medians(self, value: I64) -> I64:
        """The median of every group, of two in the middle the lower one; 0 for one without values; (count,)."""
        medians = np.zeros(self.count, np.int64)
        for groups, places in self._same_size:
            low = (places.shape[1] - 1) // 2
            medians[groups] = np.partition(value[places], low, axis=1)[:, low]
        return medians


def run_begins(*columns: I64) -> I64:
    """Where each run of equal rows begins; ``columns`` are (n,) each, the runs (k,)."""
    if not len(columns[0]):
        return np.zeros(0, np.int64)
    changed = np.any([np.diff(column) != 0 for column in columns], axis=0)
    return np.concatenate(([0], np.flatnonzero(changed) + 1))


def place_in_run(*columns: I64) -> I64:
    """The place of every row within its run of equal rows, from 0 on; (n,)."""
    begins = run_begins(*columns)
    sizes = np.diff(np.append(begins, len(columns[0])))
    return np.asarray(np.arange(len(columns[0])) - np.repeat(begins, sizes))
