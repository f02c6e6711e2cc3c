"""The requests of batches as ``res_list`` of msServiceProfiler names them, in whatever way its versions write lists."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from npu_tui.load.companion_schema import MISSING

if TYPE_CHECKING:
    import polars as pl

_MEMBER = r"\{[^{}]{5,}\}?"
"""Of a list that is cut off the last one has no end, nor a name: it may be shorter than it was."""
_RID = r"""['"]?\b(?:rid|req_id|request_id|id)['"]?\s*[:=]\s*['"]?([^'",{}\[\]]*[^'",{}\[\]\s])"""
_NUMBERS = (
    r"""['"]?\b(?:iter|iter_size)['"]?\s*[:=]\s*['"]?(\d{1,15})""",
    r"""['"]?\b(?:type|batch_type)['"]?\s*[:=]\s*['"]?(\d{1,15})""",
    r"""['"]?\b(?:num_scheduled_tokens|scheduled_tokens|tokens)['"]?\s*[:=]\s*['"]?(\d{1,15})""",
)
_USUAL = (
    r"""^\{['"]rid['"]: ['"]?([^'",{}]+)['"]?, ['"]iter['"]: (\d{1,15}), ['"]type['"]: (\d{1,15})"""
    r"""(?:, ['"]num_scheduled_tokens['"]: (\d{1,15}))?[^{}]*\}$"""
)
"""What nearly all writers write: the other patterns take four times as long."""
_NOBODY = "[]", "()", "{}"
_PLAIN = r"""[^\[\]\(\)'",\s]+"""
"""A request in a list of nothing but their names."""


_TOGETHER = 1 << 19
"""Bytes of lists that are taken apart at a time: for a name of one byte the pieces take a hundred times as much."""


def requests_of(texts: pl.Series) -> tuple[pl.Series, pl.DataFrame]:
    """How many requests each of ``texts`` names, null where there is no list, and these one after the other.

    A request has its name, ``rid``, and whole numbers, null where they are not told: ``iter``, ``phase``, ``tokens``.
    """
    import polars as pl

    ends = texts.str.len_bytes().fill_null(0).cum_sum().to_numpy()
    part = np.diff(ends // _TOGETHER, prepend=0) > 0
    cuts = [0, *np.flatnonzero(part).tolist(), len(texts)]
    counts, requests = zip(*(_requests_of(texts[low:high]) for low, high in pairwise(cuts)), strict=True)
    return pl.concat(counts), pl.concat(requests, how="vertical_relaxed")


def _requests_of(texts: pl.Series) -> tuple[pl.Series, pl.DataFrame]:
    import polars as pl

    texts = texts.set(texts.str.strip_chars().is_in(MISSING), None)
    named = texts.str.contains("{", literal=True).fill_null(True)
    lists = texts.str.extract_all(_MEMBER)
    if not named.all():
        lists = lists.zip_with(named, texts.set(named, None).str.extract_all(_PLAIN))
    empty = (lists.list.len() > 0).fill_null(True) | texts.is_in(_NOBODY)
    if not empty.all():  # a list that cannot be read has somebody all the same
        lists = lists.zip_with(empty, texts.set(empty, None).str.extract_all("(?s)^."))
    entries = lists.explode(empty_as_null=False, keep_nulls=False)
    rid, *numbers = entries.str.extract_groups(_USUAL).struct.unnest()
    if len(odd := entries.filter(rid.is_null())):
        places, named = rid.is_null().arg_true(), odd.str.contains("{", literal=True)
        said = odd.str.extract(_RID).set(~odd.str.ends_with("}"), None)
        rid = rid.scatter(places, said.zip_with(named, odd.str.extract(f"^({_PLAIN})$")))
        found = (odd.str.extract(pattern).set(~named, None) for pattern in _NUMBERS)
        numbers = [column.scatter(places, values) for column, values in zip(numbers, found, strict=True)]
    rid = rid.str.strip_chars()
    rid = rid.set(rid.is_in(MISSING), None).cast(pl.Categorical)
    whole = (column.cast(pl.Int64, strict=False).shrink_dtype() for column in numbers)
    columns = dict(zip(REQUESTS, (rid, *whole), strict=True))
    return lists.list.len().cast(pl.Int64).set(texts.is_null(), None), pl.DataFrame(columns)


REQUESTS = "rid", "iter", "phase", "tokens"
"""The columns of requests."""
