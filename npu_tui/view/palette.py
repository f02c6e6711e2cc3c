"""Colours by role: one table of inks, each with a truecolor and an explicit 256-colour value.

A ``Grid`` holds ink numbers, so that a theme or a poorer terminal is another table over the same numbers. The class
colours keep an OKLab distance of at least 0.09 between classes that share a lane, also for colour-blind eyes; the
256-colour values are chosen by hand because rounding turns dark greys into teal. Red belongs to starved launches.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from npu_tui.trace.classes import OpClass
from npu_tui.trace.model import LayerKind

U8 = npt.NDArray[np.uint8]

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
    {
        Ink.LANE,
        Ink.VOID,
        Ink.BAND,
        Ink.FOCUS,
        Ink.RANGE,
        Ink.RANGE_FOCUS,
        Ink.CURSOR,
        Ink.NAME_FOCUS,
        Ink.WINDOW,
        Ink.WAIT_GROUND,
        Ink.LABEL,
    }
)
"""The inks that lie under everything else: an encoder may keep them apart from those that are painted on them."""


@dataclass(frozen=True, slots=True)
class Palette:
    """``rgb`` (n, 3) and ``xterm`` (n,) values of every ink; unused numbers are black."""

    name: str
    dark: bool
    rgb: U8
    xterm: U8


_DARK_BARS: dict[OpClass, tuple[tuple[str, int], tuple[str, int], tuple[str, int]]] = {
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

_DARK_INKS: dict[Ink, tuple[str, int]] = {
    Ink.LANE: ("111218", 233),
    Ink.VOID: ("0b0c10", 232),
    Ink.BAND: ("1a1c25", 234),
    Ink.FOCUS: ("1c1f2b", 235),
    Ink.RANGE: ("22324f", 17),
    Ink.RANGE_FOCUS: ("2b3d5e", 18),
    Ink.CURSOR: ("373e58", 238),
    Ink.NAME_FOCUS: ("3a4262", 239),
    Ink.WINDOW: ("39415f", 239),
    Ink.GRID: ("343640", 237),
    Ink.RULE: ("3a3c46", 238),
    Ink.FAINT: ("50535f", 240),
    Ink.DIM: ("8a8e9b", 245),
    Ink.TEXT: ("c8cad2", 251),
    Ink.BRIGHT: ("ffffff", 231),
    # Labels look like the lane, which is also the empty part of a bar's first cell: one colour fewer to send.
    Ink.LABEL: ("111218", 233),
    Ink.WAIT_GROUND: ("1b1b23", 234),
    Ink.WAIT_LABEL: ("a19db2", 146),
    Ink.ACCENT: ("ffd75e", 221),
    Ink.SELECTED: ("ffffff", 231),
    Ink.HIT: ("ffef5a", 227),
    Ink.ALERT: ("f82c2a", 196),
    Ink.ALERT_LOW: ("c23036", 160),
    Ink.NEAR: ("fff3c4", 230),
    Ink.SHALLOW: ("b79f52", 143),
    Ink.QUEUED: ("cdb65c", 179),
    Ink.NEGATIVE: ("7fc8f0", 117),
    Ink.LINK: ("93a4b5", 109),
    Ink.LINK_SELECTED: ("ffffff", 231),
    Ink.COUNTER: ("5b93a0", 67),
    Ink.EXPOSED: ("be71a7", 133),
    Ink.COUNTER_LOW: ("34535c", 23),
}


def _table(
    name: str,
    dark: bool,
    bars: dict[OpClass, tuple[tuple[str, int], tuple[str, int], tuple[str, int]]],
    inks: dict[Ink, tuple[str, int]],
) -> Palette:
    rgb, xterm = np.zeros((256, 3), np.uint8), np.zeros(256, np.uint8)
    entries = {bar(kind, shade): colour for kind, shades in bars.items() for shade, colour in enumerate(shades)}
    entries.update({int(ink): colour for ink, colour in inks.items()})
    for number, (text, code) in entries.items():
        rgb[number] = [int(text[k : k + 2], 16) for k in (0, 2, 4)]
        xterm[number] = code
    return Palette(name, dark, rgb, xterm)


DARK = _table("dark", True, _DARK_BARS, _DARK_INKS)

_LAYER_CLASS: dict[LayerKind, OpClass] = {
    "python": OpClass.FRAME,
    "cann": OpClass.CANN,
    "hardware": OpClass.CUBE,
    "communication": OpClass.COMMUNICATION,
    "overlap": OpClass.VECTOR,
    "counter": OpClass.STEP,
    "other": OpClass.OTHER,
}


def layer_ink(kind: LayerKind) -> int:
    """The ink of a layer's strip in the gutter."""
    return bar(_LAYER_CLASS[kind])
