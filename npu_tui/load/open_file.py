"""Files of events that are opened once for all who read them, each at its own position."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any, BinaryIO, cast
from weakref import WeakValueDictionary

from npu_tui.trace.side_file import admitted, descriptor_of, held_bytes

_MOST_KEPT = 64
"""Files that stay open with their traces: a process may have some thousand, and a job as many ranks."""


class OpenFile:
    """The file at ``path``, open for reading until the last one who uses it is gone. Raises ``OSError``."""

    def __init__(self, path: str | Path) -> None:
        self.descriptor = -1
        self.descriptor = descriptor_of(path)

    def __del__(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)

    def stream(self) -> BinaryIO:
        """A stream of its bytes with a position of its own."""
        return stream_at(self.descriptor, self)

    def kept(self) -> OpenFile | None:
        """Itself, to be kept for as long as a trace; None where many are."""
        return self if len(_open) <= _MOST_KEPT else None


class _Position(io.RawIOBase):
    """The bytes of ``descriptor``, read from one position after the other; ``holder`` keeps it open.

    A hole is the end of them. What is appended meanwhile is read as well.
    """

    def __init__(self, descriptor: int, holder: object) -> None:
        self._descriptor, self._holder, self._at = descriptor, holder, 0
        held = held_bytes(descriptor)
        self._end = held if held < os.fstat(descriptor).st_size else None

    def fileno(self) -> int:
        return self._descriptor

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        size = os.fstat(self._descriptor).st_size if self._end is None else self._end
        self._at = {os.SEEK_CUR: self._at, os.SEEK_END: size}.get(whence, 0) + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        if self._end is not None:
            view = view[: max(self._end - self._at, 0)]
        count = os.preadv(self._descriptor, [view], self._at)
        self._at += count
        return count


def stream_at(descriptor: int, holder: object = None) -> BinaryIO:
    """A stream of the bytes of ``descriptor`` with a position of its own; ``holder`` keeps that open."""
    return cast(BinaryIO, _Position(descriptor, holder))


_open: WeakValueDictionary[tuple[int, int], OpenFile] = WeakValueDictionary()


def open_file(path: str | Path) -> OpenFile:
    """What ``path`` leads to now, opened unless somebody has it open. Raises ``OSError``."""
    status = os.stat(admitted(path))
    key = status.st_dev, status.st_ino  # no other file gets the number as long as this one is open
    file = _open.get(key)
    if file is None:
        file = _open[key] = OpenFile(path)
    return file
