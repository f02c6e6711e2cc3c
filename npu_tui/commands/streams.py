"""What commands write to the shell: data on stdout, words on stderr."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from typing import NoReturn

from npu_tui.strings import say, words
from npu_tui.trace.text import printable

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
