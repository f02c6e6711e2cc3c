"""The fast reader of a text trace: compiled loops in threads; what they refuse, the tolerant reader reads."""

from __future__ import annotations

import itertools
import os
import queue
import threading
from collections.abc import Callable

import numpy as np
from msgspec import Struct

from npu_tui.load.fast_state import GROUPS, State, known_counts, news
from npu_tui.load.json_chunks import CHUNK
from npu_tui.load.json_columns import PHASES
from npu_tui.load.json_events import Event, decode_events
from npu_tui.load.json_reader import Advance, Outcome, RangeColumns, WholeColumns, boundary_from, read_on
from npu_tui.load.times import nanoseconds, parse_time
from npu_tui.native.layout import (
    DICTIONARIES,
    DONE,
    DURATION,
    GROW,
    LINK_TIME,
    MORE,
    PADDING,
    SAMPLE_TIME,
    SLICE_TIME,
    VALUE,
    WORDS,
)
from npu_tui.native.library import Library

BUFFER = 1 << 20
_CHUNK = 8 << 10
"""Bytes per chunk at most: these are not decoded, and little is read again for the args of few events."""
_FOREVER = 1 << 62
_ODD_BYTES = 16 << 10
_ODD_MOST = 4 << 20
_ODD_FACTOR = 8
_TIME_COLUMNS = {SLICE_TIME: "x_time", SAMPLE_TIME: "c_time", LINK_TIME: "l_time"}
_LETTERS = "XCstf"
_SKIPPED = {
    "without_duration": "odd.no_duration",
    "launch_without_id": "skip.launch_id",
    "link_without_id": "skip.link_id",
}


class Scanned(Struct):
    """The parts of a range in file order, each with who read it, and where the range ended.

    ``last`` says that nothing after it is to be read.
    """

    start: int
    end: int
    parts: list[tuple[str, RangeColumns]] = []
    last: bool = False


