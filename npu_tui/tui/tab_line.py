"""The line of tabs above what the panel shows."""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len
from rich.text import Text
from textual import events
from textual.message import Message
from textual.widgets import Static

from npu_tui.strings import knows, say
from npu_tui.tui.commands import BY_ID, TAB_COMMAND, TAB_KEYS, key_label

_REST, _RULE, _RULE_FOCUSED = " ", "─", "━"
_LETTERS = 12
"""Letters of a name of a tab at most, where tabs have to get shorter."""


class TabLine(Static):
    """The names of the tabs, as long as there is room for; that of the open one is whole."""

    DEFAULT_CSS = "TabLine { height: 1; background: $panel; color: $text-muted; }"
    ALLOW_SELECT = False

    class Chosen(Message):
        """A tab was clicked."""

        def __init__(self, tab: str) -> None:
            self.tab = tab
            super().__init__()

    class Dragged(Message):
        """The line was dragged to row ``y`` of the screen."""

        def __init__(self, y: int) -> None:
            self.y = y
            super().__init__()

    def __init__(self) -> None:
        super().__init__("")
        self._ends: list[tuple[int, str]] = []
        self._drawn: Text | None = None
        self._pressed: int | None = None
        self._moved = False

    def show(self, current: str, counts: dict[str, int], names: dict[str, str], focused: bool) -> None:
        """Mark ``current``, ``focused`` or not; ``counts`` stand after the names, ``names`` in place of some."""
        width, shown = self.app.size.width, list(counts or TAB_KEYS)
        labels, room = [""], 1
        for labels, room in self._forms(shown, counts, names, current):
            if sum(cell_len(label) + room for label in labels) < width:
                break
        line, accent = Text(no_wrap=True), f"bold {self.app.theme_variables['accent']}"
        line.append(_RULE_FOCUSED if focused else _REST, accent)
        before, behind = _REST * (room > 2), _REST * (room > 1)
        self._ends = []
        for tab, label in zip(shown, labels, strict=True):
            marked = f"reverse {accent}" if focused else "reverse bold"
            line.append(f"{before}{label}{behind}", style=marked if tab == current else "dim")
            line.append(_REST)
            self._ends.append((line.cell_len, tab))
        rest = max(width - line.cell_len, 0)
        line.append((_RULE_FOCUSED if focused else _RULE) * rest, accent if focused else "dim")
        if line != self._drawn:
            self._drawn = line
            self.update(line, layout=False)

    def _forms(
        self, shown: list[str], counts: dict[str, int], names: dict[str, str], current: str
    ) -> Iterator[tuple[list[str], int]]:
        """The labels of the tabs and the room between them, from the longest to the shortest form.

        Names get shorter before the room between them gets narrower, those that gain most first; counts go before
        names do, and where they could be taken for the key of the next tab.
        """
        whole, short = (self._labels(form, shown, counts, names, None) for form in ("", ".short"))
        by_gain = sorted(range(len(shown)), key=lambda k: cell_len(short[k]) - cell_len(whole[k]))
        for count in range(len(shown)):
            yield [short[k] if k in by_gain[:count] else whole[k] for k in range(len(shown))], 3
        yield from ((short, 3), (short, 2), (self._labels(".short", shown, {}, names, None), 1))
        for letters in range(_LETTERS, -1, -1):
            yield self._labels(".least", shown, {}, names, current, letters), 1

    @staticmethod
    def _labels(
        form: str,
        shown: list[str],
        counts: dict[str, int],
        names: dict[str, str],
        only: str | None,
        letters: int = _LETTERS,
    ) -> list[str]:
        """Key, name and count of every tab; the others than ``only`` have so many ``letters`` of their names."""
        labels = []
        for tab in shown:
            keys = [key_label(key) for key in BY_ID[f"{TAB_COMMAND}{tab}"].keys[:1]]
            key = f"tab.{tab}{form}"
            name = names.get(tab) or say(key if tab != only and knows(key) else f"tab.{tab}.short")
            if only not in (None, tab) and keys:
                name = name[:letters]
            count = [str(counts[tab])] if counts.get(tab) else []
            labels.append(" ".join(part for part in (*keys, name, *count) if part))
        return labels

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Begin a click or a drag."""
        self.capture_mouse()
        self._pressed, self._moved = event.screen_y, False

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Move the line with the pointer."""
        if self._pressed is not None and event.screen_y != self._pressed:
            self._pressed, self._moved = event.screen_y, True
            self.post_message(self.Dragged(event.screen_y))

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """Open the tab under the pointer, unless the line was moved."""
        self.release_mouse()
        pressed, self._pressed = self._pressed, None
        if pressed is None or self._moved:
            return
        for end, tab in self._ends:
            if event.x < end:
                self.post_message(self.Chosen(tab))
                return
