import unicodedata

import numpy as np
import pytest
from builders import bars, make_trace
from hypothesis import given
from hypothesis import strategies as st
from test_frame import draw

from npu_tui.trace.classes import OpClass
from npu_tui.trace.text import cell_count, drawable
from npu_tui.view.ansi import PROBE, GlyphSet, plain_text, redraw, stand_in
from npu_tui.view.bars import points
from npu_tui.view.grid import CONTINUED, Grid
from npu_tui.view.palette import Ink, bar

BAR = bar(OpClass.CUBE)


def drawn(text: str, glyphs: GlyphSet, fg: int = BAR, bg: int = Ink.LANE) -> list[tuple[str, int, int]]:
    cells = points(text)
    grid = Grid.blank(1, len(cells), fg, bg)
    grid.char[0] = cells
    result = redraw(grid, glyphs)
    return [(chr(result.char[0, x]), int(result.fg[0, x]), int(result.bg[0, x])) for x in range(len(cells))]


@given(st.text())
def test_stand_ins_keep_the_width(text: str) -> None:
    shown = drawable(text)
    for glyphs in ("safe", "ascii"):
        assert cell_count(plain_text(shown, glyphs)) == cell_count(shown)


@given(st.text())
def test_no_character_of_another_set_is_left(text: str) -> None:
    shown = drawable(text)
    assert plain_text(shown, "ascii").isascii()
    assert plain_text(shown, "ascii").isprintable()
    assert not any(unicodedata.east_asian_width(char) == "A" for char in plain_text(shown, "safe"))
    assert plain_text(shown, "blocks") == shown


@given(st.text(max_size=30))
def test_grids_and_texts_agree(text: str) -> None:
    shown = "".join(char for char in drawable(text) if not 0x2580 <= ord(char) <= 0x259F)
    for glyphs in ("safe", "ascii"):
        cells = "".join(char for char, _, _ in drawn(shown, glyphs)).replace(chr(CONTINUED), "")
        assert cells == plain_text(shown, glyphs)


def test_the_probe_is_ambiguous() -> None:
    assert {unicodedata.east_asian_width(char) for char in PROBE} == {"A"}


@pytest.mark.parametrize(
    ("block", "safe", "ascii_"),
    [
        ("▏", ("⡇", BAR, Ink.LANE), ("|", BAR, Ink.LANE)),
        ("▎", ("⡇", BAR, Ink.LANE), ("|", BAR, Ink.LANE)),
        ("▌", ("▐", Ink.LANE, BAR), (" ", Ink.LANE, BAR)),
        ("▊", (" ", Ink.LANE, BAR), (" ", Ink.LANE, BAR)),
        ("█", (" ", Ink.LANE, BAR), (" ", Ink.LANE, BAR)),
        ("▐", ("▐", BAR, Ink.LANE), ("|", BAR, Ink.LANE)),
        ("▕", ("⢸", BAR, Ink.LANE), ("|", BAR, Ink.LANE)),
    ],
)
def test_ends_of_bars_stay_visible(block: str, safe: tuple, ascii_: tuple) -> None:
    assert drawn(block, "safe") == [safe]
    assert drawn(block, "ascii") == [ascii_]


@pytest.mark.parametrize("glyphs", ["safe", "ascii"])
@pytest.mark.parametrize("block", "▏▎▍▌▋▊▉")
def test_starts_of_bars_stay_visible(block: str, glyphs: GlyphSet) -> None:
    """The ground stands left of a bar's start: whatever is drawn, the bar's ink is in the cell."""
    ((char, fg, bg),) = drawn(block, glyphs, Ink.LANE, BAR)
    assert (bg == BAR) or (fg == BAR and char != " ")
    if block in "▉▊":
        assert bg == Ink.LANE, "most of the cell is ground"


def test_levels_ascend_and_differ_from_bars() -> None:
    for glyphs, count in (("safe", 4), ("ascii", 7)):
        shown = [char for char, _, _ in drawn("▁▂▃▄▅▆▇", glyphs)]
        assert len(set(shown)) == count
        assert len({char for char in shown if shown.count(char) > 2}) == 0


def test_near_shallow_and_queued_differ() -> None:
    for glyphs in ("blocks", "safe", "ascii"):
        assert len({stand_in(char, glyphs) for char in "┃\\╲╱"}) == 4


def test_wide_names_are_kept_or_replaced_cell_by_cell() -> None:
    assert "".join(char for char, _, _ in drawn("矩a", "safe")) == f"矩{chr(CONTINUED)}a"
    assert "".join(char for char, _, _ in drawn("矩a", "ascii")) == "??a"


@pytest.mark.parametrize("glyphs", ["safe", "ascii"])
def test_frames(glyphs: GlyphSet, dispatch_bound) -> None:
    trace = make_trace({"矩阵 → Ω": bars((0, 900), (1000, 3000), (3010, 3011), name="é 矩阵乘法 → x")}, end=4000)
    for frame in (draw(trace), draw(dispatch_bound)):
        grid = redraw(frame.grid, glyphs)
        chars = {chr(code) for code in np.unique(grid.char).tolist()} - {chr(CONTINUED)}
        wrong = {char for char in chars if unicodedata.east_asian_width(char) == "A"}
        assert not (wrong if glyphs == "safe" else {char for char in chars if not char.isascii()})


@pytest.mark.parametrize(("glyphs", "order"), [("ascii", ".:-=+*#"), ("safe", "⣀⣤⣶⣿")])
def test_levels_grow(glyphs: GlyphSet, order: str) -> None:
    seen = [order.index(char) for char, _, _ in drawn("▁▂▃▄▅▆▇", glyphs)]
    assert seen == sorted(seen)
