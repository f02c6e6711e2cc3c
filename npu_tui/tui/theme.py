"""Colours of everything beside the timeline, taken from its palette."""

from __future__ import annotations

from textual.theme import Theme

from npu_tui.trace.classes import OpClass
from npu_tui.view.palette import DARK, Ink, bar


def _hex(ink: int) -> str:
    red, green, blue = DARK.rgb[ink].tolist()
    return f"#{red:02x}{green:02x}{blue:02x}"


ALERT = _hex(Ink.ALERT)
"""Red: a launch starved. Nothing else is red."""

THEME = Theme(
    name="npu-dark",
    primary="#6f8fc0",
    secondary="#70d5c8",
    accent=_hex(Ink.ACCENT),
    foreground=_hex(Ink.TEXT),
    background=_hex(Ink.LANE),
    surface="#1b1d26",
    panel="#262a36",
    warning=_hex(Ink.ACCENT),
    error=ALERT,
    success="#219061",
    dark=True,
    variables={
        "block-cursor-background": "#3a4260",
        "block-cursor-foreground": "#ffffff",
        "scrollbar": "#3a4260",
        "scrollbar-hover": "#4a5478",
        "scrollbar-active": "#4a5478",
        "scrollbar-background": "#1b1d26",
        "scrollbar-background-hover": "#1b1d26",
        "scrollbar-background-active": "#1b1d26",
        "scrollbar-corner-color": "#1b1d26",
    },
)


def class_colour(op_class: int) -> str:
    """The colour of a class as a foreground."""
    return _hex(bar(op_class))


def class_style(op_class: int) -> str:
    """The Rich style of a class: its bar, or its hatch for waits."""
    return f"{_hex(bar(op_class))}" if op_class == OpClass.WAIT else f"on {_hex(bar(op_class))}"
