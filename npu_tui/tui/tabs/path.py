"""What the panel says of the critical path: whose a slice on it is, and where the time of a range goes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from rich.console import RenderableType
from rich.text import Text

from npu_tui.analysis.owners import Owner
from npu_tui.load.errors import InputError
from npu_tui.strings import say, words
from npu_tui.trace.arrays import I64
from npu_tui.trace.text import duration_text, share_text, time_text
from npu_tui.tui.session import Session
from npu_tui.tui.tabs.table import GAP, Content, Context, Row, Stretch, Table
from npu_tui.view.scene import ScreenRow

if TYPE_CHECKING:
    from npu_tui.profile.path_lanes import NamedPath, ShownPath

_NOBODY = -1
_MOST_OWNERS = 3
_MOST_PLACES = 200
_COLUMNS = ("share", "each", "gain", "count", "kind", "owner")


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
        facts = [say("path.here", time=length, share=length / whole)]
        if number >= 0:
            owner = path.found.owners[number]
            facts.append(say("path.owned", time=owner.on_path, share=owner.on_path / whole, count=owner.count))
            facts.append(_gain_words(path, owner))
        line = Text.assemble((f"{say('path.details')} ", "dim"), (path.names[number], "bold"), overflow="fold")
        lines.append(line.append(GAP + GAP.join(facts)))
    beside = [
        f"{say(f'path.{key}')} {path.name(at)} {duration_text(path.lasts(at), 3)}"
        for key, at in (("before", int(stretch.min()) - 1), ("after", int(stretch.max()) + 1))
        if 0 <= at < len(path.found.path)
    ]
    return [*lines, *([Text(GAP.join(beside), style="dim", overflow="fold")] if beside else [])]


def _gain_words(path: NamedPath, owner: Owner) -> str:
    """What removing an owner gains of a unit."""
    gain = path.told.gain_of(owner)
    if gain is None:
        return say("path.no_gain")
    return say("path.gain", gain=round(gain), unit=say(f"finding.unit.{path.told.unit}"))


def path_table(now: Context, title: str, again: str) -> Content:
    """A row for each owner of the critical path in the range, of all devices of the trace that the cursor is in."""
    from npu_tui.profile.path_lanes import NamedPath  # with the rules: the first picture does not wait for them

    try:
        found = [NamedPath(now.part.trace, told) for told in now.part.critical_paths]
    except InputError as error:
        return say("report.path.untold", reason=words(error.message))
    told = [path for path in found if path.told.owners is not None]
    if not told:
        reasons = [words(path.told.reason) for path in found if path.told.reason is not None]
        return say("report.path.untold", reason=(reasons or [say("path.no_device")])[0])
    rows = [row for path in told for row in _rows(now.trace, path, len(told) > 1)]
    unit, lengths = say(f"finding.unit.{told[0].told.unit}"), [duration_text(path.length) for path in told]
    note = [say("report.path", unit=unit), title, say("path.length", lengths=say("list.comma").join(lengths))]
    alone = all(path.told.count == 1 for path in told)
    headings = tuple(say("column.time" if alone and name == "each" else f"column.{name}") for name in _COLUMNS)
    return Table(headings, rows, GAP.join(note), again=again, named=headings[-1])


def _rows(index: int, path: NamedPath, several: bool) -> Iterator[Row]:
    """The owners of a path; what has none comes last."""
    owners, owner, found = path.found.owners, path.found.owner, path.found.path
    length = found.end - found.start
    device = f"{say('path.device', device=path.told.device)} " if several else ""
    for number in [*range(len(owners)), _NOBODY]:
        own = np.flatnonzero(owner == number)
        if not len(own):
            continue
        share = int(length[own].sum()) / max(path.length, 1)
        time = int(length[own].sum()) / path.told.count
        gain = None if number < 0 else path.told.gain_of(owners[number])
        kind = say(f"path.kind.{'unexplained' if number < 0 else owners[number].kind}")
        name, code = device + path.names[number], None if number < 0 else owners[number].where
        saved = "" if gain is None else time_text(round(gain))
        cells = (share_text(share), time_text(round(time)), saved, f"{len(own):,}", kind, name)
        longest = own[np.argsort(-length[own], kind="stable")][:_MOST_PLACES]
        yield Row(
            cells,
            [_place(index, path, at) for at in longest.tolist()],
            (share, time, gain, len(own), kind, name),
            code,
        )


def _place(index: int, path: NamedPath, at: int) -> Stretch:
    found, shift = path.found.path, path.shift(at)
    item = int(found.item[at])
    start, end = int(found.start[at]) + shift, int(found.end[at]) + shift
    return Stretch(start, end, slice=item if item >= 0 else None, marked=False, trace=index)
