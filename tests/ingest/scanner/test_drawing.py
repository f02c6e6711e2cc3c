"""The compiled loops over the cells of the screen draw what the slower way draws."""

from __future__ import annotations

import numpy as np
import pytest

from npu_tui.ingest.scanner.drawing import drawing
from npu_tui.trace.classes import OpClass
from npu_tui.trace.model import Rows, make_rows
from npu_tui.view.ansi import DEPTHS, Encoder
from npu_tui.view.bars import Labels, Look, draw_bars, points
from npu_tui.view.curves import Held
from npu_tui.view.grid import CONTINUED, Grid
from npu_tui.view.levels import Levels
from npu_tui.view.palette import PALETTES, Ink
from npu_tui.view.raster import Cells, rasterise
from npu_tui.view.viewport import Viewport

pytestmark = pytest.mark.skipif(drawing() is None, reason="there is no compiled library for this machine")


def random_rows(random: np.random.Generator, most: int) -> Rows:
    """A few rows, some of them empty, of slices that touch, have no duration or lie far apart."""
    sizes = random.integers(0, most, random.integers(1, 6)) * (random.random() < 0.9)
    sizes[0] += 1
    starts, ends = [], []
    for size in sizes.tolist():
        gaps = random.choice([0, 1, 7, 300, 10**6], size) * random.integers(0, 4, size)
        lengths = random.choice([0, 1, 40, 5000, 10**7], size) * random.integers(0, 4, size)
        begun = np.cumsum(gaps + np.append(0, lengths[:-1])[:size])
        starts.append(begun)
        ends.append(begun + lengths)
    count = int(sizes.sum())
    order = random.permutation(count).astype(np.int32)
    return make_rows(np.append(0, np.cumsum(sizes)), order, np.concatenate(starts), np.concatenate(ends))


