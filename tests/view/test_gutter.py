"""Names of curves in the gutter of a screen of 80 columns."""

import pytest

from npu_tui.strings import say, speaking
from npu_tui.view.grid import Grid
from npu_tui.view.margins import Gutter, blank_row, gutter_row, gutter_width
from npu_tui.view.palette import Ink
from npu_tui.view.scene import ScreenRow


def shown(name: str, value: str) -> str:
    row = ScreenRow("chart", 0, 0, name=name)
    return gutter_row(row, 0, value, False, gutter_width(80)).text(0)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_no_curve_of_memory_is_cut(language: str) -> None:
    with speaking(language):
        for kind in ("allocated", "reserved", "active", "gap", "process"):
            text = shown(say(f"chart.memory.{kind}"), "954MiB")
            assert "…" not in text
            assert text.split()[-1] == "954MiB"


@pytest.mark.parametrize(
    ("name", "short"), [("HBM 0/Read", "0R"), ("HBM 3/Write", "3W"), ("LLC 0 Read/Throughput", "0R")]
)
def test_curves_of_the_chip_keep_what_tells_them_apart(name: str, short: str) -> None:
    assert shown(name, "7.11MB/s").split()[1:] == [short, "7.11MB/s"]


def test_a_gutter_is_that_of_its_rows_whatever_it_was_before() -> None:
    row = ScreenRow("chart", 0, 0, name="Lead")
    wide, narrow = gutter_width(200), gutter_width(80)
    rows = {
        width: [gutter_row(row, 0, value, False, width) for value in ("1ms", "2ms", "")] for width in (wide, narrow)
    }
    gutter = Gutter()
    for width, order in ((wide, "012"), (wide, "021"), (wide, "-1-"), (wide, "01"), (narrow, "01"), (narrow, "")):
        grid = Grid.blank(len(order), width, Ink.TEXT, Ink.LANE)
        drawn = [blank_row(width) if each == "-" else rows[width][int(each)] for each in order]
        gutter.put(drawn, grid)
        assert [grid.text(y) for y in range(len(order))] == [each.text(0) for each in drawn]
        assert all((grid.fg[y] == each.fg[0]).all() for y, each in enumerate(drawn))
