from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from builders import all_rows, bars, make_trace
from measured import session_of

from npu_tui.analysis.ranges import launch_count
from npu_tui.load.load import load
from npu_tui.profile.scene import make_scene
from npu_tui.view.caches import Frame
from npu_tui.view.grid import Grid
from npu_tui.view.levels import LossIndex, draw_losses
from npu_tui.view.margins import gutter_width
from npu_tui.view.overview import draw_findings, mark_at
from npu_tui.view.painter import compose
from npu_tui.view.palette import Ink
from npu_tui.view.scene import FindingMark, LinkClasses, Losses, Scene, ViewState
from npu_tui.view.viewport import Viewport

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"


def losses(*waits: tuple[int, int, bool]) -> Losses:
    start, end = (np.array([wait[k] for wait in waits], np.int64) for k in (0, 1))
    return Losses(start, end, np.array([wait[2] for wait in waits], np.bool_))


@pytest.mark.parametrize("seed", range(10))
def test_cells_sum_what_was_lost_in_them(seed: int) -> None:
    rng = np.random.default_rng(seed)
    start = np.sort(rng.integers(0, 10**12, 300))
    end = start + rng.integers(1, 10**10, 300)
    starved = rng.random(300) < 0.3
    index = LossIndex(Losses(start, end, starved))
    for _ in range(8):
        low = int(rng.integers(-(10**11), 10**12))
        view = Viewport.around(low, low + int(rng.integers(50, 10**12)), 50)
        lost, red = index.cells(view)
        for column, (left, right) in enumerate(zip(view.edges()[:-1], view.edges()[1:], strict=True)):
            part = np.clip(end, left, right) - np.clip(start, left, right)
            assert lost[column] == part.sum()
            assert red[column] == part[starved].sum()


@pytest.mark.parametrize("name", ["dispatch_bound", "two_ranks/rank0_ascend_pt"])
def test_the_lost_time_of_a_window_is_one_figure_at_any_width(name: str) -> None:
    profile = session_of(load(FIXTURES / name)).profiles[0]
    scene = make_scene([profile])
    (launches,) = profile.dispatch
    for window in [step.window for step in profile.steps if step.window is not None]:
        lost = set()
        for width in (60, 80, 117, 200):
            grid = Grid.blank(1, width, Ink.TEXT, Ink.LANE)
            view = Viewport.around(window.start, window.end, width)
            lost.add(draw_losses(grid, LossIndex(scene.losses[0]), view)[0])
        assert len(lost) == 1
        told = launch_count(launches, profile.trace, window.start, window.end).lost
        assert lost.pop() == pytest.approx(told, abs=len(launches.link))  # each in whole ns


def test_a_column_is_as_high_as_its_lost_share_and_red_where_a_launch_starved() -> None:
    grid = Grid.blank(1, 10, Ink.TEXT, Ink.LANE)
    found = losses((100, 200, True), (350, 400, True), (500, 501, True), (700, 725, False))
    lost, starved = draw_losses(grid, LossIndex(found), Viewport.around(0, 1000, 10))
    assert grid.text(0) == " █ ▄ ▁ ▂  "
    assert [int(grid.fg[0, x]) for x in (1, 3, 5, 7)] == [Ink.ALERT] * 3 + [Ink.COUNTER_LOW]
    assert (lost, starved) == (176, True)


def test_findings_are_lines_with_the_gravest_on_top() -> None:
    grid = Grid.blank(1, 10, Ink.TEXT, Ink.LANE)
    marks = [FindingMark(0, 500, "1", "high"), FindingMark(300, 900, "2", "info"), FindingMark(2000, 3000, "3", "low")]
    draw_findings(grid, marks, Viewport.around(0, 1000, 10), np.zeros(0, np.int64))
    assert grid.text(0) == "1━━2━━━━━ "
    assert grid.fg[0, :9].tolist() == [Ink.ALERT] * 3 + [Ink.FAINT] + [Ink.ALERT] + [Ink.FAINT] * 4


def test_numbers_of_findings_never_run_together() -> None:
    view = Viewport.around(0, 1000, 20)
    marks = [FindingMark(100, 900, "2", "high"), FindingMark(60, 120, "12", "high"), FindingMark(50, 60, "1", "high")]
    grid = Grid.blank(1, 20, Ink.TEXT, Ink.LANE)
    draw_findings(grid, marks, view, np.zeros(0, np.int64))
    assert grid.text(0) == " 1━2" + "━" * 14 + "  "  # 12 has no room that would not read as another number
    assert mark_at(marks, view, 1).label == "1"
    assert mark_at(marks, view, 3).label == "2"
    again = Grid.blank(1, 20, Ink.TEXT, Ink.LANE)
    draw_findings(again, [FindingMark(at, at + 10, "1", "high") for at in (100, 150, 300)], view, np.zeros(0, np.int64))
    assert again.text(0).strip() == "1━  1"


def test_the_minimap_keeps_the_numbers_of_findings_at_any_zoom() -> None:
    marks = [FindingMark(0, 900, "1", "high"), FindingMark(2000, 3900, "2", "medium")]
    for span in ((0, 400), (1000, 1100), (3000, 3010)):
        frame = draw(26, span, marks)
        first = frame.grid.text(0)[frame.gutter :]
        assert [first[0], first[20]] == ["1", "2"]


def draw(height: int, span: tuple[int, int], marks: list[FindingMark]) -> Frame:
    trace = make_trace({"a": bars((0, 1000))}, end=4000)
    scene = Scene([trace], [LinkClasses.plain(0)], [], [losses((1000, 2000, True))], [marks])
    view = Viewport.around(*span, 40)
    return compose(scene, all_rows(trace), ViewState(view, cursor=-1), 40 + gutter_width(56), height)


def test_a_tall_screen_has_a_row_for_lost_time_a_small_one_gives_it_the_minimap() -> None:
    tall, small, near = draw(26, (0, 4000), []), draw(12, (0, 4000), []), draw(12, (0, 800), [])
    wanted = " " * 10 + "█" * 10 + " " * 20
    assert (tall.lanes_top, small.lanes_top) == (4, 3)
    assert tall.grid.text(3)[tall.gutter :] == wanted
    assert tall.grid.text(3)[: tall.gutter].rstrip() == " lost 1.00µs"
    assert small.grid.text(0)[small.gutter :] == wanted
    assert "lost" not in near.grid.text(0)


def test_the_sum_of_lost_time_is_told_where_no_finding_tells_its_own() -> None:
    marks = [FindingMark(0, 2000, "1", "high")]
    whole, near = draw(26, (0, 4000), marks), draw(26, (500, 1500), marks)
    assert whole.grid.text(3)[: whole.gutter].rstrip() == " lost"
    assert near.grid.text(3)[: near.gutter].rstrip() == " lost 500ns"


def test_findings_take_the_minimaps_place_while_everything_is_in_view() -> None:
    marks = [FindingMark(0, 2000, "1", "high")]
    whole, near = draw(26, (0, 4000), marks), draw(26, (0, 800), marks)
    assert whole.grid.text(0)[whole.gutter :].startswith("1━━━")
    assert "━" not in near.grid.text(0)
