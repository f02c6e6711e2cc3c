"""Moving in time: zoom, pan, cursor, steps, undo."""

from __future__ import annotations

import numpy as np

from npu_tui.strings import say
from npu_tui.trace.text import brief, printable
from npu_tui.trace.units import duration_text
from npu_tui.tui.actions.base import Base
from npu_tui.tui.actions.compared import change_steps
from npu_tui.view.rows.outline import rank_name
from npu_tui.view.walk.along import next_in_time
from npu_tui.view.walk.follow import link_span
from npu_tui.view.walk.ranks import Edge, align, mark_base, move_rank

_ZOOM = 1.25
_ZOOM_FAST = 4.0
_PAN = 0.1
_PAN_FAST = 0.5
_LONGEST_NAME = 40


class TimeActions(Base):
    """Commands of the group ``time``."""

    def zoom_in(self) -> None:
        self._explorer.zoom(_ZOOM)

    def zoom_out(self) -> None:
        self._explorer.zoom(1 / _ZOOM)

    def zoom_in_fast(self) -> None:
        self._explorer.zoom(_ZOOM_FAST)

    def zoom_out_fast(self) -> None:
        self._explorer.zoom(1 / _ZOOM_FAST)

    def pan_left(self) -> None:
        self._explorer.pan(-_PAN)

    def pan_right(self) -> None:
        self._explorer.pan(_PAN)

    def pan_left_fast(self) -> None:
        self._explorer.pan(-_PAN_FAST)

    def pan_right_fast(self) -> None:
        self._explorer.pan(_PAN_FAST)

    def cursor_left(self) -> None:
        self._explorer.move_cursor(-1)

    def cursor_right(self) -> None:
        self._explorer.move_cursor(1)

    def home(self) -> None:
        self._explorer.home()

    def fit(self) -> str | None:
        selected = self._explorer.state.selection
        ends = None
        if selected is not None and (found := link_span(self._trace(selected.trace), selected.item)) is not None:
            low, high = (self._session.scene.to_scene(selected.trace, when) for when in found)
            ends = low, high
        return None if self._explorer.fit(ends) else say("fit.none")

    def undo(self) -> str | None:
        return None if self._explorer.undo() else say("undo.none")

    def redo(self) -> str | None:
        return None if self._explorer.redo() else say("redo.none")

    def step_next(self) -> str:
        return self._step(1)

    def step_previous(self) -> str:
        return self._step(-1)

    def _step(self, direction: int) -> str:
        if self._session.picture is not None:
            return change_steps(self._session, self._explorer, direction)
        if len(self._session.scene.traces) > 1:
            return self._rank(direction)
        steps = self._session.scene.steps()
        if not steps:
            return say("step.none")
        state = self._explorer.state
        at = next_in_time(np.array([start for start, _, _ in steps]), state.cursor, direction)
        if direction < 0 and at is not None and steps[at][1] > state.cursor:
            at = at - 1 if at else None  # the step that the cursor is in does not count
        if at is None:
            return say("step.last" if direction > 0 else "step.first")
        start, end, selected = steps[at]
        self._explorer.show(start, end)
        self._explorer.jump(start)
        name = printable(self._trace(selected.trace).name_of(selected.item))
        return say("step.of", name=name, n=at + 1, count=len(steps), length=duration_text(end - start))

    def _rank(self, direction: int) -> str:
        if not move_rank(self._explorer, direction):
            return say("rank.last" if direction > 0 else "rank.first")
        index = self._explorer.trace
        return say("rank.of", label=self._rank_name(index), n=index + 1, count=len(self._session.scene.traces))

    def align_start(self) -> str:
        return self._align("start")

    def align_end(self) -> str:
        return self._align("end")

    def _align(self, edge: Edge) -> str:
        found, selected, base = align(self._explorer, edge), self._explorer.state.selection, self._explorer.base
        if isinstance(found, str) or selected is None or base is None:
            return say(f"align.{found}")
        offset = self._session.scene.offsets[selected.trace]
        key, rank, other = f"align.{edge}", self._rank_name(selected.trace), self._rank_name(base.trace)
        return say(key, rank=rank, by=_signed(found), base=other, offset=_signed(offset))

    def base(self) -> str:
        if len(self._session.scene.traces) < 2:
            return say("align.one_rank")
        self._selected()
        if not mark_base(self._explorer) or self._explorer.base is None:
            return say("select.none")
        base = self._explorer.base
        name = brief(self._trace(base.trace).name_of(base.item), _LONGEST_NAME)
        return say("align.base", name=name, rank=self._rank_name(base.trace))

    def _rank_name(self, index: int) -> str:
        return rank_name(self._session.scene, index)


def _signed(ns: int) -> str:
    return ("+" if ns > 0 else "") + duration_text(ns)
