"""The lanes of a trace as pictures for a page or a file, drawn by the same view as the screen."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from msgspec.structs import replace

from npu_tui.output.document import Picture, Shape, Tip
from npu_tui.output.svg import CELL_HEIGHT, CELL_WIDTH, Piece, picture_file, screen_shapes
from npu_tui.profile.parts import WHOLE_TRACE
from npu_tui.profile.profile import Profile
from npu_tui.profile.scene import finding_marks, make_scene
from npu_tui.strings import say
from npu_tui.trace.classes import CLASS_OF_CATEGORY, OpClass
from npu_tui.trace.model import Trace
from npu_tui.trace.text import brief, drawable, duration_text, moment_text, printable
from npu_tui.view.caches import Frame, lanes_top
from npu_tui.view.explorer import Explorer
from npu_tui.view.margins import gutter_width, range_columns
from npu_tui.view.painter import Painter
from npu_tui.view.palette import DARK, LIGHT, bar
from npu_tui.view.scene import Scene

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
    return Painter(explorer.scene).compose(explorer.rows, explorer.state, _COLUMNS, rows + lanes_top(rows))


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
