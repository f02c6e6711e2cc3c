"""Files for plain bytes that lie nowhere else: unpacked, or come through a pipe."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path
from typing import BinaryIO, cast

_NAMED = ("TMPDIR", "TEMP", "TMP")
_ON_DISK = "/var/tmp"
_MEMORY = ("tmpfs", "ramfs")
_MOUNTS = Path("/proc/mounts")
_ROOM_EVERY = 32 << 20
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
    """Whether the file system of ``folder`` is kept in memory, as far as the system tells."""
    try:
        mounts = [line.split()[1:3] for line in _MOUNTS.read_text("utf-8", "replace").splitlines()]
    except OSError:
        return False
    real = os.path.realpath(folder)
    over = [(len(place), kind) for place, kind in mounts if os.path.commonpath((real, place)) == place]
    return max(over, default=(0, ""), key=lambda found: found[0])[1] in _MEMORY


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
        disk = os.statvfs(self._folder)
        left = min(_LEFT_FREE, disk.f_blocks * disk.f_frsize // _LEFT_SHARE)
        if disk.f_bavail * disk.f_frsize < needed + left:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._folder)
