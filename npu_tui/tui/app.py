"""The Textual application: which screen opens, what the terminal can do, threads that post messages."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from msgspec.structs import replace
from rich.console import Console, RenderableType
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.filter import ANSIToTruecolor, LineFilter, Monochrome, NoColor
from textual.screen import Screen
from textual.widgets import ProgressBar, Static

from npu_tui.analysis.limits import Thresholds
from npu_tui.load.errors import InputError, SeveralError
from npu_tui.load.load import Opening, opening_of
from npu_tui.strings import say, speak, words
from npu_tui.trace.once import Cancelled
from npu_tui.trace.text import printable
from npu_tui.tui.keymap import quit_bindings
from npu_tui.tui.loading import Advanced, Crashed, Early, Ended, Heard, Loader, Make
from npu_tui.tui.panel_screen import PanelScreen, Program
from npu_tui.tui.recordings import Recordings, holds_several, side_by_side
from npu_tui.tui.screen import MainScreen
from npu_tui.tui.session import Session, settle
from npu_tui.tui.terminal.frames import THEMES, Repaint, Unnumbered
from npu_tui.tui.terminal.internals import after, driver, events_of
from npu_tui.tui.terminal.terminal import Terminal, palette_named, to_tmux
from npu_tui.view.start import Start

if TYPE_CHECKING:
    from npu_tui.jobs.blame import BlamedCollective
    from npu_tui.record.outputs import RawProfile
    from npu_tui.record.recording import Recorder
    from npu_tui.tui.job_screen import JobScreen
    from npu_tui.tui.picker import PickerScreen


_NICE = 10  # where there are fewer processors than threads, a frame that is due would wait for its turn, 4 ms each time


class BackgroundThreads(ThreadPoolExecutor):
    """The threads of the event loop, of lower priority than its own.

    What still runs when the loop ends is not waited for.
    """

    def __init__(self) -> None:
        super().__init__(thread_name_prefix="beside", initializer=_give_way)
        self._under_way: set[Future[Any]] = set()

    def submit(self, work: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        """Run ``work`` in a thread."""
        future = super().submit(work, *args, **named)
        self._under_way.add(future)
        future.add_done_callback(self._under_way.discard)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more work; ``wait`` is what the event loop asks for, and not granted."""
        super().shutdown(wait=False, cancel_futures=True)

    @property
    def is_busy(self) -> bool:
        """Whether something still runs."""
        return bool(self._under_way)


def _give_way() -> None:
    """Lower the priority of this thread and of those it will start; only Linux has priorities of threads."""
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), os.getpriority(os.PRIO_PROCESS, 0) + _NICE)


_DEBUG = "NPU_TUI_DEBUG"
_LAST_ANSWER_SECONDS = 0.4
_LAST_ANSWERS = 20
_MOUNTED_SECONDS = 0.01
_SWITCH_SECONDS = 0.00005
"""Threads that search or compute give way to the keys after this time, a 25th of what Python grants them: a frame
asks for the processor dozens of times."""
_COLOUR_SYSTEMS: dict[str, Literal["truecolor", "256", "standard"]] = {
    "truecolor": "truecolor",
    "256": "256",
    "16": "standard",
}
_OVERTAKEN = (events.InputEvent, events.Paste, events.Resize)
UNREADABLE, INTERNAL, INTERRUPTED = 3, 70, 130


