"""Links of the selection, the chain of a launch as a waterfall, and the legend of links and colours."""

from __future__ import annotations

from collections.abc import Sequence

from rich.columns import Columns
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text

from npu_tui.analysis.calls import Chain, Stage
from npu_tui.analysis.launches import Dispatch
from npu_tui.analysis.replay_device import is_of_event
from npu_tui.output.svg import class_word, classes_of
from npu_tui.profile.profile import Profile
from npu_tui.strings import say
from npu_tui.trace.classes import OpClass
from npu_tui.trace.model import HOST_TO_DEVICE, Trace
from npu_tui.trace.text import brief, cell_count, duration_text, printable
from npu_tui.tui.tabs.table import Content, Context, TabRow, TabTable, Way
from npu_tui.tui.terminal.frames import ALERT, class_colour, class_style
from npu_tui.view.links import SHAPE_GLYPHS
from npu_tui.view.scene import LinkClasses, LinkShape, Role, Selected

_SHOWN_ROWS = 500


def links(now: Context) -> Content:
    """A row per link of the selection, with what lies at its other end."""
    selected = now.selection
    if selected is None:
        return nothing_selected(now)
    profile, scene = now.session.profiles[selected.trace], now.session.scene
    headings = tuple(say(f"links.{key}") for key in ("shape", "latency", "lost", "category", "lane", "end"))
    marks, roles = scene.link_classes[selected.trace], scene.roles[selected.trace]
    rows = [_link_row(profile, marks, roles, selected.trace, way) for way in now.links[:_SHOWN_ROWS]]
    rows += _event_rows(profile, roles, selected)
    return TabTable(headings, rows) if rows else say("links.none")


def events_are_ready(now: Context) -> bool:
    """Whether the wait of the selected record, or the record of the selected wait, is known at once."""
    if now.selection is None:
        return True
    profile = now.session.profiles[now.selection.trace]
    return not is_of_event(profile.trace.name_of(now.selection.item)) or Profile.event_pairs.is_known(profile)


def _event_rows(profile: Profile, roles: list[Role], selected: Selected) -> list[TabRow]:
    """A row per record that the selected wait waits for, or per wait for the selected record."""
    trace = profile.trace
    if not is_of_event(trace.name_of(selected.item)):
        return []
    waits, records = profile.event_pairs
    rows = []
    for arrow, own, other in (("←", waits, records), ("→", records, waits)):
        for item in other[own == selected.item][:_SHOWN_ROWS].tolist():
            apart = abs(int(trace.slices.end[item] - trace.slices.end[selected.item]))
            name = f"{arrow} {printable(trace.name_of(item))}"
            cells = ("", duration_text(apart), "", say("links.event"), _layer_and_lane(trace, roles, item), name)
            rows.append(TabRow(cells, (Selected(selected.trace, item),)))
    return rows


def _layer_and_lane(trace: Trace, roles: list[Role], item: int) -> str:
    """The layer and the lane of a slice."""
    lane = trace.lanes[int(trace.slices.lane[item])]
    return printable(f"{trace.layers[lane.layer].name} / {roles[lane.index].name}")


def nothing_selected(now: Context) -> str:
    """What selects something."""
    starved = [say("details.none_starved")] if now.profile.starved else []
    return " ".join([say("details.none"), *starved])


def _link_row(profile: Profile, marks: LinkClasses, roles: list[Role], index: int, way: Way) -> TabRow:
    link, other, arrow = way
    trace = profile.trace
    links = trace.links
    if other >= 0:
        name, where = printable(trace.name_of(other)), _layer_and_lane(trace, roles, other)
    else:
        name, where = say("links.unbound"), ""
    lost = int(marks.lost[link])
    return TabRow(
        (
            shape_text(LinkShape(int(marks.shape[link])), bool(marks.starved[link])),
            waited_text(profile.dispatch, link, int(links.latency[link])),
            Text(duration_text(lost) if lost else "", style=f"bold {ALERT}" if marks.starved[link] else ""),
            printable(trace.link_categories[int(links.category[link])]),
            where,
            f"{arrow} {name}",
        ),
        (Selected(index, other),) if other >= 0 else (),
    )


