"""Renders the pictures of this folder from the bundled fixtures: ``python screenshots/render.py``."""

from __future__ import annotations

import os
from pathlib import Path

from walk import walk

from npu_tui.load.load import Opening
from npu_tui.profile.profile import Profile
from npu_tui.strings import speaking
from npu_tui.tui.picture import picture
from npu_tui.tui.terminal.terminal import Terminal
from npu_tui.view.palette import BLIND, LIGHT

HERE = Path(__file__).resolve().parent

PICTURES: tuple[tuple[str, str, int, int, str], ...] = (
    ("opening_80x24", "dispatch_bound", 80, 24, ""),
    ("opening_120x40", "dispatch_bound", 120, 40, ""),
    ("opening_200x50", "dispatch_bound", 200, 50, ""),
    ("links_200x50", "dispatch_bound", 200, 50, "x W t x x"),
    ("healthy_200x50", "healthy", 200, 50, "t t"),
    ("chain_120x40", "dispatch_bound", 120, 40, "x x x x c"),
    ("finding_120x40", "dispatch_bound", 120, 40, "e"),
    ("code_lines_120x40", "dispatch_bound", 120, 40, "2"),
    ("operators_120x40", "dispatch_bound", 120, 40, "6"),
    ("communication_120x40", "healthy", 120, 40, "7"),
    ("range_120x40", "dispatch_bound", 120, 40, "x m x v d d v 5"),
    ("idle_120x40", "dispatch_bound", 120, 40, "I b 3 P"),
    ("distribution_120x40", "dispatch_bound", 120, 40, "slash g e l u enter 8 8 P"),
    ("keys_120x40", "dispatch_bound", 120, 40, "question_mark"),
)
"""(name, fixture, columns, rows, keys pressed first)."""

TERMINALS: tuple[tuple[str, str, int, int, str, Terminal], ...] = (
    ("light_120x40", "dispatch_bound", 120, 40, "x W t x x", Terminal(palette=LIGHT)),
    ("colour_blind_120x40", "dispatch_bound", 120, 40, "x W t x x", Terminal(palette=BLIND)),
    ("colours16_120x40", "dispatch_bound", 120, 40, "x W t x x", Terminal("16")),
    ("no_colour_120x40", "dispatch_bound", 120, 40, "x W t x x", Terminal("none")),
    ("safe_120x40", "dispatch_bound", 120, 40, "x W t x x", Terminal(glyphs="safe")),
    ("ascii_120x40", "dispatch_bound", 120, 40, "x W t x x", Terminal("none", glyphs="ascii")),
    ("small_60x15", "dispatch_bound", 60, 15, "x", Terminal("256")),
)
"""The same, with the terminal that shows it."""

CHINESE = ("opening_80x24", "opening_120x40", "finding_120x40", "idle_120x40", "keys_120x40")
"""Pictures that are made once more in Chinese."""


def main() -> None:
    """Write every picture."""
    os.chdir(HERE.parent)  # the pictures show relative paths
    for name, fixture, columns, rows, keys, terminal in (*((*entry, Terminal()) for entry in PICTURES), *TERMINALS):
        for language in ("en", "zh") if name in CHINESE else ("en",):
            opening = Opening(Path("fixtures") / fixture, cached=False)
            profile = Profile(opening.trace(), opening.source)
            file = HERE / (f"{name}.svg" if language == "en" else f"{name}.{language}.svg")
            with speaking(language):
                file.write_text(picture([profile], columns, rows, keys.split(), terminal), encoding="utf-8")
            print(file.name)
    opening = Opening(Path("fixtures") / "dispatch_bound", cached=False)
    for language, name in (("en", "walk.svg"), ("zh", "walk.zh.svg")):
        with speaking(language):
            (HERE / name).write_text(walk(Profile(opening.trace(), opening.source)), encoding="utf-8")
        print(name)


if __name__ == "__main__":
    main()
