"""What the panel says of the critical path: whose a slice on it is, and where the time of a range goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from rich.console import RenderableType
from rich.text import Text

from npu_tui.analysis.owners import Owner
from npu_tui.strings import say
from npu_tui.trace.arrays import I64
from npu_tui.trace.text import duration_text, share_text
from npu_tui.tui.path_walk import path_in, why_no_path
from npu_tui.tui.tabs.bubbles import labelled
from npu_tui.tui.tabs.table import Context

if TYPE_CHECKING:
    from npu_tui.profile.path_lanes import ShownPath

_MOST_OWNERS = 3


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
    stretch = np.array([at])
    return [*_of_stretches(path, stretch, np.array([path.length(at)])), Text("")]


def without_path(now: Context) -> list[RenderableType]:
    """Why the profile that the cursor is in has no critical path, where that is known."""
    paths = now.session.paths.get(now.trace)
    if not paths or any(path.lane is not None for path in paths):
        return []
    return [Text(say("report.path.untold", reason=why_no_path(now.session, now.trace)), style="dim")]


def _of_stretches(path: ShownPath, stretch: I64, time: I64) -> list[RenderableType]:
    """Lines about some stretches of one slice, which spends ``time`` of each on the path, ns."""
    whole = max(path.found.path.length, 1)
    sums: dict[int, int] = {}
    for number, length in zip(path.found.owner[stretch].tolist(), time.tolist(), strict=True):
        sums[number] = sums.get(number, 0) + length
    lines: list[RenderableType] = []
    for number, length in sorted(sums.items(), key=lambda entry: -entry[1])[:_MOST_OWNERS]:
        at = int(stretch[path.found.owner[stretch] == number][0])
        owner = path.owner(at)
        words = Text.assemble((path.name(at), "bold"), f"   {say('path.here', time=length, share=length / whole)}")
        if owner is not None:
            words.append(f"   {say('path.owned', time=owner.on_path, share=owner.on_path / whole, count=owner.count)}")
            words.append(f"   {gain_words(path, owner)}")
        lines.append(Text.assemble((say("path.details") + " ", "dim"), words, overflow="fold"))
    beside = []
    for key, at in (("before", int(stretch.min()) - 1), ("after", int(stretch.max()) + 1)):
        if 0 <= at < len(path.found.path):
            beside.append(f"{say(f'path.{key}')} {path.name(at)} {duration_text(path.length(at), 3)}")
    return [*lines, *([labelled("", "   ".join(beside))] if beside else [])]


def gain_words(path: ShownPath, owner: Owner) -> str:
    """What removing an owner gains of a unit."""
    gain = path.told.gain_of(owner)
    if gain is None:
        return say("path.no_gain")
    return say("path.gain", gain=gain, unit=say(f"finding.unit.{path.told.unit}"))