def waited_text(devices: Sequence[Dispatch], link: int, latency: int) -> str:
    """The ``latency`` of a link, ns; for a launch with a class what that follows from, with the raw one after it."""
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


def legend(trace: Trace | None = None) -> list[RenderableType]:
    """What colours, textures and lines mean, in ``trace`` those that occur; a swatch and its word stay on one line."""
    classes = [Text(say("details.legend"), style="dim")]
    every = [(op_class, class_word(op_class, False)) for op_class in OpClass]
    for op_class, word in every if trace is None else classes_of(trace):
        swatch = "╱╱" if op_class == OpClass.WAIT else "  "
        classes.append(Text.assemble((swatch, class_style(op_class)), f" {word}", no_wrap=True))
    if trace is not None and not len(trace.links_of(HOST_TO_DEVICE)):
        return [Columns(classes, padding=(0, 2))]
    lines = [Text(say("details.lines"), style="dim")]
    lines += [
        shape_text(shape, starved)
        for shape, starved in (
            (LinkShape.NEAR_VERTICAL, True),
            (LinkShape.NEAR_VERTICAL, False),
            (LinkShape.SHALLOW, False),
            (LinkShape.QUEUED, False),
        )
    ]
    return [Columns(classes, padding=(0, 2)), Columns(lines, padding=(0, 2))]


_NAMES_SHARE = 0.3  # the share of the width that names take at most
_FEWEST = 12  # cells from which bars show anything


class Waterfall:
    """The stages of ``chain`` below each other on one scale, as wide as there is room for; ``devices`` give waits."""

    def __init__(self, trace: Trace, chain: Chain, devices: list[Dispatch]) -> None:
        self._trace, self._chain = trace, chain
        self._rows = [(stage, self._name(stage), self._length(stage, devices)) for stage in chain.stages]

    def _name(self, stage: Stage) -> str:
        """The slice that a stage is."""
        named = stage.item >= 0 and stage.name in ("op", "launch", "run")
        return printable(self._trace.name_of(stage.item)) if named else ""

    def _length(self, stage: Stage, devices: list[Dispatch]) -> str:
        """How long it took; that the clocks differ, where it ends before it begins."""
        waited = waited_of(devices, self._chain.link) if stage.name == "wait" else None
        length = stage.end - stage.start if waited is None else waited
        clocks = f" {say('details.clocks')}" if waited is None and stage.end < stage.start else ""
        return duration_text(length, 3) + clocks

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """A line with the whole time, then one for each stage."""
        width, start, whole = options.max_width, self._chain.start, self._chain.end - self._chain.start
        yield Text.assemble((f"{say('details.chain')} ", "dim"), (duration_text(whole), "bold"))
        words = [say(f"stage.{stage.name}") for stage, _, _ in self._rows]
        first = max(map(cell_count, words))
        names = min(max(cell_count(name) for _, name, _ in self._rows), int(_NAMES_SHARE * width))
        times = max(cell_count(length) for _, _, length in self._rows)
        room = width - first - names - times - 5
        for word, (stage, name, length) in zip(words, self._rows, strict=True):
            line = Text(f" {word}{' ' * (first - cell_count(word))} ", no_wrap=True, end="\n")
            name = brief(name, names)
            line.append(name + " " * (names - cell_count(name) + 1), style="dim")
            line.append(" " * (times - cell_count(length)) + length, style="bold")
            if room >= _FEWEST and stage.end >= stage.start:
                begin = min((stage.start - start) * room // max(whole, 1), room - 1)
                last = max(-(-(stage.end - start) * room // max(whole, 1)), begin + 1)
                waits = stage.name in ("queue", "wait")
                style = "dim" if waits else class_colour(self._class_of(stage))
                line.append(" " * (begin + 2) + ("╱" if waits else "█") * (last - begin), style=style)
            yield line

    def _class_of(self, stage: Stage) -> OpClass:
        return OpClass(int(self._trace.slices.op_class[stage.item])) if stage.item >= 0 else OpClass.OTHER
