"""What the columns of companion files are called, and what is in them."""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct

Kind = Literal["text", "label", "shapes", "whole", "real", "time", "span"]
"""``time`` is int64 ns since 1970, ``span`` int64 ns, both from us in the file; ``label`` is one of few texts,
dictionary-coded; ``shapes`` is text on one line."""

_NOT_A_WORD = re.compile(r"[^0-9a-z]+")


class Column(Struct, frozen=True):
    """A column by its ``name`` of ours; ``headings`` are the spellings of the writers, the newest first."""

    name: str
    kind: Kind
    headings: tuple[str, ...]


class Schema(Struct, frozen=True):
    """A kind of companion file: ``stem`` is its name without what msprof appends, ``columns`` are those that we know.

    ``others`` are names that other writers give such a file. Other columns are kept under ``column_name`` of their
    heading, as numbers if ``measured`` (PMU counters) and all of their cells are, else as text. A file without one of
    the columns ``key`` is not of this kind.
    """

    stem: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    measured: bool = False
    others: tuple[str, ...] = ()

    def by_heading(self) -> dict[str, Column]:
        """Every spelling of every column, as ``column_name`` writes it."""
        return {column_name(heading): column for column in self.columns for heading in column.headings}


def column_name(heading: str) -> str:
    """A heading as the name of a column: ``Total Time(us)`` is ``total_time_us``, ``Ratio(%)`` is ``ratio_percent``."""
    return _NOT_A_WORD.sub("_", heading.strip().lower().replace("%", " percent ")).strip("_")
