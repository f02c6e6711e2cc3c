"""What the panel says of the critical path: whose a slice on it is, and where the time of a range goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace
from rich.console import RenderableType
from rich.text import Text

from npu_tui.analysis.owner import Owner
from npu_tui.load.errors import InputError
from npu_tui.output.whatif import owner_question
from npu_tui.strings import say, words
from npu_tui.trace.arrays import I64
from npu_tui.trace.text import duration_text
from npu_tui.tui.session import Session
from npu_tui.tui.tabs.declared import shown
from npu_tui.tui.tabs.table import GAP, Content, Context
from npu_tui.view.scene import ScreenRow

if TYPE_CHECKING:
    from npu_tui.profile.path_lanes import ShownPath

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
    """Why no critical path of trace number ``index`` is told."""
    if not session.whole:
        return say("loading.path")
    if index not in session.paths:
        return say("path.computing" if index not in session.findings else "path.no_device")
    reasons = [path.told.reason for path in session.paths[index] if path.told.reason is not None]
    return words(reasons[0]) if reasons else say("path.no_device")


def path_lines(now: Context, index: int, item: int) -> list[RenderableType]:
    """Whose slice ``item`` of a trace is on the critical path, and what came before and after; none elsewhere."""
    for path in now.session.paths.get(index, ()):
        if path.lane is None:
            continue
        marks = path.lane.marks
        own = marks.of_slice(now.session.scene.traces[index], item)
        if len(own):
            return _of_stretches(path, marks.stretch[own].astype(np.int64), marks.end[own] - marks.start[own])
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
    return [*_of_stretches(path, np.array([at]), np.array([path.lasts(at)])), Text("")]


def without_path(now: Context) -> list[RenderableType]:
    """Why the profile that the cursor is in has no critical path, where that is known."""
    paths = now.session.paths.get(now.trace)
    if not paths or any(path.lane is not None for path in paths):
        return []
    return [Text(say("report.path.untold", reason=why_no_path(now.session, now.trace)), style="dim")]


def _of_stretches(path: ShownPath, stretch: I64, time: I64) -> list[RenderableType]:
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
    from npu_tui.profile.path_tables import PATH_OWNERS  # with the rules: the first picture does not wait for them

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
