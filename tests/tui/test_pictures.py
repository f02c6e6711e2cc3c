"""Three screens with their colours, as pictures; NPU_TUI_GOLDEN=write stores them anew."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from driving import opened
from test_golden import WRITING

FOLDER = Path(__file__).resolve().parent / "pictures"
_NUMBER = re.compile(r"\bterminal-\d+-")
"""Rich gives the classes of each picture a number of its own."""


@pytest.mark.parametrize(
    ("name", "profile", "size", "keys"),
    [
        ("opening", "healthy", (120, 40), ()),
        ("chain", "dispatch_bound", (120, 40), ("x", "c")),
        ("links", "dispatch_bound", (80, 24), ("t", "f")),
    ],
    ids=["opening", "chain", "links"],
)
async def test_picture(sessions, tmp_path, name, profile, size, keys):
    async with opened(sessions[profile], size) as driver:
        await driver.press(*keys)
        await driver.settle()
        picture = _NUMBER.sub("terminal-", driver.app.export_screenshot(simplify=True))
    stored = FOLDER / f"{name}.svg"
    if WRITING:
        stored.write_text(picture, encoding="utf-8")
    elif picture != stored.read_text(encoding="utf-8"):
        now = tmp_path / stored.name
        now.write_text(picture, encoding="utf-8")
        pytest.fail(f"{now} is what is drawn, {stored} what is stored", pytrace=False)
