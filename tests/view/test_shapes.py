import numpy as np
import pytest

from npu_tui.trace.classes import OpClass
from npu_tui.view.ansi import GLYPH_SETS, TEXTURES, Encoder, stand_in, without_colour
from npu_tui.view.bars import points
from npu_tui.view.grid import Attr, Grid
from npu_tui.view.palette import DARK, LIT, Ink, bar

TOGETHER = (
    (OpClass.FRAME, OpClass.OP, OpClass.QUEUE, OpClass.CANN, OpClass.WAIT),
    (OpClass.CUBE, OpClass.VECTOR, OpClass.COMMUNICATION, OpClass.MEMORY, OpClass.OTHER, OpClass.WAIT),
)
"""Classes that share a lane."""


def row(width: int, fg: int = Ink.TEXT, bg: int = Ink.LANE) -> Grid:
    return Grid.blank(1, width, fg, bg)


@pytest.mark.parametrize("glyphs", GLYPH_SETS)
@pytest.mark.parametrize("group", TOGETHER)
def test_classes_that_share_a_lane_have_textures_of_their_own(group, glyphs) -> None:
    assert len({stand_in(TEXTURES[kind], glyphs) for kind in group}) == len(group)


def test_bars_are_textured_beside_their_names() -> None:
    grid = row(10)
    grid.bg[0, 1:9] = bar(OpClass.MEMORY)
    grid.write(0, 2, points("a b"), Ink.LABEL)
    assert without_colour(grid).text(0) == "  a b === "


def test_the_cursor_crosses_bars_and_free_cells() -> None:
    grid = Grid.blank(2, 3, Ink.TEXT, Ink.LANE)
    grid.bg[0] = bar(OpClass.VECTOR)
    grid.bg[0, 1], grid.bg[1, 1] = bar(OpClass.VECTOR, LIT), Ink.CURSOR
    shown = without_colour(grid)
    assert [shown.text(0), shown.text(1)] == ["▓│▓", " │ "]


def test_the_range_is_dotted_and_glyphs_in_it_stay() -> None:
    grid = row(4)
    grid.bg[0, 1:4] = Ink.RANGE
    grid.char[0, 2] = ord("╱")
    assert without_colour(grid).text(0) == " ░╱░"


def turned(grid: Grid) -> list[bool]:
    """Which cells are drawn in reverse video."""
    runs = Encoder(DARK, "none").runs(grid, 0)
    assert all(fg is None and bg is None for _, fg, bg, _, _ in runs)
    return [turn for text, *_, turn in runs for _ in text]


def test_the_selected_slice_is_the_bar_that_is_not_reversed() -> None:
    grid = row(3, bg=bar(OpClass.OP))
    grid.bg[0, 1] = Ink.SELECTED
    shown = without_colour(grid)
    assert shown.text(0) == " ━ "
    assert turned(shown) == [True, False, True]
    assert shown.attr[0].tolist() == [0, int(Attr.BOLD), 0]


def test_starved_and_near_vertical_differ() -> None:
    grid = row(3)
    grid.char[0] = ord("┃")
    grid.fg[0] = [Ink.ALERT, Ink.NEAR, Ink.ALERT_LOW]
    assert turned(without_colour(grid)) == [True, False, True]


def test_a_chart_of_lost_time_is_not_turned_over() -> None:
    grid = row(3)
    grid.char[0] = [ord("▃"), ord("█"), ord(" ")]
    grid.fg[0] = Ink.ALERT
    grid.bg[0, 2] = Ink.ALERT
    assert turned(without_colour(grid)) == [False, False, True]


def test_the_focused_row_of_the_gutter_is_reversed() -> None:
    grid = row(2)
    grid.bg[0, 1] = Ink.NAME_FOCUS
    assert turned(without_colour(grid)) == [False, True]


def test_two_bars_in_a_cell_are_parted_by_a_tick() -> None:
    grid = row(1, fg=bar(OpClass.OP), bg=bar(OpClass.CANN))
    grid.char[0, 0] = ord("▋")
    assert without_colour(grid).text(0) == "▏"


def test_nothing_names_a_colour() -> None:
    grid = row(60)
    grid.bg[0] = np.arange(60) % 33
    grid.char[0, ::3] = ord("▌")
    grid.fg[0, ::2] = Ink.ALERT
    encoder = Encoder(DARK, "none")
    (text,) = encoder.encode(encoder.prepared(grid))
    codes = {code for part in text.split("\x1b[")[1:] for code in part.partition("m")[0].split(";")}
    assert codes <= {"0", "", "1", "2", "4", "7", "22", "24", "27"}
