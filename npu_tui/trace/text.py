"""Texts of a trace made harmless for a terminal: a trace is untrusted input."""

from __future__ import annotations

import re
import unicodedata

_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)


def printable(text: str) -> str:
    """``text`` with control, escape, invisible and direction-changing characters replaced by a question mark."""
    return _UNSAFE.sub("?", text)


def one_cell(text: str) -> str:
    """``text`` with every character that is not exactly one visible cell replaced by ``?``.

    Names come from an untrusted file: control characters would act on the terminal, bidirectional marks reorder the
    line, wide and zero-width ones shift every cell behind them.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if _one_cell(char) else "?" for char in text)


def _one_cell(char: str) -> bool:
    return (
        char.isprintable()
        and unicodedata.category(char) not in ("Mn", "Me", "Mc", "Cf")
        and unicodedata.east_asian_width(char) not in ("W", "F")
        and unicodedata.bidirectional(char) not in ("R", "AL", "AN")
    )
