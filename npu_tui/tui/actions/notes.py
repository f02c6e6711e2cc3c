"""Flags, and what is copied to the clipboard of the terminal."""

from __future__ import annotations

from npu_tui.strings import say
from npu_tui.trace.text import printable
from npu_tui.tui.actions.base import Base
from npu_tui.tui.explore.flags import Flag
from npu_tui.tui.tabs.tab import Table
from npu_tui.tui.terminal.clipboard import MOST_BYTES, as_csv, as_text, cut
from npu_tui.tui.widgets.panel import Panel


class NoteActions(Base):
    """Commands of the group ``notes``."""

    def flag(self) -> None:
        """A flag at the cursor is edited, else one is made of the range, the selection or the cursor, as in Insight."""
        state, flags = self._explorer.state, self._screen.notes.flags
        column = state.viewport.column(state.cursor)
        here = flags.at(state.viewport.edge(column), state.viewport.edge(column + 1))
        if here is not None and (state.range is None or state.range == (here.start, here.end)):
            self._screen.asking.edit_flag(here)
        elif state.range is not None:
            self._screen.asking.new_flag(Flag(*state.range, flags.free_name(say("flag.range"))))
        elif state.selection is not None:
            trace = self._trace(state.selection.trace)
            item = state.selection.item
            times = int(trace.slices.start[item]), int(trace.slices.end[item])
            self._screen.asking.new_flag(Flag(*times, printable(trace.name_of(item))))
        else:
            self._screen.asking.new_flag(Flag(state.cursor, state.cursor, flags.free_name(say("flag.point"))))

    def flags(self) -> str | None:
        if not self._screen.notes.flags.all:
            return say("flags.none")
        self._screen.notes.show_list()
        return None

    def yank(self) -> str:
        text = self._screen.notes.row_text()
        selected = self._explorer.state.selection
        if not text and selected is not None:
            text = printable(self._trace(selected.trace).name_of(selected.item))
        if not text:
            return say("copy.nothing")
        self._screen.app.copy_to_clipboard(text)
        return say("copy.name", text=text.partition("\n")[0].replace("\t", "   "))

    def yank_view(self) -> str | None:
        text = self._screen.notes.command_here()
        self._screen.app.copy_to_clipboard(text)
        notes = self._screen.notes
        words = say("copy.piped" if notes.piped else "copy.name", text=printable(text))
        if len(words) + 2 <= self._screen.size.width:
            return words
        notes.show_text(say("copy.title_piped" if notes.piped else "copy.title"), printable(text))
        return None

    def copy_text(self) -> str:
        return self._copy(as_text(self._table()), 1)

    def copy_csv(self) -> str:
        return self._copy(as_csv(self._table()), 1)

    def _table(self) -> Table | None:
        """The table of the open tab as it is shown."""
        panel = self._screen.query_one(Panel)
        return Table(panel.content.headings, panel.rows) if isinstance(panel.content, Table) else None

    def _copy(self, lines: list[str], heads: int) -> str:
        if not lines:
            return say("copy.none")
        text, kept = cut(lines)
        self._screen.app.copy_to_clipboard(text)
        rows, count = f"{kept - heads:,}", f"{len(lines) - heads:,}"
        if kept < len(lines):
            return say("copy.part", rows=rows, count=count, size=MOST_BYTES // 1000)
        return say("copy.table", rows=rows)
