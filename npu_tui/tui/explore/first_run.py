"""The line that tells a new user what to press first; it goes away once that is done."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from npu_tui.strings import say
from npu_tui.tui.session import Session
from npu_tui.tui.widgets.header import StatusLine

_LEADS = ("finding_next", "starved_next")


class FirstRun:
    """``seen`` is the file that remembers that the line has done its work."""

    def __init__(self, seen: Path) -> None:
        self._seen = seen
        self._line: StatusLine | None = None

    def show(self, line: StatusLine, session: Session) -> None:
        """Put the line in place of the keys."""
        if os.path.exists(self._seen):  # False where it may not be looked for
            return
        starved = sum(len(profile.starved) for profile in session.profiles)
        lead = "starved" if starved else "finding"
        self._line = line
        line.leads = [say(f"first.{form}", count=starved) for form in (lead, f"{lead}.short")]
        line.show_keys(True)

    def used(self, command: str) -> None:
        """Take the line away once ``command`` was what it leads to, or the user sends it away."""
        if self._line is None or command not in (*_LEADS, "escape", "help"):
            return
        self._line.leads = []
        self._line = None
        if command in _LEADS:
            with suppress(OSError):
                self._seen.parent.mkdir(parents=True, exist_ok=True)
                self._seen.touch()
