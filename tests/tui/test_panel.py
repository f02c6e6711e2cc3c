from __future__ import annotations

import pytest
from driving import opened
from rich.console import Console
from rich.text import Text

from npu_tui.trace.classes import OpClass
from npu_tui.trace.text import duration_text
from npu_tui.tui.commands import TAB_KEYS
from npu_tui.tui.footer import StatusLine
from npu_tui.tui.rows import text_lines
from npu_tui.view.scene import Selected


def select(driver, number: int = 3) -> None:
    launch = driver.main.session.profiles[0].starved[number]
    driver.explorer.select(Selected(0, launch.item))
    driver.timeline.changed()


def lengths_of_hits(driver) -> list[int]:
    slices, items = driver.explorer.scene.traces[0].slices, driver.main.finder.hits.items
    return sorted((slices.end - slices.start)[items].tolist(), reverse=True)


def hidden(driver) -> bool:
    return driver.panel.has_class("-hidden")


@pytest.mark.parametrize(("size", "shown"), [((120, 40), True), ((80, 24), False)])
async def test_the_panel_is_open_where_there_is_room(session, size, shown):
    async with opened(session, size) as driver:
        assert hidden(driver) is not shown
        await driver.press("P")
        assert not hidden(driver)
        await driver.press("Q")
        assert hidden(driver)


async def test_without_a_panel_its_key_leaves_when_it_is_pressed_twice(session):
    async with opened(session) as driver:
        await driver.press("q", "q")
        assert "q again leaves npu-tui" in driver.text()
        await driver.press("w", "q")  # what comes between takes it back
        assert driver.app.is_running
        await driver.press("q")
        assert driver.app._exit


async def test_the_panel_stays_as_the_user_left_it_when_the_terminal_is_resized(session):
    async with opened(session) as driver:
        await driver.press("q")
        await driver.pilot.resize_terminal(200, 50)
        await driver.idle()
        assert hidden(driver)


async def test_digits_open_tabs(session):
    async with opened(session, (80, 24)) as driver:
        for tab, key in TAB_KEYS.items():
            assert hidden(driver)
            await driver.press(key)
            assert driver.panel.tab == tab
            assert not hidden(driver)
            await driver.press("q")


async def test_the_details_follow_the_selection(session):
    async with opened(session) as driver:
        await driver.press("3", "x")
        await driver.settle()
        assert driver.selected in driver.text()
        assert "chain" in driver.text()
        await driver.press("escape")
        await driver.settle()
        assert "Nothing is selected" in driver.text()


async def test_the_call_stack_of_an_op_is_shown(session):
    async with opened(session, (200, 50)) as driver:
        trace = session.scene.traces[0]
        op = next(item for item in range(len(trace.slices)) if trace.slices.stack[item] >= 0)
        driver.explorer.select(Selected(0, op))
        driver.main.contents.open_tab("details")
        await driver.settle()
        first = trace.stacks[trace.slices.stack[op]].replace("\r\n", "\n").split("\n")[0]
        assert first.rstrip(";").strip() in driver.text()


async def test_links_lead_to_the_other_end(session):
    async with opened(session) as driver:
        select(driver)
        await driver.press("4")
        await driver.settle()
        assert driver.table.row_count == 2
        await driver.press("tab", "enter")
        assert driver.selected.startswith(("Node@launch", "launch", "aclnn"))
        assert driver.state.cursor <= session.profiles[0].starved[3].start


async def test_a_slice_without_links_says_so(session):
    async with opened(session) as driver:
        trace = session.scene.traces[0]
        driver.explorer.select(Selected(0, trace.lanes[9].first))
        await driver.run("tab_links")
        assert "no links" in driver.text()


async def test_the_range_tab_sums_the_range(session):
    async with opened(session) as driver:
        await driver.press("5")
        await driver.settle()
        assert "whole trace" in driver.text()
        driver.explorer.set_range(0, 5_000_000)
        driver.timeline.changed()
        await driver.settle()
        assert driver.table.row_count > 10
        assert "0.000000 ms … 5.000000 ms" in driver.text()
        await driver.press("tab", "down", "enter")
        trace, chosen = session.scene.traces[0], driver.state.selection.item
        assert trace.slices.start[chosen] < 5_000_000


