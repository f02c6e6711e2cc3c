"""Pictures as SVG: the cells of a screen become shapes, and shapes are written once.

Block, line and braille glyphs are shapes, so no font leaves seams between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from npu_tui.output.document import Box, Dots, Line, Look, Paint, Picture, Shape, Tip, Words
from npu_tui.trace.text import cell_count, char_cells, printable
from npu_tui.view.grid import Attr
from npu_tui.view.palette import DARK, LIGHT, Palette

Piece = tuple[str, Paint, Paint, int]
"""``drawable`` text, foreground, background and attribute bits."""

CELL_WIDTH = 9
CELL_HEIGHT = 18
_FONT = "DejaVu Sans Mono, Menlo, Consolas, monospace"
_FONT_SIZE = 14.5
_BASELINE = 13.5
_DOT = 1.9
_BRAILLE = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3))
_THIN, _SLOPE, _HEAVY, _DASHED = Look(1), Look(1, smooth=True), Look(2), Look(1, dashed=True)
_LINES = {
    "─": (0, 9, 9, 9, _THIN), "│": (4.5, 0, 4.5, 18, _THIN),
    # Steps instead of a slope would look torn.
    "╱": (0, 18, 9, 0, _SLOPE), "╲": (0, 0, 9, 18, _SLOPE),
    "━": (0, 9, 9, 9, _HEAVY), "┃": (4.5, 0, 4.5, 18, _HEAVY),
    "┊": (4.5, 0, 4.5, 18, _DASHED), "╷": (4.5, 9, 4.5, 18, _DASHED), "╵": (4.5, 0, 4.5, 9, _DASHED),
}  # fmt: skip
_EIGHTHS = {"▐": (4, 0, 8, 8), "▕": (7, 0, 8, 8), "▀": (0, 0, 8, 4), "▔": (0, 0, 8, 1)}
"""Left, top, right and bottom of a glyph in eighths of its cell."""


def svg(rows: list[list[Piece]], title: str) -> str:
    """The screen of ``rows`` as a file of its own, in the colours of its pieces."""
    width = CELL_WIDTH * max((sum(cell_count(piece[0]) for piece in row) for row in rows), default=1)
    return picture_file(Picture(title, width, CELL_HEIGHT * len(rows), screen_shapes(rows)))


def screen_shapes(rows: list[list[Piece]]) -> list[Shape]:
    """The shapes of ``rows``, one below the other."""
    return [shape for y, row in enumerate(rows) for shape in row_shapes(row, y * CELL_HEIGHT)]


def picture_file(picture: Picture, palette: Palette = LIGHT) -> str:
    """``picture`` as a file of its own in the colours of ``palette``."""
    head = opened(f"{FILE} {sized(picture.width, picture.height)}", picture.title)
    return "\n".join([head, *written(picture.shapes, palette), CLOSED])


def page_picture(picture: Picture) -> str:
    """``picture`` as a part of a page: inks are classes, so that it follows the light or dark colours of the page."""
    paints = [paint for shape in picture.shapes if not isinstance(shape, Tip) for paint in (shape.paint,)]
    inks = sorted({paint for paint in (*paints, *(paint for paint, _ in picture.legend)) if isinstance(paint, int)})
    light, dark = (_rules(palette, inks) for palette in (LIGHT, DARK))
    rules = f"{light}@media screen and (prefers-color-scheme:dark){{{dark}}}" if inks else ""
    if (left := picture.head) is None:
        return "\n".join(
            [opened(sized(picture.width, picture.height), picture.title, rules), *written(picture.shapes, None), CLOSED]
        )
    all_of_it = f'width="100%" height="{picture.height:g}"'
    box = f'viewBox="{left:g} 0 {picture.width - left:g} {picture.height:g}" preserveAspectRatio="none"'
    words = [shape for shape in picture.shapes if isinstance(shape, Words)]
    return "\n".join([
        opened(f'class="bars" style="padding-left:{left:g}px" {all_of_it}', picture.title, rules),
        f'<g transform="translate(-{left:g})">', *written(words, None), f"</g><svg {all_of_it} {box}>",
        *written((shape for shape in picture.shapes if not isinstance(shape, Words)), None), f"</svg>{CLOSED}",
    ])  # fmt: skip


FILE = 'xmlns="http://www.w3.org/2000/svg"'
"""What a picture begins with that is a file of its own."""


def sized(width: float, height: float) -> str:
    """The attributes of a picture that shows ``width`` x ``height`` pixels."""
    return f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'


def _rules(palette: Palette, inks: list[int]) -> str:
    """What colours the shapes of each ink, and the boxes of its legend."""
    colours = {ink: _hex(palette.rgb[ink].tolist()) for ink in inks}
    return "".join(
        f".f{ink}{{fill:{colour};background:{colour}}}.s{ink}{{stroke:{colour}}}" for ink, colour in colours.items()
    )


def opened(look: str, title: str, rules: str = "") -> str:
    """How a picture with the attributes ``look`` begins, with further ``rules`` of its style."""
    lines = (
        f"<svg {look}>",
        f"<title>{_said(title)}</title>",
        f"<style>text {{ white-space: pre }}{rules}</style>",  # older programs read the attribute instead
        f'<g font-family="{_FONT}" font-size="{_FONT_SIZE}" xml:space="preserve" shape-rendering="crispEdges">',
    )
    return "\n".join(lines)


CLOSED = "</g></svg>\n"
"""How a picture ends."""


def written(shapes: Iterable[Shape], palette: Palette | None) -> Iterator[str]:
    """``shapes`` as elements, inks in the colours of ``palette``, or as classes without one.

    Boxes that continue each other are one element, and so are lines that follow each other and look alike.
    """
    box: Box | None = None
    lines: list[Line] = []
    for shape in shapes:
        if isinstance(shape, Box) and box is not None and _continues(box, shape):
            box = box._replace(width=shape.left + shape.width - box.left)
            continue
        if isinstance(shape, Line) and lines and shape[4:] == lines[0][4:]:
            lines.append(shape)
            continue
        if box is not None:
            yield _element(box, palette)
        if lines:
            yield _path(lines, palette)
        box, lines = None, []
        if isinstance(shape, Box):
            box = shape
        elif isinstance(shape, Line):
            lines = [shape]
        else:
            yield _element(shape, palette)
    if box is not None:
        yield _element(box, palette)
    if lines:
        yield _path(lines, palette)


def _continues(box: Box, other: Box) -> bool:
    same_row = box[1] == other[1] and box[3:] == other[3:]
    return same_row and abs(box.left + box.width - other.left) < 0.01


def _element(shape: Box | Dots | Words | Tip, palette: Palette | None) -> str:
    if isinstance(shape, Tip):
        tip = f'<rect class="tip" {_place(shape)}><title>{_said(shape.words)}</title></rect>'
        return f'<a href="#{escape(shape.link)}">{tip}</a>' if shape.link else tip
    look = _painted("fill", shape.paint, palette) + (' opacity="0.6"' if shape.faint else "")
    if isinstance(shape, Box):
        return f"<rect {_place(shape)} {look}/>"
    if isinstance(shape, Dots):
        dots = "".join(f"M{x:g} {y:g}h{_DOT}v{_DOT}h-{_DOT}z" for x, y in shape.corners)
        return f'<path d="{dots}" {look}/>'
    bold = ' font-weight="bold"' if shape.bold else ""
    fitted = f'textLength="{shape.width:g}" lengthAdjust="spacingAndGlyphs"'
    return f'<text x="{shape.left:g}" y="{shape.baseline:g}" {look}{bold} {fitted}>{_said(shape.text)}</text>'


def _path(lines: list[Line], palette: Palette | None) -> str:
    drawn = "".join(f"M{line.x1:g} {line.y1:g}L{line.x2:g} {line.y2:g}" for line in lines)
    look = lines[0].look
    how = f'{_painted("stroke", lines[0].paint, palette)} stroke-width="{look.width:g}"'
    how += ' shape-rendering="auto"' if look.smooth else ""
    how += ' stroke-dasharray="2 2.5"' if look.dashed else ""
    how += ' opacity="0.6"' if lines[0].faint else ""
    return f'<path d="{drawn}" {how}/>'


def _place(shape: Box | Tip) -> str:
    return f'x="{shape.left:g}" y="{shape.top:g}" width="{shape.width:g}" height="{shape.height:g}"'


def _painted(what: str, paint: Paint, palette: Palette | None) -> str:
    if isinstance(paint, str):
        return f'class="{escape(paint)}"'
    if isinstance(paint, tuple):
        return f'{what}="{_hex(paint)}"'
    if palette is None:
        return f'class="{what[0]}{paint}"'
    return f'{what}="{_hex(palette.rgb[paint].tolist())}"'


def _said(text: str) -> str:
    return escape(printable(text))


def _hex(colour: Iterable[int]) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)


def row_shapes(row: list[Piece], top: float) -> Iterator[Shape]:
    """The shapes of one row of cells whose upper edge is at ``top``: the grounds, then what stands on them."""
    left = 0
    for text, _, back, _ in row:
        width = cell_count(text) * CELL_WIDTH
        yield Box(left, top, width, CELL_HEIGHT, back)
        left += width
    left = 0
    for text, front, _, attr in row:
        yield from _glyphs(text, left, top, front, attr)
        left += cell_count(text) * CELL_WIDTH


def _glyphs(text: str, left: int, top: float, paint: Paint, attr: int) -> Iterator[Shape]:
    """Shapes for drawing glyphs, words for what lies between them."""
    word, begin, behind = "", left, left
    for char in text:
        x, behind = behind, behind + char_cells(char) * CELL_WIDTH
        shapes = _shapes(char, x, top, paint, bool(attr & Attr.DIM))
        if shapes is None:
            if not word:
                begin = x
            word += char
            continue
        yield from _words(word, begin, top, paint, attr)
        word = ""
        yield from shapes
    yield from _words(word, begin, top, paint, attr)


def _words(word: str, left: int, top: float, paint: Paint, attr: int) -> Iterator[Words]:
    stripped = word.lstrip(" ")
    left += (len(word) - len(stripped)) * CELL_WIDTH
    stripped = stripped.rstrip(" ")
    if stripped:
        width = cell_count(stripped) * CELL_WIDTH
        bold, faint = bool(attr & Attr.BOLD), bool(attr & Attr.DIM)
        yield Words(left, top + _BASELINE, width, stripped, paint, bold, faint)


def _shapes(char: str, x: float, y: float, paint: Paint, faint: bool) -> list[Shape] | None:
    """The shape of a drawing glyph, nothing for a blank braille cell, None for what the font draws."""
    code = ord(char)
    eighths = _EIGHTHS.get(char)
    if 0x2581 <= code <= 0x2588:
        eighths = (0, 8 - (code - 0x2580), 8, 8)
    elif 0x2589 <= code <= 0x258F:
        eighths = (0, 0, 0x2590 - code, 8)
    if eighths is not None:
        left, top, right, bottom = eighths
        across, down = CELL_WIDTH / 8, CELL_HEIGHT / 8
        return [Box(x + left * across, y + top * down, (right - left) * across, (bottom - top) * down, paint, faint)]
    if 0x2800 <= code <= 0x28FF:
        dots = [place for bit, place in enumerate(_BRAILLE) if (code - 0x2800) >> bit & 1]
        corners = tuple((x + 2 + column * 4.5, y + 2.2 + line * 4.3) for column, line in dots)
        return [Dots(corners, paint, faint)] if corners else []
    if char in _LINES:
        x1, y1, x2, y2, look = _LINES[char]
        return [Line(x + x1, y + y1, x + x2, y + y2, paint, look, faint)]
    return None
