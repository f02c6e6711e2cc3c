"""Flags, and what is copied to the clipboard of the terminal."""

from __future__ import annotations

from collections.abc import Callable

from npu_tui.strings import say
from npu_tui.trace.text import printable
from npu_tui.tui.actions.base import Base
from npu_tui.tui.explore.finder import Finder
from npu_tui.tui.explore.notes import Notes
from npu_tui.tui.explore.shell_command import command_here, is_piped
from npu_tui.tui.session import Session
from npu_tui.tui.tabs.table.tab import Table
from npu_tui.tui.tabs.table.table_text import as_csv, as_text, row_cells
from npu_tui.tui.terminal.clipboard import MOST_BYTES, cut
from npu_tui.tui.widgets.panel import Panel
from npu_tui.view.walk.explorer import Explorer
from npu_tui.view.walk.start import NO_TAB


class NoteActions(Base):
    """Commands of the group ``notes``.

    ``copy`` gives a text to the clipboard. ``whole`` returns words that fit into a line; where they do not, it shows a
    title and a text and returns None.
    """

    def __init__(
        self,
        session: Session,
        explorer: Explorer,
        notes: Notes,
        finder: Finder,
        panel: Panel,
        copy: Callable[[str], object],
        whole: Callable[[str, str, str], str | None],
    ) -> None:
        super().__init__(session, explorer)
        self._notes = notes
        self._finder = finder
        self._panel = panel
        self._copy = copy
        self._whole = whole

    def flag(self) -> None:
        self._notes.add_here()

    def yank(self) -> str:
        text = self._row_text()
        selected = self._explorer.state.selection
        if not text and selected is not None:
            text = printable(self._trace(selected.trace).name_of(selected.item))
        if not text:
            return say("copy.nothing")
        self._copy(text)
        return say("copy.name", text=text.partition("\n")[0].replace("\t", "   "))

    def _row_text(self) -> str:
        """The row of the table under the cursor, its cells after tabs; empty unless a table has the focus."""
        row = self._panel.row_at_cursor() if self._panel.table.has_focus else None
        if row is not None and row.told is not None:
            return row.told()
        return "" if row is None else "\t".join(row_cells(row.cells))

    def yank_view(self) -> str | None:
        tab = self._panel.tab if self._panel.is_shown else NO_TAB
        text = command_here(self._explorer, self._finder.hits.text, tab)
        self._copy(text)
        words, title = ("copy.piped", "copy.title_piped") if is_piped(self._explorer) else ("copy.name", "copy.title")
        return self._whole(say(words, text=printable(text)), say(title), printable(text))

    def copy_text(self) -> str:
        return self._copy_lines(as_text(self._table()), 1)

    def copy_csv(self) -> str:
        return self._copy_lines(as_csv(self._table()), 1)

    def _table(self) -> Table | None:
        """The table of the open tab as it is shown."""
        content = self._panel.content
        return Table(content.headings, self._panel.rows) if isinstance(content, Table) else None

    def _copy_lines(self, lines: list[str], heads: int) -> str:
        if not lines:
            return say("copy.none")
        text, kept = cut(lines)
        self._copy(text)
        rows, count = f"{kept - heads:,}", f"{len(lines) - heads:,}"
        if kept < len(lines):
            return say("copy.part", rows=rows, count=count, size=MOST_BYTES // 1000)
        return say("copy.table", rows=rows)
