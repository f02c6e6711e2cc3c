"""The terminal of a storm: what it sends, when it answers, and what is wrong with how the program ends."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tui"))

from terminals import modes_left

PATIENCE = 5.0
_WALL = 120.0
_LOOK, _QUIET_LOOKS, _IDLE = 0.1, 3, 0.015
"""Seconds between looks at the processor time of the program, looks in a row and seconds less than which are rest."""
TELL, _TOLD = signal.SIGUSR1, 3
"""Asks a program for the stacks of its threads; how often it is asked."""
QUESTION = b"\x1b[6n"
ANSWER = b"\x1b[3;3R"
_ANSWERED = {"silent": [], "late": [1.2], "twice": [0.0, 0.3], "prompt": [0.0]}
"""Seconds after which a question is answered, by what the terminal does with them."""


class StormTerminal:
    """The terminal of ``size`` (columns, rows) that program ``pid`` has at ``fd``.

    ``answers`` is what it does with questions: ``prompt``, ``late`` (1.2 s), ``twice`` or ``silent``.
    """

    def __init__(self, pid: int, fd: int, size: tuple[int, int], answers: str) -> None:
        self.pid, self.fd = pid, fd
        self.output = b""
        self._code: int | None = None
        self._cpu = 0.0
        self._due: list[float] = []
        self._answers = _ANSWERED[answers]
        self._size(*size)

    def _size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def begin(self) -> None:
        """Wait until the program has taken the terminal over; nothing of it is on screen yet."""
        while b"\x1b[?2004h" not in self.output and not self.ended():
            self.read(0.01)

    def do(self, event: str) -> bool:
        """Let one event happen; False once the program has ended."""
        if event.startswith("size "):
            columns, rows = event.split()[1:]
            self._size(int(columns), int(rows))
        elif event.startswith("wait "):
            self.read(float(event.split()[1]))
        else:
            self._write(bytes.fromhex(event))
        self.read(0.0)
        return not self.ended()

    def _write(self, data: bytes) -> None:
        while data and not self.ended():
            if select.select([], [self.fd], [], 0.2)[1]:
                # A terminal that is full would keep both sides waiting.
                data = data[os.write(self.fd, data[:512]) :]
            self.read(0.0)

    def read(self, seconds: float) -> None:
        """Take in what the program writes for so long, and answer its questions."""
        deadline = time.monotonic() + seconds
        while True:
            now = time.monotonic()
            while self._due and self._due[0] <= now:
                self._due.pop(0)
                os.write(self.fd, ANSWER)
            if not select.select([self.fd], [], [], min(max(deadline - now, 0.0), 0.05))[0]:
                if now >= deadline:
                    return
                continue
            try:
                data = os.read(self.fd, 1 << 16)
            except OSError:
                return
            if not data:
                return
            self.output += data
            self._due += [now + late for _ in range(data.count(QUESTION)) for late in self._answers]
            self._due.sort()

    def ended(self) -> bool:
        if self._code is None:
            pid, status, used = os.wait4(self.pid, os.WNOHANG)
            if pid:
                self._code, self._cpu = os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime
        return self._code is not None

    def settle(self) -> str:
        """Wait until the program has done what it was told; returns what is wrong, empty if nothing is."""
        begun, used, quiet = time.monotonic(), _cpu_of(self.pid), 0
        while not self.ended() and quiet < _QUIET_LOOKS:
            self.read(_LOOK)
            now = _cpu_of(self.pid)
            quiet, used = quiet + 1 if now - used < _IDLE else 0, now
            if time.monotonic() - begun > _WALL:
                return f"never rests: {now:.1f} s of its own"
        return ""

    def end(self) -> str:
        """Press Ctrl+C; returns what is wrong, empty if nothing is."""
        begun, used, asked = time.monotonic(), _cpu_of(self.pid), -1.0
        while not self.ended():
            now = time.monotonic()
            if now - asked > 1.0:  # one may complete a sequence that was begun
                asked = now
                with_room = select.select([], [self.fd], [], 0)[1]
                if with_room:
                    os.write(self.fd, b"\x03")
            self.read(0.02)
            if _cpu_of(self.pid) - used > PATIENCE or now - begun > _WALL:
                return f"does not end: {now - begun:.1f} s, {_cpu_of(self.pid) - used:.1f} s of its own"
        self.read(0.2)
        for sign in (b"Traceback", b"internal error", b"Error:"):
            at = self.output.rfind(sign)
            if at >= 0:
                return "shows " + self.output[at : at + 200].decode("utf-8", "replace").partition("\r")[0]
        if self._code not in (0, 130):
            said = self.output[-400:].decode("utf-8", "replace").replace("\x1b", "^")
            return f"ends with {self._code}: {said!r}"
        if left := modes_left(self.output):
            return f"leaves {sorted(left)}"
        if (left := termios.tcgetattr(self.fd)[:4]) != _usual_settings():
            return f"leaves the settings {left}"
        return ""

    def tell_stacks(self) -> None:
        """Let the program write what its threads are at, a few times."""
        for _ in range(_TOLD):
            os.kill(self.pid, TELL)
            self.read(0.3)

    def close(self) -> None:
        if not self.ended():
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)


@cache
def _usual_settings() -> list[object]:
    """The settings of a terminal that nobody has changed."""
    ends = pty.openpty()
    try:
        return termios.tcgetattr(ends[0])[:4]
    finally:
        for end in ends:
            os.close(end)


def _cpu_of(pid: int) -> float:
    """Seconds of processor time that a process has used."""
    try:
        parts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")
