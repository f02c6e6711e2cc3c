"""The options that say how to draw."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from npu_tui.settings import GLYPHS
from npu_tui.strings import say

if TYPE_CHECKING:
    from npu_tui.settings import Settings

THEMES = ("auto", "dark", "light", "colour-blind", "colour-blind-light")


def add_look(parser: argparse.ArgumentParser) -> None:
    """The options that say how to draw; their values are those of ``npu_tui.tui.terminal.terminal``."""
    parser.add_argument("--theme", choices=THEMES, help=say("cli.theme"))
    parser.add_argument("--glyphs", choices=GLYPHS, help=say("cli.glyphs"))


def look_of(options: argparse.Namespace, settings: Settings) -> tuple[str, str]:
    """The theme and the glyphs that ``options`` ask for, else the user's ``settings``."""
    return options.theme or settings.theme or THEMES[0], options.glyphs or settings.glyphs or GLYPHS[0]
