"""A path to a Trace, from its parsed copy where there is one."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from pathlib import Path

from npu_tui.ingest import cache
from npu_tui.ingest.load import Progress, load
from npu_tui.ingest.profile import find_source
from npu_tui.ingest.workers import Workers
from npu_tui.trace.model import Trace


def open_trace(
    path: str | Path,
    progress: Progress | None = None,
    workers: Workers | None = None,
    cached: bool = True,
    note: Callable[[str], None] | None = None,
) -> Trace:
    """The trace at ``path`` as ``load`` gives it; with ``cached`` from its parsed copy, which is made if there is none.

    A copy is written beside everything else and waited for a moment when the program ends; ``note`` is told why it
    could not be. ``workers`` are ended. Raises what ``load`` raises.
    """
    try:
        key = None
        if cached:
            source = find_source(Path(path))
            key = cache.key_of(source)
            if key is not None and (found := cache.find(source, key)) is not None:
                return found
        trace = load(path, progress, workers=workers)
    finally:
        if workers is not None:
            workers.close()
    if key is not None and cache.key_of(source) == key:
        atexit.register(cache.Keeper(trace, key, note).finish)
    return trace
