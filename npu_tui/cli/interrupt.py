"""Ctrl+C interrupts a command; before and after it, and when pressed again, the process ends at once."""

from __future__ import annotations

import os
import signal
from typing import Any

from npu_tui.cli.streams import INTERRUPTED

_pressed = False


def end_at_once() -> None:
    """From now on Ctrl+C ends the process at once: there is nothing to clean up."""
    _answer(_end)


def give_up() -> None:
    """From now on Ctrl+C raises ``KeyboardInterrupt``, once."""
    _answer(_raise)


def is_given_up() -> bool:
    """Whether Ctrl+C was pressed during the command; code that caught it may have raised another error instead."""
    return _pressed


def _answer(handler: Any) -> None:
    # A shell starts background jobs with SIGINT ignored; that stays.
    if signal.getsignal(signal.SIGINT) in (signal.default_int_handler, _end, _raise):
        signal.signal(signal.SIGINT, handler)


def _end(number: int, frame: Any) -> None:
    os._exit(INTERRUPTED)


def _raise(number: int, frame: Any) -> None:
    global _pressed
    _pressed = True
    if frame is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
        _end(number, frame)  # the callback of an import lock would swallow the exception
    end_at_once()
    raise KeyboardInterrupt
