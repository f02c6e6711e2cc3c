"""When the next frame may go out: not before the terminal has shown the ones before.

A link takes in megabytes at once (ssh alone two of them), so frames written as fast as keys come are seen seconds
later. Each frame therefore ends with a question to the terminal, CSI 6 n (xterm's control sequences: report the
cursor's place), whose answer says that everything before it has been shown.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

QUESTION = "\x1b[6n"

_PATIENCE = 1.0
"""Seconds for the first answer ever: a terminal that is silent so long never answers."""

_LOST = 2.0
"""Seconds after which the answer to a frame is taken for lost."""

_LOSSES = 3
"""Answers lost in a row after which nothing is asked any more."""

_LATENCY = 0.030
_MOST = 3
"""Frames on their way at once on a link of great latency: one for every ``_LATENCY`` seconds, at most so many."""


class Pace:
    """Counts the frames that are on their way to the terminal. ``clock`` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._sent: deque[float] = deque()
        self._answered = False
        self._asking = True
        self._losses = 0
        self._latency = float("inf")

    def question(self) -> str:
        """What ends a frame that is being written; from now on it is on its way."""
        if not self._asking:
            return ""
        self._sent.append(self._clock())
        return QUESTION

    def answer(self) -> None:
        """The terminal has shown the oldest frame; where none is on its way, nobody has asked."""
        if self._sent:
            self._answered, self._losses = True, 0
            self._latency = min(self._latency, self._clock() - self._sent.popleft())

    @property
    def on_the_way(self) -> int:
        """Frames that the terminal has not shown yet."""
        return len(self._sent)

    def wait(self) -> float:
        """Seconds until a frame may go out, if no answer comes before; 0 for at once."""
        now = self._clock()
        patience = _LOST if self._answered else _PATIENCE
        while self._sent and now - self._sent[0] >= patience:
            self._sent.popleft()
            self._losses += 1
            if not self._answered or self._losses >= _LOSSES:
                self._asking = False
                self._sent.clear()
        if not self._answered:  # it is not known yet whether there will be any answer
            return 0.0
        most = 1 if self._latency < _LATENCY else min(1 + int(self._latency / _LATENCY), _MOST)
        if len(self._sent) < most:
            return 0.0
        return patience - (now - self._sent[0])
