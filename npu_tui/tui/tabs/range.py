"""The Range tab: what happens between two times, by layer and name."""

from __future__ import annotations

from npu_tui.analysis.ranges import range_sums
from npu_tui.strings import say
from npu_tui.trace.text import printable
from npu_tui.trace.units import duration_text, exact_text
from npu_tui.tui.tabs.tab import Content, Context, Row, Tab, Table
from npu_tui.view.scene import Selected


class RangeTab(Tab):
    """Sums of the range; the layer under the cursor comes first."""

    id = "range"
    key = "5"

    def depends_on(self, now: Context) -> object:
        """The range and the layer of the cursor."""
        return now.range, now.focused and (now.focused.trace, now.focused.layer)

    def content(self, now: Context) -> Content:
        """A row per layer and name, by busy time."""
        marked = now.marked
        if marked is None:
            return say("range.none")
        start, end = marked
        rows, count = [], 0
        for index, trace in enumerate(now.session.scene.traces):
            sums = range_sums(trace, start, end)
            focused = now.focused
            sums.sort(key=lambda row: focused is None or (index, row.layer) != (focused.trace, focused.layer))
            for row in sums:
                count += row.count
                cells = (
                    duration_text(row.busy),
                    f"{row.busy / (end - start):.1%}",
                    f"{row.count:,}",
                    duration_text(row.total),
                    printable(trace.layers[row.layer].name),
                    printable(trace.names[row.name]),
                )
                rows.append(Row(cells, (Selected(index, row.longest),)))
        note = say(
            "range.title",
            start=exact_text(start),
            end=exact_text(end),
            length=duration_text(end - start),
            count=f"{count:,}",
            names=len(rows),
        )
        headings = tuple(say(f"range.{key}") for key in ("busy", "share", "count", "sum", "layer", "name"))
        return Table(headings, rows, note)
