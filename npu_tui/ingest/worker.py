"""A process that reads ranges of a file for another one.

Standard input brings one JSON line per range, standard output answers each with a length of eight bytes, a ``Part`` and
its columns. The process ends with its input; it imports nothing but what reading needs.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import BinaryIO

import msgspec

from npu_tui.ingest.columns import Columns
from npu_tui.ingest.parts import packed
from npu_tui.ingest.ranges import boundary_from, give_up, read_range


class Task(msgspec.Struct):
    """Range ``number`` of ``path``: from ``start``, or the first boundary behind it unless ``exact``, to ``cut``.

    Without a ``cut`` it is the last one. Names of files are bytes: not every one is text.
    """

    path: bytes
    number: int
    start: int
    exact: bool
    cut: int | None
    chunk_size: int


class Failure(msgspec.Struct):
    """Why a range could not be read, instead of a part."""

    failure: str


def main() -> None:
    """Serve until the input ends."""
    import gc

    gc.disable()  # nothing decoded is cyclic
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one decides
    columns, decode = Columns(), msgspec.json.Decoder(Task).decode
    for line in sys.stdin.buffer:
        try:
            answer(decode(line), columns, sys.stdout.buffer)
        except BrokenPipeError:
            return
        except (OSError, MemoryError) as error:
            words = "not enough memory" if isinstance(error, MemoryError) else error.strerror or str(error)
            send([msgspec.msgpack.encode(Failure(words))], sys.stdout.buffer)
            return


def answer(task: Task, columns: Columns, out: BinaryIO) -> None:
    """Read one range and send what it holds."""
    descriptor = os.open(task.path, os.O_RDONLY)
    try:
        start: int | None = task.start
        if not task.exact:
            edge = boundary_from(descriptor, task.start)
            start = None if edge is None else edge.start
        if start is None:
            part = give_up(columns, -1)
        else:
            part = read_range(descriptor, start, task.cut, columns, task.chunk_size)
    finally:
        os.close(descriptor)
    part.number = task.number
    send(list(packed(part)), out)


def send(pieces: list[bytes | memoryview], out: BinaryIO) -> None:
    """The length of the first piece, then all of them."""
    out.write(len(pieces[0]).to_bytes(8, "little"))
    for piece in pieces:
        out.write(piece)
    out.flush()
