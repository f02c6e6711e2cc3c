"""The film of the fix on screen: a key shows the run without a cause above the recorded one, and another takes more."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from driving import Driver, opened
from engines import recorded, troubles
from measured import profile_at

from npu_tui.output.film import PLAYED, RECORDED, causes
from npu_tui.output.whatif import whatif
from npu_tui.profile.profile import Profile
from npu_tui.strings import say
from npu_tui.trace.text import duration_text
from npu_tui.tui.session import make_session

DEMO = Path(__file__).resolve().parents[2] / "fixtures" / "dispatch_bound"


async def filmed(driver: Driver) -> None:
    """Wait for the thread that makes the film."""
    await driver.idle()
    for _ in range(500):
        await driver.pilot.pause()
        if driver.main.is_settled:
            return
        await asyncio.sleep(0.02)
    raise AssertionError("no film")


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50)])
async def test_one_key_shows_it_and_the_same_key_ends_it(size: tuple[int, int]) -> None:
    profile = profile_at(DEMO)
    first = causes(profile)[0]
    answer = whatif(profile, [first.whatif])
    async with opened(make_session([profile]), size) as driver:
        await driver.settle()
        before = driver.main.session
        await driver.press("!")
        await filmed(driver)
        film = driver.main.session.film
        assert film is not None
        assert film.texts == (first.whatif,)
        assert round(film.rungs[0].length) == round(1000 * answer.step_after_us) == first.step_after_ns
        drawn = [driver.explorer.scene.steps(trace) for trace in (RECORDED, PLAYED)]
        sums = [sum(end - start for start, end, _ in steps) for steps in drawn]
        shorter = 1000 * (answer.step_us - answer.step_after_us) * len(drawn[0])
        assert sums[0] - sums[1] == pytest.approx(shorter, abs=2 * len(drawn[0]))  # the answer is rounded to the ns
        text = driver.text()
        for length in (answer.step_us, answer.step_after_us):
            assert duration_text(1000 * length) in text
        rows = driver.explorer.rows
        lanes = [(row.trace, row.lane) for row in rows if row.kind == "slices" and row.opener]
        shared = [lane for trace, lane in lanes if trace == PLAYED and (RECORDED, lane) in lanes]
        assert shared
        for lane in shared:
            assert lanes.index((PLAYED, lane)) < lanes.index((RECORDED, lane))
        assert sorted(row.trace for row in rows if row.kind == "path") == [RECORDED, PLAYED]
        assert profile.trace.counters.series
        assert not [row for row in rows if row.kind == "counter"]
        await driver.press("!")
        await filmed(driver)
        assert driver.main.session is before


async def test_the_next_cause_goes_and_comes_back() -> None:
    profile = profile_at(DEMO)
    every = [finding.whatif for finding in causes(profile)]
    async with opened(make_session([profile])) as driver:
        await driver.settle()
        for key, count in (("!", 1), ("e", 2), ("e", 3), ("E", 2)):
            await driver.press(key)
            await filmed(driver)
            assert list(driver.main.session.film.texts) == every[:count]
        for _ in range(3):
            await driver.press("escape")
            await filmed(driver)
        assert driver.main.session.film is None


async def test_the_row_of_the_table_says_without_what() -> None:
    profile = profile_at(DEMO)
    second = causes(profile)[1]
    async with opened(make_session([profile])) as driver:
        await driver.settle()
        await driver.press("1", "down", "!")
        await filmed(driver)
        assert driver.main.session.film.texts == (second.whatif,)


async def test_the_stretch_of_the_path_says_without_whom() -> None:
    async with opened(make_session([profile_at(DEMO)])) as driver:
        await driver.settle()
        row = next(number for number, row in enumerate(driver.explorer.rows) if row.kind == "path")
        driver.state.focus = row
        await driver.press("!")
        await filmed(driver)
        film = driver.main.session.film
        assert film is None or film.texts[0].startswith("owner ")
        assert film is not None or driver.main._line.is_speaking


async def test_a_change_in_words_is_a_film_too() -> None:
    async with opened(make_session([profile_at(DEMO)])) as driver:
        await driver.settle()
        await driver.send(":whatif no .item()\r")
        await filmed(driver)
        assert driver.main.session.film.texts == ("no .item()",)


@pytest.fixture
def now_and_then(tmp_path: Path) -> Profile:
    """An engine of which some steps run without a graph, but not the first."""
    recorded(troubles()["eager above"].engine, tmp_path)
    return profile_at(tmp_path)


async def test_a_film_begins_where_the_cause_is_seen(now_and_then: Profile) -> None:
    async with opened(make_session([now_and_then])) as driver:
        await driver.settle()
        await driver.press("!")
        await filmed(driver)
        scene = driver.explorer.scene
        assert scene.is_film
        begin, end = driver.window
        start, stop = next((low, high) for low, high, _ in scene.steps(RECORDED) if low <= (begin + end) // 2 < high)
        start_played, stop_played = next((low, high) for low, high, _ in scene.steps(PLAYED) if low == start)
        assert begin <= start < stop <= end
        assert stop_played - start_played < 0.98 * (stop - start)
        every = zip(scene.steps(RECORDED), scene.steps(PLAYED), strict=True)
        gains = [1 - (after[1] - after[0]) / (before[1] - before[0]) for before, after in every]
        assert gains[0] < 0.02
        assert 1 - (stop_played - start_played) / (stop - start) == pytest.approx(max(gains))
        assert "gets shorter the most" in driver.text()
        await driver.press("escape")
        await filmed(driver)
        driver.explorer.show(start, stop)
        await driver.press("!")
        await filmed(driver)
        assert driver.window[0] == pytest.approx(start, abs=(stop - start) // 50), "one that tells stays"
        assert "gets shorter the most" not in driver.text()


async def test_lanes_of_a_film_take_the_rows_that_the_panel_had_beside_the_recorded_run(now_and_then: Profile) -> None:
    """Twice as many lanes have twice as many rows: they do not stay folded to those that one run left them."""
    async with opened(make_session([now_and_then]), (200, 50)) as driver:
        await driver.settle()
        alone = driver.explorer.list.height
        await driver.press("!")
        await filmed(driver)
        await driver.settle()
        assert driver.explorer.list.height > alone
        assert driver.text().count("Queue depth") == 2
        assert driver.explorer.list.height - len(driver.explorer.rows) <= 1
    async with opened(make_session([profile_at(DEMO)]), (200, 50)) as driver:
        await driver.settle()
        await driver.press("!")
        await filmed(driver)
        await driver.settle()
        assert 0 <= driver.explorer.list.height - len(driver.explorer.rows) <= 1, "nor stay blank once they are given"


async def test_a_film_asked_for_too_early_comes_with_the_findings() -> None:
    made = make_session([profile_at(DEMO)])
    async with opened(made) as driver:
        await driver.settle()
        findings = made.findings.pop(0)
        await driver.press("!")
        assert driver.rows()[-1].strip().startswith(say("film.then"))
        assert not driver.main.supposing.pending
        driver.main.head.examined = 0
        driver.main.learn(made, 0, findings)
        await filmed(driver)
        assert driver.main.session.film is not None
        assert not driver.main._line.is_speaking, "that it is being made is said no longer"


async def test_a_film_whose_run_is_over_before_the_view_shows_the_step() -> None:
    """The demo's last stretch of a step, where the run without its causes has nothing left to do."""
    profile = profile_at(DEMO)
    async with opened(make_session([profile])) as driver:
        await driver.settle()
        start, end, _ = driver.explorer.scene.steps()[0]
        driver.explorer.show(end - (end - start) // 20, end)
        driver.explorer.go_to(end - (end - start) // 40)
        await driver.press("!")
        await filmed(driver)
        view = driver.explorer.state.viewport
        assert (view.start <= start, view.end >= end) == (True, True)
        assert say("film.hidden")[:40] in driver.rows()[-1]
