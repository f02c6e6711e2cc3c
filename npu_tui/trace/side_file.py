"""Files beside a trace, opened through one door: only regular ones, without waiting, and no longer than a bound."""

from __future__ import annotations

import errno
import io
import os
import stat
from pathlib import Path

LARGEST_DOCUMENT = 1 << 30
"""Bytes of a file that is read as a whole."""


_MORE = 1 << 20
"""Bytes by which a file is read that grows meanwhile: so many are laid out for it each time."""


def open_regular(path: str | Path) -> io.FileIO:
    """The file at ``path``, unbuffered, as ``open`` does. Raises ``OSError``, also where it is no regular file.

    A FIFO would be waited for, and a device may have no end; ``/dev/null`` is an empty file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except ValueError as error:  # a name with a zero byte, or a lone surrogate
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), str(path)) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode) and os.path.realpath(path) != os.devnull:
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        os.close(descriptor)
        if is_folder:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        raise OSError(errno.EINVAL, "Not a regular file", str(path))
    return io.FileIO(descriptor)


def head_of(path: str | Path, count: int) -> bytes:
    """The first ``count`` bytes of the file at ``path``; nothing of one that cannot be read."""
    try:
        with open_regular(path) as stream:
            return stream.read(count)
    except OSError:
        return b""


def read_regular(path: str | Path, most: int = LARGEST_DOCUMENT) -> bytes:
    """All of the file at ``path``. Raises ``OSError``, also for one that is not regular or larger than ``most``."""
    with open_regular(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        if size > most:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
        content = stream.read(size + 1)  # it may grow
        pieces = [content]
        size = len(content)
        while content and size <= most:
            content = stream.read(min(most + 1 - size, _MORE))
            pieces.append(content)
            size += len(content)
    if size > most:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return b"".join(pieces)
