"""The door before polars, which is imported only where there is room for it.

Polars maps much more than it uses and ends the process, or waits for ever, where a thread or a mapping is refused: 2.1
aborts with ``ulimit -v`` of 0.9 GB, and panics with 1.5 GB and 64 cores. So the limits are asked before it is imported,
wherever that happens: the hook is asked 377 times in a report, which takes 0.03 ms.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

from npu_tui.trace.memory import free_addresses, free_memory

# Bytes of addresses that polars maps from its import to its first answer, with few threads (measured: 1.3 GB).
_POLARS_MAPS = 1400 << 20
_THREAD_MAPS = 8 << 20  # the stack of a thread on Linux
_POLARS_TAKES = 128 << 20
"""Bytes of memory that it takes for that (measured: 60 MB)."""
_THREADS = "POLARS_MAX_THREADS"


def watch_polars() -> None:
    """From now on importing polars raises ``InputError`` where the limits of the process leave too little for it."""
    if "polars" not in sys.modules and not any(isinstance(finder, _Doorkeeper) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Doorkeeper())


class _Doorkeeper:
    """Stands before the finders of Python and finds nothing itself."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> None:
        if name == "polars":
            make_room()
            sys.meta_path.remove(self)


def make_room() -> None:
    """Limits polars to the threads that memory allows. Raises ``InputError`` if there is no room for one."""
    from npu_tui.load.errors import InputError
    from npu_tui.trace.message import message

    addresses, memory = free_addresses(), free_memory()
    threads = (addresses - _POLARS_MAPS) // _THREAD_MAPS
    if threads < 1:
        needed = _POLARS_MAPS + _THREAD_MAPS
        raise InputError(message("input.addresses", room=max(addresses, 0), needed=needed))
    if memory < _POLARS_TAKES:
        raise InputError(message("input.scarce", room=max(memory, 0), needed=_POLARS_TAKES))
    if threads < (os.cpu_count() or 1):
        os.environ.setdefault(_THREADS, str(threads))
