"""The screen while a trace loads: how far it is, Esc to stop, and the lanes as soon as some are there."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import Screen
from textual.widgets import ProgressBar, Static
from textual.worker import Worker, get_current_worker

from npu_tui.analysis.thresholds import Thresholds
from npu_tui.ingest.errors import Cancelled, InputError
from npu_tui.ingest.opening import Opening
from npu_tui.profile.profile import Profile
from npu_tui.strings import say
from npu_tui.trace.model import Trace
from npu_tui.trace.text import printable
from npu_tui.tui.explore.screen import MainScreen
from npu_tui.tui.explore.session import Session, make_session

Loaded = Callable[["Session | InputError | None"], None]
"""Told how the loading ended: with the session that is on screen, the error, or None when cancelled."""


class LoadingScreen(Screen[None]):
    """Loads what ``opening`` names in a thread and puts the main screen above itself, early where the file is large."""

    DEFAULT_CSS = """
    LoadingScreen { align: center middle; }
    LoadingScreen Vertical { width: 64; height: auto; }
    LoadingScreen ProgressBar { width: 100%; margin: 1 0; }
    LoadingScreen Bar { width: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [("escape", "cancel", "")]

    def __init__(
        self,
        opening: Opening,
        explored: Callable[[Session], MainScreen],
        loaded: Loaded,
        limits: Thresholds | None = None,
    ) -> None:
        super().__init__()
        self._opening = opening
        self._explored = explored
        self._loaded = loaded
        self._limits = limits
        self._main: MainScreen | None = None
        self._begun = 0.0
        self._ended = False

    def compose(self) -> ComposeResult:
        """Title, bar, figures."""
        with Vertical():
            yield Static(Text(say("loading.title", path=printable(str(self._opening.path)))))
            yield ProgressBar(total=100, show_eta=False)
            yield Static(id="figures")
            yield Static(Text(say("loading.cancel"), style="dim"))

    def on_mount(self) -> None:
        """Begin to load."""
        self._begun = time.monotonic()
        self._load()

    @work(thread=True, exclusive=True)
    def _load(self) -> None:
        worker = get_current_worker()

        def progress(done: int, total: int, events: int) -> bool:
            if not worker.is_cancelled:
                self.app.call_from_thread(self._advance, done, total, events)
            return not worker.is_cancelled

        def early(trace: Trace) -> None:
            session = make_session([Profile(trace, None, self._limits)], False)
            if not worker.is_cancelled:
                self.app.call_from_thread(self._show, session)

        result: Session | InputError | None
        trace = None
        try:
            trace = self._opening.trace(progress, lambda why: _note(trace, why), early)
            result = make_session([Profile(trace, self._opening.source, self._limits)])
        except Cancelled:
            result = None
        except InputError as error:
            result = error
        self._tell_end(worker, result)

    def _tell_end(self, worker: Worker[None], result: Session | InputError | None) -> None:
        if not worker.is_cancelled:
            self.app.call_from_thread(self._end, result)

    def _advance(self, done: int, total: int, events: int) -> None:
        if self._ended:
            return
        figures = self._figures(done, total, events)
        if self._main is not None:
            self._main.call_later(self._main.show_loading, say("loading.early", figures=figures))
            return
        self.query_one(ProgressBar).update(total=total or None, progress=done)
        self.query_one("#figures", Static).update(figures)

    def _figures(self, done: int, total: int, events: int) -> str:
        if not total:
            return say("loading.piped", done=done >> 20)
        if done >= total:
            return say("loading.building", events=f"{events:,}")
        seconds = max(time.monotonic() - self._begun, 0.01)
        left = f"{seconds / done * (total - done):.0f}" if done else "?"
        rate = f"{events / seconds:,.0f}"
        return say("loading.progress", done=done >> 20, total=total >> 20, events=f"{events:,}", rate=rate, left=left)

    def _show(self, session: Session) -> None:
        """Explore ``session``, from where the user is if another one is on screen."""
        if self._ended:
            return
        if self._main is None:
            self._main = self._explored(session)
            self._main.cancel = self.action_cancel
            self.app.push_screen(self._main)
        else:
            self._main.call_later(self._main.replace_session, session)

    def _end(self, result: Session | InputError | None) -> None:
        if self._ended:
            return
        if isinstance(result, Session):
            early = self._main
            self._show(result)
            if self._main is not None:
                self._main.cancel = None  # before it looks through the trace
            if early is not None:
                early.call_later(early.show_loading, "")
        self._ended = True
        self._loaded(result)

    def action_cancel(self) -> None:
        """Stop loading."""
        self.workers.cancel_all()
        self._end(None)


def _note(trace: Trace | None, why: str) -> None:
    """Keep with the health of ``trace`` that there is no parsed copy of it."""
    if trace is not None:
        trace.health.warnings.append(say("cache.failed", why=why))
