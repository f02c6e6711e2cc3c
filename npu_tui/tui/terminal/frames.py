"""Frames of the timeline on their way: when one may be written, and rows that reach the terminal as they are.

Rows turn into segments only when something cuts them.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from rich.color import Color
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from npu_tui.tui.terminal.internals import LazyStrip
from npu_tui.view.ansi import Colour, Run
from npu_tui.view.grid import Attr

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


class FramePace:
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


class Shown:
    """Which version of every row the terminal shows; 0 where that is not known.

    ``end_of_frame()`` is written after the last changed row of a frame.
    """

    def __init__(self, rows: int, end_of_frame: Callable[[], str]) -> None:
        self.versions = [0] * rows
        self.end_of_frame = end_of_frame

    def forget(self) -> None:
        """Nothing is known any more: something else may have drawn there."""
        self.versions = [0] * len(self.versions)


class AnsiStrip(LazyStrip):
    """Version ``version`` of a row of ``width`` cells.

    Where the terminal shows this version nothing is written, where it still shows version ``base`` it is ``change``;
    otherwise ``whole()``, the complete row. ``last`` marks the last changed row of a frame. ``runs()`` gives the row in
    styled pieces, for when a dialog covers part of it or a picture is made.
    """

    __slots__ = ("_base", "_change", "_last", "_made", "_row", "_runs", "_shown", "_version", "_whole")

    def __init__(
        self,
        width: int,
        row: int,
        version: int,
        base: int,
        change: str,
        whole: Callable[[], str],
        runs: Callable[[], list[Run]],
        shown: Shown,
        last: bool = False,
    ) -> None:
        super().__init__((), width)
        self._row, self._version, self._base = row, version, base
        self._change, self._whole, self._runs, self._shown, self._last = change, whole, runs, shown, last
        self._made: list[Segment] | None = None

    def divide(self, cuts: Iterable[int]) -> Sequence[Strip]:
        """The row itself where nothing cuts it."""
        places = list(cuts)
        return [self] if places == [self.cell_length] else super().divide(places)

    def pieces(self) -> list[Segment]:
        """The row in segments: what is asked in pieces is not written as a row."""
        self._shown.versions[self._row] = 0
        if self._made is None:
            self._made = [Segment(run[0], style_of(*run[1:])) for run in self._runs()]
        return self._made

    def render(self, console: Console) -> str:
        """What brings the terminal to this version; it is called when the row is written."""
        versions, row = self._shown.versions, self._row
        before, versions[row] = versions[row], self._version
        if before == self._version:
            return ""
        text = self._change if before == self._base and before else self._whole()
        return text + self._shown.end_of_frame() if self._last else text


@lru_cache(maxsize=4096)
def style_of(fg: Colour, bg: Colour, attr: int, turned: bool) -> Style:
    """The Rich style of a run."""
    return Style(
        color=_colour(fg),
        bgcolor=_colour(bg),
        reverse=turned,
        bold=bool(attr & Attr.BOLD),
        dim=bool(attr & Attr.DIM),
        underline=bool(attr & Attr.UNDERLINE),
    )


def _colour(colour: Colour) -> Color | None:
    if colour is None:
        return None
    return Color.from_ansi(colour) if isinstance(colour, int) else Color.from_rgb(*colour)
