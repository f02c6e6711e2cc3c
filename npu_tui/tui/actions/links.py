"""Following links."""

from __future__ import annotations

from npu_tui.analysis.launches.chain import chain_of
from npu_tui.strings import say
from npu_tui.trace.text import printable
from npu_tui.tui.actions.base import Base
from npu_tui.tui.explore.contents import Contents
from npu_tui.tui.session import Session
from npu_tui.view.scene import Selected
from npu_tui.view.walk.explorer import Explorer
from npu_tui.view.walk.follow import back, forward, siblings
from npu_tui.view.walk.tasks import task_beside


class LinkActions(Base):
    """Commands of the group ``links``."""

    def __init__(self, session: Session, explorer: Explorer, contents: Contents) -> None:
        super().__init__(session, explorer)
        self._contents = contents

    def link_forward(self) -> str | None:
        return self._follow(True)

    def link_back(self) -> str | None:
        return self._follow(False)

    def _follow(self, onward: bool) -> str | None:
        state = self._explorer.state
        missing = self._no_link("link.none" if onward else "link.none_back")
        if state.selection is None and not self._explorer.select_under_cursor():
            return missing
        selected = state.selection
        if selected is None:
            return missing
        trace = self._session.scene.traces[selected.trace]
        way = forward if onward else back
        item = way(trace, selected.item, state.link_category)
        if item is None:
            found = chain_of(trace, selected.item)
            item = None if found is None else found.beside(selected.item, 1 if onward else -1)
        if item is None:
            item = task_beside(trace, selected.item, onward)
        if item is None:
            return missing
        self._explorer.select(Selected(selected.trace, item))
        return None

    def chain(self) -> str | None:
        selected = self._explorer.state.selection
        if selected is None:
            return say("fit.none")
        found = chain_of(self._session.scene.traces[selected.trace], selected.item)
        if found is None:
            return self._no_link("chain.none")
        kernel = Selected(selected.trace, found.kernel)
        if self._explorer.list.only is not None and found.holds(selected.item):
            self._explorer.list.show_only(None)
            self._explorer.select(kernel)
            return say("chain.left")
        self._explorer.select(kernel)
        stages = {stage.item for stage in found.stages if stage.item >= 0} | {found.kernel}
        self._explorer.show_alone(Selected(selected.trace, item) for item in stages)
        start, end = (self._session.scene.to_scene(selected.trace, when) for when in (found.start, found.end))
        self._explorer.show(start, end, 0.05)
        self._contents.open_tab("details")
        return None if found.holds(selected.item) else say("chain.first")

    def link_mode(self) -> str:
        return say(f"mode.{self._explorer.cycle_links()}")

    def sibling_next(self) -> str:
        return self._sibling(1)

    def sibling_previous(self) -> str:
        return self._sibling(-1)

    def _sibling(self, direction: int) -> str:
        selected = self._selected()
        if selected is None:
            return say("select.none")
        trace = self._trace(selected.trace)
        found = siblings(trace, selected.item, self._explorer.state.link_category)
        if len(found) < 2:
            return self._no_link("sibling.none")
        if selected.item in found:
            at = found.index(selected.item) + direction
        else:
            at = 0 if direction > 0 else len(found) - 1
        if not 0 <= at < len(found):
            return say("sibling.last", count=len(found))
        self._explorer.select(Selected(selected.trace, found[at]))
        return say("sibling.of", n=at + 1, count=len(found), name=printable(trace.name_of(found[at])))
