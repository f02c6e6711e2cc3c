"""The critical path on the screen: its keys, Details of what is on it, and where the time of a range goes."""

from __future__ import annotations

import pytest
from driving import opened

from npu_tui.strings import say


@pytest.fixture
def path(session):
    def found():
        [shown] = session.paths[0]
        return shown

    return found


async def test_a_key_leads_to_the_longest_stretch_and_on_to_the_next(session, path):
    async with opened(session) as driver:
        await driver.settle()
        lengths = []
        for _ in range(3):
            await driver.press(";")
            assert driver.state.selection is not None
            at = path().lane.at(driver.state.cursor)
            lengths.append(path().lasts(at))
            assert int(path().lane.rows.item[at]) == driver.state.selection.item
        every = sorted((path().found.path.end - path().found.path.start).tolist(), reverse=True)
        assert lengths == every[:3]
        view = driver.explorer.state.viewport
        assert view.start <= driver.state.cursor < view.end
        await driver.send("0")
        await driver.send(":path\r")
        assert path().lasts(path().lane.at(driver.state.cursor)) == every[3]


async def test_keys_walk_it_stretch_by_stretch(session, path):
    async with opened(session) as driver:
        await driver.settle()
        await driver.press(";")
        first = path().lane.at(driver.state.cursor)
        for key, stretch in (("'", first + 1), ("'", first + 2), ('"', first + 1), ('"', first), ('"', first - 1)):
            await driver.press(key)
            assert path().lane.at(driver.state.cursor) == stretch
            item = int(path().lane.rows.item[stretch])
            assert (None if driver.state.selection is None else driver.state.selection.item) == (
                item if item >= 0 else None
            )
        await driver.settle()
        assert say("path.of", n=first, count=f"{len(path().found.path):,}", length="", share="", name="")[:20] in (
            driver.text()
        )


async def test_it_begins_at_the_cursor_and_ends_at_its_ends(session, path):
    async with opened(session) as driver:
        await driver.settle()
        await driver.send(":5ms\r")
        await driver.press("'")
        assert path().found.path.start[path().lane.at(driver.state.cursor)] <= 5_000_000
        assert path().lane.at(driver.state.cursor) == path().lane.at(5_000_000)
        await driver.send(f":{int(path().found.path.start[0])}ns\r")
        driver.state.selection = None
        await driver.press("'")
        assert path().lane.at(driver.state.cursor) == 0
        await driver.press('"')
        assert say("path.first") in driver.text()


async def test_details_say_whose_it_is_and_what_it_gains(session, path):
    async with opened(session) as driver:
        await driver.settle()
        await driver.press(";", "3", "P", "P")
        await driver.settle()
        text = driver.text()
        assert "tolist at model.py:31 in relative_bias()" in text
        owner = path().found.owners[0]
        assert f"{owner.on_path / path().length:.1%}" in text
        assert say("path.gain", gain=round(path().told.gain_of(owner)), unit=say("finding.unit.step")) in text
        assert say("path.before") in text
        assert say("path.after") in text


async def test_the_range_tab_adds_the_path_up_by_owner(session, path):
    async with opened(session) as driver:
        await driver.settle()
        await driver.press("5", "5", "5")
        await driver.settle()
        rows = driver.panel.rows
        assert sum(row.values[0] for row in rows) == pytest.approx(1)
        assert [row.values[1] for row in rows] == [owner.on_path / 3 for owner in path().found.owners]
        assert rows[0].values[2] == round(path().told.gain_of(path().found.owners[0]))
        longest = max(rows[0].places, key=lambda place: place.end - place.start)
        assert rows[0].places[0] == longest
        await driver.press("enter")
        assert driver.state.cursor == longest.start
        await driver.press("escape")
        await driver.send(":2ms..5ms\r")
        await driver.settle()
        assert sum(row.values[1] for row in driver.panel.rows) == 3_000_000


async def test_without_a_path_the_keys_and_details_say_why(session, path):
    async with opened(session) as driver:
        await driver.settle()
        known = session.paths
        session.paths = {}
        await driver.press(";")
        assert say("path.no_device")[:20] in driver.text()
        session.paths = known
