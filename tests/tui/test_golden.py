"""Whole screens as text, compared row by row; NPU_TUI_GOLDEN=write stores them anew."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

import pytest
from driving import opened

FOLDER = Path(__file__).resolve().parent / "golden"
WRITING = os.environ.get("NPU_TUI_GOLDEN") == "write"

SIZES = [(80, 24), (120, 40), (200, 50)]
VIEWS = {
    "opening": (),
    "chain": ("x", "c"),
    "links": ("t",),
    "range": (":2ms\r", "v", ":5ms\r", "v", "5"),
    "lines": ("2",),
    "operators": ("6", "\t", "\x1b[C", "\x1b[C", "\x1b[C", "&e\r"),
    "search": ("/gelu\r", "8"),
}
"""Keys that lead from the opening screen to each view."""


def compare(name: str, rows: list[str]) -> None:
    """Fail with the rows that differ from the stored ones."""
    file = FOLDER / f"{name}.txt"
    text = "\n".join(rows) + "\n"
    if WRITING:
        FOLDER.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return
    stored = file.read_text(encoding="utf-8") if file.exists() else ""
    if text != stored:
        difference = difflib.unified_diff(stored.splitlines(), rows, f"{file.name} (stored)", "now", lineterm="", n=1)
        pytest.fail("\n".join(difference) + "\nNPU_TUI_GOLDEN=write stores what is shown now", pytrace=False)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("profile", ["healthy", "dispatch_bound"])
async def test_screen(sessions, profile: str, size: tuple[int, int], view: str):
    async with opened(sessions[profile], size) as driver:
        for keys in VIEWS[view]:
            await driver.send(keys)
        await driver.settle()
        rows = driver.rows()
    assert len(rows) == size[1]
    compare(f"{profile}_{size[0]}x{size[1]}_{view}", rows)


@pytest.mark.skipif(WRITING, reason="the screens are being stored")
def test_no_stored_screen_is_left_over():
    wanted = {
        f"{profile}_{columns}x{rows}_{view}.txt"
        for profile in ("healthy", "dispatch_bound")
        for columns, rows in SIZES
        for view in VIEWS
    }
    assert {file.name for file in FOLDER.iterdir()} == wanted
