"""What the command palette offers: all commands, and all flags and lanes to go to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.markup import escape

from npu_tui.tui.explore.disabled import why_not
from npu_tui.tui.keys.commands import COMMANDS, keys_label

if TYPE_CHECKING:
    from npu_tui.tui.explore.screen import MainScreen

Entry = tuple[str, str, Callable[[], object]]


class CommandProvider(Provider):
    """Finds commands, flags and lanes by any part of their names."""

    async def search(self, query: str) -> Hits:
        """Commands and lanes that match ``query``."""
        matcher = self.matcher(query)
        for title, keys, run in self._entries():
            score = matcher.match(title)
            if score > 0:
                yield Hit(score, Content(title), run, text=title, help=escape(keys))

    async def discover(self) -> Hits:
        """All commands, before anything is typed."""
        for title, keys, run in self._commands():
            yield DiscoveryHit(Content(title), run, text=title, help=escape(keys))

    def _commands(self) -> Iterable[Entry]:
        main = cast("MainScreen", self.screen)
        reasons = why_not(main)
        for command in COMMANDS:
            if command.id != "palette":
                keys, reason = keys_label(command), reasons.get(command.id)
                words = f"{keys}   {reason}" if reason else keys
                yield command.title, words, partial(main.run_command, command.id)

    def _entries(self) -> Iterable[Entry]:
        main = cast("MainScreen", self.screen)
        yield from self._commands()
        for flag in main.notes.flags.all:
            yield flag.name, flag.when, partial(main.notes.go_to, flag)
        for name, row in main.lane_names():
            yield name, "", partial(main.go_to_lane, row)
