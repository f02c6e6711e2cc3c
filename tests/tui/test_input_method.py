"""Keys while an input method is on: full-width twins work, a Chinese character says what to press."""

from __future__ import annotations

import pytest
from driving import keys_of, opened

from npu_tui.tui.commands import commands_of, delivered, is_han

TWINS = dict(zip("，。【】、？：｛｝（）《》／．ｗＷ０", ",.[]/?:{}()<>/.wW0", strict=True))


@pytest.mark.parametrize(("twin", "plain"), TWINS.items())
def test_a_twin_arrives_as_its_key(twin, plain):
    (key,) = [event.key for event in keys_of(plain)]
    for data in (twin, f"\x1b[{ord(twin)};1;{ord(twin)}u"):
        assert next(event.key for event in keys_of(data)) in delivered(key)


async def test_a_twin_does_what_its_key_does(session):
    async with opened(session) as one, opened(session) as other:
        for twin, plain in (("x", "x"), ("ｗ", "w"), ("Ｗ", "W"), ("】", "]"), ("。", "."), ("？", "?")):
            for driver, data in ((one, plain), (other, twin)):
                await driver.send(data)
                await driver.settle()
            assert one.rows()[:-1] == other.rows()[:-1]


def test_no_twin_has_two_meanings():
    names = [name for command in commands_of("lanes") for key in command.keys for name in delivered(key)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("data", ["汉", "\x1b[27721;1;27721u", "㐀"])
async def test_a_chinese_character_says_what_to_press(session, data):
    async with opened(session) as driver:
        before = driver.window
        await driver.send(data)
        assert "input method is on: press Shift" in driver.rows()[-1]
        assert driver.window == before


async def test_a_search_takes_chinese_characters(session):
    async with opened(session) as driver:
        await driver.send("/汉字")
        assert driver.prompt.is_open
        assert "汉字" in driver.text()
        assert "input method" not in driver.text()


def test_what_is_han():
    assert [is_han(char) for char in ("汉", "a", "，", "한", "", None)] == [True, False, False, False, False, False]
