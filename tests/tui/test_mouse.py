from __future__ import annotations

import asyncio

import pytest
from driving import opened
from mouse import MINIMAP, RULER, cell_of, click, drag, report, send_bytes, time_at

from npu_tui.tui.flags import Flag

REST = 0.4
"""Longer than a burst, so that undo takes back one motion."""


async def test_a_click_selects(session):
    async with opened(session) as driver:
        x, y = cell_of(driver, "ProfilerStep#20")
        await click(driver, x, y)
        assert driver.selected == "ProfilerStep#20"
        assert driver.state.viewport.column(driver.state.cursor) == x - driver.timeline.frame.gutter
        assert driver.state.range is None


async def test_a_click_on_nothing_deselects_and_moves_the_cursor(session):
    async with opened(session) as driver:
        await click(driver, *cell_of(driver, "ProfilerStep#20"))
        frame = driver.timeline.frame
        y = next(y for y, row in enumerate(frame.lane_rows) if driver.explorer.rows[row].name == "Stream 0")
        await click(driver, frame.gutter + 50, y + frame.lanes_top)
        assert driver.selected is None
        assert driver.explorer.focused.name == "Stream 0"
        assert driver.state.viewport.column(driver.state.cursor) == 50


async def test_a_click_below_the_last_row_changes_nothing(session):
    async with opened(session, (120, 62)) as driver:
        await driver.press("q")  # the panel takes the rows that lanes leave blank
        await driver.settle()
        frame, focus = driver.timeline.frame, driver.state.focus
        assert frame.lane_rows[-1] == -1
        await click(driver, 60, frame.lanes_top + len(frame.lane_rows) - 1)
        assert driver.state.focus == focus


async def test_a_drag_opens_what_happens_in_the_range(session):
    async with opened(session, (120, 40)) as driver:
        assert not driver.panel.is_open("range")
        await drag(driver, (40, 12), (80, 12))
        await driver.settle()
        assert driver.panel.is_open("range")
        assert driver.app.focused is driver.timeline


async def test_a_drag_ends_where_the_pointer_leaves_the_lanes(session):
    async with opened(session) as driver:
        window = driver.window
        await drag(driver, (60, 8), (119, 8))
        await drag(driver, (60, 8), (2, 8))
        assert driver.state.range[0] == window[0]


async def test_a_hand_that_shakes_is_a_click(session):
    async with opened(session) as driver:
        x, y = cell_of(driver, "ProfilerStep#20")
        await drag(driver, (x, y), (x + 1, y))
        assert driver.state.range is None
        assert driver.selected == "ProfilerStep#20"


async def test_dragging_on_the_minimap_moves_along(session):
    async with opened(session) as driver:
        await driver.press("w")
        frame = driver.timeline.frame
        await drag(driver, (frame.gutter + 10, MINIMAP), (frame.gutter + 90, MINIMAP))
        assert driver.state.viewport.end > session.scene.end * 0.9


async def test_a_jump_by_the_minimap_can_be_undone(session):
    async with opened(session) as driver:
        await driver.press("w")
        await asyncio.sleep(REST)
        before = driver.window
        await click(driver, driver.timeline.frame.gutter + 72, MINIMAP)
        await driver.press("u")
        assert driver.window == before


async def test_a_click_on_a_flag_goes_to_it(session):
    async with opened(session) as driver:
        driver.main.marks.flags.add(Flag(3_000_000, 3_000_000, "here"))
        driver.main.marks.flags.add(Flag(5_000_000, 6_000_000, "there"))
        driver.main.marks.mark()
        driver.timeline.changed()
        await driver.idle()
        frame, window = driver.timeline.frame, driver.window
        marks = [x for x, char in enumerate(frame.grid.char[RULER]) if chr(char) == "⚑"]
        assert len(marks) == 3
        await click(driver, marks[0], RULER)
        assert (driver.state.cursor, driver.window, driver.state.range) == (3_000_000, window, None)
        assert driver.rows()[-1].strip() == "flag here: 3.000000ms"
        await click(driver, marks[2] + 1, RULER)  # a cell is a small thing to hit
        assert driver.state.range == (5_000_000, 6_000_000)
        assert driver.state.viewport.span < 1_200_000
        assert "flag there" in driver.rows()[-1]


async def test_a_click_on_the_number_of_a_finding_goes_to_it(session):
    numbers = set()
    async with opened(session) as driver:
        begun = driver.state.viewport
        for mark in session.scene.findings[0]:
            driver.state.viewport, driver.state.range = begun, None
            driver.timeline.changed()
            await driver.idle()
            frame = driver.timeline.frame
            assert frame.top == "findings"
            x = frame.gutter + max(frame.viewport.column(mark.start), 0)
            if x >= frame.grid.char.shape[1] or chr(frame.grid.char[MINIMAP, x]) != mark.label:
                continue  # another one is drawn over it
            await click(driver, x, MINIMAP)
            found = next(row for row in driver.panel.rows if str(row.cells[0]) == mark.label)
            numbers.add(mark.label)
            assert f"{mark.label} of" in driver.rows()[-1]
            assert str(found.cells[-1])[:40].strip() in driver.rows()[-1]
            assert driver.state.range == (found.places[0].start, found.places[0].end)
    assert len(numbers) > 1


async def test_a_click_on_lost_time_in_the_minimaps_place_puts_the_cursor_there(session):
    async with opened(session, (80, 24)) as driver:
        frame, window = driver.timeline.frame, driver.window
        assert frame.top == "losses"
        await click(driver, frame.gutter + 30, MINIMAP)
        assert frame.viewport.column(driver.state.cursor) == 30
        assert driver.window == window


SHIFT, ALT, CTRL, MOVE, WHEEL_UP, WHEEL_DOWN = 4, 8, 16, 32, 64, 65


async def test_bytes_of_wheels(session):
    async with opened(session, (80, 13)) as driver:
        view = driver.state.viewport
        await send_bytes(driver, report(WHEEL_DOWN, 40, 10))
        assert (driver.state.top, driver.state.viewport) == (3, view)
        await send_bytes(driver, report(WHEEL_UP | CTRL, 40, 10))
        assert driver.state.viewport.span < view.span
        await send_bytes(driver, report(WHEEL_DOWN | CTRL, 40, 10))
        await send_bytes(driver, report(WHEEL_DOWN | SHIFT, 40, 10))
        assert driver.state.viewport.first > view.first


@pytest.mark.parametrize(("button", "zooms"), [(0, False), (2, True), (ALT, True)], ids=["left", "right", "Alt"])
async def test_bytes_of_drags(session, button, zooms):
    async with opened(session) as driver:
        y = driver.timeline.region.y + 10
        low, high, view = time_at(driver, 40), time_at(driver, 70), driver.state.viewport
        moves = [report(button | MOVE, x, y) for x in (50, 70)]
        await send_bytes(driver, report(button, 40, y), *moves, report(button, 70, y, released=True))
        assert driver.state.range == (low, high)
        assert (driver.state.viewport != view) == zooms
        assert not zooms or driver.state.viewport.span == high - low


async def test_a_click_takes_the_focus_to_the_lanes(session):
    async with opened(session) as driver:
        driver.search("Gelu")
        await driver.run("tab_search")
        await driver.press("tab")
        await click(driver, 60, 8)
        assert driver.app.focused is driver.timeline
