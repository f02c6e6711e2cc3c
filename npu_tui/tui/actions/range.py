"""Marking a range of time."""

from __future__ import annotations

from npu_tui.strings import say
from npu_tui.trace.units import exact_text
from npu_tui.tui.actions.base import Base


class RangeActions(Base):
    """Commands of the group ``range``."""

    def range_selection(self) -> str | None:
        if not self._explorer.mark_selection():
            return say("fit.none")
        self._screen.open_tab("range", unfold=False)
        return None

    def range_clear(self) -> None:
        self._explorer.anchor = None
        self._explorer.state.range = None

    def range_mark(self) -> str | None:
        self._explorer.mark()
        if self._explorer.anchor is not None:
            return say("range.begun", start=exact_text(self._explorer.anchor))
        self._screen.open_tab("range", unfold=False)
        return None

    def range_zoom(self) -> str | None:
        return None if self._explorer.zoom_to_range() else say("range.zoom_none")
