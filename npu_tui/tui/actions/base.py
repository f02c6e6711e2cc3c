"""What all commands work on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npu_tui.strings import say
from npu_tui.trace.model import Trace
from npu_tui.view.scene import Selected

if TYPE_CHECKING:
    from npu_tui.tui.explore.screen import MainScreen


class Base:
    """The commands of ``screen``. A method returns what to tell the user, or None when the screen says it all."""

    def __init__(self, screen: MainScreen) -> None:
        self._screen = screen
        self._explorer = screen.explorer
        self._session = screen.session

    def _trace(self, index: int) -> Trace:
        return self._session.scene.traces[index]

    def _no_link(self, reason: str) -> str:
        """Why there is no link to follow: links come when the whole trace is there."""
        return say(reason if self._session.whole else "loading.links")

    def _selected(self) -> Selected | None:
        """The selected slice, else the one under the cursor, which is selected then."""
        if self._explorer.state.selection is None:
            self._explorer.select_under_cursor()
        return self._explorer.state.selection
