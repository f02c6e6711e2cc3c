"""The Links tab: every link of the selected slice, with where it leads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from rich.text import Text

from npu_tui.strings import say
from npu_tui.trace.model import Trace
from npu_tui.trace.text import printable
from npu_tui.trace.units import duration_text
from npu_tui.tui.theme import ALERT
from npu_tui.view.follow import inner_links, links_of
from npu_tui.view.scene import LinkMarks, LinkShape

_GLYPHS = {LinkShape.PLAIN: "·", LinkShape.NEAR_VERTICAL: "┃", LinkShape.SHALLOW: "╲", LinkShape.QUEUED: "╲"}


class Way(NamedTuple):
    """A link, the slice at its other end (-1: none there) and an arrow that tells whether it leads there or back."""

    link: int
    item: int
    arrow: str


@dataclass(frozen=True, slots=True)
class LinkRow:
    """One row of the table: its cells, and the slice at the other end (-1 where the end is bound to none)."""

    cells: tuple[Text | str, ...]
    item: int


def link_columns() -> tuple[str, ...]:
    """Headings of the table."""
    return tuple(say(f"links.{key}") for key in ("shape", "latency", "lost", "category", "lane", "end"))


def ways_of(trace: Trace, item: int, category: str) -> list[Way]:
    """The links of ``item``, of what it contains where it has none itself."""
    ends = links_of(trace, item, category)
    target, source = trace.links.target_slice, trace.links.source_slice
    ways = [Way(link, int(target[link]), "→") for link in ends.out]
    ways += [Way(link, int(source[link]), "←") for link in ends.into]
    return ways or [Way(link, int(target[link]), "⇒") for link in inner_links(trace, item, category)]


def link_rows(trace: Trace, marks: LinkMarks, ways: list[Way]) -> list[LinkRow]:
    """The table rows of ``ways``."""
    return [_row(trace, marks, *way) for way in ways]


def _row(trace: Trace, marks: LinkMarks, link: int, other: int, direction: str) -> LinkRow:
    links = trace.links
    if other >= 0:
        lane = trace.lanes[int(trace.slices.lane[other])]
        name, where = printable(trace.name_of(other)), f"{trace.layers[lane.layer].name} / {lane.name}"
    else:
        name, where = say("links.unbound"), ""
    lost = int(marks.lost[link])
    return LinkRow(
        (
            shape_text(LinkShape(int(marks.shape[link])), bool(marks.starved[link])),
            duration_text(int(links.latency[link])),
            Text(duration_text(lost) if lost else "", style=f"bold {ALERT}" if marks.starved[link] else ""),
            printable(trace.link_categories[int(links.category[link])]),
            printable(where),
            f"{direction} {name}",
        ),
        other,
    )


def shape_text(shape: LinkShape, starved: bool) -> Text:
    """Glyph and word of a link's line; red only if it starved."""
    word = say(f"shape.{shape.name.lower()}")
    if starved:
        return Text(f"{_GLYPHS[shape]} {word}, {say('shape.starved')}", style="bold " + ALERT)
    return Text(f"{_GLYPHS[shape]} {word}")
