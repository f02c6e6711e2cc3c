"""A long text that is worked out once."""

from __future__ import annotations

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment


class Drawn:
    """``content``, whose lines are kept: Textual asks for them to know how many they are, and again to show them."""

    def __init__(self, content: RenderableType) -> None:
        self._content = content
        self._lines: dict[int, list[Segment]] = {}

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> list[Segment]:
        width = options.max_width
        if width not in self._lines:
            self._lines[width] = list(console.render(self._content, options.reset_height()))
        return self._lines[width]
