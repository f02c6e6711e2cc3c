"""The columns of a CSV file from some of its rows, by the loop of ``columns.c``.

Processor time of the loop against that of polars and regular expressions, which read what is odd: 627 MB of an
inference service open in 6.3 s instead of 9.8, the requests of its batches in 1.6 s instead of 4.7; 140 MB of
kernel_details.csv in 2.6 s instead of 3.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.native.layout import CSV_LEFT_OUT, CSV_REGION, CSV_REQUESTS, CSV_TEXT, CSV_WORD, PADDING, POWERS
from npu_tui.native.library import library

I64 = npt.NDArray[np.int64]

NO_VALUE = int(np.iinfo(np.int64).min)
"""Stands for a cell without a value."""
_SHORTEST = 30
"""No request of a list takes fewer bytes."""


class CsvColumns(Struct):
    """Columns of ``rows`` rows by their places: numbers, or the bits of floats, ``NO_VALUE`` where a cell has none.

    Those of texts have numbers, from 1 on, into ``texts``, which are as they stand in the file, quotes included.
    """

    rows: int
    values: dict[int, I64]
    texts: list[str]
    requests: I64
    """Of the column of batches' requests, whose values say how many: name, iteration, phase, tokens; (n, 4)."""


def counted(data: bytes, byte: bytes) -> int:
    """How often ``byte`` stands in ``data``: where it is frequent, several times faster than ``bytes.count``."""
    return int(np.count_nonzero(np.frombuffer(data, np.uint8) == byte[0]))


def csv_columns(text: bytes, kinds: Sequence[int], missing: Sequence[str]) -> CsvColumns | None:
    """The columns of ``text``, whole rows in UTF-8, by the kind of each (``native.layout``).

    Texts of ``missing`` stand for no value. A column with a cell that is nothing of its kind is left out. None without
    the library, or where quotes or the number of cells in a row are odd.
    """
    compiled = library()
    if compiled is None:
        return None
    rows = counted(text, b"\n")
    wanted = np.array(kinds, np.uint8)
    listed = len(text) // _SHORTEST + 1 if CSV_REQUESTS in kinds else 1
    most = rows * kinds.count(CSV_TEXT) + listed
    columns: dict[str, npt.NDArray[Any]] = {
        "text": np.frombuffer(text + bytes(PADDING), np.uint8),
        "kinds": wanted,
        "values": np.empty(len(kinds) * rows, np.int64),
        "missing": np.array([int.from_bytes(word.encode(), "little") for word in missing], np.int64),
        "powers": POWERS,
        "slots": np.zeros(1 << (2 * most).bit_length(), np.int32),
        "entries": np.empty(2 * most, np.int64),
        "lists": np.empty(4 * listed, np.int64),
    }
    plan = np.zeros(2 * len(CSV_REGION) + len(CSV_WORD), np.int64)
    for name, at in CSV_REGION.items():
        plan[at : at + 2] = columns[name].ctypes.data, columns[name].nbytes
    plan[list(CSV_WORD.values())] = len(text), len(kinds), rows, 0, 0
    count = compiled.csv_columns(plan)
    if count < 0:
        return None
    values = columns["values"].reshape(len(kinds), rows)
    entries = columns["entries"][: 2 * int(plan[CSV_WORD["texts"]])].reshape(-1, 2).tolist()
    texts = [text[at : at + length].decode() for at, length in entries]
    requests = columns["lists"][: 4 * int(plan[CSV_WORD["listed"]])].reshape(-1, 4)
    wanted_places = np.flatnonzero(wanted != CSV_LEFT_OUT).tolist()
    return CsvColumns(count, {at: values[at, :count] for at in wanted_places}, texts, requests)
