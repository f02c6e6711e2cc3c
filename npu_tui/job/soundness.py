"""Which rows of summaries hold what a rank's row holds: whoever wrote or damaged a file, the others are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
import polars as pl

_NULLABLE = frozenset({"broken", "boot", "counter", "level", "layout", "busy_start", "busy_end", "kernels", "computing",
                       "lost", "begun"})  # fmt: skip
_ALIKE = (
    ("call_name", "call_kind", "call_ordinal", "call_start", "call_end", "call_pair"),
    ("busy_start", "busy_end"),
    ("kernels", "computing", "lost"),
)
"""Columns of lists that are as long as each other."""

_SPANS = (("call_start", "call_end"), ("busy_start", "busy_end"))

_LAYOUT = 4
_MOST_RANKS = 1 << 20
_FARTHEST_NS = 1 << 61
"""Further from the epoch no time lies; differences of such times are still whole numbers of 64 bits."""


def sound(frame: pl.DataFrame, schema: Mapping[str, Any]) -> pl.Series:
    """Whether each row of ``frame``, whose columns are those of ``schema``, can be a rank's."""
    parts = [*_present(schema), *_lengths(), *_numbers()]
    whole = _holds(frame, parts)
    even = frame.with_columns(pl.when(whole).then(pl.col(name)) for pair in _SPANS for name in pair)
    whole &= _holds(even, [(pl.col(end) - pl.col(start)).list.min() >= 0 for start, end in _SPANS])
    told = [_is_told(broken) and _is_told(problems) for broken, problems in frame["broken", "problems"].iter_rows()]
    return whole & pl.Series(told, dtype=pl.Boolean)


def _holds(frame: pl.DataFrame, parts: list[pl.Expr]) -> pl.Series:
    """Whether all ``parts`` are true of each row; one that is null counts as true."""
    return frame.select(pl.all_horizontal(*(part.fill_null(value=True) for part in parts)).alias("all"))["all"]


def _present(schema: Mapping[str, Any]) -> list[pl.Expr]:
    """Nothing is null that never is, in lists neither."""
    parts = [pl.col(name).is_not_null() for name in schema if name not in _NULLABLE]
    for name, kind in schema.items():
        if isinstance(kind, pl.List):
            inner, each = kind.inner, pl.element()
            fields = inner.fields if isinstance(inner, pl.Struct) else []
            gone = [each.is_null(), *(each.struct.field(field.name).is_null() for field in fields)]
            parts.append(~pl.col(name).list.eval(pl.any_horizontal(*gone)).list.any())
    return parts


def _lengths() -> list[pl.Expr]:
    alike = [
        pl.col(name).list.len().eq_missing(pl.col(first).list.len()) for first, *others in _ALIKE for name in others
    ]
    return [*alike, pl.col("layout").list.len() == _LAYOUT]


def _numbers() -> list[pl.Expr]:
    """Kinds of calls are there, groups can be listed, and no time overflows."""
    kinds, count = pl.col("call_kind").list, pl.col("groups").list.eval(pl.element().struct.field("count")).list
    times = [
        part
        for start, end in _SPANS
        for part in (pl.col(start).list.min() > -_FARTHEST_NS, pl.col(end).list.max() < _FARTHEST_NS)
    ]
    return [
        kinds.min() >= 0,
        kinds.max() < pl.col("kinds").list.len(),
        count.min() >= 0,
        count.max() <= _MOST_RANKS,
        pl.col("begun").is_between(-_FARTHEST_NS, _FARTHEST_NS),
        *times,
    ]


def _is_told(packed: str | None) -> bool:
    """Whether ``packed`` holds messages, as a summary packs them."""
    if packed is None:
        return True
    try:
        found = orjson.loads(packed)
    except ValueError:
        return False
    return isinstance(found, list) and all(_is_message(each) for each in found)


def _is_message(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("code"), str) and isinstance(value.get("args"), dict)
