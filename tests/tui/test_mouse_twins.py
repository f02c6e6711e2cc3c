"""Every mouse action of the explorer beside the keys that do the same."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from copy import copy
from typing import Any, NamedTuple

import pytest
from driving import Driver, opened
from mouse import MINIMAP, RULER, cell_of, click, drag, send, time_at
from textual import events

from npu_tui.strings import say
from npu_tui.tui.app import NpuTui
from npu_tui.tui.commands import TAB_KEYS
from npu_tui.tui.flags import Flag
from npu_tui.tui.panel import TabLine
from npu_tui.tui.rows import Rows
from npu_tui.view.scene import ViewState

Act = Callable[[Driver], Awaitable[None]]
SLICE = "ProfilerStep#20"
SIZE = (120, 40)
LOW, HIGH = 40, 70
"""Columns of the screen between which is dragged, in a row that has no edge there to snap to."""
ROW = 8


class Twin(NamedTuple):
    """A mouse action, keys that do the same, and what of the screen both leave alike."""

    name: str
    mouse: Act
    keys: Act
    alike: Callable[[Driver], Any]
    size: tuple[int, int] = SIZE


def place_of(driver: Driver) -> Any:
    viewport = driver.state.viewport
    return viewport, viewport.column(driver.state.cursor), driver.state.focus, driver.state.selection


def put_cursor(driver: Driver, x: int, y: int) -> None:
    """The cursor on a cell of the lanes."""
    frame, viewport = driver.timeline.frame, driver.state.viewport
    driver.state.focus = frame.lane_rows[y - frame.lanes_top]
    driver.state.cursor = viewport.edge(x - frame.gutter)


def pressed(*keys: str, at: Callable[[Driver], tuple[int, int]] | None = None) -> Act:
    """Press ``keys`` with the cursor on the cell ``at``."""

    async def act(driver: Driver) -> None:
        if at is not None:
            put_cursor(driver, *at(driver))
        await driver.press(*keys)

    return act


def clicked(at: Callable[[Driver], tuple[int, int]], times: int = 1) -> Act:
    async def act(driver: Driver) -> None:
        await click(driver, *at(driver), times=times)

    return act


def wheeled(kind: type[events.MouseEvent], x: int, y: int, times: int = 1, **modifiers: bool) -> Act:
    async def act(driver: Driver) -> None:
        for _ in range(times):
            await send(driver, kind, x, y, **modifiers)

    return act


def dragged(**modifiers: Any) -> Act:
    async def act(driver: Driver) -> None:
        await drag(driver, (LOW, ROW), (HIGH, ROW), **modifiers)

    return act


def marked(*then: str) -> Act:
    """``v`` at one end of the drag, ``v`` at the other, and what comes ``then``."""

    async def act(driver: Driver) -> None:
        put_cursor(driver, LOW, ROW)
        await driver.press("v")
        put_cursor(driver, HIGH, ROW)
        await driver.press("v", *then)

    return act


def of_slice(driver: Driver) -> tuple[int, int]:
    return cell_of(driver, SLICE)


def of_gutter(driver: Driver) -> tuple[int, int]:
    frame = driver.timeline.frame
    line = next(y for y, row in enumerate(frame.lane_rows) if driver.explorer.rows[row].name == "CANN")
    return 2, line + frame.lanes_top


async def pan_the_ruler(driver: Driver) -> None:
    columns = round(driver.state.viewport.width * 0.1)
    await drag(driver, (80, RULER), (80 - columns, RULER))


async def click_the_minimap(driver: Driver) -> None:
    await driver.press("w")
    await click(driver, driver.timeline.frame.gutter + 72, MINIMAP)


async def type_the_time(driver: Driver) -> None:
    await driver.press("w")
    when = driver.explorer.scene.end * 72 // driver.state.viewport.width
    await driver.send(f":{when}ns\r")


def shows_the_time(driver: Driver) -> bool:
    when = driver.explorer.scene.end * 72 // driver.state.viewport.width
    viewport = driver.state.viewport
    return viewport.start <= when < viewport.end and viewport.start <= driver.state.cursor < viewport.end


def add_flag(driver: Driver) -> None:
    driver.main.marks.flags.add(Flag(5_000_000, 6_000_000, "landmark"))
    driver.main.marks.mark()
    driver.timeline.changed()


async def click_the_flag(driver: Driver) -> None:
    add_flag(driver)
    await driver.idle()
    frame = driver.timeline.frame
    await click(driver, frame.gutter + frame.viewport.column(5_000_000), RULER)


async def type_the_flag(driver: Driver) -> None:
    add_flag(driver)
    await driver.send(":landmark\r")


async def click_a_finding(driver: Driver) -> None:
    frame = driver.timeline.frame
    row = [chr(char) for char in frame.grid.char[MINIMAP]]
    await click(driver, row.index("1"), MINIMAP)


async def click_the_ruler(driver: Driver) -> None:
    await click(driver, 60, RULER)


async def type_the_ruler(driver: Driver) -> None:
    low, high = time_at(driver, 60), time_at(driver, 61)
    await driver.send(f":{(low + high) // 2}ns\r")


async def click_a_heading(driver: Driver) -> None:
    await driver.press("6")
    await driver.settle()
    line = next(row for row in driver.rows() if "total" in row and "share" in row)
    await driver.pilot.click(Rows, offset=(line.index("count"), 0))


async def sort_by_keys(driver: Driver) -> None:
    await driver.press("6")
    await driver.settle()
    await driver.press("tab", "right", "right", "right")


async def click_a_row(driver: Driver) -> None:
    await driver.press("2", "2", "2")  # the code, the focus, the table
    await driver.settle()
    await driver.pilot.click(Rows, offset=(20, 2))
    await driver.settle()


async def enter_a_row(driver: Driver) -> None:
    await driver.press("2", "2", "2")
    await driver.settle()
    await driver.press("down", "enter")


UP, DOWN = events.MouseScrollUp, events.MouseScrollDown
TWINS = (
    Twin("click on a finding goes to it", click_a_finding, pressed("e"), lambda d: (place_of(d), d.state.range)),
    Twin("click selects", clicked(of_slice), pressed("enter", at=of_slice), place_of),
    Twin("double click fits", clicked(of_slice, 2), pressed("enter", "f", at=of_slice), lambda d: d.state.viewport),
    Twin("click in the gutter folds", clicked(of_gutter), pressed("space", at=lambda d: (LOW, of_gutter(d)[1])),
         lambda d: [(row.name, row.folded) for row in d.explorer.rows]),
    Twin("drag marks a range", dragged(), marked(), lambda d: d.state.range),
    Twin("right-drag zooms to the range", dragged(button=3), marked("z"), lambda d: (d.state.range, d.state.viewport)),
    Twin("Alt-drag zooms to the range", dragged(meta=True), marked("Z"), lambda d: (d.state.range, d.state.viewport)),
    Twin("wheel scrolls to the last row", wheeled(DOWN, 60, 10, 40), pressed("G"), lambda d: d.state.top, (80, 20)),
    Twin("wheel scrolls to the first row", wheeled(UP, 60, 10, 40), pressed("g", "g"), lambda d: d.state.top, (80, 20)),
    Twin("Ctrl+wheel up zooms in", wheeled(UP, 60, 10, ctrl=True), pressed("w", at=lambda d: (60, ROW)),
         lambda d: d.state.viewport),
    Twin("Ctrl+wheel down zooms out", wheeled(DOWN, 60, 10, ctrl=True), pressed("s", at=lambda d: (60, ROW)),
         lambda d: d.state.viewport),
    Twin("Shift+wheel down pans on", wheeled(DOWN, 60, 10, shift=True), pressed("d"), lambda d: d.state.viewport),
    Twin("Shift+wheel up pans back", wheeled(UP, 60, 10, shift=True), pressed("a"), lambda d: d.state.viewport),
    Twin("drag on the ruler pans", pan_the_ruler, pressed("d"), lambda d: d.state.viewport),
    Twin("wheel on the ruler zooms", wheeled(UP, 60, RULER), pressed("w", at=lambda d: (60, ROW)),
         lambda d: d.state.viewport),
    Twin("wheel on the minimap zooms", wheeled(DOWN, 60, MINIMAP), pressed("s", at=lambda d: (60, ROW)),
         lambda d: d.state.viewport),
    Twin("click on the ruler puts the cursor there", click_the_ruler, type_the_ruler, place_of),
    Twin("click on the minimap jumps", click_the_minimap, type_the_time, shows_the_time),
    Twin("click on a row goes there", click_a_row, enter_a_row, place_of),
    Twin("click on a heading sorts", click_a_heading, sort_by_keys,
         lambda d: [[str(cell) for cell in row.cells] for row in d.panel.rows]),
    Twin("click on a flag goes to it", click_the_flag, type_the_flag, lambda d: (place_of(d), d.state.range)),
)  # fmt: skip


_ON_TOP = {"click on the ruler puts the cursor there", "click on the minimap jumps"}
MOVING = [
    twin
    for twin in TWINS
    if twin.size == SIZE and ({"wheel", "drag"} & set(re.split(r"\W", twin.name)) or twin.name in _ON_TOP)
]
"""What moves or marks, and nothing else: one screen after the other can be told by its state."""


async def go_back(driver: Driver, begun: ViewState) -> None:
    """To the view that ``begun`` is, whatever was done since."""
    for name in begun.__struct_fields__:
        setattr(driver.state, name, getattr(begun, name))
    driver.timeline.changed()
    await driver.idle()


TOGETHER = {
    "lanes": [twin for twin in TWINS if twin not in MOVING and twin.size == SIZE and "heading" not in twin.name],
    "few rows": [twin for twin in TWINS if twin.size != SIZE],
    "tables": [twin for twin in TWINS if "heading" in twin.name],
}


@pytest.mark.parametrize("twins", TOGETHER.values(), ids=TOGETHER)
async def test_mouse_and_keys_do_the_same(session, monkeypatch, twins: list[Twin]):
    """One screen that only the mouse has led and one that only keys have: alike after each of the twins."""
    monkeypatch.setattr(NpuTui, "CLICK_CHAIN_TIME_THRESHOLD", 60.0)  # however slow the machine is
    seen: list[list[tuple[Any, Any]]] = []
    for side in ("mouse", "keys"):
        async with opened(session, twins[0].size) as driver:
            seen.append([])
            begun = copy(driver.state)
            for twin in twins:
                await go_back(driver, begun)
                before = twin.alike(driver)
                await getattr(twin, side)(driver)
                await driver.settle()
                seen[-1].append((before, twin.alike(driver)))
    for twin, (before, by_mouse), (_, by_keys) in zip(twins, *seen, strict=True):
        assert by_mouse == by_keys, twin.name
        assert by_mouse != before or "first row" in twin.name, f"{twin.name} does something"


async def test_wheel_and_drag_do_what_keys_do(session):
    async with opened(session) as driver:
        begun = copy(driver.state)
        for twin in MOVING:
            left = []
            for act in (twin.mouse, twin.keys):
                await go_back(driver, begun)
                before = twin.alike(driver)
                await act(driver)
                await driver.idle()
                left.append(twin.alike(driver))
            assert left[0] == left[1], twin.name
            assert left[0] != before, twin.name


async def test_a_click_on_the_name_of_a_tab_opens_it_as_its_key_does(session):
    async with opened(session) as driver:
        await driver.run("tab_search")
        for tab, key in TAB_KEYS.items():
            shown = str(driver.main.query_one(TabLine).render())
            name = next(word for form in (tab, f"{tab}.short") if (word := f" {key} {say(f'tab.{form}')}") in shown)
            await driver.pilot.click(TabLine, offset=(shown.index(name) + 1, 0))
            await driver.settle()
            clicked_tab = driver.panel.tab
            await driver.press("8" if key != "8" else "1", key)
            assert (clicked_tab, driver.panel.tab) == (tab, tab)
