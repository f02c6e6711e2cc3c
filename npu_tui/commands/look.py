"""The options that say how to draw."""

from __future__ import annotations

import argparse

from npu_tui.strings import say

THEMES = ("auto", "dark", "light", "colour-blind", "colour-blind-light")
GLYPHS = ("auto", "blocks", "safe", "console", "ascii")


def add_look(parser: argparse.ArgumentParser) -> None:
    """The options that say how to draw; their values are those of ``npu_tui.tui.terminal.terminal``."""
    parser.add_argument("--theme", choices=THEMES, help=say("cli.theme"))
    parser.add_argument("--glyphs", choices=GLYPHS, help=say("cli.glyphs"))
