"""The Range tab: what happens between two times, by layer and name or operator type."""

from __future__ import annotations

from npu_tui.analysis.window import Window
from npu_tui.analysis.work.ranges import By, NameSum, edge_at, launch_count, range_sums
from npu_tui.strings import say
from npu_tui.trace.text import brief, printable
from npu_tui.trace.units import duration_text, exact_text
from npu_tui.tui.keys.commands import BY_ID, keys_label
from npu_tui.tui.tabs.scope import ComputedTab, Ranked
from npu_tui.tui.tabs.tab import GAP, Content, Context, Row, Table
from npu_tui.view.rows.outline import rank_name

_COLUMNS = ("busy", "share", "count", "avg", "max", "name", "layer", "sum", "min", "p90")
"""What is looked at most comes first: narrow screens cut the others."""
_WAYS: tuple[By, ...] = "name", "type", "layer"

_LONGEST_NAME = 40


class RangeTab(ComputedTab):
    """Sums of the range; the layer under the cursor comes first. Its key again adds up another way."""

    id = "range"
    key = "5"

    def __init__(self) -> None:
        super().__init__()
        self._way = 0

    def depends_on(self, now: Context) -> object:
        """The range, the lane of the cursor, and how it is added up."""
        place = now.focused and (now.focused.trace, now.focused.layer, now.focused.lane)
        return now.range, place, self._way, tuple(now.session.scene.offsets)

    def again(self) -> bool:
        """Change between names, operator types and layers."""
        self._way = (self._way + 1) % len(_WAYS)
        return True

    def compute(self, now: Context) -> Content:
        """A row per layer and name, by busy time."""
        if now.marked is None:
            return say("range.none")
        start, end = now.marked
        labels = now.session.scene.labels
        by, rows, count, cut, focused = _WAYS[self._way], [], 0, 0, now.focused
        for index, profile in enumerate(now.session.profiles):
            trace = profile.trace
            first, last = now.marked_in(index) or now.marked
            sums = range_sums(trace, first, last, None, by, profile.compute if by == "type" else None)
            sums.sort(key=lambda row: focused is None or (index, row.layer) != (focused.trace, focused.layer))
            count += sum(row.count for row in sums)
            cut += sum(row.cut for row in sums)
            layers = [printable(f"{labels[index]} {layer.name}".strip()) for layer in trace.layers]
            rows += [_row(index, layers[row.layer], row, end - start) for row in sums]
        title = say("range.length", length=duration_text(end - start), start=exact_text(start), end=exact_text(end))
        counts = say("range.counts", count=f"{count:,}", rows=f"{len(rows):,}", by=say(f"range.by_{by}"))
        key, then = keys_label(BY_ID["tab_range"]), say(f"range.by_{_WAYS[(self._way + 1) % len(_WAYS)]}")
        lines = [f"{title}{GAP}{counts} ({say('range.again', key=key, by=then)})", *self._facts(now)]
        hints = [say("range.cut", cut=f"{cut:,}")] if cut else []
        hints.append(say("range.copy", text=keys_label(BY_ID["copy_text"]), csv=keys_label(BY_ID["copy_csv"])))
        lines[-1] = GAP.join([lines[-1], *hints, *_edges(now, start, end)])
        headings = tuple(say(f"range.{key}") for key in _COLUMNS)
        return Table(headings, rows, "\n".join(lines))

    @staticmethod
    def _facts(now: Context) -> list[str]:
        """One line per device: how its time splits, what was lost, and how its launches look."""
        lines = []
        scene = now.session.scene
        for index, profile in enumerate(now.session.profiles):
            start, end = now.marked_in(index) or (0, 0)
            rank = f"{rank_name(scene, index)}: " if len(scene.traces) > 1 else ""
            launches = {device.device: device for device in profile.dispatch}
            for lanes in profile.overlap_lanes:
                sums = lanes.sums(Window(start, end))
                line = rank + say(
                    "range.overlap",
                    computing=f"{sums.ratio(sums.computing):.1%}",
                    exposed=f"{sums.ratio(sums.not_overlapped):.1%}",
                    overlapped=duration_text(sums.communication - sums.not_overlapped),
                    free=f"{sums.ratio(sums.free):.1%}",
                    free_time=duration_text(sums.free),
                )
                if lanes.device in launches:
                    found = launch_count(launches[lanes.device], profile.trace, start, end)
                    line += GAP + say(
                        "range.launches",
                        lost=duration_text(found.lost),
                        starved=found.starved,
                        near=found.near_vertical,
                        shallow=found.shallow,
                        queued=found.queued,
                    )
                lines.append(line)
        return lines


def _edges(now: Context, start: int, end: int) -> list[str]:
    """Between which slices of the cursor's lane the range lies; nothing where it is not the gap between two."""
    if now.focused is None or now.focused.lane < 0:
        return []
    trace, words = now.session.scene.traces[now.focused.trace], []
    for when, wanted in ((start, True), (end, False)):
        found = edge_at(trace, now.session.scene.to_trace(now.focused.trace, when), now.focused.lane)
        if found is None or found[1] != wanted:
            return []
        words.append(brief(trace.name_of(found[0]), _LONGEST_NAME))
    return [say("range.between", first=words[0], second=words[1])]


def _row(index: int, layer: str, row: NameSum, length: int) -> Row:
    label, share = printable(row.label), row.busy / length
    times = (row.total, row.shortest, row.p90)
    cells = (
        duration_text(row.busy),
        f"{share:.1%}",
        f"{row.count:,}",
        duration_text(row.average),
        duration_text(row.longest),
        brief(label, _LONGEST_NAME) or say("range.everything"),
        layer,
        *(duration_text(time) for time in times),
    )
    values = (row.busy, share, row.count, row.average, row.longest, label, layer, *times)
    return Row(cells, Ranked(index, row.count, lambda: row.items), values)
