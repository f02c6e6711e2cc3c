"""The table of the panel, and the line of code that a row or slice names."""

from __future__ import annotations

from collections.abc import Callable

from npu_tui.analysis.launches.code_lines import CodeLine, line_of
from npu_tui.strings import say
from npu_tui.tui.actions.base import Base
from npu_tui.tui.session import Session
from npu_tui.tui.tabs.table.tab import Table
from npu_tui.tui.widgets.panel import Panel
from npu_tui.view.walk.explorer import Explorer


class PanelActions(Base):
    """Commands of the group ``panel``; ``open_line`` opens a line of code and returns what was done."""

    def __init__(
        self,
        session: Session,
        explorer: Explorer,
        panel: Panel,
        open_line: Callable[[CodeLine], str],
    ) -> None:
        super().__init__(session, explorer)
        self._panel = panel
        self._open_line = open_line

    def sort_reverse(self) -> str | None:
        content, order = self._panel.content, self._panel.order
        if not isinstance(content, Table):
            return say("panel.no_table")
        self._panel.sort(order.by(content, 0 if order.column is None else order.column))
        return None

    def open_code(self) -> str:
        row = self._panel.row_at_cursor()
        selected = self._explorer.state.selection
        code = row.code if row is not None and (self._panel.table.has_focus or selected is None) else None
        if code is None and selected is not None:
            code = line_of(self._trace(selected.trace), selected.item)
        if code is None and row is not None:
            code = row.code
        return say("code.none") if code is None else self._open_line(code)

    def go(self) -> str | None:
        return None if self._explorer.select_under_cursor() else say("select.none")
