"""Plain bytes of a file that may be packed with gzip."""

from __future__ import annotations

import os
import select
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from npu_tui.ingest.errors import Cancelled, InputError

_MAGIC = b"\x1f\x8b"
_BLOCK = 1 << 20
_SUSPICIOUS_BYTES = 64 << 20
_SUSPICIOUS_RATIO = 300
"""A profile shrinks 10 to 30 times; what shrinks more than this is blanks."""

_TICK_SECONDS = 0.1

Advance = Callable[[int], bool]


@dataclass(slots=True)
class Plain:
    """Readable plain bytes: the file itself, or an unpacked copy that vanishes when it is closed.

    ``path`` opens the same bytes again; ``cut`` says whether the packed file ends too early.
    """

    stream: BinaryIO
    path: str
    size: int
    unpacked: bool
    cut: bool


def _scratch() -> tuple[BinaryIO, str]:
    """An empty file that vanishes with this process, and a path that opens it for other processes meanwhile."""
    plain = tempfile.TemporaryFile(prefix="npu-tui-")  # noqa: SIM115 - it lives as long as the trace
    path = f"/proc/{os.getpid()}/fd/{plain.fileno()}"
    if os.path.exists(path):
        return cast(BinaryIO, plain), path
    plain.close()
    named = tempfile.NamedTemporaryFile(prefix="npu-tui-", suffix=".json")  # noqa: SIM115 - it lives as long as the trace
    return cast(BinaryIO, named), named.name


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

    ``advance`` is called several times a second with the bytes so far, also while none come, and cancels by returning
    False. Raises ``OSError`` if there is no room.
    """
    copy, path = _scratch()
    taken, told = 0, float("-inf")
    try:
        for data in _arriving(stream):
            taken += copy.write(data)
            if advance is not None and time.monotonic() - told >= _TICK_SECONDS:
                told = time.monotonic()
                if not advance(taken):
                    raise Cancelled
        copy.flush()
    except BaseException:
        copy.close()
        raise
    return copy, path


def open_plain(file: Path, advance: Advance | None = None) -> Plain:
    """``file`` opened for reading, unpacked to a temporary file first if it is gzip.

    ``advance`` is called with the number of packed bytes done and cancels by returning False. Raises ``InputError``
    for what is no gzip behind its first bytes, or would unpack without end; ``OSError`` if a file cannot be read or
    the copy cannot be written.
    """
    stream = file.open("rb")
    if stream.read(2) != _MAGIC:
        stream.seek(0, 2)
        size = stream.tell()
        stream.seek(0)
        return Plain(stream, str(file), size, unpacked=False, cut=False)
    stream.seek(0)
    with stream:
        return _unpacked(file, stream, advance)


def _unpacked(file: Path, packed: BinaryIO, advance: Advance | None) -> Plain:
    copy, path = _scratch()
    inflate = zlib.decompressobj(wbits=31)
    taken = written = 0
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
                    written += copy.write(_readable(before, data))
                    if not written:
                        raise InputError(f"{file}: byte 0: damaged gzip ({error}); copy the file again") from error
                    damaged = True
                    break
                written += copy.write(plain)
                _check(file, taken, written)
                whole = whole or inflate.eof
                data = inflate.unused_data if inflate.eof else inflate.unconsumed_tail
            if damaged:
                break
            if advance is not None and not advance(taken):
                raise Cancelled
        else:
            written += copy.write(inflate.flush())
            whole = inflate.eof
    except BaseException:
        copy.close()
        raise
    if not written:
        copy.close()
        raise InputError(f"{file}: byte {taken}: gzip without content; copy the file again")
    copy.flush()
    copy.seek(0)
    return Plain(copy, path, written, unpacked=True, cut=not whole)


def _readable(inflate: zlib._Decompress, data: bytes) -> bytes:
    """What ``data`` unpacks to before its first damage."""
    found = bytearray()
    try:
        for at in range(len(data)):
            found += inflate.decompress(data[at : at + 1])
    except zlib.error:
        pass
    return bytes(found)


def _check(file: Path, taken: int, written: int) -> None:
    if written > _SUSPICIOUS_BYTES and written > taken * _SUSPICIOUS_RATIO:
        raise InputError(
            f"{file}: unpacks to {_SUSPICIOUS_RATIO} times its size or more, as no profile does; give a trace_view.json"
        )