class Scanner:
    """Reads ranges one after the other and keeps its tables from one to the next; ``name`` tells it from others."""

    def __init__(self, library: Library, name: str, chunk_size: int = CHUNK, range_bytes: int = 1 << 20) -> None:
        self._library = library
        self._name = name
        self._chunk_size = chunk_size
        self._state = State(min(BUFFER, max(range_bytes, 1 << 16)), range_bytes)
        self._state.put("chunk_size", min(chunk_size, _CHUNK))
        self._buffer = self._state.arrays["buffer"]
        self._view = self._buffer.data
        self._room = len(self._buffer) - PADDING
        self._odd = 0

    def scan(self, descriptor: int, start: int, cut: int | None) -> Scanned:
        """The events from ``start``, where one begins, to the first that begins after one that ends after ``cut``.

        None: all. Raises ``OSError`` if the file cannot be read.
        """
        found = Scanned(start, start)
        odd_bytes = _ODD_BYTES
        size = os.fstat(descriptor).st_size
        while cut is None or found.end <= cut:
            at = found.end
            why = self._common(descriptor, found, cut)
            if why == DONE:
                break
            odd_bytes = max(odd_bytes // 4, _ODD_BYTES) if found.end - at > 8 * odd_bytes else odd_bytes
            self._odd_part(descriptor, found, odd_bytes, size)
            if found.last:
                break
            odd_bytes = min(2 * odd_bytes, _ODD_MOST)
        return found

    def _odd_part(self, descriptor: int, found: Scanned, length: int, size: int) -> None:
        """Let the tolerant reader have at least ``length`` bytes."""
        cuts, ahead = [], length
        while found.end + ahead < size:
            cuts.append(found.end + ahead)
            ahead *= _ODD_FACTOR
        part = read_on(descriptor, found.end, cuts, min(self._chunk_size, length))
        self._odd += 1
        found.parts.append((f"{self._name} odd {self._odd}", part))
        found.end, found.last = part.end, part.last

    def _common(self, descriptor: int, found: Scanned, cut: int | None) -> int:
        """Take in the common events from where ``found`` ends; why no more of them are."""
        state, room = self._state, self._room
        base, filled, position = found.end, 0, 0
        exhausted = False
        segment = _Segment(self, base)
        state.put("cut", _FOREVER if cut is None else cut)
        while True:
            if filled < room and not exhausted:
                got = os.preadv(descriptor, [self._view[filled:room]], base + filled)
                exhausted = got == 0
                filled += got
                self._buffer[filled : filled + PADDING] = 0
            state.put("base", base)
            state.put("filled", filled)
            state.put("position", position)
            why = self._library.scan(state.words, WORDS)
            position = state.get("position")
            segment.settle(base)
            found.end = base + position
            if why == GROW:
                segment = self._grown(segment, found, state.get("filled") - position)
                continue
            if why != MORE or exhausted or (position == 0 and filled == room):
                break
            self._buffer[: filled - position] = self._buffer[position:filled].copy()
            base, filled, position = base + position, filled - position, 0
        segment.close(found)
        return int(why)

    def _grown(self, segment: _Segment, found: Scanned, event_bytes: int) -> _Segment:
        """Make room for the next event; the segment at hand may end for that."""
        state = self._state
        full = [group for group, _ in GROUPS if state.is_full(group)]
        if full:
            segment.close(found)
            for group in full:
                state.new_columns(group)
            segment = _Segment(self, found.end)
        if state.grow_tables(event_bytes):
            self._library.rehash(state.words, WORDS)
        return segment

    @property
    def state(self) -> State:
        """The memory it works in."""
        return self._state

    @property
    def name(self) -> str:
        """What tells it from others."""
        return self._name


class _Segment:
    """The events that the library takes in one after the other, until they become a part."""

    def __init__(self, scanner: Scanner, start: int) -> None:
        self._scanner = scanner
        self._start = start
        state = scanner.state
        self._first = {group: state.get("chunks" if group == "chunk" else group) for group, _ in GROUPS}
        self._known = known_counts(state)
        self._replay: list[tuple[int, Event]] = []
        self._phases: dict[str, int] = {}
        for name in ("events", *_SKIPPED, *(f"phase_{letter}" for letter in _LETTERS)):
            state.put(name, 0)

    def settle(self, base: int) -> None:
        """Take over what the library left to others: rare events, and numbers that are no plain ones."""
        state = self._scanner.state
        if count := state.get("rare_count"):
            self._add_rare(state.arrays["rare"][: 3 * count].reshape(-1, 3).tolist())
            state.put("rare_count", 0)
        if count := state.get("inexact_count"):
            self._add_inexact(state.arrays["inexact"][: 4 * count].reshape(-1, 4).tolist())
            state.put("inexact_count", 0)

    def _add_rare(self, rows: list[list[int]]) -> None:
        buffer = self._scanner.state.arrays["buffer"]
        events = decode_events(b"[%b]" % b",".join([buffer[at : at + length].tobytes() for _, at, length in rows]))
        for (ordinal, _, _), event in zip(rows, events, strict=True):
            self._phases[event.ph] = self._phases.get(event.ph, 0) + 1
            if event.ph == "M" or event.ph in PHASES:
                self._replay.append((ordinal, event))

    def _add_inexact(self, rows: list[list[int]]) -> None:
        arrays = self._scanner.state.arrays
        buffer = arrays["buffer"]
        for kind, row, at, length in rows:
            text = buffer[at : at + length].tobytes().decode("ascii")
            if kind == DURATION:
                arrays["x_duration"][row] = nanoseconds(np.array([float(text)]))[0]
            elif kind == VALUE:
                arrays["c_value"][row] = float(text)
            else:
                arrays[_TIME_COLUMNS[kind]][row] = parse_time(text)

    def close(self, found: Scanned) -> None:
        """Add the part to ``found``, if it holds anything."""
        state = self._scanner.state
        events = state.get("events")
        if not events:
            return
        phases = self._phases | {letter: number for letter in _LETTERS if (number := state.get(f"phase_{letter}"))}
        columns = {}
        for group, names in GROUPS:
            end = state.get("chunks" if group == "chunk" else group)
            for name in names:
                columns[name] = state.arrays[name][self._first[group] : end]
        part = RangeColumns(
            count=events,
            phases=phases,
            skipped={reason: count for name, reason in _SKIPPED.items() if (count := state.get(name))},
            known=dict(zip(DICTIONARIES, self._known, strict=True)),
            news=news(state, self._known),
            replay=self._replay,
            columns=columns,
            start=self._start,
            end=found.end,
        )
        found.parts.append((self._scanner.name, part))


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
