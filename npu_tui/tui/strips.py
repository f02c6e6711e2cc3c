"""Rows that reach the terminal as they are, and turn into segments only when something cuts them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rich.color import Color
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from npu_tui.view.ansi import Run
from npu_tui.view.grid import Attr


class AnsiStrip(Strip):
    """A row with its ANSI text ready; ``runs`` gives the same row in pieces when a dialog or a picture needs it."""

    __slots__ = ("_ansi", "_made", "_runs")

    def __init__(self, ansi: str, width: int, runs: Callable[[], list[Run]]) -> None:
        self._ansi = ansi
        self._runs = runs
        super().__init__((), width)
        self._made: list[Segment] | None = None

    @property
    def _segments(self) -> list[Segment]:
        if self._made is None:
            self._made = [Segment(text, _style(fg, bg, attr)) for text, fg, bg, attr in self._runs()]
        return self._made

    @_segments.setter
    def _segments(self, segments: Iterable[Segment]) -> None:
        self._made = list(segments)

    def render(self, console: Console) -> str:
        """The ANSI text."""
        return self._ansi


def _style(fg: tuple[int, int, int], bg: tuple[int, int, int], attr: int) -> Style:
    return Style(
        color=Color.from_rgb(*fg),
        bgcolor=Color.from_rgb(*bg),
        bold=bool(attr & Attr.BOLD),
        dim=bool(attr & Attr.DIM),
        underline=bool(attr & Attr.UNDERLINE),
    )
