"""Columns of a database as those of a companion file: texts instead of their numbers, null for what is absent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from npu_tui.ingest.companions.csv_table import MISSING
from npu_tui.ingest.database.tables.joins import numbered
from npu_tui.ingest.database.tables.rows import ABSENT
from npu_tui.ingest.database.tables.texts import Texts

if TYPE_CHECKING:
    import polars as pl

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]

_QUOTES = str.maketrans("", "", '"\r\n')


def texts_of(texts: Texts, numbers: I64) -> pl.Series:
    """The texts of ``numbers`` on one line; (n,), null where there is none."""
    distinct, place = numbered(numbers)
    return chosen([texts[number].translate(_QUOTES) for number in distinct.tolist()], place)


def chosen(words: list[str], place: I64) -> pl.Series:
    """The text at each ``place`` (n,) among ``words``, null for one that says nothing."""
    import polars as pl

    told = [None if (word := each.strip()) in MISSING else word for each in words]
    found: pl.Series = pl.Series(told, dtype=pl.String)[place] if told else pl.Series(dtype=pl.String)
    return found


def labels(words: pl.Series) -> pl.Series:
    """``words`` dictionary-coded, where they are a few again and again."""
    import polars as pl

    found: pl.Series = words.cast(pl.Categorical)
    return found


def known_numbers(numbers: I64) -> pl.Series:
    """``numbers`` with null for what is ``ABSENT``; (n,)."""
    return masked(numbers, numbers == ABSENT)


def masked(values: npt.NDArray[Any], absent: npt.NDArray[np.bool_]) -> pl.Series:
    """``values`` (n,) with null where they are ``absent``."""
    import polars as pl

    found: pl.Series = pl.Series(values)
    return found.set(pl.Series(absent), None) if absent.any() else found
