"""Texts of a trace made harmless for a terminal: a trace is untrusted input."""

from __future__ import annotations

import re
import unicodedata

_ODD = re.compile(r"[^\x20-\x7e]")
_INVISIBLE = frozenset("\u034f\u115f\u1160\u2800\u3164\uffa0") | {chr(code) for code in range(0xFE00, 0xFE10)}
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def printable(text: str) -> str:
    """``text`` with control, escape, invisible and direction-changing characters replaced by a question mark."""
    return _ODD.sub(_shown, text)


def _shown(match: re.Match[str]) -> str:
    char = match[0]
    return "?" if unicodedata.category(char) in _UNSAFE or char in _INVISIBLE or _is_tag(char) else char


def _is_tag(char: str) -> bool:
    return 0xE0000 <= ord(char) <= 0xE01EF


def on_one_line(text: str) -> str:
    """The value of an arg on one line: the profiler separates inputs by a semicolon and a line end."""
    return text.replace(";\r\n", "; ").replace("\r\n", " ").replace("\n", " ")


def brief(text: str, longest: int = 200) -> str:
    """``printable`` text of at most ``longest`` characters, its end left out; names may have any length."""
    return printable(text) if len(text) <= longest else printable(text[: longest - 1]) + "…"


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
