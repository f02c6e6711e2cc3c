"""The tabs of numbers: Code lines, Operators, Communication."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest
from driving import opened
from measured import session_of

from npu_tui.analysis.code_lines import CodeLine, line_of
from npu_tui.load.load import load
from npu_tui.tui import exports as editor
from npu_tui.view.scene import Selected


def column(driver, at: int) -> list[str]:
    return [str(row.cells[at]) for row in driver.panel.rows]


async def test_code_lines_lead_to_the_worst_launch_and_then_the_next(session):
    async with opened(session) as driver:
        await driver.press("2", "2", "2")  # the code, the focus, the table
        await driver.settle()
        row = driver.panel.rows[0]
        assert row.code is None or row.code.line > 0
        await driver.press("enter")
        first = driver.state.selection
        marks = session.scene.link_classes[0]
        losses = {
            int(session.scene.traces[0].links.target_slice[link]): int(marks.lost[link])
            for link in marks.lost.nonzero()[0]
        }
        await driver.press("enter")
        second = driver.state.selection
        assert losses[first.item] >= losses[second.item] > 0
        assert f"2 of {len(row.places)}" in driver.text()


async def test_lost_time_of_the_lines_adds_up(session):
    async with opened(session) as driver:
        await driver.press("2", "2", "2")
        await driver.settle()
        total = sum(row.values[0] for row in driver.panel.rows)
        (facts,) = session.profiles[0].facts
        assert total * facts.count == pytest.approx(sum(device.lost.sum() for device in session.profiles[0].dispatch))


async def test_a_bar_that_comes_after_the_scrolling_stands_where_the_table_does(session):
    async with opened(session) as driver:
        await driver.press("1")
        await driver.settle()
        table = driver.table
        table.show_vertical_scrollbar = False
        table.set_reactive(type(table).scroll_y, 3.0)
        table.show_vertical_scrollbar = True
        assert table.vertical_scrollbar.position == 3.0


async def test_operators_sort_reverse_and_filter(session):
    async with opened(session) as driver:
        await driver.press("6")
        await driver.settle()
        totals = [row.values[0] for row in driver.panel.rows]
        assert totals == sorted(totals, reverse=True)
        await driver.press("tab", "right", "right", "right")
        counts = [row.values[2] for row in driver.panel.rows]
        assert counts == sorted(counts, reverse=True)
        await driver.press("-")
        assert [row.values[2] for row in driver.panel.rows] == sorted(counts)
        await driver.send("&mul\r")
        await driver.settle()
        assert column(driver, 4) == [name for name in column(driver, 4) if "mul" in name.lower()]
        assert 0 < len(driver.panel.rows) < len(totals)
        await driver.send("&\r")
        assert len(driver.panel.rows) == len(totals)


async def test_an_operator_leads_to_its_longest_kernel(session):
    async with opened(session) as driver:
        await driver.press("6", "tab")
        await driver.settle()
        await driver.press("enter")
        slices, row = session.scene.traces[0].slices, driver.panel.rows[0]
        found = driver.state.selection.item
        assert slices.end[found] - slices.start[found] == row.values[3]


async def test_numbers_are_those_of_the_range(session):
    async with opened(session) as driver:
        await driver.run("tab_operators")
        whole = sum(row.values[2] for row in driver.panel.rows)
        driver.explorer.set_range(0, 5_000_000)
        driver.timeline.changed()
        await driver.settle()
        assert 0 < sum(row.values[2] for row in driver.panel.rows) < whole
        assert "in the range of 5.000 ms" in driver.panel.content.note


async def test_without_collectives_the_tab_says_so(session):
    async with opened(session) as driver:
        await driver.run("tab_communication")
        assert "No collectives." in driver.text()
        await driver.press("-")
        assert "no table" in driver.text()


async def test_collectives_tell_who_was_last_and_lead_to_the_next_of_their_type():
    bound = session_of(load(Path("fixtures") / "communication_bound"))
    async with opened(bound, (200, 50)) as driver:
        await driver.press("7")
        await driver.settle()
        trace, rows = bound.scene.traces[0], driver.panel.rows
        column = driver.panel.content.headings.index("start")
        starts = [row.values[column] for row in rows]
        assert starts == sorted(starts)
        await driver.press("tab", "enter")
        first = driver.state.selection.item
        assert trace.slices.start[first] == starts[0]
        await driver.press("enter")
        second = driver.state.selection.item
        assert trace.slices.start[second] in starts[1:]
        last = driver.panel.content.headings.index("last")
        assert any(str(row.cells[last]).startswith("r") for row in rows)
        elapsed = [int(trace.slices.end[place.item] - trace.slices.start[place.item]) for place in (rows[0].places[0],)]
        assert elapsed == [rows[0].values[1]]


async def test_every_device_has_its_charts_and_its_line():
    two = session_of(load(Path("fixtures") / "msprof_two_devices"))
    async with opened(two, (120, 80)) as driver:
        charts = [(row.layer, row.name) for row in driver.explorer.rows if row.kind == "chart"]
        assert len({layer for layer, _ in charts}) == 2
        layers = two.scene.traces[0].layers
        for layer, _ in charts:
            driver.state.focus = next(i for i, row in enumerate(driver.explorer.rows) if row.layer == layer)
            driver.timeline.changed()
            await driver.settle()
            assert f"device {layers[layer].device} " in driver.text()


async def test_details_follow_the_cursor_on_a_chart(session):
    async with opened(session, (200, 50)) as driver:
        at = next(i for i, row in enumerate(driver.explorer.rows) if row.kind == "chart" and row.name == "Queue depth")
        driver.state.focus = at
        await driver.run("tab_details")
        before = driver.text()
        assert "Queue depth: launches that have reached the device" in before
        driver.explorer.go_to(session.profiles[0].starved[0].start + 1)
        driver.timeline.changed()
        await driver.settle()
        assert driver.text() != before


async def test_a_launch_tells_its_lead(session):
    async with opened(session, (200, 50)) as driver:
        await driver.press("3", "x")
        await driver.settle()
        line = next(row for row in driver.rows() if " launch " in row and "lost" in row)
        assert "lead −" in line


async def test_the_bars_tell_the_step_and_the_device(session):
    async with opened(session) as driver:
        head = driver.rows()[:6]
        (bar,) = (row for row in head if row.startswith(" ProfilerStep#20 8.548 ms"))
        assert all(word in bar for word in ("prep", "compute", "free"))
    async with opened(session, (80, 24)) as driver:
        assert not driver.main.head.facts.display


@pytest.fixture
def an_op(session) -> tuple[Selected, CodeLine]:
    trace = session.scene.traces[0]
    for item in range(len(trace.slices)):
        line = line_of(trace, item) if trace.slices.stack[item] >= 0 else None
        if line is not None:
            return Selected(0, item), line
    raise AssertionError("no slice has a call stack")


async def test_o_copies_a_line_that_is_not_here(session, an_op, monkeypatch):
    monkeypatch.setattr(editor, "source_of", lambda *_: None)
    async with opened(session) as driver:
        driver.explorer.select(an_op[0])
        await driver.press("3", "o")
        assert driver.app.clipboard == f"{an_op[1].file}:{an_op[1].line}"
        assert "copied" in driver.text()


async def test_o_opens_the_editor_at_a_line_that_is_here(session, an_op, tmp_path, monkeypatch):
    called = []
    file = tmp_path / "code.py"
    file.write_text("pass\n")
    monkeypatch.setattr(editor.subprocess, "run", lambda command, check: called.append(command))
    monkeypatch.setenv("VISUAL", "my-editor --wait")
    async with opened(session) as driver:
        monkeypatch.setattr(driver.app, "suspend", nullcontext)
        assert "opened" in editor.open_line(driver.app, CodeLine(str(file), 7, "f"))
        monkeypatch.setattr(editor.subprocess, "run", lambda command, check: (_ for _ in ()).throw(OSError("missing")))
        assert "missing" in editor.open_line(driver.app, CodeLine(str(file), 7, "f"))
        assert driver.app.clipboard == f"{file}:7"
    assert called == [["my-editor", "--wait", "+7", str(file)]]


async def test_o_without_a_code_line_says_so(session):
    async with opened(session) as driver:
        await driver.press("3", "o")
        assert "no code line here" in driver.text()


async def test_a_collective_is_there_in_every_range_that_it_runs_in(sessions):
    async with opened(sessions["two_ranks"]) as driver:
        trace = driver.main.session.profiles[0].trace
        one = driver.main.session.profiles[0].collectives[0].item
        start, end = int(trace.slices.start[one]), int(trace.slices.end[one])
        driver.explorer.set_range(start + (end - start) // 3, end - (end - start) // 3)
        await driver.run("tab_communication")
        await driver.settle()
        assert [row.cells[0] for row in driver.panel.rows] == [trace.name_of(one)]


async def test_the_edge_cuts_no_number(session):
    async with opened(session, (76, 30)) as driver:
        await driver.press("6")
        for width in range(76, 100, 3):
            await driver.pilot.resize_terminal(width, 30)
            await driver.settle()
            table, texts = driver.table, [str(cell) for row in driver.panel.rows for cell in row.cells]
            first = table.region.y + 1
            for line in driver.rows()[first : first + 3]:
                last = line[: table.scrollable_content_region.right].split()[-1]
                assert last.endswith("…") or any(text.endswith(last) for text in texts), line


async def test_what_the_key_of_a_tab_shows_next_is_on_the_smallest_panel(session):
    async with opened(session, (80, 30)) as driver:
        for key in "679r":
            for label in (f"  {key} {key}: ", f"  {key}: "):  # the first key leads into the table, the next one on
                await driver.press(key)
                await driver.settle()
                assert not driver.panel.rows or label in driver.rows()[driver.table.region.y - 1]
            await driver.press("escape")
