"""Files of the user's that are written as a whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from pathlib import Path

_STREAMS = ("/dev/", "/proc/")
"""Below these a path may stand for a stream that is open already, such as ``/dev/stdout``."""


def write_file(path: Path, content: bytes) -> None:
    """Put ``content`` in the place of what ``path`` holds; where that fails, it holds the same as before.

    A symbolic link stays and the file that it names is written; a device or a FIFO is written to as it is. Raises
    ``OSError`` that names ``path``.
    """
    try:
        if _is_stream(path):
            _write_straight(path, content)
        else:
            _replace(Path(os.path.realpath(path)), content)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def _is_stream(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) or str(path.absolute()).startswith(_STREAMS)


def _write_straight(path: Path, content: bytes) -> None:
    # A FIFO that nobody reads would be waited for.
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY)
    os.set_blocking(descriptor, True)
    with open(descriptor, "wb") as out:
        out.write(content)


def _replace(path: Path, content: bytes) -> None:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    except FileNotFoundError:
        os.umask(mask := os.umask(0o077))
        mode = 0o666 & ~mask
    descriptor, name = tempfile.mkstemp(".part", f".{path.name[:100]}.", path.parent)
    try:
        with open(descriptor, "wb") as out:
            out.write(content)
            os.fchmod(out.fileno(), mode)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
