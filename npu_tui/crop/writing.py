"""Events to a file that is a trace again."""

from __future__ import annotations

import gzip
import os
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from npu_tui.ingest.source.unpack import plain_path
from npu_tui.trace.model import Trace

_LONGEST = 16 << 20
"""What stands around the events is not kept if it is longer."""

Frame = tuple[bytes, bytes]
BARE: Frame = (b"[\n", b"\n]\n")
"""What stands before and after the events where nothing else does."""


def frame_of(trace: Trace) -> Frame:
    """What stands before and after the events of ``trace``: settings of the profiler beside ``traceEvents``."""
    chunks = trace.chunks
    if len(trace.files) != 1 or not len(chunks.offset):
        return BARE
    first, last = int(chunks.offset[0]), int(chunks.offset[-1] + chunks.length[-1])
    try:
        with open(plain_path(trace.files[0]), "rb") as file:
            if first > _LONGEST or os.fstat(file.fileno()).st_size - last > _LONGEST:
                return BARE
            head = file.read(first)
            file.seek(last)
            tail = file.read()
    except OSError:
        return BARE
    try:
        found = msgspec.json.decode(head + tail)
    except ValueError:
        return BARE
    events = found.get("traceEvents") if isinstance(found, dict) else found
    return (head, tail) if events == [] else BARE


def write_events(path: Path, events: Iterable[bytes], frame: Frame) -> int:
    """Write ``events`` to ``path``, packed if its name ends with ``.gz``; returns how many there are.

    The file is there as a whole or not at all, and may be the one that the events are read from. Raises ``OSError``
    that names ``path``.
    """
    folder = path.resolve().parent
    try:
        descriptor, name = tempfile.mkstemp(".part", f".{path.name[:100]}.", folder)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    try:
        with ExitStack() as stack:
            out: BinaryIO = stack.enter_context(open(descriptor, "wb"))
            if path.suffix == ".gz":
                out = stack.enter_context(gzip.GzipFile("", "wb", 6, out, 0))  # type: ignore[assignment]
            count = _written(out, events, frame)
        os.umask(mask := os.umask(0o077))
        os.chmod(name, 0o666 & ~mask)
        os.replace(name, path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        with suppress(OSError):
            os.unlink(name)
    return count


def _written(out: BinaryIO, events: Iterable[bytes], frame: Frame) -> int:
    head, tail = frame
    out.write(head)
    count = 0
    for event in events:
        if count:
            out.write(b",\n")
        out.write(event)
        count += 1
    out.write(tail)
    return count
