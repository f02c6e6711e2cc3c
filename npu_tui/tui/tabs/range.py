"""The Range tab: what happens between two times, by layer and name or operator type; owners of the critical path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, cast

import numpy as np
from msgspec.structs import replace
from rich.console import RenderableType
from rich.text import Text

from npu_tui.analysis.calls import EqualCalls, call_tree
from npu_tui.analysis.device import Window
from npu_tui.analysis.path import Owner
from npu_tui.analysis.ranges import PHASES, By, NameSum, edge_at, launch_count, range_sums
from npu_tui.load.errors import InputError
from npu_tui.output.whatif import owner_question
from npu_tui.strings import knows, say, words
from npu_tui.trace.arrays import I64
from npu_tui.trace.model import Trace
from npu_tui.trace.text import brief, duration_text, exact_text, printable, time_text
from npu_tui.tui.commands import BY_ID, keys_label
from npu_tui.tui.session import Session
from npu_tui.tui.tabs.declared import shown
from npu_tui.tui.tabs.table import GAP, Content, Context, Ranked, TabRow, TabTable
from npu_tui.view.outline import rank_name
from npu_tui.view.scene import ScreenRow

if TYPE_CHECKING:
    from npu_tui.profile.scene import ShownPath


# What is looked at most comes first.
_COLUMNS = ("busy", "share", "own", "count", "avg", "max", "name", "layer", "sum", "min", "p90")
_TREE = ("busy", "share", "own", "count", "name")
_WAYS: tuple[By | Literal["tree", "path"], ...] = "name", "path", "type", "layer", "phase", "tree"
TREE_TURN = _WAYS.index("tree")
"""The turn of the tab that shows the calls of a lane."""
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
        rows += [_sum_row(index, layers[row.layer], row, end - start, by) for row in sums]
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
    scene = now.session.scene
    bare = [index for index, profile in enumerate(now.session.profiles) if profile.trace.nature.no_free]
    names = ", ".join(rank_name(scene, index) for index in bare) if len(scene.traces) > 1 else ""
    lines = [(f"{names}: " if names else "") + say("range.calls_only")] if bare else []
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
    name = "  " * call.depth + printable(call.name)
    share = call.total / max(length, 1)
    cells = (time_text(call.total), f"{share:.1%}", time_text(call.own), f"{call.count:,}", name)
    values = (call.total, share, call.own, call.count, call.name)
    slices, items = trace.slices, call.items
    return TabRow(
        cells, Ranked(index, call.count, lambda: items[np.argsort(slices.start[items] - slices.end[items])]), values
    )


def _sum_row(index: int, layer: str, row: NameSum, length: int, by: By) -> TabRow:
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


_MOST_OWNERS = 3


def path_in(session: Session, index: int, row: ScreenRow | None) -> ShownPath | None:
    """The critical path of trace number ``index`` that ``row`` shows, else of its device, else the first one."""
    paths = [path for path in session.paths.get(index, []) if path.lane is not None]
    if row is not None and row.trace == index and row.layer >= 0:
        charts, device = session.scene.charts[index], session.scene.traces[index].layers[row.layer].device
        lane = charts[row.chart].path if row.kind == "path" else None
        own = (path for path in paths if (path.lane is lane if lane is not None else path.told.device == device))
        paths = [*own, *paths]
    return paths[0] if paths else None


def why_no_path(session: Session, index: int) -> str:
    """Why no critical path of trace number ``index`` is known."""
    if not session.whole:
        return say("loading.path")
    if index not in session.paths:
        return say("path.computing" if index not in session.findings else "path.no_device")
    reasons = [path.told.reason for path in session.paths[index] if path.told.reason is not None]
    return words(reasons[0]) if reasons else say("path.no_device")


def path_lines(now: Context, index: int, item: int) -> list[RenderableType]:
    """The owner of slice ``item`` of a trace on the critical path, and what came before and after; none elsewhere."""
    for path in now.session.paths.get(index, ()):
        if path.lane is None:
            continue
        marks = path.lane.marks
        own = marks.of_slice(now.session.scene.traces[index], item)
        if len(own):
            return _stretch_lines(path, marks.stretch[own].astype(np.int64), marks.end[own] - marks.start[own])
    return []


def path_at_cursor(now: Context) -> list[RenderableType]:
    """The stretch at the cursor, where that is in the lane of a critical path."""
    row = now.focused
    if row is None or row.kind != "path":
        return []
    path = path_in(now.session, row.trace, row)
    if path is None or path.lane is None:
        return []
    when = now.session.scene.to_trace(row.trace, now.cursor)
    at = path.lane.at(when)
    if at < 0 or when >= path.found.path.end[at]:
        return []
    return [*_stretch_lines(path, np.array([at]), np.array([path.lasts(at)])), Text("")]


def path_note(now: Context) -> list[RenderableType]:
    """Why the profile that the cursor is in has no critical path, where that is known."""
    paths = now.session.paths.get(now.trace)
    if not paths or any(path.lane is not None for path in paths):
        return []
    return [Text(say("report.path.untold", reason=why_no_path(now.session, now.trace)), style="dim")]


def _stretch_lines(path: ShownPath, stretch: I64, time: I64) -> list[RenderableType]:
    """Lines about some stretches of one slice, which spends ``time`` of each on the path, ns."""
    whole = max(path.length, 1)
    sums: dict[int, int] = {}
    for number, length in zip(path.found.owner[stretch].tolist(), time.tolist(), strict=True):
        sums[number] = sums.get(number, 0) + length
    lines: list[RenderableType] = []
    for number, length in sorted(sums.items(), key=lambda entry: -entry[1])[:_MOST_OWNERS]:
        owner = path.found.owners[number]
        facts = [
            say("path.here", time=length, share=length / whole),
            say("path.owned", time=owner.on_path, share=owner.on_path / whole, count=owner.count),
            _gain_words(path, owner),
        ]
        line = Text.assemble((f"{say('path.details')} ", "dim"), (path.owner_name(number), "bold"), overflow="fold")
        lines.append(line.append(GAP + GAP.join(facts)))
    beside = [
        f"{say(f'path.{key}')} {path.name(at)} {duration_text(path.lasts(at), 3)}"
        for key, at in (("before", int(stretch.min()) - 1), ("after", int(stretch.max()) + 1))
        if 0 <= at < len(path.found.path)
    ]
    return [*lines, *([Text(GAP.join(beside), style="dim", overflow="fold")] if beside else [])]


def _gain_words(path: ShownPath, owner: Owner) -> str:
    """What removing an owner gains of a unit."""
    gain = path.told.gain_of(owner)
    if gain is None:
        return say("path.no_gain" if owner.change is None else "path.little")
    return say("path.gain", gain=round(gain), unit=say(f"finding.unit.{path.told.unit}"))


def path_table(now: Context, title: str, again: str) -> Content:
    """A row for each owner of the critical path in the range, of all devices of the trace that the cursor is in."""
    from npu_tui.profile.finding_tables import PATH_OWNERS  # with the rules: the first picture does not wait for them

    try:
        paths = now.part.critical_paths
    except InputError as error:
        return say("report.path.untold", reason=words(error.message))
    told = [path for path in paths if path.owners is not None]
    if not told:
        reasons = [words(path.reason) for path in paths if path.reason is not None]
        return say("report.path.untold", reason=(reasons or [say("path.no_device")])[0])
    lengths = [duration_text(path.owners.path.length) for path in told if path.owners is not None]
    note = [
        say("report.path", unit=say(f"finding.unit.{told[0].unit}")),
        title,
        say("path.length", lengths=say("list.comma").join(lengths)),
    ]
    left_out = {"each" if all(path.count == 1 for path in told) else "on_path", "" if len(told) > 1 else "device"}
    columns = [field for field in PATH_OWNERS.panel if field.column.id not in left_out]
    sheet = PATH_OWNERS.make(now.part, paths=told)
    table = shown(now.trace, PATH_OWNERS, sheet, GAP.join(note), columns=columns, again=again)
    every = [owner for path in told if path.owners is not None for owner in path.owners.owners]
    trace = now.profile.trace
    rows = [replace(row, cause=owner_question(trace, owner)) for row, owner in zip(table.rows, every, strict=False)]
    return replace(table, rows=rows, named=columns[-1].heading())
