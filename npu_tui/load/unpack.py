"""Files of events as plain bytes, each opened once for all who read it; packed ones and standard input in scratch."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import select
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO, cast
from weakref import WeakValueDictionary

from msgspec import Struct

from npu_tui.load.errors import InputError
from npu_tui.trace.message import message
from npu_tui.trace.model import EventFile
from npu_tui.trace.side_file import admitted, descriptor_of, held_bytes

_MOST_KEPT = 64  # files that stay open with their traces: a process may have some thousand, and a job as many ranks


class OpenFile:
    """The file at ``path``, open for reading until the last one who uses it is gone. Raises ``OSError``."""

    descriptor = -1

    def __init__(self, path: str | Path) -> None:
        self.descriptor = descriptor_of(path)

    def __del__(self, close: Callable[[int], None] = os.close) -> None:  # at the end of a program ``os`` may go first
        if self.descriptor >= 0:
            close(self.descriptor)

    def stream(self) -> BinaryIO:
        """A stream of its bytes with a position of its own."""
        return stream_at(self.descriptor, self)

    def kept(self) -> OpenFile | None:
        """This file, to be kept open for as long as a trace; None where many are open."""
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
    """What ``path`` leads to now, opened unless it is open already. Raises ``OSError``."""
    status = os.stat(admitted(path))
    key = status.st_dev, status.st_ino  # no other file gets the number as long as this one is open
    file = _open.get(key)
    if file is None:
        file = _open[key] = OpenFile(path)
    return file


_NAMED = ("TMPDIR", "TEMP", "TMP")
_ON_DISK = "/var/tmp"
_MEMORY = ("tmpfs", "ramfs")
_MOUNTS = Path("/proc/mounts")
_ROOM_EVERY = 32 << 20  # bytes between two looks at the room on the disk
_LEFT_FREE = 64 << 20
_LEFT_SHARE = 20
"""A twentieth of the disk stays free, at most ``_LEFT_FREE``: others write there, too."""


def scratch_folder() -> str:
    """Where the files lie: what ``TMPDIR`` names, else a temporary directory on a disk rather than in memory."""
    import tempfile  # most traces are plain files

    usual = tempfile.gettempdir()
    if any(os.environ.get(name) for name in _NAMED) or not _in_memory(usual):
        return usual
    return _ON_DISK if os.access(_ON_DISK, os.W_OK) and not _in_memory(_ON_DISK) else usual


def _in_memory(folder: str) -> bool:
    """Whether the file system of ``folder`` is kept in memory, as far as the system says."""
    try:
        mounts = [line.split()[1:3] for line in _MOUNTS.read_text("utf-8", "replace").splitlines()]
    except OSError:
        return False
    real = os.path.realpath(folder)
    over = [(len(place), kind) for place, kind in mounts if os.path.commonpath((real, place)) == place]
    return max(over, default=(0, ""), key=lambda mount: mount[0])[1] in _MEMORY


def check_room(folder: str, needed: int) -> None:
    """Raises ``OSError`` (``ENOSPC``) if ``needed`` bytes would fill the disk of ``folder``."""
    disk = os.statvfs(folder)
    left = min(_LEFT_FREE, disk.f_blocks * disk.f_frsize // _LEFT_SHARE)
    if disk.f_bavail * disk.f_frsize < needed + left:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), folder)


class Scratch:
    """An empty file that vanishes with this process, whatever ends it; ``path`` opens it again, also elsewhere.

    ``needed`` are the bytes that are sure to come. Everything here raises ``OSError`` (``ENOSPC``, the folder as its
    file name) before the disk is full.
    """

    def __init__(self, needed: int = 0) -> None:
        import tempfile

        self._folder = scratch_folder()
        self._check(needed)
        plain = tempfile.TemporaryFile(prefix="npu-tui-", dir=self._folder)  # noqa: SIM115 - it lives as long as the trace
        self.path = f"/proc/{os.getpid()}/fd/{plain.fileno()}"
        if not os.path.exists(self.path):
            plain.close()
            plain = tempfile.NamedTemporaryFile(prefix="npu-tui-", suffix=".json", dir=self._folder)  # type: ignore[assignment]  # noqa: SIM115
            self.path = plain.name
        self.stream = cast(BinaryIO, plain)
        self.size = 0
        self._checked = 0

    def write(self, data: bytes) -> None:
        """Append ``data``."""
        if self.size - self._checked >= _ROOM_EVERY:
            self._check(0)
            self._checked = self.size
        try:
            self.stream.write(data)
        except OSError as error:
            raise OSError(error.errno, error.strerror, self._folder) from error
        self.size += len(data)

    def finish(self) -> BinaryIO:
        """The file with all that was written, at its start."""
        try:
            self.stream.flush()
        except OSError as error:
            raise OSError(error.errno, error.strerror, self._folder) from error
        self.stream.seek(0)
        return self.stream

    def close(self) -> None:
        """Give up what was written; a full disk must not say so twice."""
        with contextlib.suppress(OSError):
            self.stream.close()

    def _check(self, needed: int) -> None:
        check_room(self._folder, needed)


MAGIC = b"\x1f\x8b"
"""The first bytes of a gzip."""

_BLOCK = 1 << 20  # bytes: a cancelled load stops after each
_SUSPICIOUS_BYTES = 64 << 20  # less fills no disk, however small it was packed
_SUSPICIOUS_RATIO = 300
"""A profile shrinks 10 to 30 times; what shrinks more than this is blanks."""
# What a gzip says of its length is taken for true up to this: the last bytes of one that is cut off are anything.
_USUAL_RATIO = 50

_TICK_SECONDS = 0.1  # Ctrl+C and the progress wait no longer

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
    copy, advanced = Scratch(), float("-inf")
    try:
        for data in _arriving(stream):
            copy.write(data)
            if advance is not None and time.monotonic() - advanced >= _TICK_SECONDS:
                advanced = time.monotonic()
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
    stream = open_file(file).stream()
    if stream.read(2) != MAGIC:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(0)
        return Plain(stream, str(file), size, unpacked=False, cut=False)
    with stream:
        plain = None
        try:
            from isal import isal_zlib
        except ImportError:  # zlib takes twice as long
            pass
        else:
            plain = _unpacked(file, stream, advance, isal_zlib)
        plain = plain or _unpacked(file, stream, advance, zlib)
        assert plain is not None
        return plain


def _unpacked(file: Path, packed: BinaryIO, advance: Advance | None, library: ModuleType) -> Plain | None:
    """The plain bytes of a gzip of one or more members, by zlib or a faster ``library`` of the same functions.

    zlib reads a damaged or cut one as far as it goes, byte by byte; any other gives None for it.
    """
    is_zlib = library is zlib
    packed.seek(0)
    copy = Scratch(plain_bytes(packed.fileno()))
    inflate = library.decompressobj(wbits=31)
    taken = 0
    whole = damaged = False
    try:
        while not damaged and (data := packed.read(_BLOCK)):
            taken += len(data)
            while data := (data.lstrip(b"\0") if inflate.eof else data):
                if inflate.eof:
                    inflate = library.decompressobj(wbits=31)  # another member follows
                before = inflate.copy() if is_zlib else None
                try:
                    copy.write(inflate.decompress(data, _BLOCK))
                except library.error as error:
                    if before is None:
                        copy.close()
                        return None
                    copy.write(_readable(before, data))
                    if not copy.size:
                        raise InputError(message("input.gzip_damaged", path=str(file), why=str(error))) from error
                    damaged = True
                    break
                _refuse_endless(file, taken, copy.size)
                whole = whole or inflate.eof
                data = inflate.unused_data if inflate.eof else inflate.unconsumed_tail
            if advance is not None:
                advance(taken)
        if not is_zlib and not (inflate.eof and copy.size):
            copy.close()
            return None
        if is_zlib and not damaged:
            copy.write(inflate.flush())
            whole = inflate.eof
        if not copy.size:
            raise InputError(message("input.gzip_empty", path=str(file), byte=taken))
        return Plain(copy.finish(), copy.path, copy.size, unpacked=True, cut=is_zlib and not whole)
    except BaseException:
        copy.close()
        raise


def plain_bytes(descriptor: int) -> int:
    """How many plain bytes a file holds at least, as far as it says: its own if it is not packed.

    A gzip gives the length of its last member, less whole multiples of 4 GiB.
    """
    size = os.fstat(descriptor).st_size
    if os.pread(descriptor, 2, 0) != MAGIC:
        return size
    length = int.from_bytes(os.pread(descriptor, 4, max(size - 4, 0)), "little")
    return max(size, length if length <= size * _USUAL_RATIO else 0)


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
        """Whether unpacking has ended, so that the bytes, or why there are none, are at hand."""
        return self._plain is not None or self._failed is not None

    def begin(self) -> None:
        """Unpack them beside everything else, so that no reader waits for them later."""
        threading.Thread(target=self._ahead, daemon=True).start()

    def _ahead(self) -> None:
        with contextlib.suppress(OSError, InputError):  # asking for them raises it
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


def has_plain_copy(file: EventFile) -> bool:
    """Whether ``plain_path`` answers at once."""
    return not isinstance(file.copy, Unpacking) or file.copy.is_over


def plain_path(file: EventFile) -> str:
    """What opens the plain bytes of ``file``, which may have to be unpacked first.

    Raises ``OSError`` and ``InputError`` as ``open_plain`` does.
    """
    return file.copy.path() if isinstance(file.copy, Unpacking) else file.path


def _readable(inflate: zlib._Decompress, data: bytes) -> bytes:
    """What ``data`` unpacks to before its first damage."""
    readable, at, step = bytearray(), 0, len(data)
    while step and at < len(data):
        before = inflate.copy()
        try:
            readable += inflate.decompress(data[at : at + step])
            at += step
        except zlib.error:
            inflate, step = before, step // 2
    return bytes(readable)


def _refuse_endless(file: Path, taken: int, written: int) -> None:
    if written > _SUSPICIOUS_BYTES and written > taken * _SUSPICIOUS_RATIO:
        raise InputError(message("input.gzip_endless", path=str(file), ratio=_SUSPICIOUS_RATIO))
