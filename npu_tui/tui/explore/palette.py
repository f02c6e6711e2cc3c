"""What the command palette offers: all commands, and all flags and lanes to go to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Protocol, cast

from rich.cells import cell_len
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.fuzzy import FuzzySearch

from npu_tui.trace.text import printable, shortened
from npu_tui.tui.keys.commands import Where, commands_of, keys_label

Entry = tuple[str, str, Callable[[], object]]
"""A name, what stands beside it, and what choosing it does."""


_EDGES = 7
"""What the edges of the palette and its scroll bar take."""

_LOOKED_AT = 400
"""Characters of a name that are compared with what is typed."""

_SEARCH = FuzzySearch()


def likeness(query: str, title: str) -> float:
    """How well ``title`` has the letters of ``query`` in their order, as Textual scores it; 0 where it does not.

    From each place of the first letter the others are taken where they come next. Textual tries all their
    combinations, and a name of few different letters has more of them than can ever be tried.
    """
    query, title = query.lower(), title[:_LOOKED_AT].lower()
    boost = 2.0 if query == title else 1.5 if query in title else 1.0
    best, start = 0.0, title.find(query[:1])
    while start >= 0:
        places = [start]
        for letter in query[1:]:
            at = title.find(letter, places[-1] + 1)
            if at < 0:
                return best
            places.append(at)
        best = max(best, boost * _SEARCH.score(title, places))
        start = title.find(query[:1], start + 1)
    return best


class Offering(Protocol):
    """A screen whose commands and places the palette offers."""

    where: Where

    def run_command(self, command: str) -> None:
        """Run the command called ``command``."""

    def why_not(self) -> Mapping[str, str]:
        """Why commands can do nothing just now."""

    def places(self) -> Iterable[Entry]:
        """Flags and lanes to go to."""


class CommandProvider(Provider):
    """Finds commands, flags and lanes by any part of their names."""

    async def search(self, query: str) -> Hits:
        """Commands and places that match ``query``."""
        for title, keys, run in (*self._commands(), *self._offering.places()):
            score = likeness(query, title)
            if score > 0:
                yield Hit(score, self._line(title, keys), run, text=title)

    async def discover(self) -> Hits:
        """All commands, before anything is typed."""
        for title, keys, run in self._commands():
            yield DiscoveryHit(self._line(title, keys), run, text=title)

    def _line(self, title: str, keys: str) -> Content:
        """A name, and on the right of the line what stands beside it."""
        room = self.app.size.width - _EDGES
        beside = shortened(printable(keys), max(room - cell_len(title) - 2, 8), ahead=True)
        gap = max(room - cell_len(title) - cell_len(beside), 2)
        return Content.assemble(title, " " * gap, (beside, "dim"))

    @property
    def _offering(self) -> Offering:
        return cast("Offering", self.screen)

    def _commands(self) -> Iterable[Entry]:
        reasons = self._offering.why_not()
        for command in commands_of(self._offering.where):
            if command.id != "palette":
                keys, reason = keys_label(command), reasons.get(command.id)
                words = f"{reason}   {keys}" if reason else keys
                yield command.title, words, partial(self._offering.run_command, command.id)
