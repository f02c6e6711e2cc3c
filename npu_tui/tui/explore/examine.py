"""Adds up the traces of a session and finds what is wrong with them, in a thread."""

from __future__ import annotations

from collections.abc import Callable

from textual.message import Message
from textual.worker import get_current_worker

from npu_tui.ingest.errors import InputError
from npu_tui.rules.model import Findings
from npu_tui.strings import words
from npu_tui.tui.garbage import kept
from npu_tui.tui.session import Session
from npu_tui.tui.widgets.bars import Times, measure


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
