"""Moving over rows; folding, pinning and hiding lanes."""

from __future__ import annotations

from npu_tui.strings import say
from npu_tui.trace.text import printable
from npu_tui.tui.actions.base import Base


class RowActions(Base):
    """Commands of the group ``rows``."""

    def row_up(self) -> None:
        self._explorer.move_row(-1)

    def row_down(self) -> None:
        self._explorer.move_row(1)

    def layer_up(self) -> None:
        self._explorer.move_layer(-1)

    def layer_down(self) -> None:
        self._explorer.move_layer(1)

    def row_first(self) -> None:
        self._explorer.move_row(-len(self._explorer.rows))

    def row_last(self) -> None:
        self._explorer.move_row(len(self._explorer.rows))

    def fold(self) -> str | None:
        return None if self._explorer.toggle_fold() else say("fold.none")

    def pin(self) -> str:
        row = self._explorer.focused
        pinned = self._explorer.list.toggle_pin()
        if row is None or pinned is None:
            return say("rows.no_lane")
        return say("rows.pinned" if pinned else "rows.unpinned", name=printable(row.name))

    def hide(self) -> str:
        row = self._explorer.focused
        if row is None or not self._explorer.list.hide():
            return say("rows.hide_none")
        return say("rows.hide", name=printable(row.name))

    def show_hidden(self) -> str:
        count = self._explorer.list.show_hidden()
        return say("rows.shown", count=count) if count else say("rows.shown_none")

    def idle(self) -> str:
        return say("rows.idle_away" if self._explorer.list.toggle_idle() else "rows.idle_shown")
