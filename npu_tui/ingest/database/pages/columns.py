"""Columns of a table from its leaves, by the compiled library, in threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.ingest.database.pages.tree import (
    HIGHEST,
    LOWEST,
    Leaves,
    PageFile,
    UnusualError,
    leaves_of,
    rows_stored,
    sound_leaves,
)
from npu_tui.ingest.scanner.layout import AS_REAL, AS_ROW_NUMBER, AS_WHOLE, NOT_WANTED
from npu_tui.ingest.scanner.library import Library
from npu_tui.ingest.scanner.pages import page_buffer, table_rows

U8 = npt.NDArray[np.uint8]
I64 = npt.NDArray[np.int64]

_BATCH_BYTES = 1 << 20
_LEAST_PER_THREAD = 4
"""Fewer batches than this are read before another thread would have begun."""
_MOST_THREADS = 8
_LEAST_CELL = 5
"""Bytes that a row takes besides a byte for each of its columns."""

Advance = Callable[[int], None]


class Layout(Struct, frozen=True):
    """A table as its rows are stored: its topmost page, how many columns it has, and which one is the row number."""

    root: int
    columns: int
    key: int = -1


def read_columns(
    library: Library, file: PageFile, layout: Layout, wanted: Sequence[tuple[int, Any]], advance: Advance
) -> list[npt.NDArray[Any]]:
    """Row numbers and the columns ``wanted`` (place in a row, int64 or float64) of all rows; (n,) each.

    ``advance`` is told how many rows more there are and may raise. Raises ``UnusualError`` if anything of the table is
    better read by SQLite, ``OSError`` if the file cannot be read, ``MemoryError`` if there is no room.
    """
    leaves = leaves_of(file, layout.root)
    most = _most_rows(file, layout, leaves)
    first = np.append(0, np.cumsum(most))
    outputs, plan = _outputs(int(first[-1]), wanted), _plan(layout, wanted)
    if len(leaves) == 1 and not first[-1]:
        return outputs
    reading = _Reading(library, file, leaves, plan, outputs, first)
    per_batch = max(_BATCH_BYTES // file.page_bytes, 1)
    batches = [(low, min(low + per_batch, len(leaves))) for low in range(0, len(leaves), per_batch)]
    counts = []
    with _mapped(batches, reading.batch) as results:
        for count in results:
            counts.append(count)
            advance(count)
    return _without_gaps(outputs, first[[low for low, _ in batches]], counts)


def read_intact(
    library: Library, file: PageFile, layout: Layout, wanted: Sequence[tuple[int, Any]]
) -> list[npt.NDArray[Any]]:
    """The same of the leaves of a damaged table on which every row is understood; row numbers ascend.

    Raises ``UnusualError`` if this is no table whose rows can be read here, ``OSError`` if the file cannot be read.
    """
    leaves = sound_leaves(file, layout.root)
    if not len(leaves):
        raise UnusualError
    outputs, plan = _outputs(rows_stored(file, layout.root), wanted), _plan(layout, wanted)
    buffer = page_buffer(file.page_bytes)
    reached, to = LOWEST, 0
    after = np.append(leaves.highest[1:], HIGHEST).tolist()
    bounds = zip(leaves.page.tolist(), leaves.below.tolist(), leaves.highest.tolist(), after, strict=True)
    for page, below, highest, beyond in bounds:
        buffer[: file.page_bytes] = file.page(page)[: file.page_bytes]
        # A number on a page above may be damaged too: then the neighbours are the bounds.
        for low, high in ((max(below, reached), highest), (reached, beyond)):
            leaf = np.array([[0, low, high]], np.int64)
            count = table_rows(library, buffer, leaf, file.usable, plan, outputs, to, len(outputs[0]))
            if count > 0:
                to += count
                reached = int(outputs[0][to - 1])
                break
    return [output[:to] for output in outputs]


def _outputs(rows: int, wanted: Sequence[tuple[int, Any]]) -> list[npt.NDArray[Any]]:
    return [np.empty(rows, kind) for kind in (np.int64, *(kind for _, kind in wanted))]


def _plan(layout: Layout, wanted: Sequence[tuple[int, Any]]) -> I64:
    """Which output each column of a row goes to and how, as the library wants it."""
    plan = np.full(layout.columns, NOT_WANTED, np.int64)
    for number, (place, kind) in enumerate(wanted, 1):
        if plan[place] != NOT_WANTED:
            raise UnusualError
        how = AS_ROW_NUMBER if place == layout.key else AS_WHOLE if kind is np.int64 else AS_REAL
        if place == layout.key and kind is not np.int64:
            raise UnusualError
        plan[place] = number * 4 + how
    return plan


def _most_rows(file: PageFile, layout: Layout, leaves: Leaves) -> I64:
    """At most so many rows are on each leaf; where row numbers follow each other, exactly so many."""
    spread = leaves.highest.view(np.uint64) - leaves.below.view(np.uint64)
    room = (file.usable - 8) // (_LEAST_CELL + layout.columns)
    most: I64 = np.minimum(spread, np.uint64(room)).astype(np.int64)
    for end in {0, len(leaves) - 1}:  # their spread has no end
        page = file.page(int(leaves.page[end]))
        most[end] = min(int(page[3]) << 8 | int(page[4]), file.usable)
    return most


class _Reading(Struct):
    """Reads batches of leaves into ``outputs``; buffers are handed from one thread to the next."""

    library: Library
    file: PageFile
    leaves: Leaves
    plan: I64
    outputs: list[npt.NDArray[Any]]
    first: I64
    free: list[U8] = []

    def batch(self, bounds: tuple[int, int]) -> int:
        """How many rows the leaves from ``low`` to before ``high`` have."""
        low, high = bounds
        size = self.file.page_bytes
        try:
            buffer = self.free.pop()
        except IndexError:
            buffer = page_buffer(max(_BATCH_BYTES, size))
        page = self.leaves.page[low:high]
        begins = np.flatnonzero(np.diff(page, prepend=page[:1] - 2) != 1)
        ends = np.append(begins[1:], len(page))
        view = buffer.data
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
            there = os.preadv(self.file.descriptor, [view[begin * size : end * size]], (int(page[begin]) - 1) * size)
            if there != (end - begin) * size:
                raise UnusualError
        table = np.empty((len(page), 3), np.int64)
        table[:, 0] = np.arange(len(page)) * size
        table[:, 1], table[:, 2] = self.leaves.below[low:high], self.leaves.highest[low:high]
        room = int(self.first[low]), int(self.first[high])
        count = table_rows(self.library, buffer, table, self.file.usable, self.plan, self.outputs, *room)
        if count < 0:
            raise UnusualError
        self.free.append(buffer)
        return count


@contextmanager
def _mapped(batches: list[tuple[int, int]], read: Callable[[tuple[int, int]], int]) -> Iterator[Iterator[int]]:
    """What ``read`` gives for each of ``batches``, in their order; by threads where that pays."""
    cores = len(os.sched_getaffinity(0))
    threads = min(cores, _MOST_THREADS, len(batches) // _LEAST_PER_THREAD)
    if threads < 2:
        yield map(read, batches)
        return
    pool = ThreadPoolExecutor(threads)
    try:
        yield pool.map(read, batches)
    finally:
        pool.shutdown(cancel_futures=True)


def _without_gaps(outputs: list[npt.NDArray[Any]], first: I64, counts: list[int]) -> list[npt.NDArray[Any]]:
    """``outputs`` without the room that was not needed after each of the batches, which begin at ``first``."""
    to = np.cumsum(counts) - counts
    for at, place, count in zip(first.tolist(), to.tolist(), counts, strict=True):
        if at != place:
            for output in outputs:
                output[place : place + count] = output[at : at + count]
    total = sum(counts)
    return [output[:total] for output in outputs]
