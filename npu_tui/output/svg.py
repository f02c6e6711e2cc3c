"""Pictures as SVG: the cells of a screen become shapes, and shapes are written once; the lanes of a trace among them.

Block, line and braille glyphs are shapes, so no font leaves seams between them. Lanes are drawn by the same view as
the screen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from itertools import groupby, pairwise
from typing import TypeVar

import numpy as np
from msgspec.structs import replace

from npu_tui.output.document import Box, Dots, Line, Look, Paint, Picture, Shape, Tip, Words
from npu_tui.profile.parts import WHOLE_TRACE
from npu_tui.profile.profile import Profile
from npu_tui.profile.scene import finding_marks, make_scene
from npu_tui.strings import say
from npu_tui.trace.classes import CLASS_OF_CATEGORY, OpClass
from npu_tui.trace.model import Trace
from npu_tui.trace.text import brief, cell_count, char_cells, drawable, duration_text, moment_text, printable
from npu_tui.view.caches import Frame, lanes_top
from npu_tui.view.explorer import Explorer
from npu_tui.view.grid import Attr
from npu_tui.view.margins import gutter_width, range_columns
from npu_tui.view.painter import Painter
from npu_tui.view.palette import DARK, LIGHT, Palette, bar
from npu_tui.view.scene import Scene

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
    """The shapes of ``rows``, one below the other: the grounds of all first, then what stands on them, by their looks.

    Nothing lies over another shape of its own kind, so that the order within each does not show.
    """
    grounds, glyphs = dict[object, list[Shape]](), dict[object, list[Shape]]()
    for y, row in enumerate(rows):
        for number, shape in enumerate(row_shapes(row, y * CELL_HEIGHT)):
            (grounds if number < len(row) else glyphs).setdefault(_look(shape), []).append(shape)
    return [shape for alike in (*grounds.values(), *glyphs.values()) for shape in alike]


def picture_file(picture: Picture, palette: Palette = LIGHT) -> str:
    """``picture`` as a file of its own in the colours of ``palette``."""
    head = opened(f"{FILE} {sized(picture.width, picture.height)}", picture.title)
    return "\n".join([head, *written_shapes(picture.shapes, palette), CLOSED])


def page_picture(picture: Picture) -> str:
    """``picture`` as a part of a page: inks are classes, so that it follows the light or dark colours of the page."""
    rules = _rules(picture)
    if (left := picture.head) is None:
        return "\n".join(
            [
                opened(sized(picture.width, picture.height), picture.title, rules),
                *written_shapes(picture.shapes, None),
                CLOSED,
            ]
        )
    all_of_it = f'width="100%" height="{picture.height:g}"'
    box = f'viewBox="{left:g} 0 {picture.width - left:g} {picture.height:g}" preserveAspectRatio="none"'
    words = [shape for shape in picture.shapes if isinstance(shape, Words)]
    return "\n".join([
        opened(f'class="bars" style="padding-left:{left:g}px" {all_of_it}', picture.title, rules),
        f'<g transform="translate(-{left:g})">', *written_shapes(words, None), f"</g><svg {all_of_it} {box}>",
        *written_shapes((shape for shape in picture.shapes if not isinstance(shape, Words)), None), f"</svg>{CLOSED}",
    ])  # fmt: skip


FILE = 'xmlns="http://www.w3.org/2000/svg"'
"""What a picture begins with that is a file of its own."""


def sized(width: float, height: float) -> str:
    """The attributes of a picture that shows ``width`` x ``height`` pixels."""
    return f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'


def _rules(picture: Picture) -> str:
    """What colours the shapes of each ink, and the boxes of the legend, in the light and the dark."""
    made = [shape for shape in picture.shapes if not isinstance(shape, Tip)]
    uses = [("s", "stroke", shape.paint) if isinstance(shape, Line) else ("f", "fill", shape.paint) for shape in made]
    uses += [("f", "background", paint) for paint, _ in picture.legend]
    inks = sorted({(name, what, ink) for name, what, ink in uses if isinstance(ink, int)})
    light, dark = (
        "".join(f".{name}{ink}{{{what}:{_colour_hex(palette.rgb[ink].tolist())}}}" for name, what, ink in inks)
        for palette in (LIGHT, DARK)
    )
    return f"{light}@media screen and (prefers-color-scheme:dark){{{dark}}}" if inks else ""


def opened(look: str, title: str, rules: str = "") -> str:
    """How a picture with the attributes ``look`` begins, with further ``rules`` of its style."""
    lines = (
        f"<svg {look}>",
        f"<title>{_text_content(title)}</title>",
        f"<style>text {{ white-space: pre }}{rules}</style>",  # older programs read the attribute instead
        f'<g font-family="{_FONT}" font-size="{_FONT_SIZE}" xml:space="preserve" shape-rendering="crispEdges">',
    )
    return "\n".join(lines)


CLOSED = "</g></svg>\n"
"""How a picture ends."""


def written_shapes(shapes: Iterable[Shape], palette: Palette | None) -> Iterator[str]:
    """``shapes`` as elements, inks in the colours of ``palette``, or as classes without one.

    Neighbours that look alike are one element; boxes or lines that continue each other are one part of it.
    """
    for (kind, *_), alike in groupby(shapes, _look):
        if kind is Words:
            yield from (_text_element(words, palette) for words in alike if isinstance(words, Words))
        elif kind is Tip:
            tips = [tip for tip in alike if isinstance(tip, Tip)]
            yield f'<g class="tip" stroke-width="{tips[0].height:g}">{"".join(map(_tip, tips))}</g>'
        else:
            yield _one_element(list(alike), palette)


def _look(shape: Shape) -> tuple[object, ...]:
    """What shapes that can be one element have in common: their kind, and of a line all but its two ends."""
    if isinstance(shape, Box | Dots):
        return type(shape), shape.paint, shape.faint
    if isinstance(shape, Tip):
        return Tip, shape.height
    return (Line, *shape[4:]) if isinstance(shape, Line) else (type(shape),)


def _one_element(alike: Sequence[Shape], palette: Palette | None) -> str:
    """Boxes, dots or lines that look alike as one element."""
    first = alike[0]
    if isinstance(first, Line):
        lines = _merged_parts([shape for shape in alike if isinstance(shape, Line)], _further)
        drawn = _line_path([((line.x1, line.y1), (line.x2 - line.x1, line.y2 - line.y1)) for line in lines])
        how = f'{_painted("stroke", first.paint, palette)} stroke-width="{first.look.width:g}"'
        how += ' shape-rendering="auto"' if first.look.smooth else ""
        how += ' stroke-dasharray="2 2.5"' if first.look.dashed else ""
    elif isinstance(first, Box):
        boxes = _merged_parts([shape for shape in alike if isinstance(shape, Box)], _wider)
        boxes = _merged_parts(sorted(boxes, key=lambda box: (box.left, box.width, box.top)), _higher)
        drawn, how = _box_path(map(_box_sides, boxes)), _painted("fill", first.paint, palette)
    else:
        corners = [corner for shape in alike if isinstance(shape, Dots) for corner in shape.corners]
        drawn = _box_path((*corner, _DOT, _DOT) for corner in corners)
        how = _painted("fill", getattr(first, "paint", ""), palette)
    faint = ' opacity="0.6"' if getattr(first, "faint", False) else ""
    return f'<path d="{drawn}" {how}{faint}/>'


_Part = TypeVar("_Part", Box, Line)


def _merged_parts(parts: Iterable[_Part], join: Callable[[_Part, _Part], _Part | None]) -> list[_Part]:
    """``parts``, those in one that ``join`` makes one of."""
    joined: list[_Part] = []
    for part in parts:
        one = join(joined[-1], part) if joined else None
        if one is None:
            joined.append(part)
        else:
            joined[-1] = one
    return joined


_TOUCHING = 0.01  # pixels that shapes which touch are apart at most, by rounding


def _wider(box: Box, other: Box) -> Box | None:
    alike = (box.top, box.height) == (other.top, other.height)
    touches = abs(box.left + box.width - other.left) < _TOUCHING
    return box._replace(width=other.left + other.width - box.left) if alike and touches else None


def _higher(box: Box, other: Box) -> Box | None:
    alike = (box.left, box.width) == (other.left, other.width)
    touches = abs(box.top + box.height - other.top) < _TOUCHING
    return box._replace(height=other.top + other.height - box.top) if alike and touches else None


def _further(line: Line, other: Line) -> Line | None:
    """Both as one where ``other`` goes on in the direction of ``line``; dashes begin anew with each."""
    if line[2:4] != other[:2] or line.look.dashed:
        return None
    (across, down), (then_across, then_down) = ((each.x2 - each.x1, each.y2 - each.y1) for each in (line, other))
    ahead = across * then_across + down * then_down > 0
    return line._replace(x2=other.x2, y2=other.y2) if ahead and across * then_down == down * then_across else None


def _line_path(lines: Iterable[tuple[tuple[float, float], tuple[float, float]]]) -> str:
    """Lines by their begin and what they go across and down; each begins from the end of the one before."""
    parts, (x, y) = [], (0, 0)
    for (left, top), (across, down) in lines:
        begin, end = (_whole_steps(left), _whole_steps(top)), (_whole_steps(left + across), _whole_steps(top + down))
        wide, high = (_pixels(after - before) for before, after in zip(begin, end, strict=True))
        goes = f"v{high}" if not across else f"h{wide}" if not down else f"l{wide} {high}"
        parts.append(f"m{_pixels(begin[0] - x)} {_pixels(begin[1] - y)}{goes}")
        x, y = end
    return "".join(parts)


def _box_path(boxes: Iterable[tuple[float, float, float, float]]) -> str:
    """Boxes by left, top, width and height; each begins from the corner of the one before."""
    parts, (x, y) = [], (0, 0)
    for left, top, width, height in boxes:
        begin = _whole_steps(left), _whole_steps(top)
        wide, high = _whole_steps(left + width) - begin[0], _whole_steps(top + height) - begin[1]
        move = f"m{_pixels(begin[0] - x)} {_pixels(begin[1] - y)}"
        parts.append(f"{move}h{_pixels(wide)}v{_pixels(high)}h{_pixels(-wide)}z")
        x, y = begin
    return "".join(parts)


# Steps of a pixel: an eighth of a cell is a whole number of them. Places are rounded to steps, and moves lie between
# rounded places: however many there are, none carries an error on.
_STEPS = 1000


def _whole_steps(place: float) -> int:
    return round(place * _STEPS)


def _pixels(steps: int) -> str:
    """So many steps in pixels."""
    return f"{steps / _STEPS:.3f}".rstrip("0").rstrip(".")


def _box_sides(box: Box) -> tuple[float, float, float, float]:
    return box.left, box.top, box.width, box.height


def _tip(tip: Tip) -> str:
    """A stroke through the middle of ``tip``, as broad as it is high: shorter than a box."""
    along = f"m{tip.left:g} {tip.top + tip.height / 2:g}h{tip.width:g}"
    over = f'<path d="{along}"><title>{_text_content(tip.words)}</title></path>'
    return f'<a href="#{escape(tip.link)}">{over}</a>' if tip.link else over


def _text_element(words: Words, palette: Palette | None) -> str:
    look = _painted("fill", words.paint, palette) + (' font-weight="bold"' if words.bold else "")
    look += ' opacity="0.6"' if words.faint else ""
    place = f'x="{words.left:g}" y="{words.baseline:g}" textLength="{words.width:g}"'
    return f"<text {place} {look}>{_text_content(words.text)}</text>"


def _painted(what: str, paint: Paint, palette: Palette | None) -> str:
    if isinstance(paint, str):
        return f'class="{escape(paint)}"'
    if isinstance(paint, tuple):
        return f'{what}="{_colour_hex(paint)}"'
    if palette is None:
        return f'class="{what[0]}{paint}"'
    return f'{what}="{_colour_hex(palette.rgb[paint].tolist())}"'


def _text_content(text: str) -> str:
    return escape(printable(text))


def _colour_hex(colour: Iterable[int]) -> str:
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
        shapes = _glyph_shapes(char, x, top, paint, bool(attr & Attr.DIM))
        if shapes is None:
            if not word:
                begin = x
            word += char
            continue
        yield from _placed_words(word, begin, top, paint, attr)
        word = ""
        yield from shapes
    yield from _placed_words(word, begin, top, paint, attr)


def _placed_words(word: str, left: int, top: float, paint: Paint, attr: int) -> Iterator[Words]:
    stripped = word.lstrip(" ")
    left += (len(word) - len(stripped)) * CELL_WIDTH
    stripped = stripped.rstrip(" ")
    if stripped:
        width = cell_count(stripped) * CELL_WIDTH
        bold, faint = bool(attr & Attr.BOLD), bool(attr & Attr.DIM)
        yield Words(left, top + _BASELINE, width, stripped, paint, bold, faint)


def _glyph_shapes(char: str, x: float, y: float, paint: Paint, faint: bool) -> list[Shape] | None:
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


_COLUMNS = 150
_MOST_ROWS = 60
_MOST_TIPS = 600
_LONGEST = 90
"""Slices that show their names, and characters of these."""


def timeline(part: Profile) -> Picture:
    """The lanes of ``part`` at its range or step, else the first step, else all of it; at most 60 rows.

    Findings that shorten the step are numbered above the lanes, over what proves them. Slices show their names where
    the mouse rests on them, and the numbers lead to the findings.
    """
    return _explorer_picture(_explorer(part))


def timeline_files(part: Profile) -> tuple[str, str]:
    """``timeline`` as two SVG files, light and dark."""
    explorer = _explorer(part)
    picture = _frame_picture(explorer, _frame(explorer), [])
    return picture_file(picture, LIGHT), picture_file(picture, DARK)


def scene_timeline(scene: Scene, title: str = "", silent: int = -1) -> Picture:
    """The lanes of ``scene``, as wide and high as a picture; with a ``title`` of its own below the block before it.

    Slices of trace number ``silent`` do not show their names: another picture of the page does.
    """
    picture = _explorer_picture(_explorer_of(scene), silent)
    return replace(picture, id="", title=title) if title else picture


def _explorer(part: Profile) -> Explorer:
    scene = make_scene([part])
    scene.findings = [finding_marks(part.findings.findings)]
    explorer = _explorer_of(scene)
    if part.selection != WHOLE_TRACE:
        low, high = explorer.home_bounds()
        window = part.window
        explorer.show(max(window.start, low), min(window.end, high))
    return explorer


def _explorer_of(scene: Scene) -> Explorer:
    explorer = Explorer(scene, _COLUMNS - gutter_width(_COLUMNS, scene.has_holders), _MOST_ROWS)
    explorer.resize(explorer.state.viewport.width, _MOST_ROWS, heads=True)  # folds what would not fit, deep lanes first
    return explorer


def _frame(explorer: Explorer) -> Frame:
    """What ``explorer`` looks at, as a picture shows it."""
    explorer.state.cursor = -1  # a picture has no cursor
    explorer.state.focus = -1
    explorer.state.link_mode = "off"
    rows = max(min(len(explorer.rows), _MOST_ROWS), 1)
    rows += lanes_top(rows, explorer.scene)
    return Painter(explorer.scene).compose(explorer.rows, explorer.state, _COLUMNS, rows)


def _explorer_picture(explorer: Explorer, silent: int = -1) -> Picture:
    frame = _frame(explorer)
    return _frame_picture(explorer, frame, [*_tips(explorer, frame, silent), *_finding_links(explorer, frame)])


def class_word(op_class: OpClass, by_category: bool) -> str:
    """The word for a class of slices, the category that makes it so where it is named ``by_category``."""
    return _SERVED[op_class] if by_category and op_class in _SERVED else say(f"class.{op_class.name.lower()}")


_SERVED = {class_: name for name, class_ in CLASS_OF_CATEGORY.items() if "queue" not in name or name == "queued"}


def classes_of(trace: Trace) -> list[tuple[OpClass, str]]:
    """The classes of slices that occur in ``trace``, each with its word."""
    found = map(OpClass, np.unique(trace.slices.op_class).tolist())
    return [(op_class, class_word(op_class, trace.nature.by_category)) for op_class in found]


def _frame_picture(explorer: Explorer, frame: Frame, over: list[Shape]) -> Picture:
    """The cells of ``frame`` in inks, with shapes ``over`` them and what the colours of the bars mean."""
    grid = frame.grid
    classes = {op_class: word for trace in explorer.scene.traces for op_class, word in classes_of(trace)}
    rows: list[list[Piece]] = [
        [(drawable(text), fg, bg, attr) for text, fg, bg, attr in grid.runs(y)] for y in range(grid.height)
    ]
    return Picture(
        say("table.timeline"),
        CELL_WIDTH * grid.width,
        CELL_HEIGHT * grid.height,
        [*screen_shapes(rows), *over],
        id="timeline",
        legend=tuple((int(bar(op_class)), classes[op_class]) for op_class in sorted(classes) if len(classes) > 1),
    )


def _tips(explorer: Explorer, frame: Frame, silent: int) -> Iterator[Tip]:
    """Name, start and duration over the slices that are drawn but for those of trace ``silent``, the widest first."""
    slices: list[tuple[int, int, int, int]] = []
    for line, items in enumerate(frame.items):
        edges = np.flatnonzero(np.diff(items, prepend=-2, append=-2))
        slices += [
            (first - last, line, first, int(items[first]))
            for first, last in pairwise(edges.tolist())
            if items[first] >= 0
            and 0 <= frame.lane_rows[line] < len(explorer.rows)
            and explorer.rows[frame.lane_rows[line]].trace != silent
        ]
    for wide, line, first, item in sorted(slices)[:_MOST_TIPS]:
        trace = explorer.scene.traces[explorer.rows[frame.lane_rows[line]].trace]
        start, duration = int(trace.slices.start[item]), int(trace.slices.end[item] - trace.slices.start[item])
        words = f"{brief(printable(trace.name_of(item)), _LONGEST)}  {moment_text(start)}  {duration_text(duration)}"
        yield _over(frame.gutter + first, frame.lanes_top + line, -wide, words)


def _finding_links(explorer: Explorer, frame: Frame) -> Iterator[Tip]:
    """What leads from the marks above the lanes to the findings below."""
    if frame.top == "findings":
        for mark in explorer.scene.findings[0]:
            first, last = range_columns(frame.viewport, (mark.start, mark.end))
            if first <= last:
                words = say("page.finding", number=mark.label)
                yield _over(frame.gutter + first, 0, last - first + 1, words, f"finding-{mark.label}")


def _over(column: int, row: int, columns: int, words: str, link: str = "") -> Tip:
    return Tip(column * CELL_WIDTH, row * CELL_HEIGHT, columns * CELL_WIDTH, CELL_HEIGHT, words, link)
