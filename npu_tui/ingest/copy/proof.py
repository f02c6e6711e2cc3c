"""Whether a mapped copy is what was written: the codes in it at once, its checksums page by page."""

from __future__ import annotations

import mmap
import os
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import numpy as np
import numpy.typing as npt

from npu_tui.ingest.errors import Cancelled
from npu_tui.trace.classes import OpClass
from npu_tui.trace.model import Trace

BLOCK = 4 << 20
"""Bytes of columns that have a checksum of their own."""

_THREADS = 2

Progress = Callable[[int, int, int], bool]
"""Called with (bytes compared, bytes in all, events); returning False stops the comparing."""


def checksums(descriptor: int, start: int, end: int) -> list[int]:
    """One for every ``BLOCK`` of the file from ``start`` to ``end``. Raises ``OSError`` if it cannot be read."""
    return [zlib.crc32(os.pread(descriptor, min(BLOCK, end - at), at)) for at in range(start, end, BLOCK)]


class Proof:
    """The ``expected`` checksums of the columns from ``start`` on in a file that is ``mapped`` for this process alone.

    What has been compared is this process's own memory: nothing that happens to the file changes it.
    """

    def __init__(self, descriptor: int, mapped: mmap.mmap, start: int, expected: Sequence[int]) -> None:
        self._descriptor = os.dup(descriptor)
        self._bytes = np.frombuffer(mapped, np.uint8)
        self._start = start
        self._expected = expected

    @property
    def size(self) -> int:
        """The bytes to be compared."""
        return len(self._bytes) - self._start

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._descriptor)

    def holds(self, progress: Progress | None, events: int) -> bool:
        """Whether all checksums are as expected. Raises ``Cancelled`` if ``progress`` says to stop."""
        blocks = range(len(self._expected))
        if len(blocks) != len(range(self._start, len(self._bytes), BLOCK)):
            return False
        with ThreadPoolExecutor(_THREADS) as threads:
            for low in range(0, len(blocks), _THREADS):
                if progress is not None and not progress(low * BLOCK, self.size, events):
                    raise Cancelled
                if not all(threads.map(self._block_holds, islice(blocks, low, low + _THREADS))):
                    return False
        return True

    def _block_holds(self, number: int) -> bool:
        low = self._start + number * BLOCK
        block = self._bytes[low : low + BLOCK]
        if os.fstat(self._descriptor).st_size < len(self._bytes):
            return False  # touching a page beyond the end of the file would end the process
        # Writing to a page makes it this process's own, whatever becomes of the file.
        pages = self._bytes[low - low % mmap.PAGESIZE : low + len(block) : mmap.PAGESIZE]
        np.bitwise_or(pages, 0, out=pages)
        return zlib.crc32(block.data) == self._expected[number]


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
        and _among(chunks.first_event, events)
        and bool(np.all(chunks.first_event[1:] >= chunks.first_event[:-1]))
        and bool(np.all((chunks.offset >= 0) & (chunks.length >= 0)))
        and all(0 <= lane.first <= lane.last <= count for lane in trace.lanes)
    )


def _among(codes: npt.NDArray[np.generic], count: int, lowest: int = 0) -> bool:
    """Whether all ``codes`` lie in ``[lowest, count)``."""
    return not len(codes) or (int(codes.min()) >= lowest and int(codes.max()) < count)


def _offsets(offset: npt.NDArray[np.int64], parts: int, count: int) -> bool:
    """Whether ``offset`` cuts a column of ``count`` entries into ``parts``."""
    if len(offset) != parts + 1:
        return False
    return int(offset[0]) == 0 and int(offset[-1]) == count and bool(np.all(offset[1:] >= offset[:-1]))
