"""The fast reader of a text trace: scanners in threads, each with ranges of the file, put together in file order.

A range begins where an event is likely to begin (``json_chunks.boundary_from``). Only the end of the range before it
proves that: a range that began elsewhere, as within nested args, is scanned again from the proven place.
"""

from __future__ import annotations

import itertools
import os
import queue
import threading
from collections.abc import Callable
from functools import partial

from msgspec import Struct

from npu_tui.load.fast_scanner import Scanned, Scanner
from npu_tui.load.json_reader import Advance, ReadingOutcome, WholeColumns, boundary_from
from npu_tui.load.unpack import open_file
from npu_tui.native.library import Library

ALONE_BYTES = 4 << 20
"""A smaller file is scanned before another thread would have begun."""

_PER_THREAD = 4 << 20  # bytes that are worth one more thread
_MOST_THREADS = 8
_AHEAD = 2
"""Ranges per thread that are scanned before they can be taken in."""
_TICK_SECONDS = 0.1  # how long Ctrl+C waits for a thread at most

_LARGEST = 32 << 20
_SMALLEST = 1 << 20
_FIRST = 2 << 20
_PER_REPORT = 12
"""Ranges of a large file that each thread reads: the picture and the progress move on after each."""


def thread_count(size: int) -> int:
    """How many threads a file of ``size`` bytes is worth on this machine; at least 1."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return 1 if size < ALONE_BYTES else max(min(cores, size // _PER_THREAD, _MOST_THREADS), 1)


def range_cuts(start: int, size: int, threads: int, range_bytes: int = 0) -> list[int]:
    """Where ranges of the bytes ``[start, size)`` begin.

    Small ones at the start, for an early picture, and at the end, so that no thread is left with a large one.
    """
    largest = range_bytes or min(max(size // (_PER_REPORT * threads), _SMALLEST), _LARGEST)
    smallest, first = min(largest, _SMALLEST), min(largest, _FIRST)
    cuts, at = [start], start
    while True:
        at += max(min(largest, first + (at - start) // 4, (size - at) // (2 * threads)), smallest)
        if at >= size:
            return cuts
        cuts.append(at)


def read_scanned(
    library: Library,
    path: str,
    start: int,
    size: int,
    whole: WholeColumns,
    file: int,
    chunk_size: int,
    advance: Advance,
    range_bytes: int = 0,
    threads: int = 0,
) -> ReadingOutcome:
    """Take the events of ``path`` from the boundary at ``start`` into ``whole``.

    ``advance`` is called several times a second and may raise. Raises ``OSError`` if the file cannot be read.
    """
    count = threads or thread_count(size)
    cuts = range_cuts(start, size, count, range_bytes)
    largest = max(b - a for a, b in itertools.pairwise([*cuts, size])) if size > start else 1
    taken = _Taken(whole, file, ReadingOutcome(end=start))
    make = partial(Scanner, library, chunk_size, largest)
    opened = open_file(path)
    if count == 1:
        _scan_in_order(make(), opened.descriptor, cuts, taken, advance)
    else:
        _scan_side_by_side(_Threads(make, opened.descriptor, cuts, count), opened.descriptor, taken, advance)
    return taken.outcome


class _Taken(Struct):
    """What was taken in of a file: the ``outcome`` so far ends where the next range has to begin."""

    whole: WholeColumns
    file: int
    outcome: ReadingOutcome

    def add(self, scanned: Scanned) -> None:
        """Take in the parts of the next range."""
        outcome = self.outcome
        for reader, part in scanned.parts:
            self.whole.add(part, reader, self.file)
            outcome.malformed += part.malformed
            outcome.truncated, outcome.too_long = part.truncated, part.too_long
        outcome.end = scanned.end


def _scan_in_order(scanner: Scanner, descriptor: int, cuts: list[int], taken: _Taken, advance: Advance) -> None:
    """Scan range after range in this thread."""
    outcome = taken.outcome
    for cut in [*cuts[1:], None]:
        if cut is not None and cut < outcome.end:
            continue  # the last event of the range before reached over all of this one
        scanned = scanner.scan(descriptor, outcome.end, cut)
        taken.add(scanned)
        advance(outcome.end - cuts[0], taken.whole.count)
        if scanned.last:
            return


class _Result(Struct):
    """Range ``number`` as ``reader`` scanned it; None where no event begins near. ``error`` ended the thread."""

    number: int
    reader: str
    scanned: Scanned | None
    error: BaseException | None = None


class _Threads:
    """``count`` threads that scan the ranges between ``cuts`` and put results into ``results``, in any order.

    Codes of a scanner build on all that it has read. When one of its ranges is not taken in, the others would not know
    the texts that came with it: its name goes into ``refused``, and its thread begins anew with another scanner.
    ``room`` is released for every range that was taken in or dropped: another one may be scanned.
    """

    def __init__(self, make: Callable[[], Scanner], descriptor: int, cuts: list[int], count: int) -> None:
        self.make = make
        self.cuts = cuts
        self.results: queue.SimpleQueue[_Result] = queue.SimpleQueue()
        self.room = threading.Semaphore(count * (1 + _AHEAD))
        self.refused: set[str] = set()
        self._descriptor = descriptor
        self._next = itertools.count()
        self._over = False
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Wait for the threads, which stop at the end of their range."""
        self._over = True
        for _ in self._threads:
            self.room.release()
        for thread in self._threads:
            thread.join()

    def cut_after(self, number: int) -> int | None:
        """Where the range after ``number`` begins; None for the last one."""
        return self.cuts[number + 1] if number + 1 < len(self.cuts) else None

    def _run(self) -> None:
        try:
            self._scan_ranges(self._descriptor)
        except BaseException as error:  # the thread that waits for a result must not wait for ever
            self.results.put(_Result(-1, "", None, error))

    def _scan_ranges(self, descriptor: int) -> None:
        scanner = self.make()
        while True:
            self.room.acquire()
            number = next(self._next)
            if self._over or number >= len(self.cuts):
                return
            if scanner.name in self.refused:
                scanner = self.make()
            start = boundary_from(descriptor, self.cuts[number]) if number else self.cuts[0]
            scanned = None if start is None else scanner.scan(descriptor, start, self.cut_after(number))
            self.results.put(_Result(number, scanner.name, scanned))


def _scan_side_by_side(threads: _Threads, descriptor: int, taken: _Taken, advance: Advance) -> None:
    """Take in the ranges in file order. One that does not begin where the range before it ended is scanned again."""
    outcome = taken.outcome
    waiting: dict[int, _Result] = {}
    scanned_bytes = following = 0
    try:
        while following < len(threads.cuts):
            try:
                result = threads.results.get(timeout=_TICK_SECONDS)
            except queue.Empty:
                advance(scanned_bytes, taken.whole.count)
                continue
            if result.error is not None:
                raise result.error
            if result.scanned is not None:
                scanned_bytes += result.scanned.end - result.scanned.start
            waiting[result.number] = result
            while following in waiting:
                result, cut = waiting.pop(following), threads.cut_after(following)
                following += 1
                scanned = result.scanned
                if scanned is None or scanned.start != outcome.end or result.reader in threads.refused:
                    threads.refused.add(result.reader)
                    if cut is not None and cut < outcome.end:
                        threads.room.release()
                        continue  # the last event of the range before reached over all of this one
                    scanned = threads.make().scan(descriptor, outcome.end, cut)
                taken.add(scanned)
                threads.room.release()
                if scanned.last:
                    return
            advance(scanned_bytes, taken.whole.count)
    finally:
        threads.close()
