"""Who waits for a trace: what they are told while it is read, and how they stop it."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from npu_tui.ingest.errors import Cancelled
from npu_tui.trace.model import Trace

Progress = Callable[[int, int, int], bool]
"""Called with (bytes read, bytes in all, events so far); returning False cancels the loading."""

Early = Callable[[Trace], None]
"""Called with the trace of what has been read so far, without links."""


class Watcher(Struct, frozen=True):
    """The two callbacks of one loading; either may be missing."""

    progress: Progress | None = None
    early: Early | None = None

    def report(self, done: int, total: int, events: int = 0) -> None:
        """Tell ``progress``. Raises ``Cancelled`` if it says to stop."""
        if self.progress is not None and not self.progress(done, total, events):
            raise Cancelled
