"""The Code lines tab: which lines of user code launched too late, and other tables of what the host did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import PurePath

import numpy as np

from npu_tui.strings import say
from npu_tui.trace.text import brief, duration_text
from npu_tui.tui.tabs.answer import answered
from npu_tui.tui.tabs.bubbles import bubbles
from npu_tui.tui.tabs.table.scope import ComputedTab, Ranked, nothing, scope_note
from npu_tui.tui.tabs.table.tab import GAP, Content, Context, Row, Table
from npu_tui.tui.tabs.work.host_tables import calls, host_ops, syncs

_COLUMNS = ("lost", "share", "launches", "heading", "function")


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


def _short_names(files: set[str]) -> dict[str, str]:
    """What each of ``files`` is called: its name, with the folder where another one has the same."""
    counts = Counter(PurePath(file).name for file in files)
    return {
        file: path.name if counts[path.name] == 1 else "/".join(path.parts[-2:])
        for file, path in ((file, PurePath(file)) for file in files)
    }


def lines(now: Context) -> Content:
    """The lines of all devices."""
    if not now.profile.dispatch:
        return say("lines.no_dispatch")
    found = [
        (loss, facts.target[own])
        for facts in now.part.facts
        if facts.launches is not None
        for loss, own in facts.losing
    ]
    total = sum(loss.lost for loss, _ in found)
    names = _short_names({loss.code.file for loss, _ in found if loss.code is not None})
    rows = []
    for loss, items in sorted(found, key=lambda pair: -pair[0].lost):
        code = loss.code
        place = say("lines.place", file=brief(names[code.file]), line=code.line) if code else say("lines.unknown")
        function = brief(code.function) if code else ""
        cells = (duration_text(loss.lost), f"{loss.lost / total:.1%}", f"{loss.launches:,}", place, function)
        values = (loss.lost, loss.lost, loss.launches, place, function)
        rows.append(Row(cells, Ranked(now.trace, len(items), partial(np.asarray, items)), values, code))
    if not rows:
        return nothing(now, say("lines.none"))
    note = GAP.join([say("lines.total", lost=duration_text(total)), scope_note(now), say("lines.views")])
    return Table(tuple(say(f"lines.{key}") for key in _COLUMNS), rows, note)
