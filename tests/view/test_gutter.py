"""Names of curves in the gutter of a screen of 80 columns."""

import pytest

from npu_tui.strings import say, speaking
from npu_tui.view.margins import gutter_row, gutter_width
from npu_tui.view.scene import ScreenRow


def shown(name: str, value: str) -> str:
    return shown_in(ScreenRow("chart", 0, 0, name=name), value, gutter_width(80))


def shown_in(row: ScreenRow, value: str, width: int) -> str:
    return gutter_row(row, 0, value, False, width, "", say("lane.short")).text(0)


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


@pytest.mark.parametrize("width", [80, 120, 200])
def test_holders_of_memory_keep_the_name_of_their_line(width: int) -> None:
    row = ScreenRow("chart", 0, 0, name="layer:61", bands=12, depth=3)
    assert shown_in(row, "1,023MiB", gutter_width(width, True)).split()[1:] == ["layer:61", "1,023MiB"]
    assert gutter_width(width, True) >= gutter_width(width)
