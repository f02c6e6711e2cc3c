"""From stretch to stretch of the critical path, and to the longest ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from npu_tui.output.whatif import owner_question
from npu_tui.strings import say
from npu_tui.trace.text import duration_text, share_text
from npu_tui.tui.contents import Contents
from npu_tui.tui.prompt import Desk
from npu_tui.tui.tabs.range import path_in, why_no_path
from npu_tui.view.scene import Selected

if TYPE_CHECKING:
    from npu_tui.profile.scene import ShownPath


class _Place(Struct, frozen=True):
    """A stretch that was gone to, and where the screen was then: as long as it is there, the walk goes on."""

    path: ShownPath
    index: int
    stretch: int
    cursor: int
    selection: Selected | None


class PathWalk:
    """Goes along the critical path; see ``TraceWalk``."""

    def __init__(self, desk: Desk, contents: Contents) -> None:
        self._session, self._explorer, self._contents = desk.session, desk.explorer, contents
        self._place: _Place | None = None

    def _here(self) -> _Place | None:
        state, place = self._explorer.state, self._place
        there = place is not None and (place.cursor, place.selection) == (state.cursor, state.selection)
        return place if there else None

    def _path(self) -> tuple[int, ShownPath | None]:
        here = self._here()
        if here is not None:
            return here.index, here.path
        index = self._explorer.trace
        return index, path_in(self._session, index, self._explorer.focused)

    def step(self, direction: int) -> str:
        """To the next (1) or previous (-1) stretch; from elsewhere first to the one at the cursor."""
        index, path = self._path()
        if path is None:
            return why_no_path(self._session, index)
        here = self._here()
        if here is not None:
            at = here.stretch + direction
        else:
            at, known = self._nearest(index, path)
            at += direction * known
        if not 0 <= at < len(path.longest):
            return say("path.last" if direction > 0 else "path.first")
        return self._go(index, path, at)

    def cause(self) -> str:
        """How the run without the owner of the stretch at the cursor is asked for; empty without a path."""
        index, path = self._path()
        if path is None:
            return ""
        here = self._here()
        at = here.stretch if here is not None else self._nearest(index, path)[0]
        owner = path.found.owners[int(path.found.owner[at])]
        return owner_question(self._session.scene.traces[index], owner)

    def longest(self) -> str:
        """To the longest stretch; from there to the next longest, after the last to the first again."""
        index, path = self._path()
        if path is None:
            return why_no_path(self._session, index)
        here = self._here()
        turn = 0
        if here is not None:
            turn = (int(np.flatnonzero(path.longest == here.stretch)[0]) + 1) % len(path.longest)
        return self._go(index, path, int(path.longest[turn]), fits=True)

    def _nearest(self, index: int, path: ShownPath) -> tuple[int, bool]:
        """The stretch at the cursor, and whether the selected slice is on it."""
        state, scene, found = self._explorer.state, self._session.scene, path.found.path
        when = scene.to_trace(index, state.cursor)
        selection = state.selection
        if selection is not None and selection.trace == index and path.lane is not None:
            marks = path.lane.marks
            own = marks.of_slice(scene.traces[index], selection.item)
            if len(own):
                near = np.maximum(np.maximum(marks.start[own] - when, when - marks.end[own]), 0)
                return int(marks.stretch[own[int(near.argmin())]]), True
        at = int(np.searchsorted(found.start, when, "right")) - 1
        return min(max(at, 0), len(found) - 1), False

    def _go(self, index: int, path: ShownPath, at: int, fits: bool = False) -> str:
        """Go to a stretch and name its owner; where it ``fits`` it is shown whole, however long or short it is."""
        explorer, scene, found = self._explorer, self._session.scene, path.found.path
        item = -1 if path.lane is None else int(path.lane.rows.item[at])
        shift = path.told.shift(at)
        start, end = (scene.to_scene(index, int(edge[at]) + shift) for edge in (found.start, found.end))
        if item >= 0:
            explorer.select(Selected(index, item))
        else:
            explorer.leave()
            explorer.state.selection = None
            charts: Sequence[object] = [chart.path for chart in scene.charts[index]]
            if path.lane in charts:
                explorer.go_to_chart(index, charts.index(path.lane))
        explorer.go_to(start)
        if fits:
            self._contents.fit_around(start, end)
        self._contents.leave_stretch()
        self._place = _Place(path, index, at, explorer.state.cursor, explorer.state.selection)
        share = path.lasts(at) / max(path.length, 1)
        return say(
            "path.of",
            n=f"{at + 1:,}",
            count=f"{len(found):,}",
            name=path.name(at),
            length=duration_text(path.lasts(at), 3),
            share=share_text(share),
        )
