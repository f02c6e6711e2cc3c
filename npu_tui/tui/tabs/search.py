"""The Search tab: the hits of the last search by time."""

from __future__ import annotations

from npu_tui.strings import say
from npu_tui.trace.text import printable
from npu_tui.trace.units import duration_text, exact_text
from npu_tui.tui.tabs.tab import Content, Context, Row, Tab, Table

_SHOWN_ROWS = 500


class SearchTab(Tab):
    """One row per hit; the cursor is on the one that is selected."""

    id = "search"
    key = "8"

    def depends_on(self, now: Context) -> object:
        """The search and the selection."""
        return now.hits, now.selection

    def count(self, now: Context) -> int:
        """The number of hits."""
        return len(now.hits.starts)

    def content(self, now: Context) -> Content:
        """The first hits by time."""
        hits = now.hits
        if not len(hits.starts):
            return say("search.none")
        rows = []
        for index in range(min(len(hits.starts), _SHOWN_ROWS)):
            found = hits.at(index)
            trace = now.session.scene.traces[found.trace]
            lane = trace.lanes[int(trace.slices.lane[found.item])]
            start, end = int(trace.slices.start[found.item]), int(trace.slices.end[found.item])
            where = printable(f"{trace.layers[lane.layer].name} / {lane.name}")
            cells = (exact_text(start), duration_text(end - start), where, printable(trace.name_of(found.item)))
            rows.append(Row(cells, (found,)))
        count = f"{len(hits.starts):,}"
        note = say("search.title", count=count, text=hits.text)
        if len(rows) < len(hits.starts):
            note = say("search.more", count=count, shown=len(rows))
        headings = tuple(say(f"search.{key}") for key in ("start", "duration", "lane", "name"))
        at = hits.index(now.selection)
        return Table(headings, rows, note, at if at is not None and at < len(rows) else None)
