"""The bottom panel, and what Enter and Esc do."""

from __future__ import annotations

from npu_tui.strings import say
from npu_tui.tui.actions.base import Base


class PanelActions(Base):
    """Commands of the group ``panel``."""

    def panel(self) -> None:
        self._screen.toggle_panel()

    def go(self) -> str | None:
        return None if self._explorer.select_under_cursor() else say("select.none")

    def escape(self) -> None:
        self._screen.escape()

    def focus_next(self) -> None:
        self._screen.focus_next()
