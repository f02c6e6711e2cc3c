"""Loading with the compiled scanner in a given number of threads, and without it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from npu_tui.load import text_trace as reading
from npu_tui.native.library import OFF, VARIABLE


@contextmanager
def without_scanner() -> Iterator[None]:
    """Today's reader alone."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = OFF
    try:
        yield
    finally:
        del os.environ[VARIABLE]
        if before is not None:
            os.environ[VARIABLE] = before


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Every file is worth ``count`` threads."""
    before = reading.thread_count
    reading.thread_count = lambda size: count
    try:
        yield
    finally:
        reading.thread_count = before
