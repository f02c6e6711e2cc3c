from __future__ import annotations

import asyncio

import pytest
from driving import Driver, keys_of, opened
from textual import events
from textual.drivers.headless_driver import HeadlessDriver

from npu_tui.tui import timeline
from npu_tui.tui.terminal.frames import QUESTION, FramePace


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def answered(clock: Clock, latency: float) -> FramePace:
    """A pace that knows a terminal of ``latency`` seconds."""
    pace = FramePace(clock)
    pace.question()
    clock.now += latency
    pace.answer()
    return pace


def test_before_the_first_answer_frames_go_out_freely(clock: Clock) -> None:
    pace = FramePace(clock)
    assert [pace.question() for _ in range(3)] == [QUESTION] * 3
    assert pace.wait() == 0


def test_a_near_terminal_has_one_frame_on_its_way(clock: Clock) -> None:
    pace = answered(clock, 0.004)
    assert pace.wait() == 0
    pace.question()
    assert pace.wait() == pytest.approx(2.0)
    clock.now += 0.5
    assert pace.wait() == pytest.approx(1.5)
    pace.answer()
    assert pace.wait() == 0


@pytest.mark.parametrize(("latency", "frames"), [(0.02, 1), (0.04, 2), (0.07, 3), (0.5, 3)])
def test_a_far_terminal_has_more_of_them(clock: Clock, latency: float, frames: int) -> None:
    pace = answered(clock, latency)
    for _ in range(frames):
        assert pace.wait() == 0
        pace.question()
    assert pace.wait() > 0


def test_the_least_time_of_an_answer_counts_as_latency(clock: Clock) -> None:
    pace = answered(clock, 0.001)
    pace.question()
    clock.now += 1.0
    pace.answer()  # a slow link, not a far one
    pace.question()
    assert pace.wait() > 0


def test_a_terminal_that_never_answers_is_asked_no_more(clock: Clock) -> None:
    pace = FramePace(clock)
    pace.question()
    clock.now += 1.1
    assert pace.wait() == 0
    assert pace.question() == ""
    assert pace.on_the_way == 0


def test_one_lost_answer_does_not_stop_the_asking_but_three_in_a_row_do(clock: Clock) -> None:
    pace = answered(clock, 0.001)
    for losses in (1, 2):
        assert pace.question() == QUESTION
        clock.now += 2.1
        assert pace.wait() == 0, losses
    pace.question()
    pace.answer()
    for _ in range(3):
        assert pace.question() == QUESTION
        clock.now += 2.1
        assert pace.wait() == 0
    assert pace.question() == ""


def test_answers_nobody_asked_for_are_ignored(clock: Clock) -> None:
    pace = FramePace(clock)
    pace.answer()
    for _ in range(5):
        assert pace.wait() == 0
        pace.question()
    assert pace.on_the_way == 5


def test_an_answer_after_its_question_was_given_up_is_ignored(clock: Clock) -> None:
    pace = FramePace(clock)
    pace.question()
    clock.now += 1.2
    assert pace.wait() == 0
    pace.answer()
    assert pace.wait() == 0
    assert pace.question() == ""


async def handled(driver: Driver) -> None:
    """Wait until no message waits to be handled, whether or not a frame waits for the terminal."""
    quiet = 0
    while quiet < 3:
        await asyncio.sleep(0.001)
        pumps = [driver.app, *driver.app.screen.walk_children(with_self=True)]
        quiet = quiet + 1 if all(pump.message_queue_size == 0 for pump in pumps) else 0


async def answer(driver: Driver) -> None:
    """Let the terminal say that it has shown all frames."""
    for _ in range(driver.timeline.pace.on_the_way):
        driver.app.post_message(events.CursorPosition(0, 0))
    await driver.idle()


async def test_what_is_pressed_while_the_terminal_is_busy_is_one_picture(session, clock, monkeypatch) -> None:
    monkeypatch.setattr(HeadlessDriver, "is_headless", False)  # else nothing is written
    monkeypatch.setattr(timeline, "FramePace", lambda: FramePace(clock))
    async with opened(session) as driver:
        pace = driver.timeline.pace
        clock.now += 0.001
        await answer(driver)
        assert pace.on_the_way == 0
        await driver.send("w")
        assert pace.on_the_way == 1
        shown = driver.timeline.frame
        for key in "wwwww":
            before = driver.window
            driver.app.post_message(keys_of(key)[0])
            while driver.window == before:
                await handled(driver)
        assert driver.timeline.frame is shown, "the terminal has not shown the last frame yet"
        await answer(driver)
        assert driver.timeline.frame is not shown
        assert pace.on_the_way == 1
