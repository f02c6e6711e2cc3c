"""Colours of everything beside the timeline, taken from its palettes."""

from __future__ import annotations

from textual.theme import Theme

from npu_tui.trace.classes import OpClass
from npu_tui.view.palette import DARK, PALETTES, Ink, Palette, bar


def _hex(ink: int, palette: Palette = DARK) -> str:
    red, green, blue = palette.rgb[ink].tolist()
    return f"#{red:02x}{green:02x}{blue:02x}"


ALERT = _hex(Ink.ALERT)
"""Red: a launch starved. Nothing else is red. Other palettes have another red in its place."""

_DARK_SURFACES = {"surface": "#1b1d26", "panel": "#262a36", "primary": "#6f8fc0", "mark": "#3a4260", "bar": "#4a5478"}
_LIGHT_SURFACES = {"surface": "#eceef3", "panel": "#dfe3ec", "primary": "#3c5f9e", "mark": "#b3c4ea", "bar": "#9db0d8"}


def _theme(palette: Palette) -> Theme:
    parts = _DARK_SURFACES if palette.dark else _LIGHT_SURFACES
    surface, mark, bright = parts["surface"], parts["mark"], parts["bar"]
    return Theme(
        name=f"npu-{palette.name}",
        primary=parts["primary"],
        secondary=_hex(bar(OpClass.CANN), palette),
        accent=_hex(Ink.ACCENT, palette),
        foreground=_hex(Ink.TEXT, palette),
        background=_hex(Ink.LANE, palette),
        surface=surface,
        panel=parts["panel"],
        warning=_hex(Ink.ACCENT, palette),
        error=_hex(Ink.ALERT, palette),
        success=_hex(bar(OpClass.VECTOR), palette),
        dark=palette.dark,
        variables={
            "block-cursor-background": mark,
            "block-cursor-foreground": _hex(Ink.BRIGHT, palette),
            "scrollbar": mark,
            "scrollbar-hover": bright,
            "scrollbar-active": bright,
            "scrollbar-background": surface,
            "scrollbar-background-hover": surface,
            "scrollbar-background-active": surface,
            "scrollbar-corner-color": surface,
        },
    )


THEMES: dict[str, Theme] = {name: _theme(palette) for name, palette in PALETTES.items()}
"""The theme of every palette, by the palette's name."""


def class_colour(op_class: int) -> str:
    """The colour of a class as a foreground."""
    return _hex(bar(op_class))


def class_style(op_class: int) -> str:
    """The Rich style of a class: its bar, or its hatch for waits."""
    return f"{_hex(bar(op_class))}" if op_class == OpClass.WAIT else f"on {_hex(bar(op_class))}"
