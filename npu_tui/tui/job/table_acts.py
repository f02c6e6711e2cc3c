"""The table in the panel of the overview: its rows, order, filter and copies."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec.structs import replace
from rich.text import Text

from npu_tui.strings import say
from npu_tui.tui.actions.acts import Act
from npu_tui.tui.explore.record import record
from npu_tui.tui.job.overview import Overview
from npu_tui.tui.job.panel import JobPanel
from npu_tui.tui.job.tables import JobRow
from npu_tui.tui.keys.commands import BY_ID
from npu_tui.tui.sheets.sheet import Sheet
from npu_tui.tui.tabs.table.tab import Table
from npu_tui.tui.tabs.table.table_text import as_csv, as_text
from npu_tui.tui.widgets.filtering import Filtering
from npu_tui.tui.widgets.prompt import Prompt


class TableActs:
    """What is done with the table of ``panel``; a filter is asked for in ``prompt``, ``copy`` takes a text."""

    def __init__(self, panel: JobPanel, prompt: Prompt, copy: Callable[[str], None]) -> None:
        self._panel = panel
        self._copy = copy
        self.filtering = Filtering(panel, prompt)

    def acts(self) -> dict[str, Act]:
        """What every command does."""
        return {
            "sort_reverse": self._reverse,
            "filter": self.filtering.ask,
            "copy_text": partial(self._copy_table, as_text),
            "copy_csv": partial(self._copy_table, as_csv),
        }

    def _reverse(self) -> None:
        order = self._panel.order
        self._panel.sort(replace(order, falling=not order.falling))

    def _copy_table(self, form: Callable[[Table | None], list[str]]) -> str:
        content = self._panel.content
        lines = form(content if isinstance(content, Table) else None)
        if not lines:
            return say("panel.no_table")
        self._copy("\n".join(lines))
        return say("ranks.copied", count=len(lines) - 1)

    def sheet(self) -> Sheet | None:
        """Everything about the row under the cursor; None without one."""
        row, content, panel = self._panel.row_at_cursor(), self._panel.content, self._panel
        if row is None or not isinstance(content, Table):
            return None
        title = say("told.row", tab=say(f"tab.{panel.tab}"), number=panel.table.cursor_row + 1)
        return Sheet(title, Text(row.told() if row.told is not None else record(content, row)))

    def follow(self, view: Overview, arrange: Callable[[], None], enter: Callable[[list[int]], str | None]) -> str:
        """Go to the collective, ranks or rank of the row under the cursor; returns what was done.

        The rank that is looked at is entered.
        """
        row = self._panel.row_at_cursor()
        if not isinstance(row, JobRow):
            return ""
        if row.collective is not None:
            view.show_collective(row.collective)
        elif row.scope is not None:
            view.show_scope(row.scope)
            arrange()
            return say("ranks.scope.told", scope=row.scope.name)
        elif row.rank is not None:
            if view.rank == row.rank and self._panel.tab == "job_ranks":
                return enter([row.rank]) or ""
            view.go_to_rank(row.rank)
            return say("ranks.at", rank=row.rank, key=BY_ID["open_rank"].press)
        return ""