@pytest.mark.parametrize("most", [4, 60, 3000])
def test_cells_are_those_of_the_slower_way(most: int) -> None:
    random = np.random.default_rng(most)
    for _ in range(60):
        rows = [random_rows(random, most) for _ in range(random.integers(1, 3))]
        end = max(int(each.end.max()) for each in rows)
        low, high = sorted(random.integers(-(end // 3) - 5, end + end // 3 + 5, 2).tolist())
        view = Viewport.around(low, high, int(random.integers(1, 90)))
        wanted = [(each, row, view) for each in rows for row in range(-1, len(each) + 1)]
        expected, found = (rasterise(wanted, view.width, Levels, one) for one in (None, drawing()))
        for name in Cells.__struct_fields__:
            one, other = getattr(expected, name), getattr(found, name)
            assert one.dtype == other.dtype
            assert np.array_equal(one, other), name


def random_look(random: np.random.Generator, cells: Cells, labels: Labels, names: int) -> Look:
    """Slices of all classes; some are selected or hit."""
    shape, slices = cells.count.shape, int(cells.item.max(initial=0)) + 1
    classes = random.choice([*OpClass, OpClass.WAIT, OpClass.WAIT], slices).astype(np.int8)
    chosen = random.integers(-2, slices)
    hits = random.random(shape) < random.choice([0, 0.3])
    return Look(
        kind=classes[cells.item],
        other_kind=classes[cells.other],
        trace=np.zeros(shape[0], np.int64),
        shade=random.integers(0, 2, shape[0]).astype(np.uint8),
        names=[random.integers(0, names, slices).astype(np.int32)],
        labels=[labels],
        selected=(cells.item == chosen) & (cells.count > 0),
        other_selected=(cells.other == chosen) & (chosen >= 0),
        hit=hits,
        hits_only=bool(hits.any()) and random.random() < 0.5,
        cursor=None if random.random() < 0.3 else int(random.integers(shape[1])),
    )


@pytest.mark.parametrize("most", [4, 60, 3000])
def test_bars_are_those_of_the_slower_way(most: int) -> None:
    random = np.random.default_rng(most)
    names = ["aten::linear", "x", "aclnnMm_MatMulCommon_MatMulV2", "矩阵乘", "hcom_allReduce__271_0_1"]
    labels = Labels(names)
    for _ in range(60):
        rows = random_rows(random, most)
        end = int(rows.end.max())
        low, high = sorted(random.integers(-(end // 3) - 5, end + end // 3 + 5, 2).tolist())
        view = Viewport.around(low, high, int(random.integers(1, 90)))
        cells = rasterise([(rows, row, view) for row in range(-1, len(rows) + 1)], view.width, Levels)
        look, widths = random_look(random, cells, labels, len(names)), np.diff(view.edges())
        if random.random() < 0.5:
            widths = np.broadcast_to(widths, cells.count.shape)
        height = len(cells.count)
        whole = Grid.blank(height + 3, view.width + 7, Ink.TEXT, Ink.LANE)
        whole.bg[:] = random.choice([Ink.LANE, Ink.FOCUS, Ink.RANGE, Ink.RANGE_FOCUS, Ink.CURSOR], whole.bg.shape)
        both = [Grid(whole.char.copy(), whole.fg.copy(), whole.bg.copy(), whole.attr.copy()) for _ in range(2)]
        expected, found = (
            draw_bars(cells, look, widths, grid.part(2, 5, height, view.width), one)
            for grid, one in zip(both, (None, drawing()), strict=True)
        )
        for one, other in pairs(*both):
            assert np.array_equal(one, other)
        for name in ("free", "plain", "named"):
            assert np.array_equal(getattr(expected, name), getattr(found, name)), name


def test_rows_that_end_behind_their_slices_are_refused() -> None:
    rows = make_rows(np.array([0, 900]), np.zeros(2, np.int32), np.array([0, 5]), np.array([1, 6]))
    with pytest.raises(IndexError):
        rasterise([(rows, 0, Viewport.around(0, 10, 4))], 4, Levels, drawing())


@pytest.mark.parametrize("most", [3, 70, 40_000])
@pytest.mark.parametrize(("kind", "lowest"), [(np.int64, False), (np.int32, True), (np.float64, False)])
def test_what_holds_in_columns_is_that_of_the_slower_way(most: int, kind: type, lowest: bool) -> None:
    random = np.random.default_rng(most)
    for _ in range(60):
        count = int(random.integers(0, most))
        time = np.cumsum(random.choice([0, 1, 9, 2000], count) * random.integers(0, 3, count))
        value = (random.integers(-(10**6), 10**6, count) / random.choice([1, 7])).astype(kind)
        edges = Viewport.around(int(random.integers(-50, 3000)), int(random.integers(1, 2000 * most)), 60).edges()
        held = Held(time, value, lowest)
        slow, fast = held.over(edges), held.over(edges, drawing())
        for one, other in zip(slow, fast, strict=True):
            assert one.dtype == other.dtype
            assert np.array_equal(one, other)
        here = value[time == edges[0]]
        if len(here):
            before = value[(time > edges[0]) & (time < edges[1])]
            assert slow[1][0] == (min if lowest else max)([here[-1], *before])


def random_grid(random: np.random.Generator, height: int, width: int) -> Grid:
    """Blanks, bars, wide characters, and halves of them."""
    grid = Grid.blank(height, width, Ink.TEXT, Ink.LANE)
    grid.char[:] = random.choice([ord(char) for char in "     ab▏█╱"], grid.char.shape)
    for plane in (grid.fg, grid.bg):
        plane[:] = random.choice([int(ink) for ink in Ink][:12], plane.shape)
    grid.attr[:] = random.choice([0, 0, 0, 1, 2, 4, 7], grid.attr.shape)
    for _ in range(height):
        words = "".join(random.choice(list("矩阵🚀ｗa "), random.integers(1, 9)))
        grid.write(int(random.integers(height)), int(random.integers(width)), points(words), Ink.TEXT, Ink.FOCUS)
    grid.mend()
    if random.random() < 0.2:
        grid.char[random.integers(height), random.integers(width)] = CONTINUED
    return grid


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("palette", PALETTES.values(), ids=PALETTES)
def test_rows_are_sent_as_the_slower_way_does(depth, palette) -> None:  # type: ignore[no-untyped-def]
    random = np.random.default_rng(7)
    plain, fast = Encoder(palette, depth), Encoder(palette, depth, compiled=drawing())
    for _ in range(120):
        height, width = (int(random.integers(1, most)) for most in (5, 70))
        before, other = random_grid(random, height, width), random_grid(random, height, width)
        grid = Grid(*(np.where(random.random((height, 1)) < 0.5, one, two) for one, two in pairs(before, other)))
        low = int(random.integers(width))
        for plane, source in pairs(grid, other):
            plane[:, low : low + 5] = source[:, low : low + 5]
        rows = grid.changed(before)
        assert fast.encode(grid) == plain.encode(grid)
        assert fast.encode(grid, rows, before) == plain.encode(grid, rows, before)
        assert fast.encode(grid, rows[::-1]) == plain.encode(grid, rows[::-1])


def pairs(one: Grid, other: Grid) -> list[tuple[np.ndarray, np.ndarray]]:  # type: ignore[type-arg]
    return [(getattr(one, name), getattr(other, name)) for name in ("char", "fg", "bg", "attr")]


def test_every_ink_may_stand_in_a_cell() -> None:
    grid = Grid.blank(4, 256, 0, 0)
    grid.char[:] = ord("x")
    grid.fg[:] = np.arange(256)
    grid.bg[1:3] = np.arange(256)[::-1]
    for palette in PALETTES.values():
        used = slice(0, len(palette.rgb))
        part = Grid(*(plane[:, used] for plane in (grid.char, grid.fg, grid.bg, grid.attr)))
        assert Encoder(palette, compiled=drawing()).encode(part) == Encoder(palette).encode(part)
