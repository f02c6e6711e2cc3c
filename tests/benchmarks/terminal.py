"""The real program in a pseudo-terminal, driven and timed from outside."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

KEYS = b"\x1b[?2004h"
"""What the application writes when it takes over."""

_QUIET = 0.03
"""A frame is over when the program has been silent for this long, in seconds."""

_LONGEST = 10.0
"""Seconds that an answer is waited for."""

_QUESTION = b"\x1b[6n"


class Terminal:
    """``command`` in a pseudo-terminal of ``columns`` x ``rows``.

    With ``answers`` it tells where the cursor is when it is asked, as terminals do.
    """

    def __init__(self, command: list[str], columns: int, rows: int, answers: bool = False) -> None:
        self.begun = time.perf_counter()
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES", "NO_COLOR")}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # a user starts from compiled modules
        environment |= {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
        self.process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment)
        os.close(slave)
        self.master = master
        self._answers = answers

    def read(self, quiet: float = _QUIET, limit: float = 60.0, until: bytes = b"") -> tuple[bytes, float]:
        """What the program writes until it has been silent for ``quiet`` seconds, and when the last byte came.

        With ``until``, silence only counts once that text has been written.
        """
        data, last, deadline = b"", time.perf_counter(), time.perf_counter() + limit
        while time.perf_counter() < deadline:
            waiting = limit if (until and until not in data) or not data else quiet
            ready, _, _ = select.select([self.master], [], [], waiting)
            if not ready:
                break
            more = os.read(self.master, 1 << 16)
            last = time.perf_counter()
            if self._answers:
                self._answer(more)
            data += more
        return data, last

    def _answer(self, data: bytes) -> None:
        """Answer the questions in ``data``; between two of them the cursor moves by what is written."""
        column = 1
        for number, written in enumerate(data.split(_QUESTION)[:-1]):
            column += len(written.decode("utf-8", "replace")) if number else 0
            os.write(self.master, b"\x1b[1;%dR" % column)

    def press(self, keys: str) -> tuple[float, int]:
        """Send ``keys``; returns the seconds until the last byte of the answer, 10 without one, and its length."""
        begun = time.perf_counter()
        os.write(self.master, keys.encode())
        data, last = self.read(limit=_LONGEST)
        return (last - begun if data else _LONGEST), len(data)

    def processor_ms(self) -> float:
        """What the first thread of the program, which draws, has used so far; 0 where the system does not tell."""
        try:
            return int(Path(f"/proc/{self.process.pid}/schedstat").read_text().split()[0]) / 1e6
        except OSError:
            return 0.0

    def close(self) -> None:
        """End the program."""
        os.write(self.master, b"\x11")
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.master)


def npu_tui(*arguments: str) -> list[str]:
    """The command line of npu-tui in this interpreter."""
    return [sys.executable, "-m", "npu_tui", *arguments]
