"""One file read by several processes: ranges are handed out as they are asked for and taken in in file order."""

from __future__ import annotations

import os
import queue
from collections.abc import Callable

from msgspec import Struct

from npu_tui.ingest.errors import InputError, WorkerError
from npu_tui.ingest.json.columns.event_columns import Columns
from npu_tui.ingest.json.columns.range_columns import RangeColumns
from npu_tui.ingest.json.columns.whole_columns import WholeColumns
from npu_tui.ingest.json.reading.ranges import boundary_from, read_on
from npu_tui.ingest.json.reading.worker import Task
from npu_tui.ingest.json.reading.workers import Workers
from npu_tui.trace.message import message

_LARGEST = 32 << 20
_SMALLEST = 1 << 20
_FIRST = 2 << 20
_PER_WORKER = 12
_AHEAD = 2
"""Ranges that each worker has at a time, so that it never waits for the next."""

_TICK_SECONDS = 0.1

Advance = Callable[[int, int], None]


class Outcome(Struct):
    """How the reading of a file ended: the offset reached, what was wrong, where an endless element begins."""

    end: int = 0
    truncated: bool = False
    malformed: int = 0
    too_long: int | None = None


class _Plan(Struct):
    """The cuts of a file, the parts that are in, and how far they have been taken over."""

    cuts: list[int]
    parts: dict[int, tuple[int, RangeColumns]] = {}
    asked: int = 0
    taken: int = 0


def range_cuts(start: int, size: int, workers: int, range_bytes: int = 0) -> list[int]:
    """Where ranges of the bytes ``[start, size)`` begin.

    Small ones at the start, for an early picture, and at the end, so that no worker is left with a large one.
    """
    largest = range_bytes or min(max(size // (_PER_WORKER * workers), _SMALLEST), _LARGEST)
    smallest, first = min(largest, _SMALLEST), min(largest, _FIRST)
    cuts, at = [start], start
    while True:
        at += max(min(largest, first + (at - start) // 4, (size - at) // (2 * workers)), smallest)
        if at >= size:
            return cuts
        cuts.append(at)


def read_parallel(
    path: str,
    start: int,
    size: int,
    workers: Workers,
    whole: WholeColumns,
    file: int,
    chunk_size: int,
    advance: Advance,
    range_bytes: int = 0,
) -> Outcome:
    """Take the events of ``path`` from the boundary at ``start`` into ``whole``.

    ``advance`` is called with (bytes read, events read) several times a second and may raise. Raises ``WorkerError`` if
    a worker fails, ``UnknownValuesError`` if the ranges cannot be put together after all.
    """
    plan = _Plan(range_cuts(start, size, len(workers), range_bytes))
    queues = [0] * len(workers)
    done = events = 0
    before, outcome = whole.count, Outcome()
    while plan.taken < len(plan.cuts):
        for worker, waiting in enumerate(queues):
            for _ in range(_AHEAD - waiting):
                queues[worker] += _ask(plan, workers, worker, path, chunk_size)
        try:
            worker, part = workers.parts.get(timeout=_TICK_SECONDS)
        except queue.Empty:
            advance(done, events)
            continue
        if isinstance(part, InputError):
            raise WorkerError(message("input.reader", path=path, why=part.message))
        queues[worker] -= 1
        plan.parts[part.number] = (worker, part)
        done += max(part.end - part.start, 0)
        events += part.count
        _take_over(plan, whole, file, path, chunk_size, outcome)
        advance(done, max(events, whole.count - before))
    _drain(workers, queues)
    return outcome


def _ask(plan: _Plan, workers: Workers, worker: int, path: str, chunk_size: int) -> int:
    """Give the next range to ``worker``, if there is one left."""
    if plan.asked == len(plan.cuts):
        return 0
    number = plan.asked
    plan.asked += 1
    cut = plan.cuts[number + 1] if number + 1 < len(plan.cuts) else None
    workers.ask(worker, Task(os.fsencode(path), number, plan.cuts[number], number == 0, cut, chunk_size))
    return 1


def _take_over(plan: _Plan, whole: WholeColumns, file: int, path: str, chunk_size: int, outcome: Outcome) -> None:
    """Take over the parts whose turn it is. One that does not begin where the one before it ended is read again."""
    while plan.taken < len(plan.cuts) and plan.taken in plan.parts:
        worker, part = plan.parts.pop(plan.taken)
        begin = outcome.end if plan.taken else plan.cuts[0]
        following = plan.taken + 1
        reader = f"worker {worker}"
        if not part.complete or part.start != begin:
            part, skipped = _read_again(plan.cuts[following:], begin, path, chunk_size)
            following += skipped
            reader = f"again {file} {plan.taken}"
        whole.add(part, reader, file)
        outcome.end = part.end
        outcome.malformed += part.malformed
        outcome.truncated, outcome.too_long = part.truncated, part.too_long
        plan.taken = following


def _read_again(cuts: list[int], begin: int, path: str, chunk_size: int) -> tuple[RangeColumns, int]:
    """What begins at ``begin`` up to the first boundary after ``cuts`` that holds, and how many of them that takes."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        part = read_on(descriptor, begin, cuts, Columns(), chunk_size)
        for count, cut in enumerate(cuts):
            edge = boundary_from(descriptor, cut)
            if edge is not None and edge.start == part.end:
                return part, count
        return part, len(cuts)
    finally:
        os.close(descriptor)


def _drain(workers: Workers, queues: list[int]) -> None:
    """Wait for the answers that nobody needs any more."""
    while any(queues):
        worker, part = workers.parts.get()
        if isinstance(part, InputError):
            raise WorkerError(part.message)
        queues[worker] -= 1
