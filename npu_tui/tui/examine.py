"""Findings computed in a thread, and opening the code of a place."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from textual.app import App, SuspendNotSupported
from textual.message import Message
from textual.worker import get_current_worker

from npu_tui.analysis.code_lines import CodeLine
from npu_tui.load.errors import InputError
from npu_tui.rules.model import Findings
from npu_tui.strings import say, words
from npu_tui.trace.text import brief, printable
from npu_tui.tui.head import Times, measure
from npu_tui.tui.session import Session, kept


class Measured(Message):
    """The ``times`` of trace number ``index`` of ``session``."""

    def __init__(self, session: Session, index: int, times: Times) -> None:
        self.session = session
        self.index = index
        self.times = times
        super().__init__()


class Remembered(Message):
    """The memory of trace number ``index`` of ``session`` has been read."""

    def __init__(self, session: Session, index: int) -> None:
        self.session = session
        self.index = index
        super().__init__()


class Examined(Message):
    """The findings of trace number ``index`` of ``session``."""

    def __init__(self, session: Session, index: int, found: Findings) -> None:
        self.session = session
        self.index = index
        self.found = found
        super().__init__()


def examine(session: Session, post: Callable[[Message], object]) -> None:
    """Work through ``session`` and ``post`` what is found, one message per trace and kind."""
    worker = get_current_worker()
    for index, profile in enumerate(session.profiles):
        if worker.is_cancelled:
            return
        post(Measured(session, index, measure(profile)))
        try:
            with kept():
                findings = profile.findings
        except InputError as error:
            findings = Findings((), (), (words(error.message),))
        post(Examined(session, index, findings))
    for index, profile in enumerate(session.profiles):
        if worker.is_cancelled:
            return
        if profile.memory.is_known:
            post(Remembered(session, index))


_EDITOR = "vi"


def open_line(app: App[Any], code: CodeLine) -> str:
    """Open ``code`` in ``$VISUAL`` or ``$EDITOR`` where its file is here, else copy it; returns what was done."""
    place = say("lines.place", file=printable(code.file), line=code.line)
    shown = brief(place)
    file = Path(code.file)
    if not file.is_file():
        app.copy_to_clipboard(place)
        return say("code.copied", place=shown)
    try:
        command = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or _EDITOR) or [_EDITOR]
        with app.suspend():
            # A whole path cannot be taken for an option.
            subprocess.run([*command, f"+{code.line}", str(file.resolve())], check=False)
    except (OSError, ValueError, SuspendNotSupported) as error:
        app.copy_to_clipboard(place)
        return say("code.failed", place=shown, why=str(error) or type(error).__name__)
    return say("code.opened", place=shown)
