"""Prompts, sheets and leaving."""

from __future__ import annotations

from npu_tui.tui.actions.base import Base


class ProgramActions(Base):
    """Commands of the group ``program``."""

    def command(self) -> None:
        self._screen.asking.command()

    def palette(self) -> None:
        self._screen.app.action_command_palette()

    def health(self) -> None:
        self._screen.show_health()

    def help(self) -> None:
        self._screen.show_help()

    def redraw(self) -> None:
        self._screen.redraw()

    def quit(self) -> None:
        self._screen.leave()
