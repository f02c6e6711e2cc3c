"""One file read by threads of this process: ranges are scanned side by side and taken in in file order."""

from __future__ import annotations

import itertools
import os
import queue
import threading
from collections.abc import Callable

from msgspec import Struct

from npu_tui.ingest.json.columns.whole_columns import WholeColumns
from npu_tui.ingest.json.reading import Advance, Outcome, boundary_from
from npu_tui.ingest.scanner.scanner import Scanned, Scanner
from npu_tui.native.library import Library

ALONE_BYTES = 4 << 20
"""A smaller file is scanned before another thread would have begun."""

_PER_THREAD = 4 << 20
_MOST = 8
_AHEAD = 2
"""Ranges per thread that are scanned before they can be taken in."""
_TICK_SECONDS = 0.1

_LARGEST = 32 << 20
_SMALLEST = 1 << 20
_FIRST = 2 << 20
_PER_REPORT = 12
"""Ranges of a large file that each thread reads: the picture and the progress move on after each."""

_numbers = itertools.count()


def thread_count(size: int) -> int:
    """How many threads a file of ``size`` bytes is worth on this machine; at least 1."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return 1 if size < ALONE_BYTES else max(min(cores, size // _PER_THREAD, _MOST), 1)


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


class _Result(Struct):
    """A range, by whom it was scanned, or why it was not."""

    number: int
    reader: str
    scanned: Scanned | None
    error: BaseException | None = None


class _Threads:
    """``count`` threads that scan the ranges between ``cuts`` and put results into ``results``, in any order."""

    def __init__(self, make: Callable[[], Scanner], path: str, cuts: list[int], count: int) -> None:
        self.results: queue.SimpleQueue[_Result] = queue.SimpleQueue()
        self._make = make
        self._path = path
        self._cuts = cuts
        self._next = itertools.count()
        self._room = threading.Semaphore(count * (1 + _AHEAD))
        self._over = False
        self._unknown: set[str] = set()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def taken(self) -> None:
        """A range was taken in or dropped: another one may be scanned."""
        self._room.release()

    def refuse(self, reader: str) -> None:
        """What ``reader`` learned in a range is not known to others: it has to begin anew."""
        self._unknown.add(reader)

    def is_refused(self, reader: str) -> bool:
        """Whether ``reader`` builds on what is not known."""
        return reader in self._unknown

    def close(self) -> None:
        """Wait for the threads, which stop at the end of their range."""
        self._over = True
        for _ in self._threads:
            self._room.release()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        try:
            descriptor = os.open(self._path, os.O_RDONLY)  # where a file is read is the descriptor's own
            try:
                self._serve(descriptor)
            finally:
                os.close(descriptor)
        except BaseException as error:  # whoever waits must not wait for ever
            self.results.put(_Result(-1, "", None, error))

    def _serve(self, descriptor: int) -> None:
        scanner: Scanner | None = None
        while True:
            self._room.acquire()
            number = next(self._next)
            if self._over or number >= len(self._cuts):
                return
            if scanner is None or self.is_refused(scanner.name):
                scanner = self._make()
            self.results.put(_Result(number, scanner.name, self._scanned(scanner, descriptor, number)))

    def _scanned(self, scanner: Scanner, descriptor: int, number: int) -> Scanned | None:
        start: int | None = self._cuts[number]
        if number:
            start = boundary_from(descriptor, self._cuts[number])
        if start is None:
            return None
        cut = self._cuts[number + 1] if number + 1 < len(self._cuts) else None
        return scanner.scan(descriptor, start, cut)


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
) -> Outcome:
    """Take the events of ``path`` from the boundary at ``start`` into ``whole``.

    ``advance`` is called with (bytes read, events read) several times a second and may raise. Raises ``OSError`` if the
    file cannot be read.
    """
    count = threads or thread_count(size)
    cuts = range_cuts(start, size, count, range_bytes)
    largest = max(b - a for a, b in itertools.pairwise([*cuts, size])) if size > start else 1

    def make() -> Scanner:
        return Scanner(library, f"scanner {next(_numbers)}", chunk_size, largest)

    descriptor = os.open(path, os.O_RDONLY)
    try:
        if count == 1:
            return _in_order(make(), descriptor, cuts, whole, file, advance)
        return _side_by_side(make, path, descriptor, cuts, count, whole, file, advance)
    finally:
        os.close(descriptor)


def _in_order(
    scanner: Scanner, descriptor: int, cuts: list[int], whole: WholeColumns, file: int, advance: Advance
) -> Outcome:
    """Scan range after range in this thread."""
    outcome, before = Outcome(end=cuts[0]), whole.count
    for cut in [*cuts[1:], None]:
        if cut is not None and cut < outcome.end:
            continue
        scanned = scanner.scan(descriptor, outcome.end, cut)
        _take(scanned, whole, file, outcome)
        advance(outcome.end - cuts[0], whole.count - before)
        if scanned.last:
            break
    return outcome


def _side_by_side(
    make: Callable[[], Scanner],
    path: str,
    descriptor: int,
    cuts: list[int],
    count: int,
    whole: WholeColumns,
    file: int,
    advance: Advance,
) -> Outcome:
    """Scan with ``count`` threads. What does not begin where the range before it ended is scanned again."""
    outcome, before = Outcome(end=cuts[0]), whole.count
    threads = _Threads(make, path, cuts, count)
    waiting: dict[int, _Result] = {}
    done = taken = 0
    try:
        while taken < len(cuts):
            try:
                result = threads.results.get(timeout=_TICK_SECONDS)
            except queue.Empty:
                advance(done, whole.count - before)
                continue
            if result.error is not None:
                raise result.error
            if result.scanned is not None:
                done += result.scanned.end - result.scanned.start
            waiting[result.number] = result
            while taken in waiting:
                result = waiting.pop(taken)
                scanned = result.scanned
                cut = cuts[taken + 1] if taken + 1 < len(cuts) else None
                taken += 1
                if scanned is None or scanned.start != outcome.end or threads.is_refused(result.reader):
                    threads.refuse(result.reader)
                    if cut is not None and cut < outcome.end:
                        threads.taken()
                        continue  # the range before this one was longer
                    scanned = make().scan(descriptor, outcome.end, cut)
                _take(scanned, whole, file, outcome)
                threads.taken()
                if scanned.last:
                    return outcome
            advance(done, whole.count - before)
    finally:
        threads.close()
    return outcome


def _take(scanned: Scanned, whole: WholeColumns, file: int, outcome: Outcome) -> None:
    """Take in the parts of a range."""
    for reader, part in scanned.parts:
        whole.add(part, reader, file)
        outcome.add(part)
    outcome.end = scanned.end
