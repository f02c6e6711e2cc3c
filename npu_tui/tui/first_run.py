"""The line that tells a new user what to press first; it goes away once that is done."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from npu_tui.strings import say
from npu_tui.tui.commands import BY_ID, key_label
from npu_tui.tui.header import StatusLine
from npu_tui.tui.session import Session

_LEADS = ("finding_next", "starved_next")


class FirstRun:
    """``seen`` is the file that remembers that the line has done its work; without one there is no line."""

    def __init__(self, seen: Path | None) -> None:
        self._seen = seen
        self._line: StatusLine | None = None

    def show(self, line: StatusLine, session: Session) -> None:
        """Put the line in place of the keys."""
        if self._seen is None or self._seen.exists():
            return
        keys = {name: BY_ID[name].keys for name in (*_LEADS, "help")}
        if not all(keys.values()):
            return
        lead = "starved" if session.starved else "finding"
        first = key_label(keys[f"{lead}_next"][0])
        self._line = line
        line.hint = say(f"first.{lead}", key=first, count=len(session.starved), help=key_label(keys["help"][0]))
        line.show_keys(True)

    def used(self, command: str) -> None:
        """Take the line away once ``command`` was what it leads to, or the user sends it away."""
        if self._line is None or command not in (*_LEADS, "escape", "help"):
            return
        self._line.hint = ""
        self._line = None
        if command in _LEADS and self._seen is not None:
            with suppress(OSError):
                self._seen.parent.mkdir(parents=True, exist_ok=True)
                self._seen.touch()
