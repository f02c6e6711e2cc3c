"""The application: load, then explore."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual.app import App
from textual.binding import Binding, BindingType

from npu_tui.ingest.errors import InputError
from npu_tui.strings import say
from npu_tui.trace.text import printable
from npu_tui.tui.loading import LoadingScreen
from npu_tui.tui.main import MainScreen
from npu_tui.tui.session import Session
from npu_tui.tui.theme import THEME
from npu_tui.view.opening import Opening

_DEBUG = "NPU_TUI_DEBUG"
UNREADABLE, INTERNAL, INTERRUPTED = 3, 70, 130


class NpuTui(App[InputError | None]):
    """Opens ``path``, or a session that is loaded already. The result is the error that kept it from opening."""

    TITLE = "npu-tui"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "interrupt", show=False, priority=True),
        Binding("ctrl+z", "suspend_process", show=False),
    ]
    COMMANDS = set()  # noqa: RUF012 - the palette offers this program's commands only

    def __init__(
        self,
        path: Path | None = None,
        session: Session | None = None,
        opening: Opening | None = None,
        notes: Path | None = None,
    ) -> None:
        """Opens at ``opening``; flags are kept in the file ``notes``."""
        super().__init__()
        self._opening = opening
        self._notes = notes
        self._path = path
        self._session = session
        self.register_theme(THEME)
        self.theme = THEME.name

    def on_mount(self) -> None:
        """Show the session, or load it first."""
        if self._session is not None:
            self.push_screen(MainScreen(self._session, self._opening, self._notes))
        elif self._path is not None:
            self.push_screen(LoadingScreen(self._path), self._loaded)

    def action_interrupt(self) -> None:
        """Leave at once, as Ctrl+C does elsewhere."""
        self.exit(None, return_code=INTERRUPTED)

    def _fatal_error(self) -> None:
        """End with one line instead of Textual's pages of locals, unless those are asked for."""
        if os.environ.get(_DEBUG):
            super()._fatal_error()
            return
        self._return_code = INTERNAL
        error = sys.exc_info()[1] or self._exception
        words = printable(f"{type(error).__name__}: {error}")
        self._exit_renderables.append(Text(say("app.crashed", error=words, variable=_DEBUG)))
        self._close_messages_no_wait()

    def _loaded(self, result: Session | InputError | None) -> None:
        if isinstance(result, Session):
            gc.collect()
            gc.freeze()  # the columns stay: no later collection needs to walk them
            gc.set_threshold(10_000, 20, 100)
            self.push_screen(MainScreen(result, self._opening, self._notes))
        else:
            self.exit(result, return_code=UNREADABLE if result else INTERRUPTED)