async def test_the_search_tab_lists_hits_and_enter_goes_there(session):
    async with opened(session) as driver:
        driver.search("Gelu")
        await driver.run("tab_search")
        await driver.press("tab", "down", "down", "enter")
        lasting = lengths_of_hits(driver)
        slices, item = session.scene.traces[0].slices, driver.state.selection.item
        assert int(slices.end[item] - slices.start[item]) == lasting[2]


async def test_tab_cycles_the_focus(session):
    async with opened(session) as driver:
        driver.search("Gelu")
        await driver.run("tab_search")
        assert driver.app.focused is driver.timeline
        await driver.press("tab")
        assert driver.app.focused is driver.table
        await driver.press("tab")
        assert driver.app.focused is driver.timeline


async def test_with_a_focused_table_letters_drive_the_timeline_and_arrows_the_table(session):
    async with opened(session) as driver:
        driver.search("Gelu")
        await driver.run("tab_search")
        await driver.press("tab")
        window, focus = driver.window, driver.state.focus
        await driver.press("down", "down", "up")
        assert driver.table.cursor_row == 1
        await driver.press("pagedown", "pageup", "end", "home", "left", "right")
        assert (driver.window, driver.state.focus) == (window, focus)
        await driver.press("j")
        assert driver.state.focus == focus + 1
        await driver.press("w")
        assert driver.window != window
        assert driver.app.focused is driver.table


async def test_the_table_keeps_its_row_while_the_view_moves(session):
    async with opened(session) as driver:
        driver.search("Gelu")
        await driver.run("tab_search")
        await driver.press("tab", "down", "down", "w", "d")
        await driver.settle()
        assert driver.table.cursor_row == 2


async def test_escape_returns_to_the_lanes_then_clears_then_deselects(session):
    async with opened(session) as driver:
        driver.search("Gelu")
        select(driver)
        driver.explorer.set_range(5, 9)
        await driver.run("tab_search")
        await driver.press("tab", "escape")
        assert driver.app.focused is driver.timeline
        assert driver.state.range == (5, 9)
        await driver.press("escape")
        assert driver.state.range is None
        assert len(driver.main.finder.hits.starts)
        await driver.press("escape")
        assert not len(driver.state.hits)
        assert not len(driver.main.finder.hits.starts)
        assert driver.state.selection is not None
        await driver.press("escape")
        assert driver.state.selection is None
        await driver.press("escape")
        assert driver.app.is_running


async def test_closing_the_panel_gives_the_focus_back(session):
    async with opened(session) as driver:
        driver.search("Gelu")
        await driver.run("tab_search")
        await driver.press("tab", "q")
        assert driver.app.focused is driver.timeline
        before = driver.state.focus
        await driver.press("down")
        assert driver.state.focus == before + 1


async def test_the_range_tab_tells_what_happens_and_its_key_again_adds_up_by_type(session):
    async with opened(session) as driver:
        driver.explorer.set_range(0, driver.explorer.scene.end)
        await driver.press("5")
        await driver.settle()
        table = driver.panel.content
        assert set(table.headings) >= {"busy", "of range", "count", "sum", "min", "avg", "max", "p90"}
        assert table.again == "critical path"
        assert ":copy_csv" in table.note
        assert "cross the edge" not in table.note
        [device] = session.profiles[0].dispatch
        assert f", {int(device.starved.sum())} starved" in table.note
        assert f"{int(device.near_vertical.sum())} near-vertical" in table.note
        labels = {row.cells[6] for row in table.rows}
        assert "aclnnGelu_GeluAiCore_Gelu" in labels
        await driver.press("5", "5", "5")
        await driver.settle()
        labels = {row.cells[6] for row in driver.panel.content.rows}
        assert "Gelu" in labels
        assert "aclnnGelu_GeluAiCore_Gelu" not in labels
        await driver.press("5")
        await driver.settle()
        layers = [row.cells[7] for row in driver.panel.content.rows]
        assert len(layers) == len(set(layers))
        assert {"CANN", "Ascend Hardware"} <= set(layers)
        assert driver.panel.content.again == "forward and backward"
        await driver.press("5")
        await driver.settle()
        hardware = [row.cells[6] for row in driver.panel.content.rows if row.cells[7] == "Ascend Hardware"]
        assert {"forward", "backward"} <= set(hardware)
        await driver.press("5")
        await driver.settle()
        assert "calls on main" in driver.panel.content.note
        assert any(str(row.cells[4]).startswith("  ") for row in driver.panel.content.rows)


