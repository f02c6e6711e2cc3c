"""Colours and language change inside: ``:light``, ``:dark``, ``:zh``, ``:en``."""

from __future__ import annotations

import pytest
from driving import opened

from npu_tui.strings import ENGLISH, say, speak
from npu_tui.tui.terminal.frames import THEMES
from npu_tui.view.palette import PALETTES


@pytest.fixture(autouse=True)
def english():
    yield
    speak(ENGLISH)


async def test_colours_change_on_the_whole_screen(session):
    async with opened(session, (120, 40)) as driver:
        await driver.settle()
        dark = driver.timeline._strips[12].render(driver.app.console)
        await driver.press(":", *"light", "enter")
        await driver.settle()
        assert driver.app.theme == THEMES["light"].name
        assert driver.app.terminal.palette == PALETTES["light"]
        assert driver.timeline._encoder._palette == PALETTES["light"]
        await driver.press(":", *"dark", "enter")
        await driver.settle()
        assert driver.timeline._strips[12].render(driver.app.console) == dark


async def test_the_language_changes_everywhere(session):
    async with opened(session, (120, 40)) as driver:
        await driver.settle()
        english = driver.rows()
        await driver.press(":", *"zh", "enter")
        await driver.settle()
        chinese = driver.rows()
        for key in ("tab.findings", "footer.help", "footer.zoom"):
            assert any(say(key) in row for row in chinese), key
        assert driver.panel.content.headings != ()
        speak(ENGLISH)
        headings = [row for row in english if "saves/step" in row]
        assert headings
        assert not any("saves/step" in row for row in chinese)
        await driver.press(":", *"en", "enter")
        await driver.settle()
        assert driver.rows()[:-1] == english[:-1]
