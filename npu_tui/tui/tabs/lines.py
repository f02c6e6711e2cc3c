"""The Code lines tab: which lines of user code launched too late, and other tables of what the host did."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npu_tui.profile.launch_tables import CODE_LINES
from npu_tui.strings import say
from npu_tui.trace.text import duration_text
from npu_tui.tui.tabs.answer import answered
from npu_tui.tui.tabs.bubbles import bubbles
from npu_tui.tui.tabs.declared import shown
from npu_tui.tui.tabs.host_tables import calls, host_ops, syncs
from npu_tui.tui.tabs.table import GAP, ComputedTab, Content, Context, nothing, scope_note

VIEWS: dict[str, Callable[[Context], Content]] = {
    "lines": lambda now: lines(now),
    "bubbles": bubbles,
    "syncs": syncs,
    "calls": calls,
    "host_ops": host_ops,
}
"""What the tab can show, by the ids of the commands that show it."""

SQL = "sql"
"""The view that answers a query; no key leads to it, as it needs one."""

_NAMES = {
    SQL: "query.tab",
    "bubbles": "bubbles.name",
    "syncs": "syncs.name",
    "calls": "calls.name",
    "host_ops": "hosts.name",
}


class LinesTab(ComputedTab):
    """A row per line, most lost time first; Enter goes to its worst launch. Its key again goes on to the next view."""

    id = "lines"
    key = "2"

    def __init__(self) -> None:
        super().__init__()
        self.view = "lines"
        self._sql = ""

    def ask(self, sql: str) -> None:
        """Show the answer to the query ``sql``."""
        self.view, self._sql = SQL, sql

    def depends_on(self, now: Context) -> object:
        """The trace, the range, the view, and the query of one."""
        return super().depends_on(now), self.view, self._sql

    def again(self) -> bool:
        """Go on to the next view."""
        views = list(VIEWS)
        self.view = views[(views.index(self.view) + 1) % len(views)] if self.view in views else views[0]
        return True

    def name(self) -> str:
        """The name of the view."""
        return say(_NAMES[self.view]) if self.view in _NAMES else ""

    def compute(self, now: Context) -> Content:
        """The view."""
        return answered(now, self._sql) if self.view == SQL else VIEWS[self.view](now)


def lines(now: Context) -> Content:
    """The lines of all devices."""
    if not now.profile.dispatch:
        return say("lines.no_dispatch")
    sheet = CODE_LINES.make(now.part)
    if not sheet.rows:
        return nothing(now, say("lines.none"))
    lost = np.array(sheet.values("lost"))
    sheet = sheet.taken(np.argsort(-lost, kind="stable"))
    note = GAP.join([say("lines.total", lost=duration_text(lost.sum())), scope_note(now), say("lines.views")])
    place = {"place": lambda row, value: str(value) or say("lines.unknown")}
    return shown(now.trace, CODE_LINES, sheet, note, cells=place, most=sheet.rows)
