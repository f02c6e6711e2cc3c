"""What a range of the file held, as columns."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
from msgspec import Struct

from npu_tui.ingest.json.decoding.events import Event

Array = npt.NDArray[Any]

DICTIONARY = {
    "x_thread": "threads",
    "x_name": "names",
    "x_category": "categories",
    "x_task_type": "task_types",
    "x_stack": "stacks",
    "c_series": "series",
    "l_category": "link_categories",
    "l_thread": "threads",
}
"""The columns that hold codes, each with the dictionary they are of; -1 stands for absent."""


class RangeColumns(Struct):
    """The columns of one range, by name, and what else is to be taken over in file order.

    Codes are those of the reader of the range: it knew ``known`` values of each dictionary before, ``news`` are those
    that came with the range. ``x_event``, ``l_event`` and ``chunk_first`` count from the range's first event.
    ``replay`` are the numbered events that concern the whole trace: metadata and the marks that pair up across ranges.

    ``start`` and ``end`` are file offsets: where it begins and what was reached. ``truncated`` says that the file ends
    without the array's end, ``too_long`` where an element begins that is longer than any event, ``last`` that nothing
    after is to be read.
    """

    count: int
    phases: dict[str, int]
    skipped: dict[str, int]
    known: dict[str, int]
    news: dict[str, list[Any]]
    replay: list[tuple[int, Event]]
    columns: dict[str, Array]
    start: int = 0
    end: int = 0
    truncated: bool = False
    malformed: int = 0
    too_long: int | None = None
    last: bool = False
