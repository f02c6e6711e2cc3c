"""The compiled loop over the cells of the screen sums up what its slower twin does."""

from __future__ import annotations

import numpy as np
import pytest

from npu_tui.native.cells import Cells, Levels
from npu_tui.native.library import VARIABLE, library
from npu_tui.trace.model import Rows, make_rows
from npu_tui.view.levels import rasterise
from npu_tui.view.viewport import Viewport

pytestmark = pytest.mark.skipif(library() is None, reason="there is no compiled library for this machine")


def levels_of(rows: Rows) -> Levels:
    return Levels(rows.offset, rows.item, rows.start, rows.end, rows.busy)


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
def test_cells_are_those_of_the_slower_way(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(most)
    for _ in range(60):
        rows = [random_rows(random, most) for _ in range(random.integers(1, 3))]
        end = max(int(each.end.max()) for each in rows)
        low, high = sorted(random.integers(-(end // 3) - 5, end + end // 3 + 5, 2).tolist())
        view = Viewport.around(low, high, int(random.integers(1, 90)))
        wanted = [(each, row, view) for each in rows for row in range(-1, len(each) + 1)]
        found = rasterise(wanted, view.width, levels_of)
        with monkeypatch.context() as without:
            without.setenv(VARIABLE, "off")
            expected = rasterise(wanted, view.width, levels_of)
        for name in Cells.__struct_fields__:
            one, other = getattr(expected, name), getattr(found, name)
            assert one.dtype == other.dtype
            assert np.array_equal(one, other), name


def test_rows_that_end_behind_their_slices_are_refused() -> None:
    rows = make_rows(np.array([0, 900]), np.zeros(2, np.int32), np.array([0, 5]), np.array([1, 6]))
    with pytest.raises(IndexError):
        rasterise([(rows, 0, Viewport.around(0, 10, 4))], 4, levels_of)


@pytest.mark.parametrize("columns", [1_033, 1_200, 2_000])
def test_cells_of_a_wide_terminal(columns: int) -> None:
    """A plan names the memory of columns by address: what is large is given back to the system when nobody holds it."""
    random = np.random.default_rng(columns)
    for _ in range(20):
        rows = random_rows(random, 3000)
        view = Viewport.around(0, int(rows.end.max()), columns)
        cells = rasterise([(rows, row, view) for row in range(len(rows))], columns, levels_of)
        assert cells.count.shape == (len(rows), columns)
        assert np.array_equal(cells.busy.sum(axis=1), [(rows.end - rows.start)[low:high].sum() for low, high in
                              zip(rows.offset[:-1], rows.offset[1:], strict=True)])  # fmt: skip
