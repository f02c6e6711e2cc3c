"""The screen while a trace loads: how far it is, and Esc to stop."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import Screen
from textual.widgets import ProgressBar, Static
from textual.worker import get_current_worker

from npu_tui.ingest.errors import Cancelled, InputError
from npu_tui.ingest.load import load
from npu_tui.strings import say
from npu_tui.trace.text import printable
from npu_tui.tui.session import Session, make_session


class LoadingScreen(Screen["Session | InputError | None"]):
    """Loads ``path`` in a thread; dismissed with the session, the error, or None when cancelled."""

    DEFAULT_CSS = """
    LoadingScreen { align: center middle; }
    LoadingScreen Vertical { width: 64; height: auto; }
    LoadingScreen ProgressBar { width: 100%; margin: 1 0; }
    LoadingScreen Bar { width: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [("escape", "cancel", "")]

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def compose(self) -> ComposeResult:
        """Title, bar, figures."""
        with Vertical():
            yield Static(Text(say("loading.title", path=printable(str(self._path)))))
            yield ProgressBar(total=100, show_eta=False)
            yield Static(id="figures")
            yield Static(Text(say("loading.cancel"), style="dim"))

    def on_mount(self) -> None:
        """Begin to load."""
        self._load()

    @work(thread=True, exclusive=True)
    def _load(self) -> None:
        worker = get_current_worker()

        def progress(done: int, total: int, events: int) -> bool:
            if not worker.is_cancelled:
                self.app.call_from_thread(self._advance, done, total, events)
            return not worker.is_cancelled

        result: Session | InputError | None
        try:
            result = make_session([load(self._path, progress)])
        except Cancelled:
            result = None
        except InputError as error:
            result = error
        if not worker.is_cancelled:
            self.app.call_from_thread(self.dismiss, result)

    def _advance(self, done: int, total: int, events: int) -> None:
        self.query_one(ProgressBar).update(total=max(total, 1), progress=done)
        key = "loading.progress" if done < total else "loading.building"
        figures = say(key, done=done >> 20, total=total >> 20, events=f"{events:,}")
        self.query_one("#figures", Static).update(figures)

    def action_cancel(self) -> None:
        """Stop loading."""
        self.workers.cancel_all()
        self.dismiss(None)
