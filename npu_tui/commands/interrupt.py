"""Ctrl+C: a command gives up what it does; before and after it, and the second time, the process ends at once."""

from __future__ import annotations

import os
import signal
from typing import Any

from npu_tui.commands.streams import INTERRUPTED

_pressed = False


def end_at_once() -> None:
    """From now on Ctrl+C ends the process: there is nothing to put in order."""
    _answer(_end)


def give_up() -> None:
    """From now on Ctrl+C raises ``KeyboardInterrupt``, once."""
    _answer(_raise)


def is_given_up() -> bool:
    """Whether Ctrl+C was pressed meanwhile; what it was raised into may have made another error of it."""
    return _pressed


def _answer(handler: Any) -> None:
    # A shell has a job in the background ignore the key, and so does this.
    if signal.getsignal(signal.SIGINT) in (signal.default_int_handler, _end, _raise):
        signal.signal(signal.SIGINT, handler)


def _end(number: int, frame: Any) -> None:
    os._exit(INTERRUPTED)


def _raise(number: int, frame: Any) -> None:
    global _pressed
    _pressed = True
    if frame is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
        _end(number, frame)  # the callback of a lock of an import swallows what is raised into it
    end_at_once()
    raise KeyboardInterrupt
