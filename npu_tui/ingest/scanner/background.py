"""A computation beside others: NumPy and the compiled library let threads run side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Background(Generic[T]):
    """``compute`` in a thread that starts at once, or if it is not ``worth`` one, when the result is asked for."""

    def __init__(self, compute: Callable[[], T], worth: bool) -> None:
        self._compute = compute
        self._found: list[T] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True) if worth else None
        if self._thread is not None:
            self._thread.start()

    def result(self) -> T:
        """What was computed; raises what ``compute`` raised."""
        if self._thread is not None:
            self._thread.join()
        elif not self._found and self._error is None:
            self._run()
        if self._error is not None:
            raise self._error
        return self._found[0]

    def _run(self) -> None:
        try:
            self._found.append(self._compute())
        except BaseException as error:  # it is raised where the result is asked for
            self._error = error
