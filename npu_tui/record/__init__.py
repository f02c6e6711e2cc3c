"""A recording of a running job: what is wanted, what it is doing, why it has no profile, and how long that may take."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Event
from typing import Literal

from msgspec import Struct

from npu_tui.trace.message import Message, message

Stage = Literal["waiting", "recording", "raw", "analysing", "complete"]
"""The states of a recording in their order; ``raw``: all is recorded, nothing analyses it yet."""


class Progress(Struct, frozen=True):
    """A recording has come to ``stage``; ``said`` is what is waited for now, or what has been done.

    ``profiles`` are the folders that belong to it, those whose analysis has ended once it is complete.
    """

    stage: Stage
    said: Message
    profiles: tuple[Path, ...] = ()


def stopped_at(last: Progress | None) -> Message:
    """What is said once waiting is given up; ``last`` is the latest progress."""
    ours = last is not None and last.said.code.startswith("record.analyses")
    return message("record.stopped_analysis" if ours else "record.stopped")


class RecordError(Exception):
    """Nothing could be recorded, or not to the end: ``message`` is one line with the reason and what to do.

    ``profiles`` are the folders that were recorded all the same, which nothing has analysed.
    """

    def __init__(self, message: Message, profiles: Iterable[Path] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.profiles = tuple(profiles)


class StoppedError(Exception):
    """The caller does not wait for the recording any longer."""


def surely(act: Callable[[], object]) -> None:
    """Do what ``act`` does as a whole, also where Ctrl+C is pressed within it; that is raised afterwards."""
    try:
        act()
    except KeyboardInterrupt:
        act()
        raise


class RecordClock:
    """The clock of a recording. ``stop``, or the event ``stopped``, ends whatever waits by it, from any thread."""

    def __init__(self, stopped: Event | None = None) -> None:
        self._stopped = Event() if stopped is None else stopped

    def stop(self) -> None:
        """Every wait, now or later, ends with ``StoppedError``."""
        self._stopped.set()

    def now(self) -> float:
        """Seconds of a clock that only goes forward."""
        return time.monotonic()

    def wait(self, seconds: float) -> None:
        """Return after ``seconds``. Raises ``StoppedError``."""
        if self._stopped.wait(seconds):
            raise StoppedError


POLL = 0.5
"""Seconds between two looks at files or at a server: a state is seen at once, and a disk is not kept busy."""


class Deadline:
    """So many seconds of patience, from now on by the clock of ``clock``."""

    def __init__(self, clock: RecordClock, seconds: float) -> None:
        self._clock, self.seconds = clock, seconds
        self._since = clock.now()

    @property
    def waited(self) -> float:
        """Seconds since it began."""
        return self._clock.now() - self._since

    @property
    def is_over(self) -> bool:
        """Whether the patience has ended."""
        return self.waited >= self.seconds

    def renew(self) -> None:
        """Begin anew: something has happened."""
        self._since = self._clock.now()


def unreadable(path: Path | str, error: OSError) -> RecordError:
    """What ``error`` with the file or folder ``path`` becomes."""
    return RecordError(message("record.unreadable", path=str(path), why=error.strerror or str(error)))


class RecordRequest(Struct, frozen=True):
    """``steps`` after ``warmup`` more that pass unrecorded, of ``ranks`` (empty: all), into the folder ``out``.

    ``at`` is the step to begin with, None: the next one. ``level`` is that of the profiler, 0 to 2. With ``stack``,
    ``shapes`` or ``memory`` the calls of Python, the shapes of operators, the memory are recorded too.
    ``seconds`` is for servers that count no steps. A state that lasts longer than ``patience`` seconds is given up,
    an analysis after ``analysis`` seconds in which it has written nothing.
    """

    out: Path
    steps: int = 5
    warmup: int = 0
    ranks: tuple[int, ...] = ()
    at: int | None = None
    level: int = 1
    stack: bool = False
    shapes: bool = False
    memory: bool = False
    seconds: float | None = None
    patience: float = 600.0
    analysis: float = 600.0
