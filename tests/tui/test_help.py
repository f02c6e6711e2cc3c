"""The help sheet: by task, by focus, on small screens, found by typing."""

from __future__ import annotations

from io import StringIO

import pytest
from driving import opened
from rich.console import Console
from textual.containers import Vertical, VerticalScroll

from npu_tui.strings import speaking
from npu_tui.tui.commands import commands_of
from npu_tui.tui.keymap import use_keys
from npu_tui.tui.prompts import nearest_command
from npu_tui.tui.screen import MainScreen
from npu_tui.tui.sheets import HelpSheet, entries, help_text


def shown(driver) -> list[str]:
    """The lines of the sheet without its frame."""
    frame = driver.app.screen.query_one(Vertical).region
    rows = driver.rows()[frame.y + 1 : frame.bottom - 1]
    return [row[frame.x + 1 : frame.right - 2].strip() for row in rows]


@pytest.mark.parametrize("focus", ["lanes", "table", "panel"])
def test_every_command_is_told_once_under_its_task(focus):
    told = [entry.words for task, found in entries(focus, {}) if task != "table" for entry in found]
    for command in commands_of("lanes"):
        assert told.count(command.title) == 1, command.id


@pytest.mark.parametrize("width", [56, 72, 108])
def test_no_word_is_cut_off_in_chinese(width):
    """It has no blanks to break lines at."""
    with speaking("zh"):
        console = Console(width=width, file=StringIO(), force_terminal=True)
        console.print(help_text("lanes", {}, width=width))
        drawn = console.file.getvalue()
        assert sum(command.title.count("…") for command in commands_of("lanes")) == drawn.count("…")


async def test_the_keys_of_the_focus_come_first(session):
    async with opened(session) as driver:
        await driver.press("?")
        assert "Go to a place" in driver.text()
        assert "In the table" not in driver.text()
        await driver.press("escape", "2", "tab", "?")
        await driver.settle()
        lines = shown(driver)
        first = next(number for number, line in enumerate(lines) if "Here: in the table" in line)
        assert first <= 5
        assert any("sort by the next column" in line for line in lines[first : first + 5])
        assert "near-vertical" in "".join(lines[:first])


async def test_what_is_typed_finds_keys_and_escape_takes_it_back(session):
    async with opened(session, (60, 15)) as driver:
        await driver.press("?")
        every = shown(driver)
        await driver.press("csv")
        assert [line for line in shown(driver) if ":copy_csv" in line]
        assert not [line for line in shown(driver) if "zoom" in line]
        await driver.press("escape")
        assert shown(driver) == every
        await driver.press(*"V")
        found = shown(driver)
        assert "Measure" in found[1]
        assert found[2].startswith("V ")
        await driver.press("backspace", "zqxj")
        assert "No key or command contains zqxj." in driver.text()
        await driver.press("escape", "escape")
        assert isinstance(driver.app.screen, MainScreen)
        assert driver.explorer.state.range is None


@pytest.mark.parametrize("size", [(60, 15), (80, 24), (200, 50)])
async def test_nothing_of_the_help_is_cut_off(session, size):
    async with opened(session, size) as driver:
        await driver.press("?")
        seen = set()
        sheet = driver.app.screen.query_one(VerticalScroll)
        while True:
            seen |= set(shown(driver))
            if sheet.scroll_offset.y >= sheet.max_scroll_y:
                break
            sheet.scroll_to(y=sheet.scroll_offset.y + sheet.size.height - 1, animate=False)
            await driver.idle()
        told = " ".join(seen)
        for entry in (entry for _, found in entries("lanes", {}) for entry in found):
            assert entry.keys in told
            assert all(word in told for word in entry.words.split())


async def test_the_user_s_own_keys_are_told(session):
    use_keys({"starved_next": ("f5",)})
    async with opened(session, (100, 40)) as driver:
        await driver.press("?", "next starved")
        assert any(line.startswith("F5") and "next starved launch" in line for line in shown(driver))


async def test_what_can_do_nothing_says_why(session):
    async with opened(session) as driver:
        await driver.press("?", "next hit")
        assert "no hits yet: / searches" in driver.text()
        assert isinstance(driver.app.screen, HelpSheet)
        await driver.press("?")
        assert isinstance(driver.app.screen, MainScreen)


async def test_keys_faster_than_the_sheet_do_no_harm(session):
    async with opened(session) as driver:
        for _ in range(2):
            await driver.send("?\x1b", at_once=True)
        if isinstance(driver.app.screen, HelpSheet):
            await driver.press("escape")
        assert isinstance(driver.app.screen, MainScreen)
        await driver.press("?", "copy")
        assert "matching copy" in driver.text()


async def test_words_and_synonyms_are_found_too(session):
    """What nobody spells as the keys do: the help says what it is and which keys, or which command, are about it."""
    async with opened(session) as driver:
        await driver.press("?")
        for typed, keys, meaning in (
            ("pict", "npu-tui screenshot", ""),
            ("screenshot", "npu-tui screenshot", ""),
            ("lang", "--lang", ""),
            ("idle", "I", "neither computes nor"),
            ("绑核", "", "Threads stay"),
            ("save", ":copy_csv", ""),
        ):
            await driver.press(typed)
            await driver.filled()
            assert any(line.startswith(keys) for line in shown(driver)), typed
            assert meaning in driver.text(), typed
            await driver.press("escape")  # takes back what is typed


def test_a_wrong_command_is_taken_by_its_meaning_before_its_letters():
    meant = {
        "export": "copy_csv",
        "slow": "tab_findings",
        "clock": "tab_job_clock",
        "空闲": "bubble_next",
        "zoomin": "zoom_in",
    }
    for typed, command in meant.items():
        assert nearest_command(typed, "job" if command.startswith("tab_job") else "lanes") == command, typed
