"""The bottom panel, and what Enter and Esc do."""

from __future__ import annotations

from npu_tui.strings import say
from npu_tui.tui.actions.base import Base
from npu_tui.tui.explore.editor import line_of, open_line
from npu_tui.tui.tabs.tab import Table
from npu_tui.tui.widgets.panel import Panel


class PanelActions(Base):
    """Commands of the group ``panel``."""

    def panel(self) -> None:
        self._screen.toggle_panel()

    def sort_reverse(self) -> str | None:
        panel = self._screen.query_one(Panel)
        if not isinstance(panel.content, Table):
            return say("panel.no_table")
        order = panel.order
        panel.sort(order.by(panel.content, 0 if order.column is None else order.column))
        return None

    def filter(self) -> str | None:
        if not isinstance(self._screen.query_one(Panel).content, Table):
            return say("panel.no_table")
        self._screen.asking.filter()
        return None

    def open_code(self) -> str:
        panel = self._screen.query_one(Panel)
        row = panel.row_at_cursor()
        selected = self._explorer.state.selection
        code = row.code if row is not None and (panel.table.has_focus or selected is None) else None
        if code is None and selected is not None:
            code = line_of(self._trace(selected.trace), selected.item)
        if code is None and row is not None:
            code = row.code
        if code is None:
            return say("code.none")
        words = open_line(self._screen.app, code)
        self._screen.on_screen_resume()
        return words

    def go(self) -> str | None:
        return None if self._explorer.select_under_cursor() else say("select.none")

    def escape(self) -> None:
        self._screen.escape()

    def focus_next(self) -> None:
        self._screen.focus_next()
