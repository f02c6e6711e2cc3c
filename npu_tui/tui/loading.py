"""Traces loaded in a thread while the screen is already there.

Nothing here imports Textual: the first picture of a trace is drawn while Textual is still being imported.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from threading import RLock, Thread
from typing import TYPE_CHECKING

from msgspec import Struct

from npu_tui.load.errors import InputError, Watcher
from npu_tui.load.load import Opening
from npu_tui.nearby import with_beside
from npu_tui.strings import say
from npu_tui.trace.folded_rows import DEEP, folded_row
from npu_tui.trace.message import Said, message
from npu_tui.trace.model import Trace
from npu_tui.trace.once import Cancelled

if TYPE_CHECKING:
    from npu_tui.analysis.thresholds import Thresholds
    from npu_tui.profile.profile import Profile
    from npu_tui.tui.session import Session


Make = Callable[[Sequence["Profile"]], "Session"]


class Advanced(Struct, frozen=True):
    """``done`` of ``total`` bytes (0: not known) of opening number ``at`` are read; ``figures`` say it in words."""

    at: int
    done: int
    total: int
    figures: str


class Early(Struct, frozen=True):
    """What is loaded so far can be explored."""

    session: Session


class Ended(Struct, frozen=True):
    """The loading ended with a session, an error, or None when it was cancelled."""

    result: Session | InputError | None


class Crashed(Struct, frozen=True):
    """The loading ended with an ``error`` of this program."""

    error: Exception


Heard = Advanced | Early | Ended | Crashed


class Loader:
    """Loads what ``openings`` name; ``make`` makes of their profiles, measured by ``thresholds``, a session.

    ``picture`` is called with the first trace that can be drawn, as soon as it is there, and with whether it is whole.
    """

    def __init__(
        self,
        openings: Sequence[Opening],
        thresholds: Thresholds | None = None,
        make: Make | None = None,
        picture: Callable[[Trace, bool], object] | None = None,
    ) -> None:
        self.openings = openings if make is not None else with_beside(openings)
        self._thresholds = thresholds
        self._make = make
        self._picture = picture
        self._lock = RLock()
        self._found = list[bool]()
        self._listener: Callable[[Heard], object] | None = None
        self._news: Heard | None = None
        self._cancelled = False
        self._begun = 0.0
        self._thread = Thread(target=self._run, name="loader", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._begun = time.monotonic()
        self._thread.start()

    def listen(self, listener: Callable[[Heard], object]) -> None:
        """Tell ``listener`` from now on, first of the last thing that has happened; it is called in any thread."""
        with self._lock:
            self._listener = listener
            if self._news is not None:
                listener(self._news)

    @property
    def news(self) -> Heard | None:
        """What has happened last."""
        return self._news

    @property
    def is_busy(self) -> bool:
        """Whether it still loads."""
        return self._thread.is_alive()

    def cancel(self, told: bool = True) -> None:
        """Stop loading; the listener is told so, or of nothing any more."""
        with self._lock:
            if told:
                self._tell(Ended(None))
            self._cancelled, self._listener = True, None

    def _tell(self, news: Heard) -> bool:
        with self._lock:
            if self._cancelled:
                return False
            if not (isinstance(news, Advanced) and isinstance(self._news, Early)):
                self._news = news
            if self._listener is not None:
                self._listener(news)
            return True

    def _run(self) -> None:
        profiles: list[Profile] = []

        def progress(done: int, total: int, events: int) -> bool:
            return self._tell(Advanced(len(profiles), done, total, self._figures(done, total, events)))

        result: Session | InputError | None
        try:
            for opening in self.openings:
                try:
                    profiles.append(self._profile(opening, progress))
                    self._found.append(opening.optional)
                except InputError as error:
                    if not opening.optional:
                        raise
                    profiles[0].trace.health.warnings.append(error.message)
            result = self._made(profiles)
        except Cancelled:
            result = None
        except InputError as error:
            result = error
        except Exception as error:  # it would end nothing but this thread
            self._tell(Crashed(error))
            return
        self._tell(Ended(result))

    def _made(self, profiles: Sequence[Profile]) -> Session:
        from npu_tui.tui.crossing import met
        from npu_tui.tui.session import make_session

        session = (self._make or make_session)(met(profiles, self._found) if any(self._found) else profiles)
        session.draw_ahead()
        return session

    def _profile(self, opening: Opening, progress: Callable[[int, int, int], bool]) -> Profile:
        """Load one of several."""
        found: list[Trace] = []
        early = self._early if len(self.openings) == 1 else None
        if early is not None and self._picture is not None and (sketch := opening.sketch()) is not None:
            self._draw(sketch, True)
        trace = opening.trace(Watcher(progress, early, lambda why: _note(found, why)))
        found.append(trace)
        _fold(trace)
        if trace.is_untimed:
            from npu_tui.tui.session import read_times_of

            read_times_of([trace])
        self._draw(trace, True)
        from npu_tui.profile.profile import Profile

        return Profile(trace, opening.source, self._thresholds)

    def _early(self, trace: Trace) -> None:
        _fold(trace)
        self._draw(trace, False)
        from npu_tui.profile.profile import Profile
        from npu_tui.tui.session import early_session

        session = early_session(Profile(trace, None, self._thresholds))
        session.draw_ahead()
        self._tell(Early(session))

    def _draw(self, trace: Trace, whole: bool) -> None:
        if self._picture is not None and len(self.openings) == 1:
            picture, self._picture = self._picture, None
            picture(trace, whole)

    def _figures(self, done: int, total: int, events: int) -> str:
        if not total:
            return say("loading.piped", done=done >> 20)
        if done >= total:
            return say("loading.building", events=f"{events:,}")
        seconds = max(time.monotonic() - self._begun, 0.01)
        left = f"{seconds / done * (total - done):.0f}" if done else "?"
        rate = f"{events / seconds:,.0f}"
        words = {"share": done / total, "events": f"{events:,}", "rate": rate, "left": left}
        return say("loading.progress", done=done >> 20, total=total >> 20, **words)


def _fold(trace: Trace) -> None:
    """Make the rows of lanes that start folded: those of a long trace take longer than a frame."""
    for lane in trace.lanes:
        if lane.rows > DEEP:
            folded_row(trace, lane)


def _note(found: list[Trace], why: Said) -> None:
    """Keep with the health of the trace that there is no parsed copy of it."""
    for trace in found:
        trace.health.warnings.append(message("cache.failed", why=why))
