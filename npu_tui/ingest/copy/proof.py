"""Whether a copy is what was written: its checksums, and the codes in it."""

from __future__ import annotations

import contextlib
import mmap
import os
import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from npu_tui.ingest.progress import Progress, Watcher
from npu_tui.trace.classes import OpClass
from npu_tui.trace.model import Rows, Trace
from npu_tui.trace.transfers import group_slices, plane_tasks

BLOCK = 4 << 20
"""Bytes of columns that have a checksum of their own."""

_THREADS = 2


def checksums(descriptor: int, start: int, end: int) -> list[int]:
    """One for every ``BLOCK`` of the file from ``start`` to ``end``. Raises ``OSError`` if it cannot be read."""
    return [zlib.crc32(os.pread(descriptor, min(BLOCK, end - at), at)) for at in range(start, end, BLOCK)]


def proven(
    descriptor: int, base: int, size: int, start: int, expected: Sequence[int], events: int, progress: Progress | None
) -> npt.NDArray[np.uint8] | None:
    """The ``size`` bytes of the file from ``base`` on in memory, None if those from ``start`` on are not as expected.

    They are read, not mapped: nothing that becomes of the file later changes them, or ends the process at its new end.
    Raises ``Cancelled`` if ``progress``, which is told of ``events`` as well, says to stop, ``OSError`` if the file
    cannot be read.
    """
    begins = range(start, size, BLOCK)
    if len(begins) != len(expected):
        return None
    held = _memory(size)

    def block_holds(number: int) -> bool:
        at = begins[number]
        block = held[at : at + BLOCK].data
        return os.preadv(descriptor, [block], base + at) == len(block) and zlib.crc32(block) == expected[number]

    if progress is None and len(begins) <= _THREADS:
        return held if all(map(block_holds, range(len(begins)))) else None
    from concurrent.futures import ThreadPoolExecutor  # a trace without a copy need not wait for it

    with ThreadPoolExecutor(_THREADS) as threads:
        for low in range(0, len(begins), _THREADS):
            Watcher(progress).report(begins[low] - start, size - start, events)
            if not all(threads.map(block_holds, range(low, min(low + _THREADS, len(begins))))):
                return None
    return held


def _memory(size: int) -> npt.NDArray[np.uint8]:
    """``size`` bytes to be filled, in large pages where there are some: most of the time of filling goes into pages."""
    held = mmap.mmap(-1, size)
    if (large := getattr(mmap, "MADV_HUGEPAGE", None)) is not None:
        with contextlib.suppress(OSError):
            held.madvise(large)
    return np.frombuffer(held, np.uint8)


def codes_hold(trace: Trace) -> bool:
    """Whether every code of ``trace`` is in its table and every offset in its column.

    Looking something up in a damaged one would fail, or find something else.
    """
    slices, links, rows, chunks = trace.slices, trace.links, trace.rows, trace.chunks
    counters, count, lanes, events = trace.counters, len(slices), len(trace.lanes), sum(trace.events.values())
    return (
        _among(slices.lane, lanes)
        and _among(slices.depth, max((lane.rows for lane in trace.lanes), default=0))
        and _among(slices.name, len(trace.names))
        and _among(slices.category, len(trace.categories))
        and _among(slices.op_class, len(OpClass))
        and _among(slices.task_type, len(trace.task_types), -1)
        and _among(slices.stack, len(trace.stacks), -1)
        and _among(slices.event, events)
        and _among(links.category, len(trace.link_categories))
        and _among(links.source_slice, count, -1)
        and _among(links.target_slice, count, -1)
        and _among(links.source_lane, lanes, -1)
        and _among(links.target_lane, lanes, -1)
        and _among(links.source_event, events)
        and _among(links.target_event, events)
        and _among(rows.item, count)
        and _offsets(rows.offset, sum(lane.rows for lane in trace.lanes), len(rows.item))
        and _offsets(counters.offset, len(counters.series), len(counters.time))
        and _among(chunks.file, len(trace.files))
        and _among(chunks.first_event, events + 1)  # the last ones may hold no event
        and bool(np.all(chunks.first_event[1:] >= chunks.first_event[:-1]))
        and bool(np.all((chunks.offset >= 0) & (chunks.length >= 0)))
        and all(0 <= lane.first <= lane.last <= count for lane in trace.lanes)
    )


def args_hold(trace: Trace) -> bool:
    """Whether the args of communication layers and copies, if they are known, are those of the slices there."""
    if trace.communication is None or trace.copies is None:
        return True
    copies = trace.copies
    planes, collectives = trace.communication.planes, trace.communication.collectives
    return (
        np.array_equal(planes.item, plane_tasks(trace))
        and len(planes.item) == len(planes.source_rank) == len(planes.target_rank) == len(planes.size)
        and len(planes.item) == len(planes.link)
        and _among(planes.link, len(planes.links))
        and np.array_equal(collectives.item, group_slices(trace))
        and len(collectives.item) == len(collectives.algorithm) == len(collectives.size)
        and _among(collectives.algorithm, len(collectives.algorithms))
        and len(copies.item) == len(copies.size) == len(copies.way)
        and _among(copies.item, len(trace.slices))
        and _among(copies.way, len(copies.ways))
    )


def folded_holds(trace: Trace, first_rows: Sequence[int], folded: Rows) -> bool:
    """Whether ``folded`` holds one row for each of the lanes that begin with ``first_rows``."""
    known = {lane.first_row for lane in trace.lanes if lane.rows > 1}
    return (
        known.issuperset(first_rows)
        and len(folded.item) == len(folded.start) == len(folded.end) == len(folded.busy) - 1
        and _among(folded.item, len(trace.slices))
        and _offsets(folded.offset, len(first_rows), len(folded.item))
    )


def _among(codes: npt.NDArray[np.generic], count: int, lowest: int = 0) -> bool:
    """Whether all ``codes`` lie in ``[lowest, count)``."""
    return not len(codes) or (int(codes.min()) >= lowest and int(codes.max()) < count)


def _offsets(offset: npt.NDArray[np.int64], parts: int, count: int) -> bool:
    """Whether ``offset`` cuts a column of ``count`` entries into ``parts``."""
    if len(offset) != parts + 1:
        return False
    return int(offset[0]) == 0 and int(offset[-1]) == count and bool(np.all(offset[1:] >= offset[:-1]))
