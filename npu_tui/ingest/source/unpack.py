"""Plain bytes of a file that may be packed with gzip."""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from npu_tui.ingest.errors import InputError
from npu_tui.ingest.source.scratch import Scratch
from npu_tui.trace.message import message
from npu_tui.trace.model import EventFile

MAGIC = b"\x1f\x8b"
"""The first bytes of a gzip."""

_BLOCK = 1 << 20
_SUSPICIOUS_BYTES = 64 << 20
_SUSPICIOUS_RATIO = 300
"""A profile shrinks 10 to 30 times; what shrinks more than this is blanks."""
_USUAL_RATIO = 50
"""What a gzip tells of its length is taken for true up to this: the last bytes of one that is cut off are anything."""

_TICK_SECONDS = 0.1

Advance = Callable[[int], None]
"""Called with the number of bytes taken in so far; raises to cancel."""


class Plain(Struct):
    """Readable plain bytes: the file itself, or an unpacked copy that vanishes when it is closed.

    ``path`` opens the same bytes again; ``cut`` says whether the packed file ends too early.
    """

    stream: BinaryIO
    path: str
    size: int
    unpacked: bool
    cut: bool


def _arriving(stream: BinaryIO) -> Iterator[bytes]:
    """What ``stream`` brings as it comes, and nothing now and then while it brings nothing."""
    try:
        descriptor = stream.fileno()
    except OSError:  # it has none
        while data := stream.read(_BLOCK):
            yield data
        return
    while True:
        if not select.select([descriptor], [], [], _TICK_SECONDS)[0]:
            yield b""
        elif data := os.read(descriptor, _BLOCK):
            yield data
        else:
            return


def spooled(stream: BinaryIO, advance: Advance | None = None) -> tuple[BinaryIO, str]:
    """What ``stream`` brings, in a file that vanishes when it is closed, and a path that opens it again.

    ``advance`` is called several times a second, also while no bytes come. Raises ``OSError`` if there is no room.
    """
    copy, told = Scratch(), float("-inf")
    try:
        for data in _arriving(stream):
            copy.write(data)
            if advance is not None and time.monotonic() - told >= _TICK_SECONDS:
                told = time.monotonic()
                advance(copy.size)
        return copy.finish(), copy.path
    except BaseException:
        copy.close()
        raise


def open_plain(file: Path, advance: Advance | None = None) -> Plain:
    """``file`` opened for reading, unpacked to a temporary file first if it is gzip.

    ``advance`` is called with the number of packed bytes done. Raises ``InputError`` for what is no gzip after its
    first bytes, or would unpack without end; ``OSError`` if a file cannot be read or the copy cannot be written.
    """
    stream = file.open("rb")
    if stream.read(2) != MAGIC:
        stream.seek(0, 2)
        size = stream.tell()
        stream.seek(0)
        return Plain(stream, str(file), size, unpacked=False, cut=False)
    with stream:
        return _unpacked_fast(file, stream, advance) or _unpacked(file, stream, advance)


def _unpacked_fast(file: Path, packed: BinaryIO, advance: Advance | None) -> Plain | None:
    """The plain bytes of a gzip without a fault; None for any other, and where the faster library is not there.

    What of a damaged or cut one can be read is for ``_unpacked`` to say.
    """
    try:
        from isal import isal_zlib
    except ImportError:
        return None
    packed.seek(0)
    copy = Scratch(plain_bytes(packed.fileno()))
    inflate = isal_zlib.decompressobj(wbits=31)
    taken = 0
    try:
        while data := packed.read(_BLOCK):
            taken += len(data)
            while data := (data.lstrip(b"\0") if inflate.eof else data):
                if inflate.eof:
                    inflate = isal_zlib.decompressobj(wbits=31)  # another member follows
                copy.write(inflate.decompress(data, _BLOCK))
                _check(file, taken, copy.size)
                data = inflate.unused_data if inflate.eof else inflate.unconsumed_tail
            if advance is not None:
                advance(taken)
        if inflate.eof and copy.size:
            return Plain(copy.finish(), copy.path, copy.size, unpacked=True, cut=False)
    except isal_zlib.error:
        pass
    except BaseException:
        copy.close()
        raise
    copy.close()
    return None


