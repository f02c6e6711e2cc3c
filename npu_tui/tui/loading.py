"""The screen while a trace loads: how far it is, Esc to stop, and the lanes as soon as some are there."""

from __future__ import annotations

import time
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.screen import Screen
from textual.widgets import ProgressBar, Static
from textual.worker import get_current_worker

from npu_tui.analysis.thresholds import Thresholds
from npu_tui.ingest.errors import Cancelled, InputError
from npu_tui.ingest.opening import Opening
from npu_tui.profile.profile import Profile
from npu_tui.strings import say
from npu_tui.trace.model import Trace
from npu_tui.trace.text import printable
from npu_tui.tui.session import Session, make_session


class LoadingScreen(Screen[None]):
    """Loads what ``opening`` names in a thread and posts what there is to explore, early where the file is large."""

    DEFAULT_CSS = """
    LoadingScreen { align: center middle; }
    LoadingScreen Vertical { width: 64; height: auto; }
    LoadingScreen ProgressBar { width: 100%; margin: 1 0; }
    LoadingScreen Bar { width: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [("escape", "cancel", "")]

    class Advanced(Message):
        """``done`` of ``total`` bytes (0: not known) are read; ``figures`` say it in words."""

        def __init__(self, done: int, total: int, figures: str) -> None:
            self.done = done
            self.total = total
            self.figures = figures
            super().__init__()

    class Early(Message):
        """What is loaded so far can be explored."""

        def __init__(self, session: Session) -> None:
            self.session = session
            super().__init__()

    class Ended(Message):
        """The loading ended with a session, an error, or None when it was cancelled."""

        def __init__(self, result: Session | InputError | None) -> None:
            self.result = result
            super().__init__()

    def __init__(self, opening: Opening, limits: Thresholds | None = None) -> None:
        super().__init__()
        self._opening = opening
        self._limits = limits
        self._begun = 0.0
        self._bar = ProgressBar(total=100, show_eta=False)
        self._shown = Static(id="figures")

    def compose(self) -> ComposeResult:
        """Title, bar, figures."""
        with Vertical():
            yield Static(Text(say("loading.title", path=printable(str(self._opening.path)))))
            yield self._bar
            yield self._shown
            yield Static(Text(say("loading.cancel"), style="dim"))

    def on_mount(self) -> None:
        """Begin to load."""
        self._begun = time.monotonic()
        self._load()

    @work(thread=True, exclusive=True)
    def _load(self) -> None:
        worker = get_current_worker()

        def post(message: Message) -> bool:
            if not worker.is_cancelled:
                self.post_message(message)
            return not worker.is_cancelled

        def progress(done: int, total: int, events: int) -> bool:
            return post(self.Advanced(done, total, self._figures(done, total, events)))

        def early(trace: Trace) -> None:
            post(self.Early(make_session([Profile(trace, None, self._limits)], False)))

        result: Session | InputError | None
        trace = None
        try:
            trace = self._opening.trace(progress, lambda why: _note(trace, why), early)
            result = make_session([Profile(trace, self._opening.source, self._limits)])
        except Cancelled:
            result = None
        except InputError as error:
            result = error
        post(self.Ended(result))

    def on_loading_screen_advanced(self, event: Advanced) -> None:
        """Show how far it is."""
        self._bar.update(total=event.total or None, progress=event.done)
        self._shown.update(event.figures)

    def _figures(self, done: int, total: int, events: int) -> str:
        if not total:
            return say("loading.piped", done=done >> 20)
        if done >= total:
            return say("loading.building", events=f"{events:,}")
        seconds = max(time.monotonic() - self._begun, 0.01)
        left = f"{seconds / done * (total - done):.0f}" if done else "?"
        rate = f"{events / seconds:,.0f}"
        return say("loading.progress", done=done >> 20, total=total >> 20, events=f"{events:,}", rate=rate, left=left)

    def action_cancel(self) -> None:
        """Stop loading."""
        self.workers.cancel_all()
        self.post_message(self.Ended(None))


def _note(trace: Trace | None, why: str) -> None:
    """Keep with the health of ``trace`` that there is no parsed copy of it."""
    if trace is not None:
        trace.health.warnings.append(say("cache.failed", why=why))
