"""Texts of a trace made harmless for a terminal, and how many cells they take: a trace is untrusted input."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_ODD = re.compile(r"[^\x20-\x7e]")
_INVISIBLE = frozenset("\u034f\u115f\u1160\u2800\u3164\uffa0") | {chr(code) for code in range(0xFE00, 0xFE10)}
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_MARKS = frozenset({"Mn", "Me"})
_JOINERS = frozenset("\u200c\u200d")


def printable(text: str) -> str:
    """``text`` with control, escape, invisible and direction-changing characters replaced by a question mark."""
    return text if text.isascii() and text.isprintable() else _ODD.sub(_shown, text)


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


def drawable(text: str) -> str:
    """``text`` as characters of one or two cells each, so that every cell after them stays in its place.

    Accents are composed with their letters; marks that have no such letter, joiners and variation selectors are left
    out. What acts on a terminal, reorders the line or has no width of its own becomes ``?``.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_drawn, unicodedata.normalize("NFC", text)))


@lru_cache(maxsize=4096)
def _drawn(char: str) -> str:
    if unicodedata.category(char) in _MARKS or char in _JOINERS:
        return ""
    return char if char_cells(char) else "?"


@lru_cache(maxsize=4096)
def char_cells(char: str) -> int:
    """The cells that ``char`` takes on its own, 1 or 2, by East_Asian_Width (Unicode Annex 11); 0 if it has no place.

    Marks, conjoining Hangul vowels, skin tones and the letters of flags change their neighbours, in some terminals
    their width as well.
    """
    if not char.isprintable() or unicodedata.category(char) in ("Mn", "Me", "Mc", "Cf") or char in _INVISIBLE:
        return 0
    if unicodedata.bidirectional(char) in ("R", "AL", "AN") or _changes_neighbours(ord(char)):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def _changes_neighbours(code: int) -> bool:
    return (
        0x1160 <= code <= 0x11FF or 0xD7B0 <= code <= 0xD7FF or 0x1F1E6 <= code <= 0x1F1FF or 0x1F3FB <= code <= 0x1F3FF
    )


def cell_count(text: str) -> int:
    """The cells that a ``drawable`` text takes."""
    return len(text) if text.isascii() else sum(map(char_cells, text))


def shortened(text: str, cells: int, ahead: bool = False) -> str:
    """As much of a ``drawable`` text as ``cells`` cells hold, its beginning or with ``ahead`` its end, and ``…``."""
    if cell_count(text) <= cells:
        return text
    kept, room = [], cells - 1
    for char in reversed(text) if ahead else text:
        room -= char_cells(char)
        if room < 0:
            break
        kept.append(char)
    if cells < 1:
        return ""
    return "…" + "".join(reversed(kept)) if ahead else "".join(kept) + "…"


def padded(text: str, cells: int, right: bool = False) -> str:
    """A ``drawable`` text with blanks up to ``cells`` cells after it, or before it if ``right``."""
    blanks = " " * (cells - cell_count(text))
    return blanks + text if right else text + blanks


_NOT_FIRST = frozenset("，。、；：！？）】》”’％…,.;:!?)]}%")
_NOT_LAST = frozenset("（【《“‘([{")


def wrapped(text: str, cells: int, first: str = "", rest: str = "") -> list[str]:
    """A ``drawable`` text in lines of at most ``cells`` cells, the first one after ``first``, others after ``rest``.

    Lines break at blanks, and between characters of two cells, where no punctuation is torn from its word.
    """
    lines, line, blank = [], first, ""
    empty = True
    for piece in _pieces(text):
        if piece == " ":
            blank = "" if empty else " "
            continue
        if not empty and cell_count(line) + cell_count(blank) + cell_count(piece) > cells:
            lines.append(line)
            line, blank = rest, ""
        line += blank + piece
        empty, blank = False, ""
    return lines if empty else [*lines, line]


def _pieces(text: str) -> list[str]:
    """What stays together in a line: words, single characters of two cells with the punctuation beside them; blanks."""
    found: list[str] = []
    glued = False
    for char in text:
        if char.isspace():
            if found and found[-1] != " ":
                found.append(" ")
            glued = False
            continue
        wide = char_cells(char) == 2
        joins = bool(found) and found[-1] != " " and (glued or char in _NOT_FIRST or found[-1][-1] in _NOT_LAST)
        if joins:
            found[-1] += char
        else:
            found.append(char)
        glued = not wide
    return found
