"""Rows of a table of SQLite, by the compiled library."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from npu_tui.ingest.scanner.layout import PAGE_PADDING
from npu_tui.ingest.scanner.library import Library

U8 = npt.NDArray[np.uint8]
I64 = npt.NDArray[np.int64]


def page_buffer(size: int) -> U8:
    """Room for ``size`` bytes of pages and the padding that the library may read."""
    return np.zeros(size + PAGE_PADDING, np.uint8)


def table_rows(
    library: Library,
    pages: U8,
    leaves: I64,
    usable: int,
    plan: I64,
    outputs: list[npt.NDArray[Any]],
    first: int,
    last: int,
) -> int:
    """How many rows of ``leaves`` were put into ``outputs`` between ``first`` and ``last``.

    It is -1 if not all of them are understood, or are more than that. ``pages`` comes from ``page_buffer``. ``leaves``
    is (n, 3): where a leaf begins in ``pages``, and the row numbers it has lie above the second and up to the third.
    ``plan`` is (columns,), as ``scanner.source.pages`` has it, and the outputs are (n,) int64 or float64 each, that of
    the row numbers first.
    """
    assert leaves.flags.c_contiguous
    assert plan.flags.c_contiguous
    addresses = np.array([output.ctypes.data for output in outputs], np.int64)
    assert all(len(output) >= last and output.itemsize == 8 and output.flags.c_contiguous for output in outputs)
    found: int = library.table_rows(
        pages.ctypes.data,
        len(pages) - PAGE_PADDING,
        leaves.ctypes.data,
        len(leaves),
        usable,
        plan.ctypes.data,
        len(plan),
        addresses.ctypes.data,
        len(addresses),
        last,
        first,
    )
    return found
