"""Traces loaded in a thread while the screen is already there, and the first picture of one.

Nothing here imports Textual: the first picture of a trace is drawn while Textual is still being imported.
"""

from __future__ import annotations

import os
import sys
import termios
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Event, Lock, RLock, Thread
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from npu_tui.load.errors import InputError, Watcher
from npu_tui.load.load import Opening
from npu_tui.nearby import with_profile_beside
from npu_tui.strings import say
from npu_tui.trace.folded_rows import DEEP, folded_row
from npu_tui.trace.message import Said, message
from npu_tui.trace.model import Trace
from npu_tui.trace.once import Cancelled
from npu_tui.trace.text import printable, shortened
from npu_tui.tui.terminal.terminal import Guard, Terminal

if TYPE_CHECKING:
    from npu_tui.analysis.limits import Thresholds
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
        self.openings = openings if make is not None else with_profile_beside(openings)
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
        """Inform ``listener`` from now on, first of the last thing that has happened; it is called in any thread."""
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
        """Stop loading; the listener hears of that, or of nothing any more."""
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
        from npu_tui.tui.ranks import met
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


BARS_FROM = 30
"""Rows of the terminal from which there are bars above the lanes."""

HEADS_FROM = 30
"""Layers have rows of their own on terminals of at least this many rows."""

PANEL_FROM = 36
"""Rows of the terminal from which the panel is shown without being asked for."""

_VERDICT_ROWS = ((30, 2), (14, 1))  # from how many rows of the terminal on there are so many lines of the verdict

# Rows of the terminal from which there are two of them without the panel, for a first line that one would cut.
_WHOLE_FROM = 24

_PANEL_ROWS = ((45, 10), (36, 8))
_SMALL = 8
_ABOVE = 9
"""Rows for what stands above the lanes, three of them, and the bottom line."""


def verdict_rows(height: int) -> int:
    """The findings that the verdict names on a terminal of ``height`` rows, with a line for each."""
    return next((rows for least, rows in _VERDICT_ROWS if height >= least), 0)


def verdict_lines(height: int, with_panel: bool) -> int:
    """The lines that the verdict takes at most on a terminal of ``height`` rows."""
    return 2 if height >= _WHOLE_FROM and not with_panel else verdict_rows(height)


def panel_rows(height: int) -> int:
    """The rows of the panel on a terminal of ``height`` rows, while it is neither grown nor dragged."""
    rows = next((rows for least, rows in _PANEL_ROWS if height >= least), _SMALL)
    return min(rows, max(min(height // 2, height - _ABOVE), 3))


_TAKE = "\x1b[?1049h\x1b[?25l\x1b[?7l"
_NEVER = b"\0"


class FirstPicture:
    """Draws once as ``terminal`` can show it (asked for when it is needed), unless the application does so already."""

    def __init__(self, terminal: Callable[[], Terminal]) -> None:
        self._terminal = terminal
        self._lock = Lock()
        self._over = False
        self._before: list[Any] | None = None
        self.done = Event()

    def draw(self, trace: Trace, whole: bool) -> None:
        """Draw ``trace``, which may still be loading; it runs in the thread that loads."""
        try:
            if len(trace.slices):
                self._draw(trace, whole)
        finally:
            self.done.set()

    def _draw(self, trace: Trace, whole: bool) -> None:
        terminal = self._terminal()
        out = sys.__stderr__
        if out is None:
            return
        try:
            width, height = os.get_terminal_size(out.fileno())
        except OSError:
            return
        text = _picture(trace, whole, terminal, width, height) if width > 0 and height > 0 else ""
        with self._lock, suppress(OSError, termios.error):
            if text and not self._over:
                self._before = _quiet()
                Guard.pictured = True
                _write(out.fileno(), _TAKE + text)

    def end(self) -> bool:
        """The application draws from now on; returns whether the terminal shows its alternate screen already."""
        with self._lock:
            self._over = True
            if self._before is None:
                return False
            with suppress(termios.error):
                termios.tcsetattr(0, termios.TCSANOW, self._before)
            return True


def _quiet() -> list[Any]:
    """Keys do not show, and wait for the application; returns how the terminal was set. Ctrl+C still ends."""
    before = termios.tcgetattr(0)
    changed = termios.tcgetattr(0)
    changed[0] &= ~(termios.IXON | termios.IXOFF | termios.ICRNL | termios.INLCR | termios.IGNCR)  # as Textual does
    changed[3] &= ~(termios.ECHO | termios.ICANON)
    changed[6][termios.VSUSP] = _NEVER  # who stops the program now would see its picture and no shell
    termios.tcsetattr(0, termios.TCSANOW, changed)
    return before


def _write(number: int, text: str) -> None:
    data = text.encode("utf-8", "replace")
    while data:
        data = data[os.write(number, data) :]


def _picture(trace: Trace, whole: bool, terminal: Terminal, width: int, height: int) -> str:
    """What to write so that the lanes of ``trace``, a part or the ``whole``, stand where they will be drawn."""
    from npu_tui.view.ansi import Encoder, plain_text
    from npu_tui.view.bars import points
    from npu_tui.view.caches import lanes_top
    from npu_tui.view.explorer import Explorer
    from npu_tui.view.grid import Grid
    from npu_tui.view.margins import gutter_width
    from npu_tui.view.painter import Painter
    from npu_tui.view.palette import Ink
    from npu_tui.view.scene import Scene

    scene = Scene.plain([trace])
    with_panel = height >= PANEL_FROM
    top = 1 + verdict_lines(height, with_panel)
    room = max(height - top - 1 - (panel_rows(height) if with_panel else 0), 1)
    columns, below = max(width - gutter_width(width, scene.has_holders), 1), max(room - lanes_top(room, scene), 1)
    explorer = Explorer(scene, columns, below)
    explorer.resize(columns, below, height >= HEADS_FROM)
    lanes = Painter(scene).compose(explorer.rows, explorer.state, width, room).grid
    grid = Grid.blank(height, width, Ink.TEXT, Ink.LANE)
    # Without a rank it may be a service or a snapshot as well.
    whose = "" if trace.rank is None else f"{say('header.rank', rank=trace.rank)}  "
    path = shortened(printable(trace.path), max(width - len(whose) - 6, 1), ahead=True)
    grid.write(0, 1, points(plain_text(whose + path, terminal.glyphs)), Ink.DIM)
    if top > 1:
        said = say("findings.examining") if whole else say("loading.first", span=trace.end)
        grid.write(1, 1, points(plain_text(said, terminal.glyphs)), Ink.DIM)
    for plane, drawn in ((grid.char, lanes.char), (grid.fg, lanes.fg), (grid.bg, lanes.bg), (grid.attr, lanes.attr)):
        plane[top : top + room] = drawn
    encoder = Encoder(terminal.palette, terminal.depth, terminal.glyphs)
    rows = encoder.encode(encoder.prepared(grid))
    return "".join(f"\x1b[{y};1H{row}" for y, row in enumerate(rows, 1))
