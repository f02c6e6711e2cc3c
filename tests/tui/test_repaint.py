"""What the terminal shows after many partial repaints equals what a whole repaint shows."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import pyte

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from terminal import Terminal, npu_tui

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
COLUMNS, ROWS = 100, 32
KEYS = [*"wsadWSADhljkxXct[]mMvzfuU0 nNG24", "?\x1b", "/mat\r", ":3ms\r", "\x10zoom\x1b\x1b", "\x7f", "gg"]


class Screen:
    """The program's terminal and what a terminal makes of its output."""

    def __init__(self, path: Path) -> None:
        self.terminal = Terminal(npu_tui(str(path)), COLUMNS, ROWS)
        self.screen = pyte.Screen(COLUMNS, ROWS)
        self.stream = pyte.ByteStream(self.screen)

    def feed(self, quiet: float, limit: float, until: bytes = b"") -> bool:
        """Take in what comes until ``quiet`` seconds of silence, at most ``limit``; returns whether anything came."""
        data = self.terminal.read(quiet=quiet, limit=limit, until=until)[0]
        self.stream.feed(data)
        return bool(data)

    def settle(self) -> None:
        """Take in everything until the program has nothing more to say."""
        while self.feed(quiet=0.25, limit=0.6):
            pass

    def cells(self) -> list[list[tuple[str, str, str]]]:
        """Character and the two colours as they look of every cell."""
        return [[_look(self.screen.buffer[y][x]) for x in range(COLUMNS)] for y in range(self._lanes())]

    def _lanes(self) -> int:
        """Rows above the panel and the status line, which follow the last key after a rest."""
        return next((y for y, line in enumerate(self.screen.display) if "1 Details" in line), ROWS - 1)

    def repaint(self) -> None:
        """Let the program draw everything again on an empty screen: the help covers it and goes."""
        os.write(self.terminal.master, b"?")
        self.settle()
        self.screen.reset()
        os.write(self.terminal.master, b"\x1b")
        self.settle()


def _look(cell: pyte.screens.Char) -> tuple[str, str, str]:
    fg, bg = (cell.bg, cell.fg) if cell.reverse else (cell.fg, cell.bg)
    return cell.data, fg if cell.data != " " else "", bg


def test_partial_repaints_add_up() -> None:
    draws = random.Random(1)
    screen = Screen(FIXTURES / "dispatch_bound")
    try:
        screen.feed(quiet=0.8, limit=20.0, until=b"ProfilerStep")
        for _ in range(2):
            for _ in range(12):
                os.write(screen.terminal.master, draws.choice(KEYS).encode())
                screen.feed(draws.choice([0.005, 0.15]), limit=0.3)
            os.write(screen.terminal.master, b"\x1b")
            screen.settle()
            before = screen.cells()
            screen.repaint()
            after = screen.cells()
            wrong = [y for y in range(len(before)) if before[y] != after[y]]
            assert not wrong, "\n".join(
                text for y in wrong for text in ("".join(c[0] for c in before[y]), "".join(c[0] for c in after[y]))
            )
    finally:
        screen.terminal.close()
