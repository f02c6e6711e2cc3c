"""Files of the user's that are written as a whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

_PATIENCE, _PAUSE = 5.0, 0.002
"""Seconds that another process may take for its change, which takes milliseconds, and between two looks."""
_STREAMS = ("/dev/", "/proc/")
"""Below these a path may stand for a stream that is open already, such as ``/dev/stdout``."""


def write_file(path: Path, content: bytes) -> None:
    """Put ``content`` in the place of what ``path`` holds; where that fails, it holds the same as before.

    A symbolic link stays and the file that it names is written; a device or a FIFO is written to as it is. Raises
    ``OSError`` that names ``path``.
    """
    with _naming(path):
        if _is_stream(path):
            _write_straight(path, content)
            return
    with replacing(path) as out:
        out.write(content)


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Inside, an ``OSError`` names ``path``."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file that takes the place of the one at ``path``, with its mode, once it is whole.

    Raises ``OSError`` that names ``path``; it holds the same as before then.
    """
    with _naming(path):
        place = Path(os.path.realpath(path))
        try:
            mode = stat.S_IMODE(place.stat().st_mode)
            if place.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        except FileNotFoundError:
            os.umask(mask := os.umask(0o077))
            mode = 0o666 & ~mask
        descriptor, name = tempfile.mkstemp(".part", f".{place.name[:100]}.", place.parent)
        try:
            with open(descriptor, "wb") as out:
                os.fchmod(out.fileno(), mode)
                yield out
            os.replace(name, place)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Inside, no other process that asks for the same changes the file at ``path``; a change reads it first.

    Where its folder cannot be locked, or another process holds it for longer than ``_PATIENCE``, it goes on all the
    same.
    """
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):
            folder = os.open(os.path.dirname(os.path.realpath(path)), os.O_RDONLY | os.O_DIRECTORY)
            held.callback(os.close, folder)
            until = time.monotonic() + _PATIENCE
            while not _is_locked(folder) and time.monotonic() < until:
                time.sleep(_PAUSE)
        yield


def _is_locked(folder: int) -> bool:
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_stream(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) or str(path.absolute()).startswith(_STREAMS)


def _write_straight(path: Path, content: bytes) -> None:
    # A FIFO without a reader would be waited for.
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY)
    os.set_blocking(descriptor, True)
    with open(descriptor, "wb") as out:
        out.write(content)