async def test_the_range_tab_says_what_the_range_cuts(session):
    async with opened(session) as driver:
        await driver.press("x", "m", "5")
        await driver.settle()
        trace, (start, end) = session.scene.traces[0], driver.state.range
        slices = trace.slices
        inside = (slices.start < end) & (slices.end > start)
        cut = int((inside & ((slices.start < start) | (slices.end > end))).sum())
        assert cut
        assert f"{cut} cross the edge: busy and sum clipped" in driver.panel.content.note


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50)])
async def test_the_facts_of_the_range_are_whole_on_every_screen(session, size):
    async with opened(session, size) as driver:
        await driver.press("x", "V", "5", "P", *(["P"] if size[1] < 40 else []))
        await driver.settle()
        text = driver.text()
        for part in ("Δt ", "5: critical path", "compute ", "starved; ", " queued", "cross the edge", ":copy_csv"):
            assert part in text
        assert driver.table.size.height >= 2


async def test_a_bubble_is_measured_between_the_slices_around_it(session):
    async with opened(session) as driver:
        await driver.press("x", "b", "m", "5")
        await driver.settle()
        trace, selected = session.scene.traces[0], driver.state.selection
        start, end = int(trace.slices.start[selected.item]), int(trace.slices.end[selected.item])
        assert trace.name_of(selected.item) == "Free"
        assert driver.state.range == (start, end)
        assert f"Δt {duration_text(end - start)}" in driver.panel.content.note


async def test_the_gap_before_a_slice_and_behind_it_is_one_key(session):
    async with opened(session, (80, 24)) as driver:
        await driver.press("x", "x", "x", "x", "x", "V")
        trace, item = session.scene.traces[0], driver.state.selection.item
        start, end = driver.state.range
        assert end == int(trace.slices.start[item])
        lane = trace.lanes[int(trace.slices.lane[item])]
        ends = trace.slices.end[lane.first : lane.last]
        waits = trace.slices.op_class[lane.first : lane.last] == OpClass.WAIT
        assert start == int(ends[(ends <= end) & ~waits].max())
        told = str(driver.main.query_one(StatusLine).render())
        assert told.startswith(f"range of {duration_text(end - start)} between ")
        assert f"and {trace.name_of(item)[:5]}" in told
        await driver.press("V")
        assert driver.state.range[0] == int(trace.slices.end[item])
        await driver.press("V")
        assert driver.state.range == (start, end)


