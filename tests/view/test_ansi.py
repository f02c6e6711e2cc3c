from typing import Any

import numpy as np
import pyte
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npu_tui.trace.classes import OpClass
from npu_tui.trace.text import char_cells
from npu_tui.view.ansi import Depth, Encoder
from npu_tui.view.bars import points
from npu_tui.view.grid import CONTINUED, SPACE, Grid
from npu_tui.view.palette import DARK, GROUNDS, PALETTES, Ink, bar

INKS = [int(ink) for ink in Ink] + [bar(op_class, shade) for op_class in range(11) for shade in range(3)]
GLYPHS = [ord(glyph) for glyph in "  ab▏▌█╱┃⠑…"]


def parsed(rows: list[str], width: int) -> pyte.Screen:
    screen = pyte.Screen(width, len(rows))
    stream = pyte.Stream(screen)
    for y, row in enumerate(rows):
        stream.feed(f"\x1b[{y + 1};1H{row}")
    return screen


def random_grid(seed: int, height: int, width: int) -> Grid:
    random = np.random.default_rng(seed)
    grid = Grid.blank(height, width, Ink.TEXT, Ink.LANE)
    grid.char[:] = random.choice(GLYPHS, grid.char.shape)
    for plane in (grid.fg, grid.bg):
        plane[:] = random.choice(INKS, plane.shape)
    grid.attr[:] = random.integers(0, 8, grid.attr.shape)
    return grid


@settings(max_examples=18, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 30))
def test_a_terminal_shows_the_grid(seed: int, height: int, width: int) -> None:
    grid = random_grid(seed, height, width)
    screen = parsed(Encoder(DARK).encode(grid), width)
    for y in range(height):
        for x in range(width):
            cell = screen.buffer[y][x]
            shown = grid.char[y, x] != SPACE or grid.attr[y, x] & 4
            fg, bg = (cell.bg, cell.fg) if cell.reverse else (cell.fg, cell.bg)
            assert cell.data == chr(grid.char[y, x])
            assert bg == bytes(DARK.rgb[grid.bg[y, x]]).hex()
            assert bool(cell.underscore) == bool(grid.attr[y, x] & 4)
            if shown:
                assert fg == bytes(DARK.rgb[grid.fg[y, x]]).hex()
                assert bool(cell.bold) == bool(grid.attr[y, x] & 1)


@settings(max_examples=18, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 60), st.integers(0, 12))
def test_passing_over_what_stays_shows_the_same(seed: int, height: int, width: int, changes: int) -> None:
    random = np.random.default_rng(seed)
    before, grid = random_grid(seed, height, width), random_grid(seed, height, width)
    other = random_grid(seed + 1, height, width)
    for _ in range(changes):
        y, x = random.integers(height), random.integers(width)
        for plane, source in zip(planes(grid), planes(other), strict=True):
            plane[y, x : x + 5] = source[y, x : x + 5]
    encoder, rows = Encoder(DARK), grid.changed(before)
    screen = pyte.Screen(width, height)
    stream = pyte.Stream(screen)
    whole = encoder.encode(before) + encoder.encode(grid, rows, before)
    for y, row in zip([*range(height), *rows], whole, strict=True):
        stream.feed(f"\x1b[{y + 1};1H{row}")
    expected = parsed(encoder.encode(grid), width)
    for y in range(height):
        for x in range(width):
            assert look(screen.buffer[y][x]) == look(expected.buffer[y][x])


WIDE = "矩阵乘法🚀ｗ한"


def wide_grid(seed: int, height: int, width: int) -> Grid:
    """A random grid in which names of wide characters were written over each other, then mended."""
    random = np.random.default_rng(seed)
    grid = random_grid(seed, height, width)
    for _ in range(3 * height):
        name = "".join(random.choice(list(WIDE + "ab "), random.integers(1, 9)))
        y, x = random.integers(height), random.integers(width)
        grid.write(int(y), int(x), points(name), int(random.choice(INKS)), int(random.choice(INKS)))
        grid.char[random.integers(height), random.integers(width)] = ord("x")
    grid.mend(int(random.integers(width)))
    return grid


def shown_text(screen: pyte.Screen, y: int) -> str:
    return "".join(screen.buffer[y][x].data for x in range(screen.columns))


@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(2, 30))
def test_wide_characters_stand_where_the_grid_has_them(seed: int, height: int, width: int) -> None:
    grid = wide_grid(seed, height, width)
    screen = parsed(Encoder(DARK).encode(grid), width)
    for y in range(height):
        assert shown_text(screen, y) == grid.text(y)
        for x in range(width):
            cell = screen.buffer[y][x]
            if cell.data and grid.char[y, x] != CONTINUED:
                assert cell.data == chr(grid.char[y, x])
                bg = cell.fg if cell.reverse else cell.bg
                assert bg == bytes(DARK.rgb[grid.bg[y, x]]).hex()
        assert sum(char_cells(char) for char in grid.text(y)) == width


