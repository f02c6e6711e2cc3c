"""Terminals of any size, resized at any time."""

from __future__ import annotations

import asyncio
import random
import time

import pytest
from driving import opened
from terminals import PROGRAM, Terminal, starts_programs

from npu_tui.tui.rows import Rows
from npu_tui.tui.terminal.internals import strips_of

PROFILE = "fixtures/dispatch_bound"
KEYS = [
    "x",
    "W",
    "t",
    "c",
    "5",
    "q",
    "?",
    "escape",
    ":",
    "escape",
    "G",
    "v",
    "d",
    "v",
    "z",
    "0",
    "space",
    "/",
    "o",
    "enter",
]


@pytest.mark.few(2)
@pytest.mark.parametrize("size", [(1, 1), (20, 6), (60, 15), (600, 30)])
async def test_every_size_can_be_walked(session, size):
    async with opened(session, size) as driver:
        for key in KEYS:
            await driver.press(key)
            for strip in strips_of(driver.app.screen):
                assert strip.cell_length == size[0], (key, strip.text)


async def test_no_screen_has_a_bar_that_takes_the_room_it_is_needed_for(session):
    async with opened(session, (40, 2)) as driver:
        driver.main.run_command("help")
        for size in ((40, 2), (10, 1), (2, 2), (2, 1), (1, 1)):
            await driver.pilot.resize_terminal(*size)
            await driver.idle()
            screens = [driver.main, driver.app.screen]
            assert len({*screens}) == 2
            for screen in screens:
                assert not any((screen.show_vertical_scrollbar, screen.show_horizontal_scrollbar)), size


async def test_a_table_whose_bar_takes_all_columns_comes_to_rest(session, monkeypatch):
    async with opened(session, (10, 24)) as driver:
        for tab in "1268":
            await driver.pilot.resize_terminal(10, 24)
            await driver.press(tab)
            await driver.pilot.resize_terminal(2, 5)
            await driver.settle()
            fitted = []
            with monkeypatch.context() as counted:
                counted.setattr(Rows, "on_resize", lambda rows, fitted=fitted: fitted.append(rows.size))
                await asyncio.sleep(0.1)
            assert not fitted, tab


async def test_sixty_by_fifteen_is_usable(session):
    async with opened(session, (60, 15)) as driver:
        rows = driver.rows()
        assert rows[1].startswith(" 1 DISPATCH: "), "the headline keeps what matters"
        assert driver.panel.has_class("-hidden")
        assert len([row for row in rows[4:-1] if row]) >= 9, "most rows are lanes"
        assert driver.timeline.frame is not None
        assert driver.timeline.frame.gutter == 16
        assert rows[-1].startswith(" ? keys"), "the footer leads to the help"
        await driver.press("x", "3")
        await driver.settle()
        assert driver.selected in driver.text()
        lanes = driver.timeline.size.height - driver.timeline.frame.lanes_top
        assert lanes >= 3, "lanes stay beside the panel"


@starts_programs
def test_a_storm_of_sizes_ends_in_the_last_one():
    last = (100, 30)
    stormed, fresh = (Terminal([*PROGRAM, PROFILE], size) for size in ((120, 40), last))
    try:
        for terminal in (stormed, fresh):
            terminal.shows("Ascend Hardware")
        sizes = random.Random(7)
        for _ in range(6):
            stormed.resize(sizes.randint(1, 250), sizes.randint(1, 70))
            stormed.send(sizes.choice(["w", "s"]))
            if sizes.random() < 0.3:
                time.sleep(0.01)
        stormed.resize(*last)
        for data in (":1ms\r", "ww", "0", "gg"):
            for terminal in (stormed, fresh):
                terminal.send(data)
            time.sleep(0.5)
            stormed.read()
            fresh.read()
        stormed.until(lambda: stormed.rows()[1:-1] == fresh.rows()[1:-1], "the screen of the last size")
        for terminal in (stormed, fresh):
            terminal.send(":q\r")
            assert terminal.exit_code() == 0
            assert terminal.modes() == set()
    finally:
        stormed.close()
        fresh.close()
