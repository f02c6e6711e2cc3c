import numpy as np
import pytest

from npu_tui.view.levels import Extremes


@pytest.mark.parametrize(("ufunc", "slow"), [(np.maximum, max), (np.minimum, min)])
def test_the_extreme_of_any_ranges(ufunc: np.ufunc, slow: type) -> None:
    random = np.random.default_rng(1)
    for _ in range(300):
        count = int(random.integers(1, 400))
        values = random.integers(0, 50, count)
        bounds = np.sort(random.integers(0, count + 1, int(random.integers(2, 40))))
        first, last = np.maximum(bounds[:-1] - random.integers(0, 2), 0), bounds[1:]
        first, last = first[last > first], last[last > first]
        found = Extremes(values, ufunc).over(first, last).tolist()
        assert found == [slow(values[low:high]) for low, high in zip(first, last, strict=True)]
