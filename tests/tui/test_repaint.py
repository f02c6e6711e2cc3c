"""What the terminal shows after many partial repaints equals what a whole repaint shows."""

from __future__ import annotations

import random

import pyte
import pytest
from driving import opened
from textual.drivers.headless_driver import HeadlessDriver

COLUMNS, ROWS = 80, 24
KEYS = [*"wsadWSADhljkxXct[]mMvzfuU0 nNG24", "?\x1b", "/mat\r", ":3ms\r", "\x10zoom\x1b\x1b", "\x7f", "gg"]


def _look(cell: pyte.screens.Char) -> tuple[str, str, str]:
    """Character and the two colours as they look."""
    fg, bg = (cell.bg, cell.fg) if cell.reverse else (cell.fg, cell.bg)
    return cell.data, fg if cell.data != " " else "", bg


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> pyte.Screen:
    """What a terminal makes of what the program writes."""
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.Stream(screen)
    monkeypatch.setattr(HeadlessDriver, "write", lambda _, data: stream.feed(data))
    monkeypatch.setattr(HeadlessDriver, "is_headless", False)  # else nothing is written
    return screen


def cells(screen: pyte.Screen) -> list[list[tuple[str, str, str]]]:
    return [[_look(screen.buffer[y][x]) for x in range(COLUMNS)] for y in range(ROWS - 1)]


async def test_partial_repaints_add_up(session, screen: pyte.Screen) -> None:
    draws = random.Random(1)
    async with opened(session, (COLUMNS, ROWS)) as driver:
        for _ in range(3):
            for _ in range(12):
                await driver.send(draws.choice(KEYS), at_once=draws.random() < 0.5)
            await driver.send("\x1b")
            await driver.settle()
            before = cells(screen)
            screen.reset()
            await driver.send("\x0c")
            await driver.settle()
            after = cells(screen)
            assert any(cell[0].strip() for row in after for cell in row)
            wrong = [y for y in range(len(before)) if before[y] != after[y]]
            assert not wrong, "\n".join(
                text for y in wrong for text in ("".join(c[0] for c in before[y]), "".join(c[0] for c in after[y]))
            )
