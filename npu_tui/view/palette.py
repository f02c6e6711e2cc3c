"""Colours by role: a grid holds ink numbers, a palette says how each of them looks.

A theme or a poorer terminal is another table over the same numbers. Each ink has a truecolor value, one of the 240
fixed colours of a 256-colour terminal, and one of the 16 that a terminal names itself. The smallest OKLab distance
between classes that share a lane, and between each class and the alert, is the worst of what normal, protan, deutan
and tritan eyes see (Machado, Oliveira and Fernandes 2009): 0.09 for ``DARK``, 0.13 for ``BLIND``, 0.12 for the
light two. A class keeps its hue in every table, so that a picture, a page and a screen can be compared; lightness
differs. The 256-colour values are not rounded, as that turns dark greys into teal. Red belongs to starved launches.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from msgspec import Struct

from npu_tui.trace.arrays import U8
from npu_tui.trace.classes import OpClass
from npu_tui.trace.model import LayerKind

SHADES = 3
PLAIN, ZEBRA, LIT = range(SHADES)


def bar(op_class: int, shade: int = PLAIN) -> int:
    """The ink of a bar: ``PLAIN`` or ``ZEBRA`` for neighbours, ``LIT`` where the cursor's column crosses it."""
    return op_class * SHADES + shade


class Ink(IntEnum):
    """Everything on screen that is not a bar."""

    LANE = 64
    VOID = 65
    BAND = 66
    FOCUS = 67
    RANGE = 68
    RANGE_FOCUS = 69
    CURSOR = 70
    NAME_FOCUS = 71
    WINDOW = 72
    GRID = 80
    RULE = 81
    FAINT = 82
    DIM = 83
    TEXT = 84
    BRIGHT = 85
    LABEL = 86
    WAIT_GROUND = 87
    WAIT_LABEL = 88
    ACCENT = 89
    SELECTED = 90
    HIT = 91
    ALERT = 92
    ALERT_LOW = 93
    NEAR = 94
    SHALLOW = 95
    QUEUED = 96
    NEGATIVE = 97
    LINK = 98
    LINK_SELECTED = 99
    COUNTER = 100
    EXPOSED = 101
    COUNTER_LOW = 102


GROUNDS = frozenset(
    (Ink.LANE, Ink.VOID, Ink.BAND, Ink.FOCUS, Ink.RANGE, Ink.RANGE_FOCUS, Ink.CURSOR, Ink.NAME_FOCUS, Ink.WINDOW,
     Ink.WAIT_GROUND, Ink.LABEL)
)  # fmt: skip
"""The inks of backgrounds; the encoder separates them from the inks that are painted on them."""

IS_GROUND = np.zeros(256, np.bool_)
"""Whether each ink is one of a background."""
IS_GROUND[list(GROUNDS)] = True


class Palette(Struct, frozen=True):
    """Every ink as ``rgb`` (n, 3), as ``xterm`` (n,) colour 16..255, and as ``ansi`` (n,) colour 0..15.

    Unused numbers are black.
    """

    name: str
    dark: bool
    rgb: U8
    xterm: U8
    ansi: U8


_Colour = tuple[str, int]
_Bars = dict[OpClass, tuple[_Colour, _Colour, _Colour]]
_Inks = dict[Ink, _Colour]

_DARK_BARS: _Bars = {
    OpClass.FRAME: (("687685", 66), ("586675", 242), ("7c8b9a", 109)),
    OpClass.OP: (("7aa4d9", 110), ("6a93c7", 68), ("8fbaf0", 111)),
    OpClass.QUEUE: (("9f67c6", 134), ("8e56b4", 97), ("b57cdd", 140)),
    OpClass.CANN: (("70d5c8", 80), ("5dc3b6", 73), ("87ecdf", 116)),
    OpClass.CUBE: (("ffa33c", 215), ("ec9123", 208), ("ffba56", 216)),
    OpClass.VECTOR: (("219061", 29), ("007f51", 28), ("3ea675", 36)),
    OpClass.COMMUNICATION: (("be71a7", 133), ("ac6196", 132), ("d586bd", 175)),
    OpClass.MEMORY: (("eed985", 222), ("dcc773", 186), ("fff09c", 229)),
    OpClass.WAIT: (("68647a", 60), ("68647a", 60), ("7c788f", 103)),
    OpClass.OTHER: (("abad9a", 144), ("9a9c89", 247), ("c1c3b0", 187)),
    OpClass.STEP: (("6f7fa8", 67), ("5f6f97", 61), ("8494be", 104)),
}

