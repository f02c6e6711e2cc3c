"""Searching, and going from hit to hit."""

from __future__ import annotations

from npu_tui.strings import say
from npu_tui.trace.text import printable
from npu_tui.tui.actions.base import Base
from npu_tui.tui.explore.finder import Finder
from npu_tui.tui.session import Session
from npu_tui.tui.widgets.prompt import Prompt
from npu_tui.view.walk.explorer import Explorer


class SearchActions(Base):
    """Commands of the group ``search``: ``prompt`` asks what ``finder`` looks for."""

    def __init__(self, session: Session, explorer: Explorer, finder: Finder, prompt: Prompt) -> None:
        super().__init__(session, explorer)
        self._finder = finder
        self._prompt = prompt

    def search(self) -> None:
        self._finder.prepare()
        self._prompt.open("search", hint=say("search.hint"))

    def hit_next(self) -> str:
        return self._hit(1)

    def hit_previous(self) -> str:
        return self._hit(-1)

    def hits_only(self) -> str:
        state = self._explorer.state
        state.hits_only = not state.hits_only
        if not len(self._finder.hits):
            return say("hit.none")
        return say("search.filter_on" if state.hits_only else "search.filter_off")

    def _hit(self, direction: int) -> str:
        hits = self._finder.hits
        if not len(hits):
            return self._finder.words() or say("hit.none")
        at = hits.next(self._explorer.state.selection, self._explorer.state.cursor, direction)
        found = hits.at(at)
        self._explorer.select(found)
        name = printable(self._session.scene.traces[found.trace].name_of(found.item))
        return say("hit.of", n=at + 1, count=len(hits.starts), name=name)
