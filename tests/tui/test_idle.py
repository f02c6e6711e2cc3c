"""Why is it idle here: Details of a gap, a Free slice and a range; the table of bubbles; tables of the host."""

from __future__ import annotations

from driving import opened

from npu_tui.strings import say


async def test_details_of_a_free_slice_tell_who_was_late_the_line_and_the_threads(session):
    async with opened(session, (120, 40)) as driver:
        await driver.press("0", "g", "g", "b", "b", "b", "3", "P", "P")
        await driver.settle()
        text, profile = driver.text(), session.profiles[0]
        [found] = profile.idles
        at = int(found.start.searchsorted(int(profile.trace.slices.start[driver.state.selection.item])))
        assert say("idle.for", length="").strip() in text
        assert say("idle.why") in text
        assert profile.trace.name_of(int(found.after[at])) in text
        assert "main" in text
        assert "task queue" in text


async def test_a_walk_that_follows_at_once_on_its_table_goes_to_a_row_of_it(session):
    """The table may still be computed: the key that comes too early goes to no other bubble."""
    slices, free = session.profiles[0].trace.slices, session.profiles[0].free_slices
    longest = free[(slices.start - slices.end)[free].argsort(kind="stable")][:2].tolist()
    async with opened(session, (120, 40)) as driver:
        await driver.press("I", "b")
        await driver.settle()
        assert driver.state.selection is None or driver.state.selection.item == longest[0]
        await driver.press("b")
        await driver.settle()
        assert driver.state.selection.item in longest


async def test_the_cursor_on_a_gap_and_a_typed_range_say_why_as_well(session):
    async with opened(session, (120, 40)) as driver:
        [found] = session.profiles[0].idles
        at = int(found.longest()[0])
        await driver.send(f":{(int(found.start[at]) + int(found.end[at])) // 2}ns\r")
        await driver.press("escape", "3", "P", "P")
        await driver.settle()
        assert f"{found.length[at] / 1e6:.3f} ms"[:4] in driver.text()
        assert say("idle.meanwhile") in driver.text()
        await driver.press("escape")
        await driver.send(":2ms..5ms\r")
        await driver.press("3")
        await driver.settle()
        assert driver.state.range == (2_000_000, 5_000_000)
        assert "idle for" in driver.text()
        start = int(found.start[at])
        await driver.send(f":{start - 1_000}ns..{start + 2}ns\r")
        await driver.settle()
        assert driver.state.range == (start - 1_000, start + 2)
        assert "idle for" not in driver.text()  # times of the file are rounded by so much


async def test_bubbles_stand_by_length_and_b_walks_them(session):
    async with opened(session, (120, 40)) as driver:
        await driver.press("I")
        await driver.settle()
        lengths = [row.values[0] for row in driver.panel.rows]
        assert lengths == sorted(lengths, reverse=True)
        assert len(lengths) == len(session.profiles[0].idles[0])
        await driver.press("b")
        slices, first = session.profiles[0].trace.slices, driver.state.selection.item
        assert int(slices.end[first] - slices.start[first]) == lengths[0]
        await driver.press("b")
        second = driver.state.selection.item
        assert int(slices.end[second] - slices.start[second]) == lengths[1]
        await driver.press("B")
        assert driver.state.selection.item == first


async def test_the_tables_of_the_host_have_keys_of_their_own(session):
    async with opened(session, (120, 40)) as driver:
        for key, heading in (("T", "after it"), ("C", "std dev"), ("O", "device total"), ("I", "host late")):
            await driver.press(key)
            await driver.settle()
            assert heading in driver.panel.content.headings, key
            assert driver.panel.rows
        await driver.press("2")
        await driver.settle()
        assert driver.main.contents.lines.view == "lines"  # the digit means the code lines, whatever view is on show
        await driver.press("T", "T", "2")
        await driver.settle()
        assert driver.main.contents.lines.view == "lines"  # also with the focus in the table


async def test_calls_are_those_of_the_report_and_their_slowest_comes_first(session):
    async with opened(session, (120, 40)) as driver:
        await driver.press("C")
        await driver.settle()
        part = session.profiles[0]
        assert [(row.cells[6], row.cells[5]) for row in driver.panel.rows] == [(e.level, e.name) for e in part.apis]
        slices, row = session.profiles[0].trace.slices, driver.panel.rows[0]
        place = row.places[0]
        assert int(slices.end[place.item] - slices.start[place.item]) == part.apis[0].longest


async def test_a_place_gone_to_is_what_details_tell_of(session):
    async with opened(session, (120, 40)) as driver:
        await driver.press("x", "3")
        await driver.settle()
        chosen = driver.state.selection
        start, end = driver.explorer.scene.times(chosen)
        await driver.send(f":{start}ns\r")
        assert driver.state.selection == chosen
        await driver.send(f":{end + 1_000_000}ns\r")
        await driver.settle()
        assert driver.state.selection is None
        assert session.scene.traces[0].name_of(chosen.item) not in "\n".join(driver.rows()[-8:-1])


async def test_what_came_last_is_what_details_tell_first(session):
    """A finding marks a range; a slice that is selected in it later is newer."""
    async with opened(session, (120, 40)) as driver:
        for keys, first in (("ee3", "idle for"), ("x", "MEMCPY_ASYNC"), ("E", "")):
            await driver.press(*keys)
            await driver.settle()
            told = next(row for row in driver.rows()[driver.panel.region.y + 1 :] if row.strip())
            assert told.strip().startswith(first), told
