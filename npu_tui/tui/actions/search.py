"""Searching, and going from hit to hit."""

from __future__ import annotations

from npu_tui.strings import say
from npu_tui.trace.text import printable
from npu_tui.tui.actions.base import Base


class SearchActions(Base):
    """Commands of the group ``search``."""

    def search(self) -> None:
        self._screen.finder.prepare()
        self._screen.asking.search()

    def hit_next(self) -> str:
        return self._hit(1)

    def hit_previous(self) -> str:
        return self._hit(-1)

    def hits_only(self) -> str:
        state = self._explorer.state
        state.hits_only = not state.hits_only
        if not len(self._screen.hits):
            return say("hit.none")
        return say("search.filter_on" if state.hits_only else "search.filter_off")

    def _hit(self, direction: int) -> str:
        hits = self._screen.hits
        if not len(hits):
            return self._screen.finder.words() or say("hit.none")
        at = hits.next(self._explorer.state.selection, self._explorer.state.cursor, direction)
        found = hits.at(at)
        self._explorer.select(found)
        name = printable(self._session.scene.traces[found.trace].name_of(found.item))
        return say("hit.of", n=at + 1, count=len(hits.starts), name=name)