_LIGHT_BARS: _Bars = {
    OpClass.FRAME: (("8f9ba6", 247), ("9ca9b4", 248), ("7e8a95", 102)),
    OpClass.OP: (("4f7cc2", 32), ("5c8ad0", 68), ("3f6cb0", 61)),
    OpClass.QUEUE: (("dd8afe", 213), ("ec99ff", 213), ("ca79eb", 177)),
    OpClass.CANN: (("77d4b6", 79), ("86e3c5", 115), ("65c2a5", 79)),
    OpClass.CUBE: (("feb54b", 216), ("ffc45c", 221), ("eca436", 179)),
    OpClass.VECTOR: (("4e907c", 66), ("5c9e89", 72), ("3d7f6c", 30)),
    OpClass.COMMUNICATION: (("e567ce", 206), ("f575dd", 206), ("d255bd", 169)),
    OpClass.MEMORY: (("a59812", 106), ("b3a62b", 142), ("948700", 100)),
    OpClass.WAIT: (("77738a", 243), ("77738a", 243), ("5f5b70", 60)),
    OpClass.OTHER: (("bac7b4", 152), ("c9d6c2", 187), ("a9b5a3", 145)),
    OpClass.STEP: (("aeb8dc", 146), ("bcc6ea", 153), ("9ca6c9", 146)),
}

_BLIND_BARS: _Bars = {
    OpClass.FRAME: (("707a84", 243), ("606a74", 242), ("818b96", 245)),
    OpClass.OP: (("488ffd", 69), ("377dea", 33), ("5ba2ff", 75)),
    OpClass.QUEUE: (("bfb1e7", 146), ("aea0d5", 146), ("d2c4fb", 189)),
    OpClass.CANN: (("91f5d5", 122), ("7fe3c3", 115), ("a5ffe8", 158)),
    OpClass.CUBE: (("fda932", 214), ("ea9712", 208), ("ffbc4b", 214)),
    OpClass.VECTOR: (("2d8c6e", 29), ("147b5e", 29), ("429e7f", 36)),
    OpClass.COMMUNICATION: (("c95cd0", 170), ("b64abe", 134), ("dd6fe4", 170)),
    OpClass.MEMORY: (("fae8a8", 229), ("e8d596", 186), ("fffaba", 229)),
    OpClass.WAIT: (("68647a", 60), ("68647a", 60), ("7c788f", 103)),
    OpClass.OTHER: (("b3bdae", 250), ("a2ab9d", 248), ("c6d0c1", 252)),
    OpClass.STEP: (("859cbe", 110), ("748bad", 103), ("97afd2", 110)),
}

_BLIND_LIGHT_BARS: _Bars = {
    OpClass.FRAME: (("757b87", 243), ("828895", 102), ("656b77", 242)),
    OpClass.OP: (("2991f6", 33), ("3ba0ff", 39), ("0980e3", 32)),
    OpClass.QUEUE: (("c4b3ff", 147), ("d3c2ff", 183), ("b3a2ec", 147)),
    OpClass.CANN: (("2edba0", 43), ("46eaae", 79), ("00c98f", 42)),
    OpClass.CUBE: (("feb636", 214), ("ffc549", 221), ("eba517", 178)),
    OpClass.VECTOR: (("478c7b", 30), ("559989", 66), ("367b6b", 30)),
    OpClass.COMMUNICATION: (("df63d1", 170), ("ee72e0", 206), ("cc51bf", 170)),
    OpClass.MEMORY: (("9e9820", 100), ("aba634", 142), ("8d8700", 100)),
    OpClass.WAIT: (("77738a", 243), ("77738a", 243), ("5f5b70", 60)),
    OpClass.OTHER: (("b3c5b0", 250), ("c2d4be", 187), ("a2b49f", 144)),
    OpClass.STEP: (("888cae", 103), ("959abd", 247), ("787b9d", 67)),
}

