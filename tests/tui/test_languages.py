"""The screen in Chinese: whole where it is whole in English, every row as wide as the terminal."""

from __future__ import annotations

import re

import pytest
from driving import opened

from npu_tui.strings import speaking
from npu_tui.trace.text import cell_count, drawable

HAN = re.compile(r"[\u4e00-\u9fff]")
TABS = {"opening": (), **{f"tab {tab}": (tab,) for tab in "2345678"}, "health": (":health\r",), "chain": ("x", "c")}


@pytest.mark.parametrize("view", TABS)
async def test_nothing_is_cut_that_is_whole_in_english(sessions, view: str) -> None:
    shown = {}
    for language in ("en", "zh"):
        with speaking(language):
            async with opened(sessions["dispatch_bound"], (80, 24)) as driver:
                for keys in TABS[view]:
                    await driver.send(keys)
                await driver.settle()
                shown[language] = driver.rows()
    assert HAN.search("".join(shown["zh"]))
    for english, chinese in zip(shown["en"], shown["zh"], strict=True):
        assert cell_count(drawable(chinese.rstrip())) <= 80, chinese
        if HAN.search(chinese):
            assert chinese.count("…") <= english.count("…"), f"{english}\n{chinese}"
