"""What a screen of traces learns while the user looks at them: times, findings, critical paths, curves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.worker import get_current_worker

from npu_tui.rules.model import Findings
from npu_tui.strings import words
from npu_tui.tui.contents import Contents
from npu_tui.tui.head import Head, HeadTimes, examined
from npu_tui.tui.heads import ComparedHead
from npu_tui.tui.loading import PANEL_FROM
from npu_tui.tui.panel_screen import PanelScreen
from npu_tui.tui.session import Session
from npu_tui.tui.timeline import Timeline
from npu_tui.view.explorer import Explorer
from npu_tui.view.start import Start

if TYPE_CHECKING:
    from npu_tui.profile.path_lanes import ShownPath


class LearningScreen(PanelScreen[Timeline]):
    """A screen of the traces of ``session``; what takes long of them is computed in a thread, which hands it over."""

    head: Head | ComparedHead
    session: Session
    explorer: Explorer
    contents: Contents
    _start: Start | None

    def _examine(self, session: Session) -> None:
        """Compute in a thread what takes long of ``session``: times, findings, then curves of memory and CPU."""
        self.call_later(self.tell, "   ".join(words(each) for profile in session.profiles for each in profile.left_out))
        for index, made in examined(session):
            if get_current_worker().is_cancelled:
                return
            self.call_later(self.learn, session, index, made)

    def learn(self, session: Session, index: int, made: HeadTimes | Findings | list[ShownPath] | None) -> None:
        """Show what was ``made`` of trace number ``index`` of ``session``; None: memory and CPU have been read."""
        if session is not self.session:
            return
        if isinstance(made, Findings):
            self._learn_findings(index, made)
        elif isinstance(made, list):
            self._learn_paths(index, made)
        elif made is not None and isinstance(self.head, Head):
            self.head.learn(index, made)
        elif made is None and session.remember(index):
            self.explorer.widen()
            if session.is_tables and self.panel.is_full and self.app.size.height >= PANEL_FROM:
                self.panel.grow("normal")
            self.drawing.changed()
        self.show_head()

    def _learn_paths(self, index: int, paths: list[ShownPath]) -> None:
        """Show the lanes of critical paths above the layers, and what else tells of them."""
        if self.session.take_paths(index, paths):
            self.explorer.take_in()
        self.contents.fill()
        self.drawing.changed()

    def _learn_findings(self, index: int, findings: Findings) -> None:
        """With the first findings, go to the one that the user wants to begin with."""
        session = self.session
        session.learn(index, findings)
        self.head.examined += 1
        if self.head.examined == len(session.profiles) and not any(profile.starved for profile in session.profiles):
            self._line.refuse(("starved_next",))
        if (
            self.first_run is not None
            and not index
            and [finding.cls for finding in findings.findings[:1]] == ["dispatch"]
        ):
            self.first_run.lead_to(sum(len(profile.starved) for profile in session.profiles))
        self.contents.fill()
        if self.head.examined == 1 and self._start is not None and self._start.finding:
            self.tell(self.contents.show_finding(self._start.finding))
        self.tell(self.contents.pay())
        self.drawing.changed()
