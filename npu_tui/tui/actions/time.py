"""Moving in time: zoom, pan, cursor, steps, undo."""

from __future__ import annotations

import numpy as np

from npu_tui.strings import say
from npu_tui.trace.text import printable
from npu_tui.trace.units import duration_text
from npu_tui.tui.actions.base import Base
from npu_tui.view.walk.along import next_in_time
from npu_tui.view.walk.follow import link_span

_ZOOM = 1.25
_ZOOM_FAST = 4.0
_PAN = 0.1
_PAN_FAST = 0.5


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
        ends = None if selected is None else link_span(self._session.scene.traces[selected.trace], selected.item)
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
        self._explorer.go_to(start)
        name = printable(self._trace(selected.trace).name_of(selected.item))
        return say("step.of", name=name, n=at + 1, count=len(steps), length=duration_text(end - start))

    def align_start(self) -> str:
        return say("align.one_rank")

    def align_end(self) -> str:
        return say("align.one_rank")

    def base(self) -> str:
        return say("align.one_rank")
