"""Marking a range of time."""

from __future__ import annotations

from npu_tui.strings import say
from npu_tui.trace.text import brief
from npu_tui.trace.units import duration_text, exact_text
from npu_tui.tui.actions.base import Base
from npu_tui.tui.explore.contents import Contents
from npu_tui.tui.session import Session
from npu_tui.view.walk.along import gap_beside
from npu_tui.view.walk.explorer import Explorer

_LONGEST_NAME = 40


class RangeActions(Base):
    """Commands of the group ``range``."""

    def __init__(self, session: Session, explorer: Explorer, contents: Contents) -> None:
        super().__init__(session, explorer)
        self._contents = contents

    def range_selection(self) -> str | None:
        if not self._explorer.mark_selection():
            return say("fit.none")
        return self._told()

    def range_clear(self) -> None:
        self._explorer.anchor = None
        self._explorer.state.range = None

    def range_mark(self) -> str | None:
        self._explorer.mark()
        if self._explorer.anchor is not None:
            return say("range.begun", start=exact_text(self._explorer.anchor))
        return self._told()

    def range_gap(self) -> str | None:
        selected = self._selected()
        if selected is None:
            return say("select.none")
        trace = self._trace(selected.trace)
        before, behind = (gap_beside(trace, selected.item, direction) for direction in (-1, 1))
        gap = before
        if gap is None or (behind is not None and self._explorer.state.range == self._seen(selected.trace, gap)):
            gap = behind
        if gap is None:
            return say("range.no_gap")
        beyond = gap[2]
        start, end = self._seen(selected.trace, gap)
        if start == end:
            key = "range.no_gap_before" if gap is before else "range.no_gap_behind"
            self._explorer.set_range(start, end)  # so that this key goes on to the other side
            return say(key, name=self._name(selected.trace, beyond))
        self._explorer.set_range(start, end)
        self._contents.open_tab("range", unfold=False)
        first, second = (beyond, selected.item) if gap is before else (selected.item, beyond)
        names = {"first": self._name(selected.trace, first), "second": self._name(selected.trace, second)}
        return say("range.marked_between", length=duration_text(end - start), **names)

    def _seen(self, trace: int, gap: tuple[int, int, int]) -> tuple[int, int]:
        """Start and end of a gap on the scene's clock."""
        return self._session.scene.to_scene(trace, gap[0]), self._session.scene.to_scene(trace, gap[1])

    def range_zoom(self) -> str | None:
        return None if self._explorer.zoom_to_range() else say("range.zoom_none")

    def _told(self) -> str | None:
        """How long the range is; its tab is open after the key that shows the panel."""
        self._contents.open_tab("range", unfold=False)
        marked = self._explorer.state.range
        if marked is None:
            return None
        start, end = marked
        return say("range.marked", length=duration_text(end - start), start=exact_text(start), end=exact_text(end))

    def _name(self, trace: int, item: int) -> str:
        return brief(self._trace(trace).name_of(item), _LONGEST_NAME)