@given(st.integers(0, 2**32), st.integers(1, 3), st.integers(2, 50))
def test_changes_keep_wide_pairs_whole(seed: int, height: int, width: int) -> None:
    random = np.random.default_rng(seed)
    before, other = wide_grid(seed, height, width), wide_grid(seed + 1, height, width)
    grid = Grid(*(plane.copy() for plane in planes(before)))
    for _ in range(4):
        y, x = random.integers(height), random.integers(width)
        for plane, source in zip(planes(grid), planes(other), strict=True):
            plane[y, x : x + 5] = source[y, x : x + 5]
    grid.mend()
    encoder, rows = Encoder(DARK), grid.changed(before)
    screen = pyte.Screen(width, height)
    stream = pyte.Stream(screen)
    texts = encoder.encode(before) + encoder.encode(grid, rows, before)
    for y, row in zip([*range(height), *rows], texts, strict=True):
        stream.feed(f"\x1b[{y + 1};1H{row}")
    for y in range(height):
        assert shown_text(screen, y) == grid.text(y)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(10, 60), st.integers(0, 9), st.integers(-40, 40), st.booleans())
def test_what_the_terminal_moves_shows_the_same(seed: int, width: int, left: int, panned: int, is_wide: bool) -> None:
    random = np.random.default_rng(seed)
    before = wide_grid(seed, 4, width) if is_wide else random_grid(seed, 4, width)
    other, grid = random_grid(seed + 1, 4, width), Grid(*(plane.copy() for plane in planes(before)))
    panned = max(min(panned, width - left - 1), left + 1 - width)
    for plane, source, old in zip(planes(grid), planes(other), planes(before), strict=True):
        plane[1:, left:] = source[1:, left:]  # the first row stays where it is
        new, kept = slice(left + max(-panned, 0), width - max(panned, 0)), slice(left + max(panned, 0), width)
        plane[1:, new] = old[1:, kept][:, : new.stop - new.start]
        plane[2, random.integers(width)] = source[2, 0]
    grid.mend()
    encoder, rows = Encoder(DARK), grid.changed(before)
    screen, expected = parsed(encoder.encode(before), width), parsed(encoder.encode(grid), width)
    stream = pyte.Stream(screen)
    for y, row in zip(rows, encoder.encode(grid, rows, before, left, panned), strict=True):
        stream.feed(f"\x1b[{y + 1};1H{row}")
    for y in range(4):
        for x in range(width):
            assert look(screen.buffer[y][x]) == look(expected.buffer[y][x])


def test_a_panned_row_is_moved_and_written_at_its_end() -> None:
    before, grid = random_grid(1, 1, 100), random_grid(2, 1, 100)
    for plane, old in zip(planes(grid), planes(before), strict=True):
        plane[0, :20] = old[0, :20]
        plane[0, 20:90] = old[0, 30:]
    text = Encoder(DARK).encode(grid, [0], before, 20, 10)[0]
    assert text.startswith("\x1b[21G\x1b[10P\r\x1b[90C")
    assert len(text) < len(Encoder(DARK).encode(grid, [0], before)[0]) / 4


def test_the_cursor_marks_both_cells_of_a_pair() -> None:
    grid = Grid.blank(1, 4, Ink.TEXT, bar(1))
    grid.write(0, 0, points("矩阵"), Ink.LABEL)
    grid.bg[0, 3] = Ink.CURSOR
    grid.mend(3)
    assert grid.bg[0].tolist() == [bar(1), bar(1), Ink.CURSOR, Ink.CURSOR]
    grid.bg[0, 2] = bar(1)
    grid.mend()
    assert grid.bg[0].tolist() == [bar(1)] * 4


def test_half_a_wide_character_is_none() -> None:
    grid = Grid.blank(1, 5, Ink.TEXT, Ink.LANE)
    grid.write(0, 0, points("矩阵乘"), Ink.TEXT)
    assert grid.text(0) == "矩阵 "
    grid.write(0, 1, points("x"), Ink.TEXT)
    assert grid.text(0) == " x阵 "
    grid.write(0, 2, points("y"), Ink.TEXT)
    assert grid.text(0) == " xy  "


