"""Where a command writes, what interrupts it, and lists on a terminal."""

from __future__ import annotations

import atexit
import contextlib
import os
import shlex
import signal
import sys
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

from npu_tui.strings import say, words
from npu_tui.trace.text import cell_count, padded, printable, size_text

DONE, FAILED, USAGE, UNREADABLE, INTERNAL, INTERRUPTED = 0, 1, 2, 3, 70, 130
DEBUG = "NPU_TUI_DEBUG"
"""The variable of the environment that asks for a whole traceback after an internal error."""


def write(text: str | bytes) -> None:
    """Write to stdout, whatever characters its encoding has; bytes as they are."""
    if isinstance(text, bytes):
        sys.stdout.buffer.write(text)
    else:
        encoding = sys.stdout.encoding or "utf-8"
        sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
    sys.stdout.flush()


def show_progress(done: int, count: int) -> None:
    """The ranks read so far, on one line of stderr that goes away."""
    end = "\r" if done < count else "\r\x1b[K"
    print(say("job.reading", done=done, count=count), end=end, file=sys.stderr, flush=True)


def drop_output() -> None:
    """What still waits to be written to stdout is not tried again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def refuse(error: Exception | str, code: int = UNREADABLE) -> int:
    """Say ``error`` on stderr in one line; returns ``code``."""
    line = words(getattr(error, "message", str(error)))
    if isinstance(error, OSError):
        line = f"{error.filename or say('cli.stdout')}: {error.strerror or error}"
    print(f"npu-tui: {printable(line)}", file=sys.stderr)
    return code


def end_process(code: int) -> NoReturn:
    """End at once, without waiting for threads."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code)


def write_list(folder: Path) -> None:
    """Write the profiles below ``folder`` to stdout, the newest first, each job before its ranks."""
    from npu_tui.nearby import Nearby, nearby

    def cells(entry: Nearby) -> list[str]:
        rank = "" if entry.rank is None else str(entry.rank)
        return [
            say("picker.ranks", count=len(entry.ranks)) if entry.is_job else rank,
            datetime.fromtimestamp(entry.time).strftime("%Y-%m-%d %H:%M") if entry.time else "",
            size_text(entry.bytes),
            "" if entry.level is None else str(entry.level),
            shlex.quote(printable(str(entry.path))),
        ]

    found = nearby(folder)
    names = [say(f"picker.{name}") for name in ("rank", "time", "size", "level")]
    table = [[*names, "PATH"], *map(cells, found)]
    widths = [max(cell_count(row[at]) for row in table) for at in range(4)]
    count = sum(not entry.is_job for entry in found)
    write(say("picker.list", count=count, path=printable(str(folder.absolute()))) + "\n\n")
    for row in table:
        own = [padded(cell, width, right=at != 1) for at, (cell, width) in enumerate(zip(row, widths, strict=False))]
        write("  ".join([*own, row[-1]]) + "\n")


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
