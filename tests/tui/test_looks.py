"""Whole screens in every glyph set and colour depth: the timeline, the widgets around it, and dialogs over both."""

from __future__ import annotations

import unicodedata
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import driving
import numpy as np
import pytest
from driving import SIZE, Driver
from measured import session_of
from rich.color import Color, ColorType
from rich.segment import Segment
from rich.style import Style
from textual.color import BLACK
from textual.scrollbar import ScrollBarRender
from textual.strip import Strip

from npu_tui.load.load import load
from npu_tui.output.svg import svg
from npu_tui.strings import say
from npu_tui.trace.classes import OpClass
from npu_tui.trace.model import HOST_TO_DEVICE
from npu_tui.trace.text import cell_count
from npu_tui.tui.app import NpuTui
from npu_tui.tui.exports import screen_runs
from npu_tui.tui.session import Session
from npu_tui.tui.terminal.internals import strips_of
from npu_tui.tui.terminal.terminal import Terminal
from npu_tui.view.ansi import plain_text, redraw
from npu_tui.view.grid import Grid
from npu_tui.view.links import LinkIndex, draw_strip
from npu_tui.view.palette import DARK, LIGHT, PALETTES, SHADES, Ink, Palette, bar
from npu_tui.view.scene import LinkClasses, LinkShape
from npu_tui.view.viewport import Viewport

WALK = ["", "x", "W", "t", "v", "d", "v", "c", "4", "5", ":", "\x1b", "?", "\x1b", "/gelu\r", "\x10", "\x1b"]
SIZES = [(120, 40), (60, 15)]
FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"


def opened(session: Session, terminal: Terminal, size: tuple[int, int] = SIZE) -> AbstractAsyncContextManager[Driver]:
    """The explorer on ``session`` in a ``terminal`` of ``size``."""
    return driving.opened(session, size, NpuTui(session=session, terminal=terminal))


async def walk(driver: Driver):
    """The strips of every screen of the walk."""
    for data in WALK:
        if data:
            await driver.send(data)
            await driver.settle()
        yield data, strips_of(driver.app.screen)


def wrong(strip: Strip, terminal: Terminal) -> object:
    """What of a row ``terminal`` has no glyph or no colour for, or shows on its own colour; None where all is right."""
    for char in strip.text if terminal.glyphs != "blocks" else "":
        if not char.isascii() if terminal.glyphs == "ascii" else unicodedata.east_asian_width(char) == "A":
            return char
    for segment in strip:
        style = segment.style
        colours = [colour for colour in (style.color, style.bgcolor) if colour is not None] if style else []
        if any(terminal.depth == "none" or colour.type != ColorType.STANDARD for colour in colours):
            return segment
        # Time lines may vanish where the cursor's column is grey as well.
        if len(colours) == 2 and colours[0] == colours[1] and segment.text.strip(" ─┊:"):
            return segment
    return None


@pytest.mark.parametrize(
    ("terminal", "size"),
    [
        (Terminal("none", glyphs="ascii"), SIZES[0]),
        (Terminal("16", LIGHT, "safe"), SIZES[0]),
    ],
    ids=["none-ascii", "light-safe"],
)
async def test_every_screen_keeps_to_the_glyphs_and_colours_of_the_terminal(session, terminal, size):
    async with opened(session, terminal, size) as driver:
        async for data, strips in walk(driver):
            for strip in strips:
                assert wrong(strip, terminal) is None, (data, strip.text)


@pytest.mark.parametrize("size", SIZES)
async def test_glyphs_change_no_layout(session, size):
    async with opened(session, Terminal(), size) as full, opened(session, Terminal(glyphs="ascii"), size) as plain:
        for row, replaced in zip(full.rows()[4:], plain.rows()[4:], strict=True):
            words = {word for word in plain_text(row, "ascii").split() if word.isalnum() and len(word) > 3}
            assert words <= set(replaced.replace("|", " ").split()) | {"Space"}, (row, replaced)


