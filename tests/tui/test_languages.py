"""The screen in Chinese: whole where it is whole in English, every row as wide as the terminal."""

from __future__ import annotations

import re

import pytest
from driving import LEGACY, opened

from npu_tui.strings import speaking
from npu_tui.trace.text import cell_count, drawable
from npu_tui.tui.session import Session

HAN = re.compile(r"[\u4e00-\u9fff]")
HIDDEN_COLUMNS = re.compile(r"\+(\d+) ← →")
WALKS = {
    "tabs and views": ("", *"777", *"9999", *"rrrr", *"ITCO", ":health\r", "escape", "escape"),
    "grown panel": ("P", *"234568r1"),
    "slices": (*"xcftetb[]}m", "M", "v", "d", "v", "5", "3", "escape", "escape"),
    "rows, table and sheets": (
        *"ppH", ":show_hidden\r", "i", "i", "space", "space",
        "1", "1", "down", "space", "escape", "&", "escape", "escape",
        "?", "pagedown", "pagedown", "pagedown", "escape", "ctrl+p", "escape", ":flags\r", "escape",
    ),
    "prompts and flags": (
        "/", "gelu", "enter", "n", "8", "8", ":", "1ms..2ms", "enter", "3", ":", "nothing like it", "escape",
        "K", "a name", "enter", ":flags\r", "escape", ":whatif\r", "escape",
    ),
}  # fmt: skip
"""Keys one after the other; the screen is looked at after each."""


async def walked(session: Session, keys: tuple[str, ...], size: tuple[int, int]) -> list[list[str]]:
    """What is on screen after each of ``keys``."""
    shown = []
    async with opened(session, size) as driver:
        for key in keys:
            if key:
                await driver.send(LEGACY.get(key, key))
            await driver.settle()
            shown.append(driver.rows())
    return shown


@pytest.mark.few(1)
@pytest.mark.parametrize("walk", WALKS)
async def test_nothing_is_cut_that_is_whole_in_english(session: Session, walk: str) -> None:
    size = (80, 24)
    shown = {}
    for language in ("en", "zh"):
        with speaking(language):
            shown[language] = await walked(session, WALKS[walk], size)
    assert HAN.search("".join(shown["zh"][0]))
    for key, english, chinese in zip(WALKS[walk], shown["en"], shown["zh"], strict=True):
        assert all(cell_count(drawable(row.rstrip())) <= size[0] for row in chinese), key
        said = "\n".join([f"after {key!r}", *english, *chinese])
        cut = [row.count("…") for row in chinese if HAN.search(row)]
        assert sum(cut) <= sum(row.count("…") for row in english), said
        assert hidden(chinese) <= hidden(english), said


def hidden(rows: list[str]) -> int:
    """How many columns of a table are out of sight."""
    return sum(int(found[1]) for row in rows if (found := HIDDEN_COLUMNS.search(row)) is not None)
