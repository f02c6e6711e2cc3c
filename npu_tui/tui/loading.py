"""The screen while a trace loads: how far it is, Esc to stop, and the lanes as soon as some are there."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
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
from npu_tui.ingest.load import Progress
from npu_tui.ingest.opening import Opening
from npu_tui.profile.profile import Profile
from npu_tui.strings import say
from npu_tui.trace.message import Said, message
from npu_tui.trace.model import Trace
from npu_tui.trace.text import printable
from npu_tui.tui.session import Session, make_session


class LoadingScreen(Screen[None]):
    """Loads what ``openings`` name in a thread and posts what there is to explore; early where it is one large file."""

    DEFAULT_CSS = """
    LoadingScreen { align: center middle; }
    LoadingScreen Vertical { width: 64; height: auto; }
    LoadingScreen ProgressBar { width: 100%; margin: 1 0; }
    LoadingScreen Bar { width: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [("escape", "cancel", "")]

    class Advanced(Message):
        """``done`` of ``total`` bytes (0: not known) of opening number ``at`` are read; ``figures`` say it in words."""

        def __init__(self, at: int, done: int, total: int, figures: str) -> None:
            self.at = at
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

    def __init__(
        self,
        openings: Sequence[Opening],
        limits: Thresholds | None = None,
        make: Callable[[Sequence[Profile]], Session] = make_session,
    ) -> None:
        """``make`` makes of the loaded profiles what is explored."""
        super().__init__()
        self._make = make
        self._openings = openings
        self._title = Static(Text(self._title_of(0)))
        self._limits = limits
        self._begun = 0.0
        self._bar = ProgressBar(total=100, show_eta=False)
        self._shown = Static(id="figures")

    def compose(self) -> ComposeResult:
        """Title, bar, figures."""
        with Vertical():
            yield self._title
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

        profiles: list[Profile] = []

        def progress(done: int, total: int, events: int) -> bool:
            return post(self.Advanced(len(profiles), done, total, self._figures(done, total, events)))

        def early(trace: Trace) -> None:
            post(self.Early(make_session([Profile(trace, None, self._limits)], False)))

        result: Session | InputError | None
        try:
            for opening in self._openings:
                profiles.append(self._profile(opening, progress, early if len(self._openings) == 1 else None))
            result = self._make(profiles)
        except Cancelled:
            result = None
        except InputError as error:
            result = error
        post(self.Ended(result))

    def on_loading_screen_advanced(self, event: Advanced) -> None:
        """Show how far it is."""
        self._title.update(self._title_of(event.at))
        self._bar.update(total=event.total or None, progress=event.done)
        self._shown.update(event.figures)

    def _profile(self, opening: Opening, progress: Progress, early: Callable[[Trace], None] | None) -> Profile:
        """Load one of several."""
        found: list[Trace] = []
        trace = opening.trace(progress, lambda why: _note(found, why), early)
        found.append(trace)
        return Profile(trace, opening.source, self._limits)

    def _title_of(self, at: int) -> str:
        """What is loading while opening number ``at`` is."""
        path, count = printable(str(self._openings[at].path)), len(self._openings)
        if count < 2:
            return say("loading.title", path=path)
        return say("loading.title_of", path=path, n=at + 1, count=count)

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


def _note(found: list[Trace], why: Said) -> None:
    """Keep with the health of the trace that there is no parsed copy of it."""
    for trace in found:
        trace.health.warnings.append(message("cache.failed", why=why))
