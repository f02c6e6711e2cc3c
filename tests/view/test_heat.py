"""Pictures of a job as grids of cells."""

from __future__ import annotations

import numpy as np
import pytest

from npu_tui.view.grid import Grid
from npu_tui.view.heat import (
    DrawnParts,
    DrawnRow,
    FieldPicture,
    HeatBar,
    HeatPicture,
    WaterfallPicture,
    draw_field,
    draw_heat,
    draw_parts,
    draw_waterfall,
    field_places,
    worst,
)
from npu_tui.view.palette import Ink

LEAST = (0.003, 0.01, 0.03, 0.10)


def blank(height: int, width: int) -> Grid:
    return Grid.blank(height, width, Ink.TEXT, Ink.LANE)


def heat(rows: list[tuple[str, list[float]]], **more: object) -> HeatPicture:
    drawn = tuple(DrawnRow(label, "", np.array(shares), figures=("+1 ms",)) for label, shares in rows)
    columns = tuple(str(number) for number in range(len(rows[0][1])))
    return HeatPicture("title", columns, drawn, ("own +",), LEAST, **more)  # type: ignore[arg-type]


def test_a_share_is_told_by_the_shape_of_its_cell():
    grid = blank(4, 60)
    draw_heat(heat([("0", [0.0, 0.005, 0.02, 0.05, 0.2, np.nan])]), grid)
    cells = grid.text(2)
    assert [char for char in cells if char in "·░▒▓█"] == [char for char in "·░▒▓█" for _ in range(5)]


def test_a_cell_holds_the_worst_of_its_columns():
    shares = np.array([0.0, 0.2, 0.0, 0.0, 0.0, 0.004])
    assert worst(shares, 3).tolist() == [0.2, 0.0, 0.004]
    assert worst(np.array([np.nan, 0.1, np.nan, np.nan]), 2)[0] == 0.1
    grid = blank(3, 40)
    places = draw_heat(heat([("0", [0.0] * 99 + [0.2])]), grid)
    assert places.bins < 100
    assert grid.text(2).count("█") >= 1


def test_the_cursor_stays_on_screen_and_what_is_left_out_is_said():
    rows = [(str(number), [0.0]) for number in range(20)]
    grid = blank(8, 40)
    places = draw_heat(heat(rows, cursor=15, more="more"), grid)
    assert "▸15" in grid.text(2 + 15 - places.top)
    assert grid.text(7).strip() == "more"
    assert places.row(2) == places.top
    assert places.row(7) is None


def test_figures_give_way_to_cells():
    grid = blank(3, 20)
    draw_heat(heat([("0", [0.0] * 40)]), grid)
    assert "+1 ms" not in grid.text(2)


def test_a_picture_without_room_draws_nothing():
    grid = blank(2, 40)
    draw_heat(heat([("0", [0.2])]), grid)
    assert not grid.text(0).strip()


@pytest.mark.parametrize(("hosts", "width", "by_device"), [(125, 200, True), (125, 120, False), (1250, 120, False)])
def test_thousands_of_ranks_are_a_cell_each_or_one_per_host(hosts: int, width: int, by_device: bool):
    shares = np.zeros((hosts, 8))
    shares[52, 1] = 0.2
    grid = blank(30, width)
    places = draw_field(FieldPicture("field", shares, (), LEAST), grid)
    assert places.by_device == by_device
    text = [grid.text(line) for line in range(30)]
    assert sum(row.count("█") for row in text) == 1
    dots = sum(row.count("·") for row in text)
    assert dots == (8 * hosts if by_device else hosts) - 1
    y = next(line for line, row in enumerate(text) if "█" in row)
    assert places.at(text[y].index("█"), y - 1) == ((52, 1) if by_device else (52, -1))


def test_ten_thousand_ranks_fit_a_screen():
    places = field_places(1250, 8, 120, 26)
    assert -(-1250 // places.across) <= 25


def bar(label: str, come: int, **more: object) -> HeatBar:
    parts: dict[str, object] = {"begin": 0, "end": 90, "own": 0, "error": 0, "words": "", "note": ""}
    return HeatBar(label, come=come, **{**parts, **more})  # type: ignore[arg-type]


def test_work_excess_wait_and_transfer_follow_each_other():
    bars = (bar("7", 60, own=30, note="last"), bar("1", 30, words="waits for 7", note="waits"))
    grid = blank(4, 110)
    draw_waterfall(WaterfallPicture("allReduce", ("clock ±1 µs",), 100, 60, bars), grid)
    last, other = grid.text(1), grid.text(2)
    assert grid.text(0).startswith(" allReduce")
    assert grid.text(0).rstrip().endswith("clock ±1 µs")
    assert [last.strip(" 7").count(char) > 0 for char in "█╱│▒"] == [True] * 4
    assert last.index("█") < last.index("╱") < last.index("▒")
    assert "waits for 7" in other
    assert other.index("█") < other.index("·") < other.index("▒")


def test_what_the_clock_leaves_open_is_drawn_and_a_bound_is_marked():
    bars = (bar("7", 60), bar("1", 30, error=10), bar("2", 20, at_most=True))
    grid = blank(5, 110)
    draw_waterfall(WaterfallPicture("allReduce", ("",), 100, 60, bars, more="2 more"), grid)
    assert grid.text(2).count("~") > 10
    assert "≤" in grid.text(3)
    assert "█" not in grid.text(3)
    assert grid.text(4).strip() == "2 more"


def test_parts_of_a_step_are_on_one_scale():
    rows = (DrawnParts("3", (40.0, 25.0, 15.0), "80 ms"), DrawnParts("1", (20.0, 10.0, 10.0), "40 ms"))
    grid = blank(3, 92)
    draw_parts("parts", rows, grid)
    first, second = grid.text(1), grid.text(2)
    assert [first.count(fill) for fill in "█▒╱"] == pytest.approx([40, 25, 15], abs=3)
    assert sum(second.count(fill) for fill in "█▒╱") == pytest.approx(
        sum(first.count(fill) for fill in "█▒╱") / 2, abs=1
    )
