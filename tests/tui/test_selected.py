"""The bottom line names what is selected; the evidence of a finding answers first."""

from __future__ import annotations

from pathlib import Path

from driving import opened
from measured import profile_at
from textual.drivers.headless_driver import HeadlessDriver

from npu_tui.strings import say
from npu_tui.trace.text import duration_text, exact_text
from npu_tui.tui.footer import StatusLine, selection_line
from npu_tui.tui.session import make_session
from npu_tui.view.moves import links_of
from npu_tui.view.scene import Selected


def status(driver) -> str:
    return str(driver.main.query_one(StatusLine).render())


def times(trace, item) -> tuple[str, str]:
    start = int(trace.slices.start[item])
    return duration_text(int(trace.slices.end[item]) - start), f"at {exact_text(start)}"


def row_of(driver, y: int) -> bytes:
    """Characters and inks of row ``y`` of the lanes."""
    frame = driver.timeline.painter.compose(driver.explorer.rows, driver.state, 120, 30)
    grid, top = frame.grid, frame.lanes_top + y
    return b"".join(part[top].tobytes() for part in (grid.char, grid.fg, grid.bg, grid.attr))


async def test_a_selected_kernel_says_name_times_and_what_launched_it(session):
    trace, launch = session.scene.traces[0], session.profiles[0].starved[0]
    async with opened(session, (160, 40)) as driver:
        driver.explorer.select(Selected(0, launch.item))
        driver.timeline.changed()
        await driver.idle()
        driver.main.rest()
        length, start = times(trace, launch.item)
        words = status(driver)
        assert words.startswith(f"{trace.name_of(launch.item)} · {length} · {start} · launched by ")
        link = links_of(trace, launch.item).into[0]
        waited = int(trace.slices.start[launch.item]) - int(trace.links.source_time[link])
        assert f" {duration_text(waited)} before · 3 details" in words
        await driver.press("3")
        assert "3 details" not in status(driver)
        await driver.press("escape", "escape")
        assert "zoom" in status(driver)


async def test_the_line_is_written_with_the_picture(session, monkeypatch):
    monkeypatch.setattr(HeadlessDriver, "is_headless", False)  # else nothing is painted before somebody asks
    trace, launch = session.scene.traces[0], session.profiles[0].starved[0]
    async with opened(session, (160, 40)) as driver:
        seen, paint = [], driver.timeline._paint
        monkeypatch.setattr(driver.timeline, "_paint", lambda: [seen.append(status(driver)), paint()][1])
        driver.explorer.select(Selected(0, launch.item))
        driver.timeline.changed()
        await driver.idle()
        assert seen[-1].startswith(f"{trace.name_of(launch.item)} · ")


async def test_the_line_fits_every_width_and_keeps_the_times(session):
    trace = session.scene.traces[0]
    async with opened(session, (80, 24)) as driver:
        for item in range(0, len(trace.slices), 211):
            driver.state.selection = Selected(0, item)
            for width in (38, 78, 118):
                words = selection_line(session, driver.explorer, width, linked=True, opened=False)
                assert len(words) <= width
                assert " · ".join(times(trace, item)) in words


async def test_what_was_gone_to_is_named_beside_what_led_there(session):
    async with opened(session, (80, 24)) as driver:
        # The first finding is a stretch of many slices, whatever was selected in it; the third one is a slice.
        for keys, number, named in (("x", 1, True), ("e", 1, True), ("e", 2, False)):
            await driver.press(*keys)
            await driver.settle()
            words = driver.rows()[-1]
            assert f"{number} of " in words
            assert (" · at " in words) == named
            assert "3 details" in words


async def test_a_walk_along_a_folded_row_marks_where_it_is_and_stays_in_the_trace(session):
    async with opened(session, (120, 40)) as driver:
        explorer, state = driver.explorer, driver.state
        row = next(i for i, row in enumerate(explorer.rows) if row.name == "main")
        explorer.move_row(row - state.focus)
        explorer.zoom(8.0)
        for _ in range(60):
            assert explorer.move_slice(1)
            chosen, y = state.selection, row - state.top
            marked = row_of(driver, y)
            state.selection = None
            assert row_of(driver, y) != marked
            state.selection = chosen
        while explorer.move_slice(1):
            pass
        assert driver.window[1] <= explorer.scene.whole[1] + state.viewport.span // state.viewport.width


async def test_a_narrow_terminal_gives_the_room_to_what_is_wrong_and_keeps_letters_of_tabs(session):
    async with opened(session, (80, 40)) as driver:
        await driver.press("1")
        await driver.settle()
        assert "code line" not in driver.panel.content.headings
        assert "what" in driver.panel.content.headings
    async with opened(session, (60, 40)) as driver:
        await driver.press("1")
        await driver.settle()
        line = next(line for line in driver.rows() if "1 Findings" in line)
        assert all(f" {key} {name}" in line for key, name in (("2", "Co"), ("6", "Op"), ("r", "Su")))
    async with opened(session, (80, 24)) as driver:
        await driver.press("I")
        await driver.settle()
        assert " 1 Find. 2 Bubbles 3 Det. 4 Links 5 Range 6 Ops 7 Comm 8 Hits 9 Mem r Sum" in driver.text()


async def test_no_picture_cuts_the_name_of_a_row(session):
    async with opened(session, (120, 40)) as driver:
        for key in ("T", "C", "O", "6"):
            await driver.press(key)
            await driver.settle()
            panel = driver.panel
            if panel.query_one("#aside").display:
                assert panel._named_width() <= 120 - panel.query_one("#aside").size.width, key


async def test_a_prompt_teaches_its_syntax_as_soon_as_it_opens(session):
    async with opened(session, (120, 40)) as driver:
        await driver.press("/")
        assert say("search.hint") in driver.rows()[-1]


async def test_details_of_a_finding_begin_with_its_stretch_and_stay_open(session):
    async with opened(session, (120, 50)) as driver:
        await driver.press("e", "3", "e", "e")
        assert driver.panel.tab == "details"
        state = driver.state
        if state.range is not None and state.selection is not None:
            start, end = session.scene.times(state.selection)
            assert start < state.range[1]
            assert end > state.range[0]


async def test_a_line_leads_from_a_record_to_the_wait_for_it():
    profile = profile_at(Path(__file__).resolve().parents[2] / "fixtures" / "healthy")
    trace = profile.trace
    waits, records = profile.event_pairs
    async with opened(make_session([profile]), (200, 90)) as driver:
        shown = {row.lane: y for y, row in enumerate(driver.explorer.rows) if row.kind == "slices"}
        for wait, record in zip(waits.tolist(), records.tolist(), strict=True):
            assert int(trace.slices.lane[wait]) in shown, "or nothing is tested"
            for item in (wait, record):
                driver.explorer.select(Selected(0, item))
                frame = driver.timeline.painter.compose(driver.explorer.rows, driver.state, 200, 70)
                rows = [frame.grid.text(frame.lanes_top + shown[int(trace.slices.lane[end])]) for end in (record, wait)]
                assert "●" in rows[0]
                assert set("▼▲") & set(rows[1])
