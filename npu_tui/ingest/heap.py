"""Memory that large columns leave behind is used again while a trace is loaded.

The C library hands every large array back to the system when it is freed, and the next one begins with pages that the
system has to clear first. Of many columns of the same size that takes as long as computing them (mallopt(3) of glibc;
with another C library nothing changes). Huge pages, which numpy asks for, cost more than they save where a virtual
machine hands free ones back to its host; memory that is used again has little need of them (prctl(2)).
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX, _ARENA_MAX = -1, -3, -4, -8
_NEVER, _NONE, _ONE = -1, 0, 1
_USUAL_TRIM, _USUAL_THRESHOLD, _USUAL_MMAPS = 64 << 20, 32 << 20, 1 << 16
"""What glibc adapts itself to in a process with large arrays; once set, it adapts no more."""

_SET_NO_HUGE_PAGES, _GET_NO_HUGE_PAGES = 41, 42

_lock = threading.Lock()
_users = 0
_huge_pages = False


@cache
def _library() -> Any:
    """The C library if it is glibc, else None."""
    try:
        found = ctypes.CDLL(None)
        found.gnu_get_libc_version, found.mallopt, found.malloc_trim, found.prctl  # noqa: B018 - they are looked up
    except (OSError, AttributeError, TypeError):
        return None
    found.mallopt.argtypes = [ctypes.c_int, ctypes.c_int]
    found.malloc_trim.argtypes = [ctypes.c_size_t]
    found.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
    return found


def share_heap() -> None:
    """Let threads that begin from now on use the memory that others left behind."""
    found = _library()
    if found is not None:
        found.mallopt(_ARENA_MAX, _ONE)


def keep_memory() -> None:
    """Memory that is freed from now on stays for what comes next until the process ends."""
    found = _library()
    if found is not None:
        _begin(found)


@contextmanager
def reused_memory() -> Iterator[None]:
    """Memory that is freed meanwhile stays for what comes next; at the end the system has it back."""
    found = _library()
    if found is None:
        yield
        return
    _begin(found)
    try:
        yield
    finally:
        _end(found)


def _begin(found: Any) -> None:
    global _users, _huge_pages
    with _lock:
        _users += 1
        if _users == 1:
            found.mallopt(_MMAP_MAX, _NONE)
            found.mallopt(_TRIM_THRESHOLD, _NEVER)
            _huge_pages = found.prctl(_GET_NO_HUGE_PAGES, 0, 0, 0, 0) == 0
            if _huge_pages:
                found.prctl(_SET_NO_HUGE_PAGES, 1, 0, 0, 0)


def _end(found: Any) -> None:
    global _users
    with _lock:
        _users -= 1
        if not _users:
            found.mallopt(_MMAP_MAX, _USUAL_MMAPS)
            found.mallopt(_MMAP_THRESHOLD, _USUAL_THRESHOLD)
            found.mallopt(_TRIM_THRESHOLD, _USUAL_TRIM)
            found.malloc_trim(0)
            if _huge_pages:
                found.prctl(_SET_NO_HUGE_PAGES, 0, 0, 0, 0)
