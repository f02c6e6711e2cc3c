"""A screen of cells as an SVG picture; block, line and braille glyphs are shapes, so no font leaves seams."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from npu_tui.trace.text import cell_count, char_cells
from npu_tui.view.cells.ansi import Rgb
from npu_tui.view.cells.grid import Attr

Piece = tuple[str, Rgb, Rgb, int]
"""``drawable`` text, foreground, background and attribute bits."""

CELL_WIDTH = 9
CELL_HEIGHT = 18
_FONT = "DejaVu Sans Mono, Menlo, Consolas, monospace"
_FONT_SIZE = 14.5
_BASELINE = 13.5
_DOT = 1.9
_BRAILLE = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3))
_STROKES = {"─": (0, 9, 9, 9), "│": (4.5, 0, 4.5, 18)}
_DIAGONALS = {"╱": (0, 18, 9, 0), "╲": (0, 0, 9, 18)}
_HEAVY = {"━": (0, 9, 9, 9), "┃": (4.5, 0, 4.5, 18)}
_DASHED = {"┊": (4.5, 0, 4.5, 18), "╷": (4.5, 9, 4.5, 18), "╵": (4.5, 0, 4.5, 9)}
_LINES = (
    (_STROKES, 1.0, ""),
    # Steps instead of a slope would look torn.
    (_DIAGONALS, 1.0, ' shape-rendering="auto"'),
    (_HEAVY, 2.0, ""),
    (_DASHED, 1.0, ' stroke-dasharray="2 2.5"'),
)


def svg(rows: list[list[Piece]], title: str) -> str:
    """The picture of ``rows``."""
    width = CELL_WIDTH * max((sum(cell_count(piece[0]) for piece in row) for row in rows), default=1)
    height = CELL_HEIGHT * len(rows)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        f"<title>{escape(title)}</title>",
        "<style>text { white-space: pre }</style>",  # older programs read the attribute instead
        f'<g font-family="{_FONT}" font-size="{_FONT_SIZE}" xml:space="preserve" shape-rendering="crispEdges">',
    ]
    for y, row in enumerate(rows):
        parts.extend(_row(row, y * CELL_HEIGHT))
    parts.append("</g></svg>\n")
    return "\n".join(parts)


def _row(row: list[Piece], top: int) -> Iterator[str]:
    left = 0
    for text, _, back, _ in row:
        width = cell_count(text) * CELL_WIDTH
        yield f'<rect x="{left}" y="{top}" width="{width}" height="{CELL_HEIGHT}" fill="{_hex(back)}"/>'
        left += width
    left = 0
    for text, front, _, attr in row:
        yield from _glyphs(text, left, top, _hex(front), attr)
        left += cell_count(text) * CELL_WIDTH


def _glyphs(text: str, left: int, top: int, colour: str, attr: int) -> Iterator[str]:
    """Shapes for drawing glyphs, text elements for the words between them."""
    word, begin = "", left
    faint = ' opacity="0.6"' if attr & Attr.DIM else ""
    behind = left
    for char in text:
        x, behind = behind, behind + char_cells(char) * CELL_WIDTH
        shape = _shape(char, x, top, colour)
        if shape is None:
            if not word:
                begin = x
            word += char
            continue
        yield from _word(word, begin, top, colour, attr)
        word = ""
        if shape:
            yield shape.replace("/>", f"{faint}/>") if faint else shape
    yield from _word(word, begin, top, colour, attr)


def _word(word: str, left: int, top: int, colour: str, attr: int) -> Iterator[str]:
    stripped = word.lstrip(" ")
    left += (len(word) - len(stripped)) * CELL_WIDTH
    stripped = stripped.rstrip(" ")
    if not stripped:
        return
    style = (' font-weight="bold"' if attr & Attr.BOLD else "") + (' opacity="0.6"' if attr & Attr.DIM else "")
    length = cell_count(stripped) * CELL_WIDTH
    yield (
        f'<text x="{left}" y="{top + _BASELINE}" fill="{colour}" textLength="{length}"{style} '
        f'lengthAdjust="spacingAndGlyphs">{escape(stripped)}</text>'
    )


def _shape(char: str, x: float, y: float, colour: str) -> str | None:
    """The shape of a drawing glyph, an empty text for a blank braille cell, None for what the font draws."""
    code = ord(char)
    if 0x2581 <= code <= 0x2588:
        return _rect(x, y, 0, 8 - (code - 0x2580), 8, 8, colour)
    if 0x2589 <= code <= 0x258F:
        return _rect(x, y, 0, 0, 0x2590 - code, 8, colour)
    if char in "▐▕▀▔":
        return _rect(x, y, *{"▐": (4, 0, 8, 8), "▕": (7, 0, 8, 8), "▀": (0, 0, 8, 4), "▔": (0, 0, 8, 1)}[char], colour)
    if 0x2800 <= code <= 0x28FF:
        dots = [place for bit, place in enumerate(_BRAILLE) if (code - 0x2800) >> bit & 1]
        path = "".join(
            f"M{x + 2 + column * 4.5:g} {y + 2.2 + line * 4.3:g}h{_DOT}v{_DOT}h-{_DOT}z" for column, line in dots
        )
        return f'<path d="{path}" fill="{colour}"/>' if path else ""
    for strokes, width, look in _LINES:
        if char in strokes:
            x1, y1, x2, y2 = strokes[char]
            return (
                f'<line x1="{x + x1:g}" y1="{y + y1:g}" x2="{x + x2:g}" y2="{y + y2:g}" '
                f'stroke="{colour}" stroke-width="{width:g}"{look}/>'
            )
    return None


def _rect(x: float, y: float, left: float, top: float, right: float, bottom: float, colour: str) -> str:
    """A rectangle given in eighths of the cell."""
    across, down = CELL_WIDTH / 8, CELL_HEIGHT / 8
    return (
        f'<rect x="{x + left * across:g}" y="{y + top * down:g}" width="{(right - left) * across:g}" '
        f'height="{(bottom - top) * down:g}" fill="{colour}"/>'
    )


def _hex(colour: Rgb) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)
