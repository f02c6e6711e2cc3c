"""Lag after a burst of keys over a slow link: ``python tests/benchmarks/link.py TRACE [--rate 100] [--buffer 2]``.

Between the program and the terminal stands a link that takes in megabytes at once, as ssh does, and passes them on at
``--rate`` kB/s. 60 keys are pressed at 30 Hz; the lag is the time from the last key to the last byte of its picture at
the far end (budget 0.3 s). ``paced`` answers the program's questions as terminals do; ``silent`` never does.
"""

from __future__ import annotations

import argparse
import os
import select
import time
from pathlib import Path

from terminal import Terminal, npu_tui

SIZE = (200, 50)
KEYS, HERTZ, LAG_S = 60, 30.0, 0.3
QUESTION = b"\x1b[6n"
_TICK = 0.002
_SETTLED = 1.5


class Link:
    """Passes what the program writes on at ``rate`` bytes per second out of a buffer of ``room`` bytes."""

    def __init__(self, terminal: Terminal, rate: float, room: int, answers: bool) -> None:
        self._terminal, self._rate, self._room, self._answers = terminal, rate, room, answers
        self._buffer = bytearray()
        self._credit, self._clock = 0.0, time.perf_counter()
        self._seen = b""
        self.passed = 0
        self.last = self._clock

    def run(self, seconds: float) -> None:
        """Let ``seconds`` pass."""
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            self._step()

    def settle(self) -> None:
        """Run until nothing has come for a while."""
        self.last = time.perf_counter()
        while self._buffer or time.perf_counter() - self.last < _SETTLED:
            self._step()

    def _step(self) -> None:
        master = self._terminal.master
        room = len(self._buffer) < self._room
        if room and select.select([master], [], [], _TICK)[0]:
            self._buffer += os.read(master, 1 << 16)
        elif not room:
            time.sleep(_TICK)
        now = time.perf_counter()
        # An idle link does not save its time up.
        self._credit = min(self._credit, 0.0) if not self._buffer else self._credit + (now - self._clock) * self._rate
        self._clock = now
        count = min(int(self._credit), len(self._buffer))
        if count <= 0:
            return
        self._credit -= count
        part = bytes(self._buffer[:count])
        del self._buffer[:count]
        self.passed += count
        self.last = now
        self._answer(part)

    def _answer(self, part: bytes) -> None:
        text = self._seen + part
        for _ in range(text.count(QUESTION)):
            if self._answers:
                os.write(self._terminal.master, b"\x1b[9;9R")
        self._seen = text.rpartition(QUESTION)[2][1 - len(QUESTION) :]


def measure(path: Path, rate: float, room: int, answers: bool) -> tuple[float, int]:
    """Lag in seconds and bytes per key."""
    terminal = Terminal(npu_tui(str(path)), *SIZE)
    link = Link(terminal, rate, room, answers)
    link.run(2.0)
    link.settle()
    before = link.passed
    pressed = time.perf_counter()
    for i in range(KEYS):
        os.write(terminal.master, b"w" if i % 20 < 10 else b"d")
        pressed = time.perf_counter()
        link.run(1 / HERTZ)
    link.settle()
    lag = link.last - pressed
    terminal.close()
    return lag, (link.passed - before) // KEYS


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", nargs="+", type=Path)
    parser.add_argument("--rate", type=float, default=100.0, help="kB/s")
    parser.add_argument("--buffer", type=float, default=2.0, help="MB")
    options = parser.parse_args()
    print(
        f"{KEYS} keys at {HERTZ:.0f} Hz, {options.rate:.0f} kB/s, {options.buffer:.1f} MB buffer, {SIZE[0]}x{SIZE[1]}\n"
    )
    print("| trace | terminal | lag s | of budget | kB per key |")
    print("|---|---|---|---|---|")
    for path in options.trace:
        for name, answers in (("silent", False), ("paced", True)):
            lag, size = measure(path, options.rate * 1000, int(options.buffer * 1e6), answers)
            print(f"| {path.name} | {name} | {lag:.2f} | {lag / LAG_S:.2f} | {size / 1000:.1f} |", flush=True)


if __name__ == "__main__":
    main()
