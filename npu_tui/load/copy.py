"""Parsed copies of large traces in the user's cache directory, so that they open at once the next time.

A copy is found by what the files are (sizes, times, samples of their bytes), not by where they lie. Copies are written
under another name and renamed when they are whole, so any number of processes may use the directory; the least recently
used go when it grows too large. Whatever is wrong with the directory or a copy, the trace is loaded from its files.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from npu_tui import __version__
from npu_tui.load.copy_container import DamagedError, container_bytes, opened_path, read_container, write_container
from npu_tui.load.errors import UNWATCHED, Watcher
from npu_tui.load.find import Source, content_of
from npu_tui.load.unpack import plain_bytes
from npu_tui.trace.message import Message, message
from npu_tui.trace.model import Trace
from npu_tui.trace.side_file import open_regular
from npu_tui.trace.text import LONGEST

FORMAT = 11  # a part of the key: a copy in another format is not found, so none is ever misread
LEAST_BYTES = 24 << 20
"""Smaller traces are loaded as fast as they would be found."""

MOST_BYTES = 8 << 30
"""All copies together; ``NPU_TUI_CACHE_MB`` says otherwise."""

VARIABLE = "NPU_TUI_CACHE_MB"
_SUFFIX, _UNFINISHED = ".columns", ".part"
_LEFT_FREE = 256 << 20  # bytes of the disk that a copy leaves to other programs
_STALE_SECONDS = 600.0  # a copy begun longer ago is no longer being written
_NICE = 10
"""The priority of the thread that writes a copy: it leaves the processor to the user who looks at the trace."""

_LAST_WAIT_SECONDS = 0.5  # at exit; a user would notice more, and the copy is made again the next time
KEEPER = "writes a parsed copy"
"""The name of the threads that do."""


def directory() -> Path:
    """Where the copies lie; it may not exist."""
    from platformdirs import user_cache_path

    return user_cache_path("npu-tui") / "columns"


def key_of(source: Source) -> str | None:
    """What the copy of ``source`` is called; None if it is not worth one or cannot be read."""
    if source.format.form == "db":
        from npu_tui.load.database_file import is_whole  # most traces are JSON

        if not is_whole(source.path):
            return None
    try:
        if sum(map(_plain_size, source.files)) < LEAST_BYTES:
            return None
    except OSError:
        return None
    digest = hashlib.blake2b(f"{FORMAT} {__version__} {sys.byteorder}".encode(), digest_size=16)
    try:
        for file in source.files:
            digest.update(content_of(file, edited=True))
    except OSError:
        return None
    return digest.hexdigest()


def _plain_size(file: Path) -> int:
    """The bytes of a file once it is unpacked, as far as the file says."""
    with open_regular(file) as stream:
        return plain_bytes(stream.fileno())


def has(key: str) -> bool:
    """Whether there is a copy called ``key``; a directory that may not be searched has none."""
    return os.access(_copy_path(key), os.R_OK)


def sketch(source: Source, key: str) -> Trace | None:
    """What the first picture needs of the copy called ``key``, at once, or None; a damaged copy is removed."""
    with contextlib.suppress(OSError, ValueError, MemoryError), _opened(key) as descriptor:
        return read_container(descriptor, source, sketch=True, key=key)
    return None


def find(source: Source, key: str, watcher: Watcher = UNWATCHED) -> Trace | None:
    """The trace of the copy called ``key`` once all of it has been read and proven, or None; a damaged one is removed.

    Raises ``Cancelled`` if the watcher says to stop.
    """
    with contextlib.suppress(OSError, ValueError, MemoryError), _opened(key) as descriptor:
        trace = read_container(descriptor, source, watcher=watcher, key=key)
        with contextlib.suppress(OSError):
            os.utime(_copy_path(key), ns=(time.time_ns(), os.fstat(descriptor).st_mtime_ns))  # the time of its last use
        return trace
    return None


def _copy_path(key: str) -> Path:
    return directory() / f"{key}{_SUFFIX}"


@contextlib.contextmanager
def _opened(key: str) -> Iterator[int]:
    """The copy called ``key`` as a descriptor; it is removed where it is found to be damaged.

    Raises ``OSError`` if there is none.
    """
    # A FIFO of that name would block until something writes to it.
    descriptor = os.open(_copy_path(key), os.O_RDONLY | os.O_NONBLOCK)
    try:
        _check_owner(os.stat(directory()), directory())
        _check_owner(os.fstat(descriptor), _copy_path(key))
        yield descriptor
    except DamagedError:
        with contextlib.suppress(OSError):
            _copy_path(key).unlink()
        raise
    finally:
        os.close(descriptor)


def _check_owner(status: os.stat_result, path: Path) -> None:
    """Raises ``PermissionError`` where another user may decide what ``path`` holds."""
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(errno.EPERM, _OPEN_TO_OTHERS, str(path))


_OPEN_TO_OTHERS = "belongs to another user, or others may write to it"


class TooLargeError(OSError):
    """A copy of ``needed`` bytes is larger than the ``most`` that all of them together may take."""

    def __init__(self, needed: int, most: int) -> None:
        super().__init__(errno.EFBIG, os.strerror(errno.EFBIG))
        self.message = message("cache.too_large", needed=needed >> 20, variable=VARIABLE, most=most >> 20)


def keep(trace: Trace, key: str, go_on: Callable[[], bool]) -> None:
    """Write the copy of ``trace``, making room for it; nothing happens if ``go_on`` says to stop.

    Raises ``OSError`` if it cannot be written, ``TooLargeError`` if it is too large to be kept.
    """
    folder = directory()
    needed, most = container_bytes(trace), limit()
    if needed > most:
        raise TooLargeError(needed, most)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    _check_owner(folder.stat(), folder)
    _make_room(folder, most - needed)
    status = os.statvfs(folder)
    if status.f_bavail * status.f_frsize < needed + _LEFT_FREE:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    from tempfile import mkstemp  # most traces are small, or have a copy

    descriptor, name = mkstemp(_UNFINISHED, key, folder)
    try:
        with os.fdopen(descriptor, "w+b") as out:
            stamp = time.time_ns()
            if not write_container(trace, out, stamp, go_on, key):
                return
        os.utime(name, ns=(stamp, stamp))
        os.rename(name, _copy_path(key))
        name = ""
    finally:
        if name:
            os.unlink(name)


class Copy(Struct, frozen=True):
    """A parsed copy: its file, bytes, and when it was last used (seconds since 1970)."""

    path: Path
    size: int
    used: float

    def opened(self) -> str:
        """Where the trace lay when this was written, empty if the copy is damaged."""
        try:
            with open_regular(self.path) as stream:
                return opened_path(stream.fileno())
        except (OSError, DamagedError):
            return ""


def copies() -> list[Copy]:
    """All copies, the last used first."""
    known = []
    with contextlib.suppress(OSError):
        for path in directory().glob(f"*{_SUFFIX}"):
            with contextlib.suppress(OSError):
                status = path.stat()
                known.append(Copy(path, status.st_size, status.st_atime))
    return sorted(known, key=lambda copy: -copy.used)


def clear() -> tuple[int, int, list[str]]:
    """Remove all copies; returns how many, their bytes, and why others could not be removed."""
    count = size = 0
    why = []
    for copy in copies():
        try:
            copy.path.unlink()
        except FileNotFoundError:
            continue  # another process was faster
        except OSError as error:
            why.append(f"{copy.path}: {error.strerror or error}")
        else:
            count, size = count + 1, size + copy.size
    _remove_unfinished(directory(), 0.0)
    return count, size, why


def limit() -> int:
    """The bytes that all copies together may take; 0 keeps none."""
    with contextlib.suppress(KeyError, ValueError):
        return min(max(int(os.environ[VARIABLE]), 0) << 20, LONGEST)
    return MOST_BYTES


def _make_room(folder: Path, most: int) -> None:
    """Remove the least recently used copies until the others take up ``most`` bytes."""
    _remove_unfinished(folder, _STALE_SECONDS)
    total = 0
    for copy in copies():
        total += copy.size
        if total > most:
            with contextlib.suppress(OSError):
                copy.path.unlink()


def _remove_unfinished(folder: Path, age: float) -> None:
    """Remove what processes left behind that were killed while writing, ``age`` seconds ago or more."""
    with contextlib.suppress(OSError):
        for path in folder.glob(f"*{_UNFINISHED}"):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime >= age:
                    path.unlink()


def _give_way() -> None:
    """Let all other threads go before this one (setpriority(2): Linux takes the number of a thread)."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread, max(os.getpriority(os.PRIO_PROCESS, thread), _NICE))