def _unpacked(file: Path, packed: BinaryIO, advance: Advance | None) -> Plain:
    packed.seek(0)
    copy = Scratch(plain_bytes(packed.fileno()))
    inflate = zlib.decompressobj(wbits=31)
    taken = 0
    whole = damaged = False
    try:
        while data := packed.read(_BLOCK):
            taken += len(data)
            while data := (data.lstrip(b"\0") if inflate.eof else data):
                if inflate.eof:
                    inflate = zlib.decompressobj(wbits=31)  # another member follows
                before = inflate.copy()
                try:
                    plain = inflate.decompress(data, _BLOCK)
                except zlib.error as error:
                    copy.write(_readable(before, data))
                    if not copy.size:
                        raise InputError(message("input.gzip_damaged", path=str(file), why=str(error))) from error
                    damaged = True
                    break
                copy.write(plain)
                _check(file, taken, copy.size)
                whole = whole or inflate.eof
                data = inflate.unused_data if inflate.eof else inflate.unconsumed_tail
            if damaged:
                break
            if advance is not None:
                advance(taken)
        else:
            copy.write(inflate.flush())
            whole = inflate.eof
        if not copy.size:
            raise InputError(message("input.gzip_empty", path=str(file), byte=taken))
        return Plain(copy.finish(), copy.path, copy.size, unpacked=True, cut=not whole)
    except BaseException:
        copy.close()
        raise


def plain_bytes(descriptor: int) -> int:
    """How many plain bytes a file holds at least as far as it tells: its own if it is not packed.

    A gzip tells the length of its last member, less whole multiples of 4 GiB.
    """
    size = os.fstat(descriptor).st_size
    if os.pread(descriptor, 2, 0) != MAGIC:
        return size
    told = int.from_bytes(os.pread(descriptor, 4, max(size - 4, 0)), "little")
    return max(size, told if told <= size * _USUAL_RATIO else 0)


class Unpacking:
    """The plain bytes of the gzip ``file``, ``size`` of them, unpacked when they are first asked for."""

    def __init__(self, file: Path, size: int) -> None:
        self._file = file
        self._size = size
        self._lock = threading.Lock()
        self._plain: Plain | None = None
        self._failed: OSError | InputError | None = None

    @property
    def is_over(self) -> bool:
        """Whether ``path`` answers at once."""
        return self._plain is not None or self._failed is not None

    def begin(self) -> None:
        """Unpack them beside everything else, so that nobody waits for them later."""
        threading.Thread(target=self._ahead, daemon=True).start()

    def _ahead(self) -> None:
        with contextlib.suppress(OSError, InputError):  # whoever asks for them is told
            self.path()

    def path(self) -> str:
        """What opens them. Raises ``OSError`` and ``InputError`` as ``open_plain`` does."""
        with self._lock:
            if self._failed is not None:
                raise self._failed
            if self._plain is None:
                try:
                    self._plain = self._unpacked()
                except (OSError, InputError) as error:
                    self._failed = error
                    raise
            return self._plain.path

    def _unpacked(self) -> Plain:
        plain = open_plain(self._file)
        if plain.size != self._size:
            raise InputError(message("input.changed", path=str(self._file)))
        return plain


def at_hand(file: EventFile) -> bool:
    """Whether ``plain_path`` answers at once."""
    return not isinstance(file.copy, Unpacking) or file.copy.is_over


def plain_path(file: EventFile) -> str:
    """What opens the plain bytes of ``file``, which may have to be unpacked first.

    Raises ``OSError`` and ``InputError`` as ``open_plain`` does.
    """
    return file.copy.path() if isinstance(file.copy, Unpacking) else file.path


def _readable(inflate: zlib._Decompress, data: bytes) -> bytes:
    """What ``data`` unpacks to before its first damage."""
    found, at, step = bytearray(), 0, len(data)
    while step and at < len(data):
        before = inflate.copy()
        try:
            found += inflate.decompress(data[at : at + step])
            at += step
        except zlib.error:
            inflate, step = before, step // 2
    return bytes(found)


def _check(file: Path, taken: int, written: int) -> None:
    if written > _SUSPICIOUS_BYTES and written > taken * _SUSPICIOUS_RATIO:
        raise InputError(message("input.gzip_endless", path=str(file), ratio=_SUSPICIOUS_RATIO))
