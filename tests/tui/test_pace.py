from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from terminal import Terminal, npu_tui

from npu_tui.tui.terminal.pace import QUESTION, Pace


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def answered(clock: Clock, latency: float) -> Pace:
    """A pace that knows a terminal of ``latency`` seconds."""
    pace = Pace(clock)
    pace.question()
    clock.now += latency
    pace.answer()
    return pace


def test_before_the_first_answer_frames_go_out_freely(clock: Clock) -> None:
    pace = Pace(clock)
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
    pace = Pace(clock)
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
    pace = Pace(clock)
    pace.answer()
    pace.question()
    assert pace.on_the_way == 1


def test_the_program_waits_for_the_terminal_and_merges_what_comes_meanwhile() -> None:
    terminal = Terminal(npu_tui("demo"), 120, 40)
    try:
        data, _ = terminal.read(until="▾ CANN".encode(), quiet=0.5)
        asked = data.count(QUESTION.encode())
        assert asked
        os.write(terminal.master, b"\x1b[3;3R" * asked)
        for _ in range(20):
            os.write(terminal.master, b"w")
            terminal.read(quiet=0.05, limit=0.05)
        data, _ = terminal.read(quiet=0.3, limit=0.6)
        os.write(terminal.master, b"\x1b[3;3R")
        after, _ = terminal.read(quiet=0.3, limit=2.0)
        assert after.count(QUESTION.encode()) == 1, "what was pressed meanwhile is one picture"
    finally:
        terminal.close()
