from __future__ import annotations

import numpy as np
import pytest
from builders import bars, make_trace

from npu_tui.view.caches import lanes_top
from npu_tui.view.curves import StepCurve, curve_value, draw_curve
from npu_tui.view.explorer import Explorer
from npu_tui.view.grid import Grid
from npu_tui.view.margins import gutter_width
from npu_tui.view.outline import Folds, outline
from npu_tui.view.painter import Painter
from npu_tui.view.palette import Ink
from npu_tui.view.scene import Chart, ChartKind, LinkClasses, Scene, StepFunction, ViewState
from npu_tui.view.viewport import Viewport


def curve(kind: ChartKind, *steps: tuple[int, int], end: int) -> StepCurve:
    time, value = (np.array([step[k] for step in steps], np.int64) for k in (0, 1))
    return StepCurve(StepFunction(time, value, end), kind)


def drawn(made: StepCurve, width: int = 10, span: int = 1000) -> tuple[str, list[int]]:
    grid = Grid.blank(1, width, Ink.TEXT, Ink.LANE)
    draw_curve(grid, 0, made, Viewport.around(0, span, width))
    return grid.text(0), grid.fg[0].tolist()


@pytest.mark.parametrize("kind", ["lead", "depth"])
@pytest.mark.parametrize("seed", range(12))
def test_cells_hold_the_extreme_of_every_step_that_lasts_in_them(kind: ChartKind, seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 3000))
    time = np.cumsum(rng.integers(1, 50, count)) + int(rng.integers(-100, 5000))
    value = rng.integers(-1000, 1000, count)
    end = int(time[-1]) + int(rng.integers(1, 400))
    made = StepCurve(StepFunction(time, value, end), kind)
    extreme = min if kind == "lead" else max
    for _ in range(6):
        start = int(rng.integers(-500, end + 500))
        view = Viewport.around(start, start + int(rng.integers(40, end + 4000)), 40)
        known, cells = made.cells(view)
        until = np.append(time[1:], end)
        for column, (left, right) in enumerate(zip(view.edges()[:-1], view.edges()[1:], strict=True)):
            inside = value[(time < right) & (until > left)]
            assert known[column] == bool(len(inside))
            if len(inside):
                assert cells[column] == extreme(inside.tolist())


def test_the_value_at_a_time() -> None:
    made = curve("depth", (100, 3), (200, 0), (300, 7), end=400)
    assert [made.at(time) for time in (99, 100, 199, 200, 350, 399, 400)] == [None, 3, 3, 0, 7, 7, None]
    assert made.high == 7


def test_nothing_is_known_without_steps() -> None:
    known, _ = curve("lead", end=0).cells(Viewport.around(0, 100, 10))
    assert not known.any()
    assert curve_value(curve("lead", end=0), 5) == ""


def test_depth_is_drawn_up_to_the_deepest() -> None:
    text, inks = drawn(curve("depth", (100, 1), (200, 4), (300, 8), (400, 0), (500, 2), end=700))
    assert text == " ▁▄█ ▂▂   "
    assert set(inks[1:4]) == {Ink.COUNTER}


def test_a_lead_stands_ahead_and_hangs_behind() -> None:
    steps = [(0, 1_000), (100, 50_000), (200, 9_000_000), (300, 0), (400, -2_000), (500, -50_000), (600, -5_000_000)]
    text, inks = drawn(curve("lead", *steps, end=700))
    assert text == "▁▄█▁▔▀█   "
    assert inks[:7] == [Ink.COUNTER] * 4 + [Ink.COUNTER_LOW] + [Ink.ALERT] * 2


def test_one_starving_launch_among_many_is_red() -> None:
    steps = [(k, 5_000_000) for k in range(0, 1000, 2)]
    steps[250] = (500, -12_000)
    text, inks = drawn(curve("lead", *steps, end=1000))
    assert text == "█████▔████"
    assert inks[5] == Ink.ALERT
    assert inks.count(Ink.ALERT) == 1


def test_the_gutter_tells_the_value_at_the_cursor() -> None:
    depth = curve("depth", (0, 3), (100, 36), (200, 1), end=300)
    assert [curve_value(depth, time) for time in (50, 150, 400)] == ["3/36", "36/36", "≤36"]
    lead = curve("lead", (0, 67_200_000), (100, -1_230_000), (200, 0), end=300)
    assert [curve_value(lead, time) for time in (50, 150, 250, 400)] == ["+67ms", "−1.2ms", "0ns", ""]


def test_charts_stand_behind_the_lanes_of_their_layer_and_fold_with_it() -> None:
    trace = make_trace({"Stream 2": bars((0, 100))}, end=1000)
    steps = StepFunction(np.array([0], np.int64), np.array([2], np.int64), 1000)
    charts = [Chart("lead", 0, "Lead", lambda: steps), Chart("depth", 0, "Queue depth", lambda: steps)]
    scene = Scene([trace], [LinkClasses.plain(0)], [charts])

    def names(folds: Folds) -> list[str]:
        return [row.name for row in outline(scene, folds, lambda index, lane: trace.rows)]

    assert names(Folds())[-3:] == ["Stream 2", "Lead", "Queue depth"]
    assert len(names(Folds(layers={(0, 0)}))) == 1
    rows = outline(scene, Folds(), lambda index, lane: trace.rows)
    frame = Painter(scene).compose(rows, ViewState(Viewport.around(0, 1000, 40), cursor=500), 40 + gutter_width(56), 8)
    last = frame.grid.text(lanes_top(8) + len(rows) - 1)
    assert last[: frame.gutter].rstrip().endswith("2/2")
    assert last[frame.gutter :] == "█" * 40


def test_curves_of_memory_open_and_fold() -> None:
    """The first curve stands for all of them until it is opened; the fold of any of them closes them again."""
    trace = make_trace({"Stream 2": bars((0, 100))}, end=1000)
    steps = StepFunction(np.array([0], np.int64), np.array([2], np.int64), 1000)
    names = ("Memory allocated", "Memory reserved", "Memory unused")
    charts = [Chart("depth", 0, "Queue depth", lambda: steps)]
    charts += [Chart("memory", 0, name, lambda: steps) for name in names]
    walk = Explorer(Scene([trace], [LinkClasses.plain(0)], [charts]), 120, 40)

    def shown() -> list[str]:
        return [row.name for row in walk.rows if row.kind == "chart"]

    def stand_on(name: str) -> None:
        walk.state.focus = next(at for at, row in enumerate(walk.rows) if row.name == name)

    assert shown() == ["Queue depth", "Memory allocated"]
    stand_on("Memory allocated")
    assert walk.toggle_fold()
    assert shown() == ["Queue depth", *names]
    stand_on("Memory reserved")
    assert walk.toggle_fold()
    assert shown() == ["Queue depth", "Memory allocated"]
    assert [row.name for row in walk.rows if row.name == "Stream 2"]  # the lanes of the device stay
