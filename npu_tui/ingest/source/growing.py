"""Plain bytes of a gzip that can be read while they are unpacked."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import BinaryIO

from npu_tui.ingest.source.scratch import Scratch
from npu_tui.ingest.source.unpack import MAGIC, Plain, inflated, plain_bytes

WORTH = 16 << 20
"""Less than this is unpacked before another thread would have begun."""

_LEAST_RATIO = 6
"""A trace shrinks more; what tells of less has 4 GiB or more, of which a gzip tells nothing."""

_EVERYTHING = 1 << 62


class UnpackingError(Exception):
    """The gzip is damaged, cut off or no true one, or there is no room: what was read of it so far does not count."""


class Growing:
    """What ``file`` holds, unpacked in a thread into a file that vanishes when it is closed.

    ``told`` is how many plain bytes the gzip says there are, ``path`` opens what there is of them.
    """

    def __init__(self, file: Path, packed: BinaryIO, told: int) -> None:
        """Raises ``OSError`` if there is no room for them."""
        self.told = told
        self._file = file
        self._packed = packed
        self._scratch = Scratch(told)
        self.path = self._scratch.path
        self._ready = 0
        self._over = self._failed = self._stopped = False
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="unpacking", daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """Whether all there will be is there."""
        return self._over

    def wait(self, upto: int = _EVERYTHING) -> int:
        """How many bytes there are, once there are ``upto`` or no more will come. Raises ``UnpackingError``."""
        with self._news:
            self._news.wait_for(lambda: self._ready >= upto or self._over)
            if self._failed:
                raise UnpackingError
            return self._ready

    def finish(self) -> Plain:
        """All of it. Raises ``UnpackingError``."""
        size = self.wait()
        self._thread.join()
        return Plain(self._scratch.finish(), self.path, size, unpacked=True, cut=False)

    def stop(self) -> None:
        """Give up what is not unpacked yet, and forget the rest."""
        self._stopped = True
        self._thread.join()
        self._scratch.close()

    def _run(self) -> None:
        whole = False
        try:
            for _ in inflated(self._file, self._packed, self._scratch):
                self._scratch.stream.flush()
                with self._news:
                    self._ready = self._scratch.size
                    self._news.notify_all()
                if self._stopped:
                    break
            else:
                whole = True
        except Exception:  # whoever reads it again without haste says what is wrong
            pass
        finally:
            self._packed.close()
            with self._news:
                self._over, self._failed = True, not whole
                self._news.notify_all()


def growing(file: Path) -> Growing | None:
    """``file`` while it is unpacked, None if it is no large gzip or nothing unpacks it beside the reading.

    Raises ``OSError`` if it cannot be read.
    """
    try:
        import isal  # noqa: F401 - the other library holds readers up
    except ImportError:
        return None
    stream = file.open("rb")
    told = plain_bytes(stream.fileno()) if stream.read(2) == MAGIC else 0
    if told >= max(WORTH, _LEAST_RATIO * stream.seek(0, 2)):
        try:
            return Growing(file, stream, told)
        except OSError:  # said by who tries again
            pass
    stream.close()
    return None
