"""Ghosts: rows below the streams that show what these would do in a run with something changed."""

from __future__ import annotations

import numpy as np

from npu_tui.trace.model import Trace
from npu_tui.view.curves import Curve, curve_value, draw_curve
from npu_tui.view.grid import Grid
from npu_tui.view.outline import Folds, outline
from npu_tui.view.palette import Ink
from npu_tui.view.scene import Chart, LinkClasses, Scene, StepFunction
from npu_tui.view.viewport import Viewport


def busy() -> StepFunction:
    return StepFunction(np.array([100, 300, 500, 600]), np.array([1, 0, 1, 0]), 600)


def test_a_ghost_stands_below_its_lane(healthy: Trace) -> None:
    trace = healthy
    scene = Scene([trace], [LinkClasses.plain(len(trace.links))])
    plain = outline(scene, Folds(), lambda _, __: trace.rows)
    hardware = next(layer for layer in trace.layers if layer.kind == "hardware")
    lane = next(row for row in plain if row.kind == "slices" and row.layer == hardware.index)
    scene.charts[0] = [Chart("ghost", lane.layer, "predicted", busy, lane=lane.lane)]
    rows = outline(scene, Folds(), lambda _, __: trace.rows)
    (at,) = (number for number, row in enumerate(rows) if row.kind == "chart")
    assert rows[at - 1].lane == lane.lane
    assert [*rows[:at], *rows[at + 1 :]] == plain


def test_a_ghost_is_dim_where_it_is_busy() -> None:
    grid = Grid.blank(1, 6, Ink.TEXT, Ink.LANE)
    curve = Curve(busy(), "ghost")
    drawn = draw_curve(grid, 0, curve, Viewport.around(0, 600, 6))
    inks = grid.fg[0][drawn]
    assert (inks == Ink.DIM).all()
    assert 0 < len(inks) < 6
    assert curve_value(curve, 200) == ""
