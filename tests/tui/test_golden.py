"""Whole screens as text, compared row by row; NPU_TUI_GOLDEN=write stores them anew."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable
from pathlib import Path

import pytest
from driving import Driver, opened

from npu_tui.view.scene import true_offsets

FOLDER = Path(__file__).resolve().parent / "golden"
WRITING = os.environ.get("NPU_TUI_GOLDEN") == "write"

SIZES = [(80, 24), (120, 40), (200, 50)]
VIEWS = {
    "chain": ("x", "c"),
    "range": (":2ms\r", "v", ":5ms\r", "v", "5"),
    "links": ("t",),
    "lines": ("t", "t", "2"),
    "operators": ("6", "\t", "\x1b[C", "\x1b[C", "\x1b[C", "&e\r"),
    "search": ("/gelu\r", "8"),
    "path": (";", "3"),
    "owners": ("5", "5", "5"),
}
"""Keys that lead from the opening screen to each view; to lines, operators and owners from the view before."""
WALKS = (("chain",), ("range",), ("links", "lines", "operators"), ("search",), ("path", "owners"))
"""The views that one opening screen leads to, one after the other."""


RANKS = {
    "aligned": ("/417_2_1\r", ":base\r", "n", "L"),
    "other_rank": (*"jj", ">"),
}
"""The same of two traces on one clock."""


FILES = {
    "operators": ("6",),
    "shapes": ("6", "6"),
    "memory": ("\x1b", "9"),
    "components": ("9", "9", "9", "9"),
    "links": ("\x1b", "7", "7", "7"),
    "summary": ("\x1b", "r"),
    "files": ("r", "r", "r"),
}
"""The tabs of a profile with all files beside its trace, one after the other."""


def compare(name: str, rows: list[str], folder: Path = FOLDER) -> None:
    """Fail with the rows that differ from those stored in ``folder``."""
    file = folder / f"{name}.txt"
    text = "\n".join(rows) + "\n"
    if WRITING:
        folder.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return
    stored = file.read_text(encoding="utf-8") if file.exists() else ""
    if text != stored:
        difference = difflib.unified_diff(stored.splitlines(), rows, f"{file.name} (stored)", "now", lineterm="", n=1)
        pytest.fail("\n".join(difference) + "\nNPU_TUI_GOLDEN=write stores what is shown now", pytrace=False)


async def walk(driver: Driver, name: str, views: Iterable[str], keys_of: dict[str, tuple[str, ...]]) -> None:
    """Go from view to view, and compare each."""
    for view in views:
        for keys in keys_of[view]:
            await driver.send(keys)
            await driver.settle()
        compare(f"{name}_{view}", driver.rows())


@pytest.mark.parametrize("views", WALKS, ids=lambda views: views[0])
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_screen(sessions, size: tuple[int, int], views: tuple[str, ...]):
    name = f"dispatch_bound_{size[0]}x{size[1]}"
    async with opened(sessions["dispatch_bound"], size) as driver:
        compare(f"{name}_opening", driver.rows())
        await walk(driver, name, views, VIEWS)
        assert len(driver.rows()) == size[1]


async def test_a_healthy_profile(sessions):
    async with opened(sessions["healthy"], SIZES[1]) as driver:
        compare("healthy_120x40_opening", driver.rows())


@pytest.mark.parametrize("view", RANKS)
@pytest.mark.parametrize("size", SIZES[:2], ids=lambda size: f"{size[0]}x{size[1]}")
async def test_two_ranks(sessions, size: tuple[int, int], view: str):
    """Each rank is drawn when it ran, under its number; L brings the collectives of both together."""
    session = sessions["two_ranks"]
    session.scene.set_offsets(true_offsets(session.scene.traces, session.scene.lengths))
    name = f"two_ranks_{size[0]}x{size[1]}"
    async with opened(session, size) as driver:
        compare(f"{name}_opening", driver.rows())
        await walk(driver, name, [view], RANKS)


@pytest.mark.parametrize("size", SIZES[:2], ids=lambda size: f"{size[0]}x{size[1]}")
async def test_tabs_of_files(beside, size: tuple[int, int]):
    async with opened(beside, size) as driver:
        await walk(driver, f"files_{size[0]}x{size[1]}", FILES, FILES)


@pytest.mark.skipif(WRITING, reason="the screens are being stored")
def test_no_stored_screen_is_left_over():
    wanted = {
        f"{profile}_{columns}x{rows}_{view}.txt"
        for profile, views, sizes in (
            ("healthy", (), SIZES[1:2]),
            ("dispatch_bound", VIEWS, SIZES),
            ("two_ranks", RANKS, SIZES[:2]),
        )
        for columns, rows in sizes
        for view in ("opening", *views)
    }
    wanted |= {f"files_{columns}x{rows}_{view}.txt" for columns, rows in SIZES[:2] for view in FILES}
    assert {file.name for file in FOLDER.iterdir()} == wanted
