"""A process that reads ranges of a file for another one.

Standard input brings one JSON line per task, standard output answers each with a length of eight bytes, a
``RangeColumns`` and its columns. The process ends with its input; it imports nothing but what reading needs.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import BinaryIO

import msgspec
import numpy as np

from npu_tui.ingest.json.columns.event_columns import Columns
from npu_tui.ingest.json.columns.range_columns import RangeColumns
from npu_tui.ingest.json.columns.range_columns import packed as packed_part
from npu_tui.ingest.json.reading.ranges import boundary_from, give_up, read_range
from npu_tui.trace.depth import packed


class Task(msgspec.Struct, tag=True):
    """Range ``number`` of ``path``: from ``start``, or the first boundary after it unless ``exact``, to ``cut``.

    Without a ``cut`` it is the last one. Names of files are bytes: not every one is text.
    """

    path: bytes
    number: int
    start: int
    exact: bool
    cut: int | None
    chunk_size: int


class Pack(msgspec.Struct, tag=True):
    """Find the rows of ``count`` slices in ``Crowds``, whose columns follow the line; the answer is column ``ROWS``."""

    number: int
    count: int


ROWS = "rows"


class Failure(msgspec.Struct):
    """Why a range could not be read, instead of a part: what the system says, nothing for want of memory."""

    failure: str


def main() -> None:
    """Serve until the input ends."""
    import gc

    gc.disable()  # nothing decoded is cyclic
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one decides
    columns, decode = Columns(), msgspec.json.Decoder(Task | Pack).decode
    for line in sys.stdin.buffer:
        try:
            answer(decode(line), columns, sys.stdin.buffer, sys.stdout.buffer)
        except BrokenPipeError:
            return
        except (OSError, MemoryError) as error:
            why = "" if isinstance(error, MemoryError) else error.strerror or str(error)
            send([msgspec.msgpack.encode(Failure(why))], sys.stdout.buffer)
            return


def answer(task: Task | Pack, columns: Columns, source: BinaryIO, out: BinaryIO) -> None:
    """Do one task, whose columns come from ``source``, and send the part."""
    part = _read(task, columns) if isinstance(task, Task) else _packed(task, source)
    part.number = task.number
    send(list(packed_part(part)), out)


def _read(task: Task, columns: Columns) -> RangeColumns:
    """What one range holds."""
    descriptor = os.open(task.path, os.O_RDONLY)
    try:
        start: int | None = task.start
        if not task.exact:
            edge = boundary_from(descriptor, task.start)
            start = None if edge is None else edge.start
        if start is None:
            return give_up(columns, -1)
        return read_range(descriptor, start, task.cut, columns, task.chunk_size)
    finally:
        os.close(descriptor)


def _packed(task: Pack, source: BinaryIO) -> RangeColumns:
    """The rows of the slices whose columns come from ``source``."""
    start, until = np.empty(task.count, np.int64), np.empty(task.count, np.int64)
    first = np.empty(task.count, np.bool_)
    for column in (start, until, first):
        source.readinto(column.view(np.uint8).data)  # type: ignore[attr-defined]
    return RangeColumns(0, {}, {}, {}, {}, [], {ROWS: packed(start, until, first)})


def send(pieces: list[bytes | memoryview], out: BinaryIO) -> None:
    """The length of the first piece, then all of them."""
    out.write(len(pieces[0]).to_bytes(8, "little"))
    for piece in pieces:
        out.write(piece)
    out.flush()
