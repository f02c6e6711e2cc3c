"""A screen of cells as an SVG picture; block, line and braille glyphs are shapes, so no font leaves seams."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from html import escape

from npu_tui.trace.text import cell_count, char_cells
from npu_tui.view.ansi import Rgb
from npu_tui.view.grid import Attr

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
_RECT = re.compile(r'<rect x="([\d.]+)" (y="[\d.]+") width="([\d.]+)" (.*)/>')
_LINE = re.compile(r'<line x1="([\d.]+)" y1="([\d.]+)" x2="([\d.]+)" y2="([\d.]+)" (.*)/>')
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
    parts = [opened(width, CELL_HEIGHT * len(rows), title)]
    for y, row in enumerate(rows):
        parts.extend(row_shapes(row, y * CELL_HEIGHT))
    parts.append(CLOSED)
    return "\n".join(parts)


def opened(width: int, height: int, title: str, rules: str = "") -> str:
    """How a picture of ``width`` x ``height`` begins, with further ``rules`` of its style."""
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    lines = (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}>',
        f"<title>{escape(title)}</title>",
        f"<style>text {{ white-space: pre }}{rules}</style>",  # older programs read the attribute instead
        f'<g font-family="{_FONT}" font-size="{_FONT_SIZE}" xml:space="preserve" shape-rendering="crispEdges">',
    )
    return "\n".join(lines)


CLOSED = "</g></svg>\n"
"""How a picture ends."""


def row_shapes(row: list[Piece], top: int) -> Iterator[str]:
    """The shapes of one row whose upper edge is at ``top``; what looks alike and touches is one shape."""
    return _joined(_shapes(row, top))


def _joined(shapes: Iterable[str]) -> Iterator[str]:
    """``shapes`` with rectangles that continue each other as one, and lines of one look as one path."""
    box: tuple[float, float, str, str] | None = None  # left, right, the other attributes ahead and behind
    strokes: tuple[str, list[str]] | None = None

    def done() -> Iterator[str]:
        if box is not None:
            yield f'<rect x="{box[0]:g}" {box[2]} width="{box[1] - box[0]:g}" {box[3]}/>'
        if strokes is not None:
            yield f'<path d="{"".join(strokes[1])}" {strokes[0]}/>'

    for shape in shapes:
        if found := _RECT.fullmatch(shape):
            left, width, ahead, behind = float(found[1]), float(found[3]), found[2], found[4]
            if box is not None and box[2:] == (ahead, behind) and abs(box[1] - left) < 0.01:
                box = (box[0], left + width, ahead, behind)
                continue
            yield from done()
            box, strokes = (left, left + width, ahead, behind), None
        elif found := _LINE.fullmatch(shape):
            drawn = f"M{found[1]} {found[2]}L{found[3]} {found[4]}"
            if strokes is not None and strokes[0] == found[5]:
                strokes[1].append(drawn)
                continue
            yield from done()
            box, strokes = None, (found[5], [drawn])
        else:
            yield from done()
            box = strokes = None
            yield shape
    yield from done()


def _shapes(row: list[Piece], top: int) -> Iterator[str]:
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
