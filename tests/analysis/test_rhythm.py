"""What repeats in a run without steps."""

from __future__ import annotations

import numpy as np
import pytest

from npu_tui.analysis.rhythm import _by_names


def test_the_rarest_even_kernels_split_the_run() -> None:
    layer = [1, 2, 3, 2]
    names = np.array(([7] + layer * 6 + [8]) * 9)
    found = _by_names(names)
    assert found is not None
    assert found.tolist() == list(range(0, len(names), 26))


@pytest.mark.parametrize(
    "names",
    [
        [1, 2, 3],
        [1, 1, 2, 1, 2, 2, 2, 3, 1, 3, 3, 3, 3, 2, 1, 1, 1, 2, 3, 3, 1],
        [5, *[1] * 30, 5, 5, *[1] * 11, 5],
    ],
)
def test_what_has_no_rhythm(names: list[int]) -> None:
    assert _by_names(np.array(names)) is None
