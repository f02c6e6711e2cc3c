"""Threads that load, search and compute beside the keys; who leaves does not wait for them."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

_NICE = 10
"""Where there are fewer processors than threads, a frame that is due would wait for its turn, 4 ms each time."""


class Beside(ThreadPoolExecutor):
    """The threads of the event loop, of lower priority than its own.

    What still runs when the loop ends is left behind, not waited for.
    """

    def __init__(self) -> None:
        super().__init__(thread_name_prefix="beside", initializer=_give_way)
        self._under_way: set[Future[Any]] = set()

    def submit(self, work: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        """Run ``work`` in a thread."""
        future = super().submit(work, *args, **named)
        self._under_way.add(future)
        future.add_done_callback(self._under_way.discard)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more work; ``wait`` is what the event loop asks for, and not granted."""
        super().shutdown(wait=False, cancel_futures=True)

    @property
    def is_busy(self) -> bool:
        """Whether something still runs."""
        return bool(self._under_way)


def _give_way() -> None:
    """Lower the priority of this thread and of those it will start; only Linux has priorities of threads."""
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), os.getpriority(os.PRIO_PROCESS, 0) + _NICE)