class Keeper:
    """Writes the copy of ``trace`` in the background; ``note`` gets one line about what went wrong."""

    def __init__(self, trace: Trace, key: str, note: Callable[[Message | str], None] | None = None) -> None:
        self._stopped, self._ended = threading.Event(), threading.Event()
        self._note = note
        self._thread = threading.Thread(target=self._run, args=(trace, key), name=KEEPER, daemon=True)
        self._thread.start()

    def _run(self, trace: Trace, key: str) -> None:
        _give_way()
        try:
            keep(trace, key, lambda: not self._stopped.is_set())
        except TooLargeError as error:
            if self._note is not None and limit():  # not where no copy is allowed at all
                self._note(error.message)
        except OSError as error:
            if self._note is not None:
                self._note(error.strerror or str(error))
        except RuntimeError:
            if threading.main_thread().is_alive():
                raise  # else the program ends: no thread of a pool starts any more
        finally:
            self._ended.set()

    def finish(self, seconds: float = _LAST_WAIT_SECONDS) -> None:
        """Wait for it a moment, or until Ctrl+C, then give it up; no unfinished file stays."""
        with contextlib.suppress(KeyboardInterrupt):
            self._ended.wait(seconds)
        self._stopped.set()
        while not self._ended.is_set():  # a thread whose join was interrupted counts as ended in Python 3.11
            with contextlib.suppress(KeyboardInterrupt):
                self._ended.wait()
        self._thread.join()