_INKS: dict[Ink, tuple[str, int, int, str, int, int]] = {
    Ink.LANE: ("111218", 233, 0, "f5f6f9", 255, 15),
    Ink.VOID: ("0b0c10", 232, 0, "e7e9ef", 253, 7),
    Ink.BAND: ("1a1c25", 234, 0, "e9ebf1", 254, 7),
    Ink.FOCUS: ("1c1f2b", 235, 0, "e4e9f6", 189, 7),
    Ink.RANGE: ("22324f", 17, 4, "cddcf6", 153, 14),
    Ink.RANGE_FOCUS: ("2b3d5e", 18, 4, "b8cdf1", 159, 14),
    Ink.CURSOR: ("373e58", 238, 8, "c3c9da", 251, 7),
    Ink.NAME_FOCUS: ("3a4262", 239, 4, "c3d0ef", 153, 14),
    Ink.WINDOW: ("39415f", 239, 8, "c3d0ef", 153, 14),
    Ink.GRID: ("343640", 237, 8, "d5d8e0", 252, 7),
    Ink.RULE: ("3a3c46", 238, 8, "c9ccd6", 250, 8),
    Ink.FAINT: ("50535f", 240, 8, "9ba0ae", 247, 8),
    Ink.DIM: ("8a8e9b", 245, 7, "626878", 241, 8),
    Ink.TEXT: ("c8cad2", 251, 7, "2b2f3a", 236, 0),
    Ink.BRIGHT: ("ffffff", 231, 15, "000000", 16, 0),
    # Labels look like the lane, which is also the empty part of a bar's first cell: one colour fewer to send.
    Ink.LABEL: ("111218", 233, 0, "14151c", 233, 0),
    Ink.WAIT_GROUND: ("1b1b23", 234, 0, "ecedf2", 254, 15),
    Ink.WAIT_LABEL: ("a19db2", 146, 7, "5d5970", 60, 0),
    Ink.ACCENT: ("ffd75e", 221, 11, "1d4ed8", 26, 4),
    Ink.SELECTED: ("ffffff", 231, 15, "1b1d26", 234, 0),
    Ink.HIT: ("ffef5a", 227, 11, "9c0086", 90, 5),
    Ink.ALERT: ("f82c2a", 196, 9, "c61610", 160, 1),
    Ink.ALERT_LOW: ("c23036", 160, 9, "d4564e", 167, 1),
    Ink.NEAR: ("fff3c4", 230, 15, "1b1d26", 234, 0),
    Ink.SHALLOW: ("b79f52", 143, 3, "7d6710", 58, 8),
    Ink.QUEUED: ("cdb65c", 179, 3, "94791b", 94, 8),
    Ink.NEGATIVE: ("7fc8f0", 117, 14, "1c6ea6", 25, 4),
    Ink.LINK: ("93a4b5", 109, 7, "65768a", 66, 8),
    Ink.LINK_SELECTED: ("ffffff", 231, 15, "000000", 16, 0),
    Ink.COUNTER: ("5b93a0", 67, 6, "3f7f8e", 30, 6),
    Ink.EXPOSED: (*_DARK_BARS[OpClass.COMMUNICATION][0], 13, *_LIGHT_BARS[OpClass.COMMUNICATION][0], 13),
    Ink.COUNTER_LOW: ("34535c", 23, 6, "a9c6cd", 152, 6),
}
"""Colour, xterm and ansi of each ink in the dark themes, then in the light ones."""
_BLIND_INKS: _Inks = {
    Ink.ALERT: ("ff0a0c", 196),
    Ink.ALERT_LOW: ("e30005", 160),
    Ink.EXPOSED: _BLIND_BARS[OpClass.COMMUNICATION][0],
}
_BLIND_LIGHT_INKS: _Inks = {
    Ink.ALERT: ("b40f1a", 124),
    Ink.EXPOSED: _BLIND_LIGHT_BARS[OpClass.COMMUNICATION][0],
}

# A terminal's own 16 colours: neighbours have no shades, and where the cursor's column crosses a bar it is one colour.
_BARS_16 = {
    OpClass.FRAME: (8, 8),
    OpClass.OP: (12, 12),
    OpClass.QUEUE: (5, 5),
    OpClass.CANN: (6, 6),
    OpClass.CUBE: (3, 3),
    OpClass.VECTOR: (2, 2),
    OpClass.COMMUNICATION: (13, 13),
    OpClass.MEMORY: (11, 11),
    OpClass.WAIT: (8, 8),
    OpClass.OTHER: (7, 8),
    OpClass.STEP: (12, 12),
}
_LIT_16 = 15, 8
"""Ansi colours of bars, and of one that is lit, in the dark themes and in the light ones."""


def _palette_of(name: str, dark: bool, bars: _Bars, others: _Inks | None = None) -> Palette:
    """The palette of the ``bars``, and of the inks of its theme but for ``others``."""
    rgb, xterm, ansi = np.zeros((256, 3), np.uint8), np.zeros(256, np.uint8), np.zeros(256, np.uint8)
    entries = {bar(kind, shade): colour for kind, shades in bars.items() for shade, colour in enumerate(shades)}
    for ink, columns in _INKS.items():
        text, code, ansi[ink] = columns[:3] if dark else columns[3:]
        entries[ink] = text, code
    for number, (text, code) in (entries | (others or {})).items():
        rgb[number] = [int(text[k : k + 2], 16) for k in (0, 2, 4)]
        xterm[number] = code
    for kind, codes in _BARS_16.items():
        ansi[bar(kind, PLAIN)] = ansi[bar(kind, ZEBRA)] = codes[not dark]
        ansi[bar(kind, LIT)] = 7 if kind == OpClass.WAIT and dark else _LIT_16[not dark]
    return Palette(name, dark, rgb, xterm, ansi)


DARK = _palette_of("dark", True, _DARK_BARS)
LIGHT = _palette_of("light", False, _LIGHT_BARS)
BLIND = _palette_of("colour-blind", True, _BLIND_BARS, _BLIND_INKS)
BLIND_LIGHT = _palette_of("colour-blind-light", False, _BLIND_LIGHT_BARS, _BLIND_LIGHT_INKS)

PALETTES: dict[str, Palette] = {palette.name: palette for palette in (DARK, LIGHT, BLIND, BLIND_LIGHT)}
"""Every palette by its name."""

LAYER_INKS: dict[LayerKind, int] = {
    "python": bar(OpClass.FRAME),
    "cann": bar(OpClass.CANN),
    "hardware": bar(OpClass.CUBE),
    "communication": bar(OpClass.COMMUNICATION),
    "overlap": bar(OpClass.VECTOR),
    "counter": bar(OpClass.STEP),
    "other": bar(OpClass.OTHER),
}
"""The ink of a layer's strip in the gutter."""
