"""The Search tab: the hits of the last search by time."""

from __future__ import annotations

import numpy as np

from npu_tui.strings import say
from npu_tui.trace.text import printable
from npu_tui.trace.units import duration_text, exact_text
from npu_tui.tui.tabs.tab import Content, Context, Row, Tab, Table
from npu_tui.view.scene import Selected

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
        """The hits by time; of very many the first and the longest, so that sorting by duration tells the truth."""
        hits = now.hits
        if not len(hits):
            return say("search.none")
        shown = _shown(now)
        rows = [_row(now, hits.at(index)) for index in shown]
        count = len(hits)
        note = say("search.title", count=count, text=hits.text)
        if len(rows) < len(hits):
            note = say("search.more", count=count, shown=_SHOWN_ROWS)
        headings = tuple(say(f"search.{key}") for key in ("start", "duration", "lane", "name"))
        at = hits.index(now.selection)
        return Table(headings, rows, note, shown.index(at) if at in shown else None)


def _shown(now: Context) -> list[int]:
    """Which hits are listed."""
    hits = now.hits
    if len(hits) <= 2 * _SHOWN_ROWS:
        return list(range(len(hits)))
    lasting = np.zeros(len(hits), np.int64)
    for number, trace in enumerate(now.session.scene.traces):
        mine = hits.traces == number
        items = hits.items[mine]
        lasting[mine] = trace.slices.end[items] - trace.slices.start[items]
    longest = np.argpartition(lasting, -_SHOWN_ROWS)[-_SHOWN_ROWS:]
    chosen = np.union1d(np.arange(_SHOWN_ROWS), longest)
    return [int(index) for index in chosen]


def _row(now: Context, found: Selected) -> Row:
    trace = now.session.scene.traces[found.trace]
    lane = trace.lanes[int(trace.slices.lane[found.item])]
    start, end = now.session.scene.times(found)
    label, name = now.session.scene.labels[found.trace], printable(trace.name_of(found.item))
    where = printable(f"{label} {trace.layers[lane.layer].name} / {lane.name}".strip())
    return Row(
        (exact_text(start), duration_text(end - start), where, name), (found,), (start, end - start, where, name)
    )
