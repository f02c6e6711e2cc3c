"""The panel grows, takes what lanes leave blank, shows where the keys go, and hides no column and no row."""

from __future__ import annotations

import pytest
from driving import opened
from rich.cells import cell_len

from npu_tui.strings import say
from npu_tui.tui.commands import TAB_KEYS
from npu_tui.tui.panel import TabLine


async def test_a_key_lets_the_panel_grow_to_half_and_all_of_the_screen_and_back(session):
    async with opened(session, (80, 24)) as driver:
        await driver.press("1")
        usual = driver.panel.size.height
        await driver.press("P")
        assert driver.panel.size.height == 12 > usual
        await driver.press("P")
        assert not driver.timeline.display
        assert driver.panel.size.height >= 20
        assert driver.panel.has_focus_within
        await driver.press("escape")
        assert driver.panel.size.height == usual
        assert driver.timeline.size.height > 8


async def test_enter_leaves_the_page_so_that_the_place_is_seen(session):
    async with opened(session, (80, 24)) as driver:
        await driver.press("1", "P", "P", "enter")
        await driver.settle()
        assert driver.timeline.display
        assert driver.state.range is not None


async def test_dragging_the_line_of_tabs_moves_it(session):
    async with opened(session) as driver:
        line = driver.main.query_one(TabLine)
        y = line.region.y
        await driver.pilot.mouse_down(line, offset=(100, 0))
        await driver.pilot.hover(None, offset=(100, y - 6))
        await driver.pilot.mouse_up(None, offset=(100, y - 6))
        await driver.idle()
        assert line.region.y == y - 6


async def test_the_panel_never_takes_more_rows_than_there_are(session):
    async with opened(session, (120, 60)) as driver:
        for rows in (100, 101, 102):
            driver.panel.take_blank(rows)
            assert driver.panel.styles.height.value == 60
        await driver.settle()
        assert driver.timeline.size.height >= 1


async def test_the_panel_takes_the_rows_that_lanes_leave_blank(sessions):
    async with opened(sessions["healthy"], (120, 60)) as driver:
        await driver.settle()
        assert driver.explorer.list.height == len(driver.explorer.rows)
        assert driver.panel.size.height > driver.panel.usual


async def test_the_digit_of_the_open_tab_focuses_it_and_the_line_says_so(session):
    async with opened(session) as driver:
        line = driver.main.query_one(TabLine)
        assert "━" not in str(line.render())
        await driver.press("1")
        assert driver.app.focused is driver.table
        assert "━" in str(line.render())
        await driver.press("escape")
        assert "━" not in str(line.render())


@pytest.mark.parametrize("size", [(60, 15), (80, 24), (120, 40)])
async def test_no_label_of_a_tab_is_cut(session, size):
    async with opened(session, size) as driver:
        await driver.press("1")
        line = str(driver.main.query_one(TabLine).render())
        assert cell_len(line) == size[0]
        named = [
            tab
            for tab, key in TAB_KEYS.items()
            if any(f"{key} {say(f'tab.{tab}{form}')}" in line for form in ("", ".short"))
        ]
        assert len(named) == (1 if size[0] == 60 else len(TAB_KEYS))
        if size[0] == 80:
            assert line.rstrip("─━ ").endswith("Sum")


async def test_sorting_by_a_column_beyond_the_edge_brings_it_on_screen(session):
    async with opened(session, (80, 24)) as driver:
        await driver.press("6", "6")
        await driver.settle()
        last = driver.panel.content.headings[-1]
        assert last not in driver.text()
        await driver.press("left")
        await driver.settle()
        assert f"{last} ▾" in driver.text()


async def test_space_shows_the_whole_record_of_a_row_of_any_table(session):
    async with opened(session, (80, 24)) as driver:
        await driver.press("2", "2")
        await driver.settle()
        for _ in ("code", "table"):
            row, content = driver.panel.row_at_cursor(), driver.panel.content
            await driver.press("space")
            await driver.settle()
            shown = driver.text()
            for heading, cell in zip(content.headings, row.cells, strict=True):
                if heading and str(cell):
                    assert heading in shown
                    assert str(cell).strip() in shown
            await driver.press("escape", "2")
            await driver.settle()


async def test_a_filter_narrows_while_it_is_typed_and_esc_gives_it_up(session):
    async with opened(session) as driver:
        await driver.press("6")
        await driver.settle()
        every = len(driver.panel.rows)
        await driver.send("&mul")
        shown = len(driver.panel.rows)
        assert 0 < shown < every
        assert say("filter.count", shown=shown, count=every) in driver.text()
        await driver.press("escape")
        assert len(driver.panel.rows) == every


async def test_what_findings_leave_blank_is_the_lanes(sessions):
    """A text of a few lines gives its blank rows to lanes that lack some; other tabs do not."""
    session = sessions["healthy"]
    async with opened(session, (120, 40)) as driver:
        await driver.settle()
        panel = driver.panel
        panel.show("one line")
        for lacking, given in ((-100, panel.usual - 3), (-2, 2)):
            panel._asked_back.clear()
            panel.take_blank(lacking)
            assert panel.usual - panel.styles.height.value == given
        panel._asked_back.clear()
        panel.tab = "details"
        panel.show("one line")
        panel.take_blank(-100)
        assert panel.styles.height.value == panel.usual
