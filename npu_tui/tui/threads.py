"""Threads that load, search and compute beside the keys; who leaves does not wait for them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


class Beside(ThreadPoolExecutor):
    """The threads of the event loop. What still runs when the loop ends is left behind, not waited for."""

    def __init__(self) -> None:
        super().__init__(thread_name_prefix="beside")
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
