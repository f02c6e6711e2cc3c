"""The flags of the main screen, and what it can hand on as text."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from npu_tui.ingest.source.find import PIPED
from npu_tui.strings import say
from npu_tui.tui.explore.flags import Flag, Flags
from npu_tui.tui.sheets.flag_sheet import Choice, FlagSheet
from npu_tui.tui.sheets.sheet import Sheet
from npu_tui.tui.terminal.clipboard import row_cells
from npu_tui.tui.widgets.panel import Panel
from npu_tui.tui.widgets.timeline import Timeline
from npu_tui.view.walk.start import NO_TAB, Start, rows_text, slice_text

if TYPE_CHECKING:
    from npu_tui.tui.explore.screen import MainScreen

_MARGIN = 0.05


class Notes:
    """One per main screen."""

    def __init__(self, screen: MainScreen, flags: Flags) -> None:
        self.flags = flags
        self._screen = screen

    def show_list(self) -> None:
        """List the flags."""
        self._screen.app.push_screen(FlagSheet(self.flags), self._chosen)

    def _chosen(self, choice: Choice | None) -> None:
        self.show_marks()
        if choice is not None:
            (self.go_to if choice.act == "go" else self._screen.asking.edit_flag)(choice.flag)

    def go_to(self, flag: Flag) -> None:
        """Show a flag: its range, or its time."""
        explorer = self._screen.explorer
        if flag.end > flag.start:
            explorer.set_range(flag.start, flag.end)
            explorer.show(flag.start, flag.end, _MARGIN)
        explorer.go_to(flag.start)
        self._screen.query_one(Timeline).changed()

    def point_at(self, start: int, end: int) -> str:
        """A click on the ruler at ``[start, end)`` ns: to the flag there or beside it, else the cursor goes there.

        Returns what to tell.
        """
        column = end - start
        flag = self.flags.at(start, end) or self.flags.at(start - column, end + column)
        if flag is None:
            self._screen.explorer.go_to(start + column // 2)
            self._screen.query_one(Timeline).changed()
            return ""
        self.go_to(flag)
        return say("flag.here", name=flag.name, when=flag.when)

    def show_marks(self) -> None:
        """Mark the flags on the ruler."""
        self.mark()
        self._screen.query_one(Timeline).changed()

    def mark(self) -> None:
        """Have the flags marked by the next frame, and say where they cannot be kept."""
        times = {time for flag in self.flags.all for time in (flag.start, flag.end)}
        self._screen.explorer.state.flags = tuple(sorted(times))
        if self.flags.problem:
            self._screen.tell(self.flags.problem)

    def show_text(self, title: str, text: str) -> None:
        """Show a text that is too long for one line."""
        self._screen.app.push_screen(Sheet(title, Text(text)))

    def row_text(self) -> str:
        """The row of the table under the cursor, its cells behind tabs; empty unless a table has the focus."""
        panel = self._screen.query_one(Panel)
        row = panel.row_at_cursor() if panel.table.has_focus else None
        if row is not None and row.told is not None:
            return row.told()
        return "" if row is None else "\t".join(row_cells(row.cells))

    def command_here(self) -> str:
        """The command that opens this view."""
        explorer, panel = self._screen.explorer, self._screen.query_one(Panel)
        state, scene = explorer.state, explorer.scene
        start = Start(
            view=explorer.asked,
            at=state.cursor,
            range=state.range,
            select="" if state.selection is None else slice_text(scene, state.selection),
            rows=rows_text(explorer),
            search=self._screen.hits.text,
            links=state.link_mode,
            tab=NO_TAB if panel.has_class("-hidden") else panel.tab,
        )
        words = shlex.join([*_program(), str(self._path()), *start.words()])
        return words.encode(errors="replace").decode()  # a clipboard takes text only, and not every path is one

    @property
    def piped(self) -> bool:
        """Whether the trace came through standard input, so that it must come again for a command to open it."""
        return self._path() == PIPED

    def _path(self) -> Path:
        path = Path(self._screen.explorer.scene.traces[0].path)
        return path if path == PIPED else path.absolute()


def _program() -> list[str]:
    """How the program is called from anywhere."""
    called = Path(sys.argv[0])
    if shutil.which("npu-tui") is None and called.name == "npu-tui":
        return [str(called.absolute())]
    if shutil.which("npu-tui") is None and called.parts[-2:] == ("npu_tui", "__main__.py"):
        return [sys.executable, "-m", "npu_tui"]
    return ["npu-tui"]