async def test_without_colour_marks_are_seen(session):
    async with opened(session, Terminal("none")) as driver:
        await driver.send("x")
        await driver.settle()
        runs = screen_runs(driver.app.screen, driver.app.terminal)
        ground = {back for row in runs for text, _, back, _ in row if not text.strip()}
        assert len(ground) == 2, "bars are reversed"
        text = "\n".join("".join(piece[0] for piece in row) for row in runs)
        assert "┃" in text
        assert set(text) & set("▒▓░╱")


def test_a_numbered_colour_of_sixteen_stays_what_it_is(session):
    """The map of a job is drawn in such: its red was white where Textual had made a true colour of it."""
    app, alert = NpuTui(session=session, terminal=Terminal("16")), int(DARK.ansi[Ink.ALERT])
    segments = [Segment("x", Style.from_color(Color.from_ansi(alert)))]
    for line_filter in app.get_line_filters():
        segments = line_filter.apply(segments, BLACK)
    assert segments[0].style.color.number == alert


async def test_the_alert_is_said_in_the_palette_of_the_terminal(session):
    for terminal in (Terminal(palette=LIGHT), Terminal("256", LIGHT), Terminal("16", LIGHT)):
        async with opened(session, terminal) as driver:
            colours = {
                segment.style.color
                for segment in strips_of(driver.app.screen)[1]
                if segment.style and segment.style.bold and segment.style.color and "DISPATCH" in segment.text
            }
            colour = colours.pop()
            expected = {
                "truecolor": (*LIGHT.rgb[Ink.ALERT].tolist(),),
                "256": int(LIGHT.xterm[Ink.ALERT]),
                "16": int(LIGHT.ansi[Ink.ALERT]),
            }[terminal.depth]
            assert expected in ((*colour.triplet,) if colour.triplet else None, colour.number)


async def test_light_is_light_everywhere(session):
    async with opened(session, Terminal(palette=LIGHT)) as driver:
        for row in screen_runs(driver.app.screen, driver.app.terminal):
            blank = [back for text, _, back, _ in row if not text.strip() and len(text) > 20]
            assert all(sum(back) > 3 * 190 for back in blank)


WIDE = "矩阵乘法算子🚀前向计算"


@pytest.fixture(scope="module")
def wide_session(tmp_path_factory) -> Session:
    events = [
        {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}
        for pid, name in ((1, "Python"), (2, "Ascend Hardware"))
    ]
    events += [{"ph": "M", "name": "thread_name", "pid": 1, "tid": 7, "args": {"name": "线程主循环 7"}}]
    for step in range(40):
        events += [
            {
                "ph": "X",
                "name": f"{WIDE}{step}",
                "pid": 1,
                "tid": 7,
                "ts": 1000 * step,
                "dur": 20 * step + 90,
                "args": {},
            },
            {"ph": "X", "name": f"e\u0301{WIDE[: step % 6]}", "pid": 2, "tid": 1, "ts": 1000 * step + 30, "dur": 700},
        ]
    import json

    file = tmp_path_factory.mktemp("宽") / "trace_view.json"
    file.write_text(json.dumps(events), encoding="utf-8")
    return session_of(load(file))


@pytest.mark.parametrize(
    ("terminal", "size"),
    [
        (Terminal(), (120, 40)),
        (Terminal("none", glyphs="ascii"), (60, 15)),
    ],
    ids=["full", "none, ascii"],
)
async def test_wide_names_keep_every_row_its_width(wide_session, size, terminal):
    async with opened(wide_session, terminal, size) as driver:
        for data in ["", "W", "W", "d", "l", "shift", "v", "d", "v", "/矩阵\r", "n", "3", "5", "a", "S"]:
            if data:
                await driver.send("\x1b[1;2C" if data == "shift" else data)
                await driver.settle()
            for strip in strips_of(driver.app.screen):
                assert strip.cell_length == size[0], (data, strip.text)
                assert cell_count(strip.text) == size[0], (data, strip.text)
            if data == "l" and terminal.glyphs == "blocks":
                assert "矩" in driver.text()
                assert "线" in driver.text()
        assert svg(screen_runs(driver.app.screen, driver.app.terminal), "").count("<text") > 5


