"""The Range tab: what happens between two times, by layer and name or operator type."""

from __future__ import annotations

from typing import Literal, cast

import numpy as np

from npu_tui.analysis.calls import EqualCalls, call_tree
from npu_tui.analysis.device import Window
from npu_tui.analysis.ranges import PHASES, By, NameSum, edge_at, launch_count, range_sums
from npu_tui.strings import knows, say
from npu_tui.trace.model import Trace
from npu_tui.trace.text import brief, duration_text, exact_text, printable, time_text
from npu_tui.tui.commands import BY_ID, keys_label
from npu_tui.tui.tabs.path import path_table
from npu_tui.tui.tabs.table import GAP, Content, Context, Ranked, TabRow, TabTable
from npu_tui.view.outline import rank_name

_COLUMNS = ("busy", "share", "own", "count", "avg", "max", "name", "layer", "sum", "min", "p90")
"""What is looked at most comes first."""
_TREE = ("busy", "share", "own", "count", "name")
_WAYS: tuple[By | Literal["tree", "path"], ...] = "name", "path", "type", "layer", "phase", "tree"
_MOST_CALLS = 1000

_LONGEST_NAME = 40


def _way(turn: int) -> By | Literal["tree", "path"]:
    """How the range is added up: by names, operator types, layers, phases, as a tree of calls or the critical path."""
    return _WAYS[turn % len(_WAYS)]


def range_table(now: Context) -> Content:
    """A row per layer and name, by busy time; the layer under the cursor comes first. Each turn adds up another way."""
    if not now.session.whole and now.marked is None:
        return say("range.none")
    start, end = now.marked or (now.session.scene.start, now.session.scene.end)
    if _way(now.turn) == "path":
        return path_table(now, _title(now, start, end), _then(now))
    if _way(now.turn) == "tree":
        return _tree(now, start, end)
    labels = now.session.scene.labels
    by, rows, count, cut, focused = cast(By, _way(now.turn)), [], 0, 0, now.focused
    for index, profile in enumerate(now.session.profiles):
        trace = profile.trace
        first, last = (now.session.scene.to_trace(index, when) for when in (start, end))
        compute = profile.compute if by == "type" else None
        sums = range_sums(trace, first, last, None, by, compute, profile.types_of)
        if by == "phase":
            told = {row.layer for row in sums if row.label != PHASES[-1]}
            sums = [row for row in sums if row.layer in told]
            sums.sort(key=lambda row: trace.layers[row.layer].kind != "hardware")
        elif focused is not None:
            sums.sort(key=lambda row: (index, row.layer) != (focused.trace, focused.layer))
        count += sum(row.count for row in sums)
        cut += sum(row.cut for row in sums)
        layers = [printable(f"{labels[index]} {layer.name}".strip()) for layer in trace.layers]
        rows += [_row(index, layers[row.layer], row, end - start, by) for row in sums]
    title = _title(now, start, end)
    counts = say("range.counts", count=f"{count:,}", rows=f"{len(rows):,}", by=say(f"range.by_{by}"))
    lines = [title, *_facts(now, start, end), counts]
    hints = [say("range.cut", cut=f"{cut:,}")] if cut else []
    hints.append(say("range.copy", csv=keys_label(BY_ID["copy_csv"])))
    lines[-1] = GAP.join([lines[-1], *hints, *_edges(now, start, end)])
    headings = tuple(say(f"range.{key}") for key in _COLUMNS)
    return TabTable(headings, rows, "\n".join(lines), again=_then(now), spare=(say("range.avg"),))


def _title(now: Context, start: int, end: int) -> str:
    if now.marked is None:
        return GAP.join([say("panel.everything"), duration_text(end - start)])
    return say("range.length", length=duration_text(end - start), start=exact_text(start), end=exact_text(end))


def _then(now: Context) -> str:
    """What the tab's key shows next."""
    return say(f"range.by_{_way(now.turn + 1)}")


def _tree(now: Context, start: int, end: int) -> Content:
    """The calls of the cursor's lane by their path."""
    row = now.focused
    if row is None or row.lane < 0:
        return say("range.no_lane")
    trace, scene = now.session.scene.traces[row.trace], now.session.scene
    window = Window(scene.to_trace(row.trace, start), scene.to_trace(row.trace, end))
    found = call_tree(trace, trace.lanes[row.lane], window)
    rows = [_call(row.trace, trace, call, end - start) for call in found[:_MOST_CALLS]]
    name = printable(scene.roles[row.trace][row.lane].name)
    note = GAP.join([say("range.tree", lane=name), _title(now, start, end)])
    return TabTable(tuple(say(f"range.{key}") for key in _TREE), rows, note, again=_then(now))


def _facts(now: Context, start: int, end: int) -> list[str]:
    """One line per device: how its time splits, what was lost, and how its launches look."""
    lines = []
    scene = now.session.scene
    for index, profile in enumerate(now.session.profiles):
        first, last = (scene.to_trace(index, when) for when in (start, end))
        rank = f"{rank_name(scene, index)}: " if len(scene.traces) > 1 else ""
        launches = {device.device: device for device in profile.dispatch}
        for lanes in profile.overlap_lanes:
            sums = lanes.sums(Window(first, last))
            line = rank + say(
                "range.overlap",
                computing=f"{sums.ratio(sums.computing):.1%}",
                exposed=f"{sums.ratio(sums.not_overlapped):.1%}",
                overlapped=duration_text(sums.communication - sums.not_overlapped),
                free=f"{sums.ratio(sums.free):.1%}",
                free_time=duration_text(sums.free),
            )
            if lanes.device in launches:
                found = launch_count(launches[lanes.device], profile.trace, first, last)
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


def _call(index: int, trace: Trace, call: EqualCalls, length: int) -> TabRow:
    name = "  " * call.depth + brief(printable(call.name), _LONGEST_NAME)
    share = call.total / max(length, 1)
    cells = (time_text(call.total), f"{share:.1%}", time_text(call.own), f"{call.count:,}", name)
    values = (call.total, share, call.own, call.count, call.name)
    slices, items = trace.slices, call.items
    return TabRow(
        cells, Ranked(index, call.count, lambda: items[np.argsort(slices.start[items] - slices.end[items])]), values
    )


def _row(index: int, layer: str, row: NameSum, length: int, by: By) -> TabRow:
    label, share = printable(row.label), row.busy / length
    if knows(f"phase.{label}") and by == "phase":
        label = say(f"phase.{label}")
    times = (row.total, row.shortest, row.p90)
    cells = (
        time_text(row.busy),
        f"{share:.1%}",
        time_text(row.own),
        f"{row.count:,}",
        time_text(row.average),
        time_text(row.longest),
        brief(label, _LONGEST_NAME) or say("range.everything"),
        layer,
        *(time_text(time) for time in times),
    )
    values = (row.busy, share, row.own, row.count, row.average, row.longest, label, layer, *times)
    return TabRow(cells, Ranked(index, row.count, lambda: row.items), values)