class LoadingScreen(Screen[None]):
    """Shows how far ``loader`` is."""

    DEFAULT_CSS = """
    LoadingScreen { align: center middle; }
    LoadingScreen Vertical { width: 64; height: auto; }
    LoadingScreen ProgressBar { width: 100%; margin: 1 0; }
    LoadingScreen Bar { width: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [("escape", "cancel", "")]

    def __init__(self, loader: Loader) -> None:
        super().__init__()
        self._loader = loader
        self._title = Static(Text(self._title_of(0)))
        self._bar = ProgressBar(total=100, show_eta=False)
        self._shown = Static(id="figures")

    def compose(self) -> ComposeResult:
        """Title, bar, figures."""
        with Vertical():
            yield self._title
            yield self._bar
            yield self._shown
            yield Static(Text(say("loading.cancel"), style="dim"))

    def advance(self, news: Advanced) -> None:
        """Show how far it is."""
        self._title.update(self._title_of(news.at))
        self._bar.update(total=news.total or None, progress=news.done)
        self._shown.update(news.figures)

    def _title_of(self, at: int) -> str:
        """What is loading while opening number ``at`` is."""
        openings = self._loader.openings
        path, count = printable(str(openings[at].path)) if openings else "…", len(openings)
        if count < 2:
            return say("loading.title", path=path)
        return say("loading.title_of", path=path, n=at + 1, count=count)

    def action_cancel(self) -> None:
        """Stop loading."""
        self._loader.cancel()


class NpuTui(Program, inherit_bindings=False):
    """Opens what ``openings`` name, or a session that is loaded already, and draws as ``terminal`` can show it.

    The result is the error that kept it from opening.
    """

    TITLE = "npu-tui"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "interrupt", show=False, priority=True),
        Binding("ctrl+z", "suspend_process", show=False),
    ]

    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self,
        openings: Sequence[Opening] = (),
        session: Session | None = None,
        terminal: Terminal | None = None,
        thresholds: Thresholds | None = None,
        start: Start | None = None,
        notes: Path | None = None,
        seen: Path | None = None,
        make: Make | None = None,
        job: JobScreen | None = None,
        picker: PickerScreen | None = None,
        make_job: Callable[[Path, Path | None], JobScreen] | None = None,
        cached: bool = True,
        loader: Loader | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        """Opens at ``start``; flags are kept in the file ``notes``; ``seen`` remembers that this is no first run.

        ``make`` makes a session of the profiles that ``openings`` give, unless a ``loader`` does so already. With
        ``job`` its overview comes first, and the timelines that are entered from there lie on top of it. With
        ``picker`` the user chooses first: jobs, which ``make_job`` makes, and timelines (from parsed copies if they may
        be ``cached``) lie on top of that. ``recorder`` records the job on screen once more.
        """
        super().__init__(driver_class=driver())
        self.bind_first(quit_bindings())
        self._start = start
        self._notes = notes
        self._seen = seen
        self._openings = openings
        self._make = make
        self._session = session
        self._job = job
        self._picker = picker
        self._make_job = make_job or _job_screen
        self._cached = cached
        self._loader = loader
        self._shown: Path | None = None
        self._left: Path | None = None
        """What was on screen before what is loaded now: it comes back where that is stopped or cannot be read."""
        self._unread = ""
        self.recordings = Recordings(
            recorder,
            lambda words: self.call_later(self._hold, words),
            lambda words: self.call_later(self._tell, words),
            lambda newest, before: self.call_later(self._show_recorded, newest, before),
            lambda paths, wanted: self.call_later(self._open_analysed, paths, wanted),
        )
        self._loading: LoadingScreen | None = None
        self._main: MainScreen | None = None
        self._leaving = 0
        self._early: list[events.Event] = []
        self.beside = BackgroundThreads()
        self._thresholds = thresholds
        self.terminal = terminal or Terminal()
        self._repaint = Repaint(self.terminal)
        self.console = Console(
            color_system=_COLOUR_SYSTEMS.get(self.terminal.depth),
            file=self.console.file,
            highlight=False,
            emoji=False,
            force_terminal=True,
            safe_box=False,
            _environ={},
        )
        for theme in THEMES.values():
            self.register_theme(theme)
        self.theme = THEMES[self.terminal.palette.name].name

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Textual's filters, with this program's own in place of those that only grey the colours."""
        others = [kept for kept in super().get_line_filters() if not isinstance(kept, (Monochrome, NoColor))]
        if self.terminal.depth == "16":
            others = [Unnumbered(kept) if isinstance(kept, ANSIToTruecolor) else kept for kept in others]
        return [*others, self._repaint]

    def on_mount(self) -> None:
        """Show the session, or load it first."""
        sys.setswitchinterval(_SWITCH_SECONDS)
        if not self.is_headless:
            asyncio.get_running_loop().set_default_executor(self.beside)
        # What was typed while the terminal was asked comes first.
        for event in events_of(self.terminal.typed):
            event.set_sender(self)
            self.post_message(event)
        if self._session is not None:
            self._explore(self._session)
        elif self._picker is not None:
            self.push_screen(self._picker)
        elif self._job is not None:
            self.push_screen(self._job)
        elif self._loader is not None:
            self._follow(self._loader)
        elif self._openings:
            self._load(self._openings, self._make)

    async def on_event(self, event: events.Event) -> None:
        """Keys that come before what they are for is there are kept until it is; Ctrl+C overtakes all of them."""
        if self.interrupted and isinstance(event, _OVERTAKEN) and getattr(event, "key", "") != "ctrl+c":
            return
        typed = isinstance(event, (events.Key, events.Paste)) and not event.is_forwarded
        if typed and (self._early or not self._takes_keys) and getattr(event, "key", "") != "ctrl+c":
            if not self._early:
                after(_MOUNTED_SECONDS, self, self._release)
            self._early.append(event)
        else:
            if typed and getattr(event, "key", "") == "enter" and isinstance(self.screen, PanelScreen):
                self.screen.prompt.is_answering = self.screen.prompt.is_open
            await super().on_event(event)

    @property
    def _takes_keys(self) -> bool:
        """Whether the screen on top is there as a whole, and it is known what the next key is for."""
        if isinstance(self.screen, PanelScreen) and self.screen.prompt.is_answering:
            return False
        return self.screen.is_mounted

    async def _release(self) -> None:
        """Take up the keys that were kept, as far as the screens are there by now."""
        early, self._early = self._early, []
        for number, event in enumerate(early):
            if not self._takes_keys:
                self._early = early[number:]
                after(_MOUNTED_SECONDS, self, self._release)
                return
            await self.on_event(event)

    def meet_strange(self) -> None:
        """Say that the terminal sends what cannot be read."""
        if self._main is not None:
            self._main.tell(say("keys.not_utf8"))

    def overhear(self, words: str) -> None:
        """Say what would have been written into the screen."""
        for screen in self.screen_stack:
            if isinstance(screen, PanelScreen):
                screen.tell(say("app.overheard", words=printable(words)))

    def action_interrupt(self) -> None:
        """Leave at once, as Ctrl+C does elsewhere."""
        self.leave(INTERRUPTED)

    async def action_quit(self) -> None:
        """End the program (Textual's own key for it)."""
        self.leave()

    def leave(self, return_code: int = 0) -> None:
        """End, but not before the terminal's last answer is in: it would be typed into the shell."""
        self._leaving += 1
        if self._leaving <= _LAST_ANSWERS and self._main is not None and self._main.drawing.pace.on_the_way:
            after(_LAST_ANSWER_SECONDS / _LAST_ANSWERS, self, lambda: self.leave(return_code))
        else:
            self.exit(None, return_code=return_code)

    def look_as(self, theme: str) -> None:
        """Draw all screens in the colours of ``theme``."""
        self.terminal = replace(self.terminal, palette=palette_named(theme))
        self._repaint = Repaint(self.terminal)
        self.theme = THEMES[self.terminal.palette.name].name
        for screen in self.screen_stack:
            if isinstance(screen, PanelScreen):
                screen.drawing.look_as(self.terminal)

    def speak_in(self, language: str) -> None:
        """Let all screens say again what they show, in ``language``."""
        speak(language)
        for screen in self.screen_stack:
            if isinstance(screen, PanelScreen):
                screen.say_again()

    # --- the job recorded again

    def record(self, folder: str = "") -> str:
        """Record the job that watches ``folder``, else that of the last time, meanwhile; returns the message."""
        return self.recordings.begin(folder)

    def compare_with(self, path: str) -> None:
        """Hold what is on screen, as the new one, against what lies at ``path``."""
        shown = self._job.path if self._job is not None and self.screen is self._job else self._shown
        base = Path(path)
        if shown is None:
            self._tell(say("order.compare"))
            return
        try:
            opening_of(base.expanduser(), self._cached).source  # noqa: B018 - it says what is wrong with the path
        except SeveralError:
            pass
        except InputError as error:
            self._tell(words(error.message))
            return
        self._show_recorded(shown, base.expanduser())

    def _tell(self, words: str) -> None:
        for screen in self.screen_stack:
            if isinstance(screen, PanelScreen) or screen is self._picker:
                screen.tell(words)

    def _hold(self, words: str) -> None:
        for screen in self.screen_stack:
            if isinstance(screen, PanelScreen):
                screen.head.wait_for(words)
        if self._picker is not None:
            self._picker.hold(words)

    def _show_recorded(self, newest: Path, before: Path | None) -> None:
        """Show what was recorded beside the recording ``before``, or what was on screen."""
        base = before or self._shown
        self._left = self._shown if self._job is None else None
        self._job = None
        self._back_to(self._picker)
        if holds_several(newest):
            self._job = self._make_job(newest, base if base is not None and holds_several(base) else None)
            self._job.drawing.look_as(self.terminal)
            self.push_screen(self._job)
        elif base is None or holds_several(base):
            self._load([opening_of(newest, self._cached)], None)
        else:
            self._load([opening_of(path, self._cached) for path in (base, newest)], side_by_side)

    # --- several profiles to choose from

    def open_chosen(self, paths: list[Path], job: bool) -> None:
        """Show on top of the list what was chosen: one below the other, or the ``job`` that is the only one."""
        assert self._picker is not None
        self._picker.pause()
        if job:
            self._job = self._make_job(paths[0], None)
            self._job.is_chosen = True
            self._job.drawing.look_as(self.terminal)
            self.push_screen(self._job)
        else:
            self._load([opening_of(path, self._cached) for path in paths], None)

    def analyse(self, raws: list[RawProfile], job: bool) -> None:
        """Analyse raw profiles while the user goes on, then open them one below the other; for a ``job`` the first."""
        self._tell(self.recordings.analyse(raws, job))

    def stop_work(self) -> None:
        """Stop the recording, or the analysis, that goes on beside the screen."""
        self._tell(self.recordings.cancel())

    def _open_analysed(self, paths: list[Path], wanted: bool) -> None:
        """Open what was analysed if ``wanted``, unless the user looks at something else; then it is said and listed."""
        assert self._picker is not None
        self._picker.forget_raw()
        if self.screen is self._picker and wanted:
            self.open_chosen(paths, False)
            return
        self._tell(say("picker.analysed", count=len(paths), paths=[printable(path.name) for path in paths[:4]]))
        if self.screen is self._picker:
            self._picker.examine()

    def _back_to_picker(self, words: str = "") -> None:
        """Take away what lies on top of the list, and what it needed."""
        assert self._picker is not None
        self._job = None
        self._back_to(self._picker)
        gc.unfreeze()  # what was explored may go
        self._picker.tell(words)
        self._picker.examine()

    # --- a job

    def end_job(self, error: InputError) -> None:
        """Back to the list with the ``error`` of the job; end with it where there is none."""
        if self._picker is not None:
            self._back_to_picker(words(error.message))
        else:
            self.exit(error, return_code=UNREADABLE)

    def enter(self, openings: list[Opening], make: Make) -> None:
        """Load the timelines of ``openings`` and show the session that ``make`` makes on top of the overview."""
        self._back_to(self._job)
        self._load(openings, make)

    def back(self) -> None:
        """From the timelines back to the overview of the job, from that or a profile to the list it was chosen from."""
        if self._job is not None and self.screen is not self._job:
            self._back_to(self._job)
        else:
            self._back_to_picker()

    def show_ranks(self, ranks: list[int], follow: tuple[BlamedCollective, int] | None) -> None:
        """Show the timelines of other ``ranks`` of the job in place of these, with what a late one did selected."""
        if self._job is not None:
            self._job.enter(ranks, follow=follow)

    def _back_to(self, below: Screen[None] | None) -> None:
        """Take away what lies on top of ``below``."""
        self._main = self._loading = None
        if self._loader is not None:
            self._loader.cancel(told=False)
            self._loader = None
        while self.screen_stack and self.screen is not below and len(self.screen_stack) > 1:
            self.pop_screen()

    def _load(self, openings: Sequence[Opening], make: Make | None) -> None:
        loader = Loader(openings, self._thresholds, make)
        loader.start()
        self._follow(loader)

    def _follow(self, loader: Loader) -> None:
        """Show what ``loader`` has loaded, or how far it is until something of it can be shown."""
        self._loader = loader
        self._shown = loader.openings[-1].path if loader.openings else None
        if not isinstance(loader.news, (Early, Ended, Crashed)):
            self._loading = LoadingScreen(loader)
            self.push_screen(self._loading)
        loader.listen(lambda heard: self.call_later(self._hear, loader, heard))

    @property
    def is_loading(self) -> bool:
        """Whether a thread still loads."""
        return self._loader is not None and self._loader.is_busy

    def on_cursor_position(self) -> None:
        """The terminal answers that it has shown a frame."""
        if self._main is not None:
            self._main.drawing.frame_shown()

    def copy_to_clipboard(self, text: str) -> None:
        """Copy ``text`` to the clipboard of the terminal, through tmux where that is between."""
        if not self.is_headless and to_tmux(text):
            self.remember_copied(text)
        else:
            super().copy_to_clipboard(text)

    def last_words(self, error: str) -> tuple[RenderableType | None, int] | None:
        """One line instead of Textual's pages of locals, unless those are asked for or no user waits any more."""
        if error.startswith(Cancelled.__name__):
            return None, INTERNAL
        if os.environ.get(_DEBUG):
            return None
        return Text(f"npu-tui: {say('app.crashed', error=printable(error), variable=_DEBUG)}"), INTERNAL

    def _explore(self, session: Session) -> None:
        """Explore ``session``, from where the user is if there is less of it on screen."""
        if self._main is None:
            chosen = self._picker is not None or self._job is not None
            self._main = MainScreen(session, self.terminal, self._start, self._notes, self._seen, chosen)
            self.push_screen(self._main)
        else:
            self._main.call_later(self._main.replace_session, session)

    def _hear(self, loader: Loader, heard: Heard) -> None:
        """Show what ``loader`` has loaded, or how far that is."""
        if loader is not self._loader:
            return
        if isinstance(heard, Early):
            self._explore(heard.session)
        elif isinstance(heard, Ended):
            self._ended(heard.result)
        elif isinstance(heard, Crashed):
            raise heard.error
        else:
            self._advanced(heard)

    def _advanced(self, news: Advanced) -> None:
        """Show how far the loading is, also to a user who explores what is there."""
        if self._main is not None:
            self._main.call_later(self._main.hold, say("loading.early", figures=news.figures))
        elif self._loading is not None:
            self._loading.call_later(self._loading.advance, news)

    def _ended(self, result: Session | InputError | None) -> None:
        """Let the user explore all of it, or end with the error."""
        if isinstance(result, Session):
            self._explore(result)
            if self._main is not None:
                self._main.call_later(self._main.hold, "")
                if self._unread:
                    self._main.call_later(self._main.tell, self._unread)
            self._left, self._unread = None, ""
            self.call_after_refresh(settle)
        elif self._job is not None:
            self._back_to(self._job)
            self._job.tell(words(result.message) if result else "")
        elif self._picker is not None:
            self._back_to_picker(words(result.message) if result else "")
        elif self._left is not None:
            self._unread, left, self._left = words(result.message) if result else "", self._left, None
            self._back_to(None)
            self._load([opening_of(left, self._cached)], None)
        else:
            self.exit(result, return_code=UNREADABLE if result else INTERRUPTED)

    def stop_loading(self) -> None:
        """End as the loading does that the user stops."""
        if self._loader is not None:
            self._loader.cancel()


def _job_screen(path: Path, base: Path | None) -> JobScreen:
    from npu_tui.tui.job_screen import JobScreen

    return JobScreen(path)