def test_sixteen_colours_are_named_as_the_oldest_terminals_name_them() -> None:
    grid = Grid.blank(1, 4, Ink.TEXT, Ink.LANE)
    grid.char[:] = ord("x")
    grid.bg[0, 1:] = [bar(OpClass.CUBE), bar(OpClass.OP), Ink.RANGE]
    (text,) = Encoder(DARK, "16").encode(grid)
    assert text == "\x1b[37;40mx\x1b[7;33;47mx\x1b[94mx\x1b[27;37;44mx\x1b[0m"


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(["16", "256", "none"]), st.sampled_from(sorted(PALETTES)))
def test_poorer_terminals_show_the_same_characters(seed: int, depth: Depth, theme: str) -> None:
    grid = random_grid(seed, 3, 30)
    encoder = Encoder(PALETTES[theme], depth)
    screen = parsed(encoder.encode(grid), 30)
    for y in range(3):
        assert shown_text(screen, y) == grid.text(y)
        for x in range(30):
            cell = screen.buffer[y][x]
            if depth == "none":
                assert (cell.fg, cell.bg) == ("default", "default")
                assert cell.reverse == (grid.bg[y, x] not in GROUNDS)


def look(cell: Any) -> tuple[object, ...]:
    fg, bg = (cell.bg, cell.fg) if cell.reverse else (cell.fg, cell.bg)
    blank = cell.data == " " and not cell.underscore
    return cell.data, bg, cell.underscore, None if blank else (fg, cell.bold)


def planes(grid: Grid) -> tuple[np.ndarray, ...]:
    return grid.char, grid.fg, grid.bg, grid.attr


def test_a_short_change_is_a_short_text() -> None:
    before, grid = random_grid(1, 1, 100), random_grid(1, 1, 100)
    grid.char[0, 50] = ord("Z")
    text = Encoder(DARK).encode(grid, [0], before)[0]
    assert text.startswith("\x1b[50C")
    assert text.endswith("\x1b[49C\x1b[0m")


@pytest.mark.parametrize(("depth", "code"), [("truecolor", "38;2;122;164;217"), ("256", "38;5;110")])
def test_colours_are_named_in_the_depth_of_the_terminal(depth: Depth, code: str) -> None:
    grid = Grid.blank(1, 3, bar(1), Ink.LANE)
    grid.char[:] = ord("x")
    assert Encoder(DARK, depth).encode(grid)[0].count(code) == 1


def test_each_row_is_reset_once_and_only_wanted_rows_are_made() -> None:
    grid = random_grid(1, 3, 20)
    encoder = Encoder(DARK)
    rows = encoder.encode(grid)
    assert [row.count("\x1b[0m") for row in rows] == [1, 1, 1]
    assert encoder.encode(grid, [2, 0]) == [rows[2], rows[0]]
    assert encoder.encode(grid, []) == []


def test_blanks_and_inverse_ends_cost_little() -> None:
    grid = Grid.blank(1, 12, bar(1), Ink.LANE)
    grid.bg[0, 4:8] = bar(1)
    grid.char[0, 3], grid.fg[0, 3] = ord("▌"), Ink.LABEL
    grid.bg[0, 3] = bar(1)
    grid.char[0, 8] = ord("▌")
    assert Encoder(DARK).encode(grid)[0] == ("\x1b[48;2;17;18;24m   \x1b[7;38;2;122;164;217m▌    \x1b[27m▌   \x1b[0m")


def test_runs_cover_a_row_with_true_colours() -> None:
    grid = random_grid(5, 2, 40)
    runs = Encoder(DARK).runs(grid, 1)
    assert "".join(text for text, *_ in runs) == grid.text(1)
    x = 0
    for text, fg, bg, attr, turned in runs:
        assert not turned
        assert tuple(DARK.rgb[grid.fg[1, x]]) == fg
        assert tuple(DARK.rgb[grid.bg[1, x]]) == bg
        assert set(grid.attr[1, x : x + len(text)].tolist()) == {attr}
        x += len(text)
    assert len(runs) == 1 + sum(
        (grid.fg[1, k], grid.bg[1, k], grid.attr[1, k]) != (grid.fg[1, k - 1], grid.bg[1, k - 1], grid.attr[1, k - 1])
        for k in range(1, 40)
    )


def test_changed_rows() -> None:
    one, other = random_grid(3, 4, 10), random_grid(3, 4, 10)
    assert one.changed(other) == []
    other.attr[2, 5] ^= 1
    other.bg[0, 0] = Ink.VOID if one.bg[0, 0] != Ink.VOID else Ink.LANE
    assert one.changed(other) == [0, 2]
    assert one.changed(None) == one.changed(random_grid(3, 4, 11)) == [0, 1, 2, 3]
