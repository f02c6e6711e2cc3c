"""Links of the selection, and the legend of links and colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.console import RenderableType
from rich.text import Text

from npu_tui.analysis.launches import Dispatch
from npu_tui.profile.profile import Profile
from npu_tui.strings import say
from npu_tui.trace.classes import OpClass
from npu_tui.trace.model import Trace
from npu_tui.trace.text import duration_text, printable
from npu_tui.tui.tabs.table import Content, Context, Row, Tab, Table
from npu_tui.tui.terminal.theme import ALERT, class_style
from npu_tui.view.links import SHAPE_GLYPHS
from npu_tui.view.moves import inner_links, links_of
from npu_tui.view.scene import LinkClasses, LinkShape, Role, Selected

_SHOWN_ROWS = 500


class Way(NamedTuple):
    """A link, the slice at its other end (-1: none there) and an arrow that tells whether it leads there or back."""

    link: int
    item: int
    arrow: str


class LinksTab(Tab):
    """One row per link."""

    id = "links"
    key = "4"

    def __init__(self) -> None:
        self._asked: tuple[Selected, str] | None = None
        self._ways: list[Way] = []

    def depends_on(self, now: Context) -> object:
        """The selection and the category of links."""
        return now.selection, now.link_category

    def count(self, now: Context) -> int:
        """The number of links."""
        return 0 if now.selection is None else len(self._ways_of(now, now.selection))

    def content(self, now: Context) -> Content:
        """The links with what lies at their other end."""
        selected = now.selection
        if selected is None:
            return say("details.none")
        ways = self._ways_of(now, selected)
        if not ways:
            return say("links.none")
        profile, marks = now.session.profiles[selected.trace], now.session.scene.link_classes[selected.trace]
        headings = tuple(say(f"links.{key}") for key in ("shape", "latency", "lost", "category", "lane", "end"))
        roles = now.session.scene.roles[selected.trace]
        return Table(headings, [_row(profile, marks, roles, selected.trace, way) for way in ways[:_SHOWN_ROWS]])

    def _ways_of(self, now: Context, selected: Selected) -> list[Way]:
        if self._asked != (selected, now.link_category):
            self._asked = selected, now.link_category
            self._ways = ways_of(now.session.scene.traces[selected.trace], selected.item, now.link_category)
        return self._ways


def ways_of(trace: Trace, item: int, category: str) -> list[Way]:
    """The links of ``item``, of what it contains where it has none itself."""
    ends = links_of(trace, item, category)
    target, source = trace.links.target_slice, trace.links.source_slice
    ways = [Way(link, int(target[link]), "→") for link in ends.out]
    ways += [Way(link, int(source[link]), "←") for link in ends.into]
    return ways or [Way(link, int(target[link]), "⇒") for link in inner_links(trace, item, category)]


def _row(profile: Profile, marks: LinkClasses, roles: list[Role], index: int, way: Way) -> Row:
    link, other, arrow = way
    trace = profile.trace
    links = trace.links
    if other >= 0:
        lane = trace.lanes[int(trace.slices.lane[other])]
        name, where = printable(trace.name_of(other)), f"{trace.layers[lane.layer].name} / {roles[lane.index].name}"
    else:
        name, where = say("links.unbound"), ""
    lost = int(marks.lost[link])
    return Row(
        (
            shape_text(LinkShape(int(marks.shape[link])), bool(marks.starved[link])),
            waited_text(profile.dispatch, link, int(links.latency[link])),
            Text(duration_text(lost) if lost else "", style=f"bold {ALERT}" if marks.starved[link] else ""),
            printable(trace.link_categories[int(links.category[link])]),
            printable(where),
            f"{arrow} {name}",
        ),
        (Selected(index, other),) if other >= 0 else (),
    )


def waited_text(devices: Sequence[Dispatch], link: int, latency: int) -> str:
    """The ``latency`` of a link, ns; of a launch with a class what that is told from, with the raw one after it."""
    waited, raw = waited_of(devices, link), duration_text(latency)
    return raw if waited is None else say("links.waited", waited=duration_text(waited), raw=raw)


def waited_of(devices: Sequence[Dispatch], link: int) -> float | None:
    """How long a launch waited on its device, ns above the clock floor; None for a link without a class."""
    return next((found for device in devices if (found := device.waited(link)) is not None), None)


def shape_text(shape: LinkShape, starved: bool) -> Text:
    """Glyph and word of a link's line; red only if it starved."""
    word = say(f"shape.{shape.name.lower()}")
    if starved:
        return Text(f"{SHAPE_GLYPHS[shape]} {word}{say('list.comma')}{say('shape.starved')}", style="bold " + ALERT)
    return Text(f"{SHAPE_GLYPHS[shape]} {word}")


def legend() -> list[RenderableType]:
    """What colours, textures and lines mean."""
    classes = Text(say("details.legend"), style="dim")
    for op_class in OpClass:
        classes.append("  ")
        classes.append("╱╱" if op_class == OpClass.WAIT else "  ", style=class_style(op_class))
        classes.append(f" {class_name(op_class)}")
    lines = Text.assemble((say("details.lines"), "dim"))
    for shape, starved in (
        (LinkShape.NEAR_VERTICAL, True),
        (LinkShape.NEAR_VERTICAL, False),
        (LinkShape.SHALLOW, False),
        (LinkShape.QUEUED, False),
    ):
        lines.append("  ")
        lines.append_text(shape_text(shape, starved))
    return [classes, lines]


def class_name(op_class: OpClass) -> str:
    """The word for a class of slices."""
    return say(f"class.{op_class.name.lower()}")
