"""Several profiles as a table that opens any of them against the first."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult, SuspendNotSupported
from textual.binding import Binding
from textual.filter import LineFilter, Monochrome, NoColor
from textual.widgets import Static

from npu_tui.output.document import Cell, Table
from npu_tui.report.compared.sweep import Sweep, sweep_notes, sweep_table
from npu_tui.strings import say
from npu_tui.trace.classes import OpClass
from npu_tui.trace.text import cell_count, padded, printable, shortened, wrapped
from npu_tui.tui.keys.bindings import list_bindings
from npu_tui.tui.keys.commands import Where
from npu_tui.tui.keys.listed import Listed
from npu_tui.tui.terminal.internals import PlainApp, bind, driver
from npu_tui.tui.terminal.repaint import Repaint
from npu_tui.tui.terminal.terminal import Terminal
from npu_tui.tui.terminal.theme import THEMES, class_colour

_FIRST_TO_GO = ("outside", "idle", "exposed", "computing", "share", "steps", "change", "verdict", "steps_per_s")
"""Columns that are left out where there is no room, in this order."""
_NAME, _LEAST_NAME, _LEAST_BAR = 60, 16, 10
"""Cells of the longest and the shortest name, and of the shortest bar."""
_GAP = 2
_HEAD = 3
"""Lines above the first row."""
INTERRUPTED = 130


class SweepApp(Listed, PlainApp[None], inherit_bindings=False):
    """Shows ``found``; ``opening`` gives the command that opens the profile of a row."""

    TITLE = "npu-tui"
    CSS = f"{PlainApp.CSS} SweepApp Static {{ height: 1fr; padding: 1 2; text-wrap: nowrap; }}"
    ENABLE_COMMAND_PALETTE = False
    where: ClassVar[Where] = "sweep"

    def __init__(self, found: Sweep, opening: Callable[[int], Sequence[str]], terminal: Terminal | None = None) -> None:
        super().__init__(driver_class=driver())
        self._found = found
        self._opening = opening
        self._at = min(1, len(found.profiles) - 1)
        self._words = ""
        self._shown = Static()
        self._repaint = Repaint(terminal or Terminal())
        for theme in THEMES.values():
            self.register_theme(theme)
        self.theme = THEMES[(terminal or Terminal()).palette.name].name
        bind(self, [*list_bindings(self.where), Binding("ctrl+c", "interrupt", show=False, priority=True)])

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Textual's filters, with the glyphs and colours of this terminal."""
        others = [kept for kept in super().get_line_filters() if not isinstance(kept, (Monochrome, NoColor))]
        return [*others, self._repaint]

    def compose(self) -> ComposeResult:
        """The table alone."""
        yield self._shown

    def on_mount(self) -> None:
        """Draw it."""
        self._draw()

    def on_resize(self, event: events.Resize) -> None:
        """Draw it for another size."""
        del event
        self._draw()

    def page(self, by: int) -> None:
        """Go a page down or up."""
        self.move(by * self._room(self.size.height))

    def move(self, by: int) -> None:
        """Go ``by`` rows down."""
        self._at = max(0, min(self._at + by, len(self._found.profiles) - 1))
        self._words = ""
        self._draw()

    def on_click(self, event: events.Click) -> None:
        """Go to the row under the pointer; a double click opens it."""
        row = event.screen_y - 1 - _HEAD + self._first(self.size.height)
        if 0 <= row < len(self._found.profiles):
            self._at = row
            self._draw()
            if event.chain > 1:
                self.open()

    def open(self) -> None:
        """Open the pair of the first profile and this one in this terminal, and come back."""
        try:
            with self.suspend():
                code = subprocess.run(self._opening(self._at), check=False).returncode
            self._words = say("sweep.ended", code=code) if code not in (0, INTERRUPTED) else ""
        except (OSError, SuspendNotSupported) as error:
            self._words = str(error) or type(error).__name__
        self.refresh(layout=True)
        self._draw()

    def escape(self) -> None:
        """End."""
        self.exit()

    def leave_list(self) -> None:
        """End."""
        self.exit()

    def action_interrupt(self) -> None:
        """End, as Ctrl+C does elsewhere."""
        self.exit(return_code=INTERRUPTED)

    def _draw(self) -> None:
        width, height = self.size.width - 4, self.size.height
        if width > 0:
            first, rows = self._first(height), self._room(height)
            self._shown.update(sweep_lines(self._found, self._at, width, first, rows, self._words))

    def _room(self, height: int) -> int:
        """How many rows of the table fit."""
        return max(height - 2 - _HEAD - 4 - len(sweep_notes(self._found)), 1)

    def _first(self, height: int) -> int:
        """The first row that is shown."""
        return max(0, min(self._at - self._room(height) // 2, len(self._found.profiles) - self._room(height)))


def sweep_lines(found: Sweep, at: int, width: int, first: int, rows: int, words: str) -> Text:
    """The screen as text: ``rows`` of the table from ``first`` on, the one ``at`` marked, and a bar of throughput."""
    table, ids = sweep_table(found)
    for row in table.rows:
        row[0] = Cell(printable(row[0].text), name=True)
    kept = _kept(table, ids, width)
    widths = [_widest(table, k) for k in kept]
    room = width - sum(widths[1:]) - _GAP * (len(kept) - 1)
    widths[0] = max(min(widths[0], room, _NAME), 1)
    bars = _bars(found, room - widths[0] - _GAP)
    text = Text(no_wrap=True, end="")
    text.append(f"{say('sweep.title')}\n\n", style="bold")
    text.append(_line([shortened(table.columns[k], w) for k, w in zip(kept, widths, strict=True)], widths), style="dim")
    last = min(first + rows, len(table.rows))
    for number in range(first, last):
        cells = [shortened(table.rows[number][k].text, w, ahead=not k) for k, w in zip(kept, widths, strict=True)]
        text.append("\n")
        text.append(_line(cells, widths), style="reverse" if number == at else "")
        text.append(bars[number], style=class_colour(OpClass.CUBE))
    if hidden := len(table.rows) - last + first:
        text.append(f"\n{say('compare.more', count=hidden)}", style="dim")
    text.append("\n")
    for note in sweep_notes(found):
        text.append("".join(f"\n{line}" for line in wrapped(printable(note), width)))
    text.append(
        "\n" + "".join(f"\n{line}" for line in wrapped(printable(words or say("sweep.keys")), width)), style="dim"
    )
    return text


def _widest(table: Table, column: int) -> int:
    return max(cell_count(cell) for cell in (table.columns[column], *(row[column].text for row in table.rows)))


def _kept(table: Table, ids: tuple[str, ...], width: int) -> list[int]:
    """The columns that fit beside a name of some length."""
    kept = list(range(len(ids)))
    for name in _FIRST_TO_GO:
        if sum(_widest(table, k) + _GAP for k in kept[1:]) + _LEAST_NAME <= width:
            break
        kept = [k for k in kept if ids[k] != name]
    return kept


def _line(cells: list[str], widths: list[int]) -> str:
    """The name on the left, numbers and words on the right of their columns."""
    own = [padded(cell, w, right=bool(k)) for k, (cell, w) in enumerate(zip(cells, widths, strict=True))]
    return (" " * _GAP).join(own)


def _bars(found: Sweep, width: int) -> list[str]:
    """How much work is done a second, as bars; nothing where there is no room."""
    rates = [row.samples_per_s or row.steps_per_s or 0.0 for row in found.profiles]
    most = max(rates, default=0.0)
    if width < _LEAST_BAR or not most:
        return [""] * len(rates)
    cells = [round(width * rate / most) for rate in rates]
    return [" " * _GAP + "█" * count + " " * (width - count) for count in cells]
