"""Rows that reach the terminal as they are, and turn into segments only when something cuts them."""

from __future__ import annotations

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
