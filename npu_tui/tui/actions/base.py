"""What all commands work on."""

from __future__ import annotations

from npu_tui.strings import say
from npu_tui.trace.model import Trace
from npu_tui.tui.session import Session
from npu_tui.view.scene import Selected
from npu_tui.view.walk.explorer import Explorer


class Base:
    """Commands that walk ``session`` with ``explorer``.

    A method is called as its command. It returns what to tell the user, or None when the screen says it all.
    """

    def __init__(self, session: Session, explorer: Explorer) -> None:
        self._session = session
        self._explorer = explorer

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
