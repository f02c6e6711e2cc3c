"""Rows of slices to cells: the sums of every cell of the screen, exact at any zoom."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npu_tui.native.cells import Cells, Levels, cells
from npu_tui.trace.model import Rows
from npu_tui.view.viewport import Viewport


def rasterise(
    wanted: list[tuple[Rows | None, int, Viewport]], width: int, levels: Callable[[Rows], Levels]
) -> Cells:  # fmt: skip
    """The cells of the ``wanted`` (rows, row, view), ``width`` columns each; a row without ``Rows`` is empty.

    The view is on the clock of the row's trace. ``levels`` returns the (cached) longest-slice index of a ``Rows``.
    """
    groups: dict[tuple[int, Viewport], list[int]] = {}
    for y, (rows, row, view) in enumerate(wanted):
        if rows is not None and 0 <= row < len(rows) and rows.offset[row] < rows.offset[row + 1]:
            groups.setdefault((id(rows), view), []).append(y)
    result = None if len(groups) == 1 else Cells.empty(len(wanted), width)
    for (_, view), lines in groups.items():
        rows = wanted[lines[0]][0]
        assert rows is not None
        which = np.array([wanted[y][1] for y in lines], np.int64)
        columns = rows.offset, rows.item, rows.start, rows.end, rows.busy
        part = cells(*columns, which, view.edges(), levels(rows))
        if result is None:
            if len(lines) == len(wanted):
                return part
            result = Cells.empty(len(wanted), width)
        for name in Cells.__struct_fields__:
            getattr(result, name)[lines] = getattr(part, name)
    assert result is not None
    return result
