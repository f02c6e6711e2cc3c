"""The door through which every file of a profile is opened, and every folder listed.

Only regular files are, without waiting, and as far as they hold anything: a hole of a sparse file is its end. Where
roots are set, what lies outside of them is not there: nothing of it is opened or listed, wherever a link or ``..``
leads.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from npu_tui.trace.memory import free_addresses, free_memory

LARGEST_DOCUMENT = 1 << 30
"""Bytes of a file that is read as a whole."""


_MORE = 1 << 20  # bytes by which a file is read that grows meanwhile: so many are laid out for it each time

_limits: list[_Limit] = []


class _Limit:
    """Only what lies in the real folders ``roots`` is opened; ``links`` below them have led out."""

    def __init__(self, roots: Sequence[Path]) -> None:
        self.roots = roots
        self.links: list[Path] = []

    def check(self, real: Path, path: Path) -> None:
        """Raises ``FileNotFoundError`` where ``real``, to which ``path`` leads, lies outside of the roots."""
        if not any(real.is_relative_to(root) for root in self.roots):
            if any(path.is_relative_to(root) for root in self.roots):
                self.links.append(path)
            raise FileNotFoundError(errno.ENOENT, "Outside of the roots", str(path))


def limit_to(roots: Sequence[Path]) -> None:
    """From now on open only what lies in the real folders ``roots``, in all threads of the process."""
    _limits.append(_Limit(roots))


@contextmanager
def limited_to(roots: Sequence[Path]) -> Iterator[list[Path]]:
    """Meanwhile open only what lies in the real folders ``roots``, in all threads of the process.

    Gives the paths below them that led out.
    """
    limit = _Limit(roots)
    _limits.append(limit)
    try:
        yield limit.links
    finally:
        _limits.remove(limit)


def admitted(path: str | Path) -> str:
    """Where ``path`` leads to. Raises ``FileNotFoundError`` outside of the roots, ``OSError`` where it is no path."""
    if not _limits or _is_ours(path):
        return os.fspath(path)
    try:
        real = os.path.realpath(path)
    except ValueError as error:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), str(path)) from error
    _refuse_outside_roots(real, path)
    return real


def _is_ours(path: str | Path) -> bool:
    """Whether it is an unpacked file without a name, which is opened again by its descriptor."""
    return str(path).startswith(f"/proc/{os.getpid()}/fd/")


def _refuse_outside_roots(real: str, path: str | Path) -> None:
    """Raises ``FileNotFoundError`` where the real path ``real`` lies outside of the roots."""
    for limit in reversed(_limits):
        limit.check(Path(real), Path(os.path.abspath(path)))


def descriptor_of(path: str | Path) -> int:
    """A descriptor of the file at ``path``. Raises ``OSError``, also where it is no regular file.

    A FIFO would be waited for, and a device may have no end; ``/dev/null`` is an empty file.
    """
    try:
        descriptor = os.open(admitted(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except ValueError as error:  # a name with a zero byte, or a lone surrogate
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), str(path)) from error
    try:
        if _limits and not _is_ours(path):  # a link may have been put there meanwhile
            _refuse_outside_roots(os.path.realpath(f"/proc/self/fd/{descriptor}"), path)
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode) and os.path.realpath(path) != os.devnull:
            raise OSError(errno.EINVAL, "Not a regular file", str(path))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def held_bytes(descriptor: int) -> int:
    """The bytes of a file up to its first hole, all of them where it has none; its position is 0 afterwards."""
    size = os.fstat(descriptor).st_size
    try:
        hole = os.lseek(descriptor, 0, os.SEEK_HOLE) if size else 0
        os.lseek(descriptor, 0, os.SEEK_SET)
    except (OSError, AttributeError):  # the file system, or the system, reports no holes
        return size
    return min(size, hole)


class _Holed(io.FileIO):
    """A file that ends at its first hole."""

    def __init__(self, descriptor: int, end: int) -> None:
        super().__init__(descriptor)
        self._end = end

    def _left(self) -> int:
        return max(self._end - self.tell(), 0)

    def read(self, size: int | None = -1) -> bytes:
        return super().read(self._left() if size is None or size < 0 else min(size, self._left())) or b""

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        return super().readinto(view[: self._left()]) or 0


def open_regular(path: str | Path) -> io.FileIO:
    """The file at ``path``, unbuffered, as ``open`` does. Raises ``OSError``, also where it is no regular file."""
    descriptor = descriptor_of(path)
    end = held_bytes(descriptor)
    return io.FileIO(descriptor) if end == os.fstat(descriptor).st_size else _Holed(descriptor, end)


def bytes_to_read(stream: io.FileIO) -> int:
    """How many bytes ``stream`` brings if all of them are read. Raises ``MemoryError`` where there is no room."""
    size = held_bytes(stream.fileno())
    if size > min(free_memory(), free_addresses()):
        raise MemoryError
    return size


def names_in(folder: str | Path) -> list[str]:
    """The names in ``folder``, sorted. Raises ``OSError``."""
    return sorted(os.listdir(admitted(folder)))


def paths_in(folder: Path) -> list[Path]:
    """What lies in ``folder``, by name. Raises ``OSError``."""
    return [folder / name for name in names_in(folder)]


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
        size = held_bytes(stream.fileno())
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