async def test_a_cut_through_a_wide_name_is_clean(wide_session):
    """A dialog over the lanes cuts rows in pieces; no half of a character is left."""
    async with opened(wide_session, Terminal(), (81, 24)) as driver:
        await driver.send("?")
        await driver.settle()
        for strip in strips_of(driver.app.screen):
            assert strip.cell_length == 81
            assert "\0" not in strip.text


@pytest.mark.parametrize("glyphs", ["ascii", "safe"])
def test_what_textual_draws_with_has_stand_ins(glyphs):
    bars = "".join([*ScrollBarRender.VERTICAL_BARS, *ScrollBarRender.HORIZONTAL_BARS])
    assert "?" not in plain_text(bars, glyphs)


@pytest.mark.parametrize("glyphs", ["blocks", "safe", "ascii"])
async def test_the_legend_of_lines_shows_what_the_link_strip_draws(session, glyphs):
    drawn, trace = {}, session.scene.traces[0]
    count = len(trace.links)
    for shape in (LinkShape.NEAR_VERTICAL, LinkShape.SHALLOW, LinkShape.QUEUED):
        marks = LinkClasses(np.full(count, shape, np.int8), np.zeros(count, np.int64), np.zeros(count, np.bool_))
        grid = Grid.blank(1, 1, Ink.TEXT, Ink.BAND)
        draw_strip(grid, LinkIndex(trace, marks, HOST_TO_DEVICE), Viewport(0, trace.end, 1))
        drawn[shape] = chr(redraw(grid, glyphs).char[0, 0])
    async with opened(session, Terminal(glyphs=glyphs)) as driver:
        await driver.press("?")
        await driver.settle()
        legend = next(row for row in driver.rows() if say("shape.shallow") in row)
    for shape, char in drawn.items():
        assert f"{char} {say(f'shape.{shape.name.lower()}')}" in legend
    assert len(set(drawn.values())) == 3


def test_dark_is_the_default():
    assert Terminal() == Terminal("truecolor", DARK, "blocks", b"")


IN_BAR = {"compute": (OpClass.CUBE, "█"), "exposed": (OpClass.COMMUNICATION, "▒")}
LANES = {"compute": "Computing", "exposed": "Exposed comm"}


@pytest.mark.few(3)
@pytest.mark.parametrize("depth", ["truecolor", "256", "16"])
@pytest.mark.parametrize("palette", PALETTES.values(), ids=PALETTES)
async def test_a_part_of_the_step_is_drawn_in_the_colour_of_its_lane(palette: Palette, depth: str) -> None:
    known = {"truecolor": palette.rgb, "256": palette.xterm, "16": palette.ansi}[depth]

    def colours(strip: Strip, chosen: str = "") -> set[object]:
        styles = [segment.style for segment in strip if segment.style is not None and set(chosen) <= set(segment.text)]
        both = [colour for style in styles for colour in (style.color, style.bgcolor) if colour is not None]
        return {(*colour.triplet,) if depth == "truecolor" and colour.triplet else colour.number for colour in both}

    profiled = session_of(load(FIXTURES / "communication_bound"))
    async with opened(profiled, Terminal(depth, palette)) as driver:
        await driver.settle()
        strips = list(strips_of(driver.app.screen))
        (bar_of_step,) = [strip for strip in strips[:6] if "ProfilerStep#" in strip.text and "%" in strip.text]
        for part, (op_class, fill) in IN_BAR.items():
            shades = [known[bar(op_class, shade)] for shade in range(SHADES)]
            looks = {(*shade.tolist(),) if depth == "truecolor" else int(shade) for shade in shades}
            (lane,) = [strip for strip in strips if strip.text[1:].strip().startswith(LANES[part])]
            assert colours(bar_of_step, fill) & looks, part
            assert colours(lane) & looks, part