async def test_without_a_selection_the_bubble_at_the_cursor_is_the_gap(session):
    idles = session.profiles[0].idles[0]
    at = int((idles.end - idles.start).argmax())
    start, end = int(idles.start[at]), int(idles.end[at])
    async with opened(session, (80, 24)) as driver:
        driver.explorer.go_to((start + end) // 2)
        driver.state.selection = None
        await driver.press("V")
        assert driver.state.range == (start, end)
        assert driver.state.selection is None


async def test_what_lanes_asked_back_is_not_taken_again(session):
    async with opened(session, (120, 40)) as driver:
        panel = driver.panel
        given = []
        for rows in (5, 2, 5, 2, 5):
            panel.take_blank(rows)
            given.append(panel.styles.height.value - panel.usual)
        assert given == [5, 2, 2, 2, 2]
        panel.fit(39)
        panel.take_blank(5)
        assert panel.styles.height.value == panel.usual + 5


def test_a_text_breaks_between_chinese_characters_and_keeps_its_styles():
    said = Text.assemble(
        ("  每步可节省 31.03 ms（3.8%）。", "bold"), "在所有已读取的流水线中，该 stage 的前向和反向都更久。"
    )
    lines = text_lines(said, 40, Console())
    assert [line.plain for line in lines] == [
        "  每步可节省 31.03 ms（3.8%）。在所有已",
        "读取的流水线中，该 stage 的前向和反向都",
        "更久。",
    ]
    assert [span.style for span in lines[0].spans] == ["bold"]
    assert not lines[1].spans
    long = "void at::native::elementwise_kernel<at::native::gpu_kernel_impl>"
    assert "".join(line.plain for line in text_lines(Text(long), 20, Console())) == long.replace(" ", "")


@pytest.mark.parametrize("size", [(120, 45), (120, 24), (80, 24)])
async def test_texts_of_a_table_wrap_where_all_of_them_fit(session, size):
    async with opened(session, size) as driver:
        await driver.settle()
        table = driver.table
        rows = [("1", "one word " * 30), ("2", "short")]
        table.fill(("#", "what"), rows, 0)
        await driver.settle()
        heights = [row.height for row in table.ordered_rows]
        room = table.scrollable_content_region.width
        fits = sum(max(1, -(-len(text) // (room - 8))) for _, text in rows) + 1 <= table.size.height
        assert (heights[0] > 1) == fits
        assert heights[1] == 1
        if fits:
            assert "…" not in str(table.get_row_at(0)[1])
            assert table.beyond() == (0, 0)


async def test_where_not_all_texts_fit_that_of_the_cursor_is_wrapped_and_another_row_stays(session):
    async with opened(session, (80, 24)) as driver:
        await driver.press("1")
        await driver.settle()
        table = driver.table
        table.fill(("#", "what"), [(str(number), "one word " * 60) for number in range(8)], 0)
        for key in ("down", "down", "up"):
            await driver.settle()
            heights = [row.height for row in table.ordered_rows]
            assert heights[table.cursor_row] == table.size.height - table.header_height - 1 > 2
            assert sum(heights) == heights[table.cursor_row] + 7
            assert table.beyond() == (0, 0)  # the text is there, it does not begin beyond the edge
            table.action_cursor_down() if key == "down" else table.action_cursor_up()


async def test_the_chain_alone_comes_first_and_what_the_host_did_meanwhile_last(session):
    async with opened(session, (120, 40)) as driver:
        await driver.press("x", "c")
        await driver.settle()
        lines = driver.text().splitlines()
        launch, start, host = (
            next(at for at, line in enumerate(lines) if line.strip().startswith(word))
            for word in ("launch", "start", "meanwhile on the host")
        )
        assert launch < start < host
        await driver.press("c")
        await driver.settle()
        lines = [line.strip() for line in driver.text().splitlines()]
        at = next(at for at, line in enumerate(lines) if line.startswith("start"))
        assert not [line for line in lines[:at] if line.startswith("launch")]


async def test_a_zoom_leaves_the_head_and_the_panel_alone(session, monkeypatch):
    """Neither tells of the times in view; a selection made at the same time is told."""
    async with opened(session, (120, 40)) as driver:
        await driver.press("2", "w")
        await driver.settle()
        screen, filled = driver.main, []
        fill = screen.contents.fill
        monkeypatch.setattr(screen.contents, "fill", lambda: filled.append(1) or fill())
        for key in "ws":
            await driver.press(key)
            await driver.settle()
        assert not filled
        await driver.press("d")
        await driver.settle()
        assert filled
        select(driver)
        driver.explorer.zoom(2)
        driver.timeline.changed()
        await driver.settle()
        slices, item = driver.explorer.scene.traces[0].slices, driver.state.selection.item
        assert duration_text(int(slices.end[item] - slices.start[item])) in driver.text()
