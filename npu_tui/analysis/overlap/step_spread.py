"""Percentiles of the lengths of steps, the first ones left out where they are plainly warm-up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_SLOWER = 1.2
_LEAST = 4


@dataclass(frozen=True, slots=True)
class StepSpread:
    """Percentiles in ns of the steps after the first ``warm_up`` ones."""

    warm_up: int
    p50: float
    p90: float
    p99: float


def step_spread(lengths: npt.NDArray[np.int64]) -> StepSpread | None:
    """Of steps that last ``lengths`` ns; None without any.

    Warm-up are the steps at the beginning, half of them at most, that last a fifth longer than the median of the
    second half. Fewer than four tell nothing of that kind.
    """
    if not len(lengths):
        return None
    warm = 0
    if len(lengths) >= _LEAST:
        steady = float(np.median(lengths[len(lengths) // 2 :]))
        while warm < len(lengths) // 2 and lengths[warm] > _SLOWER * steady:
            warm += 1
    p50, p90, p99 = np.percentile(lengths[warm:], (50, 90, 99)).tolist()
    return StepSpread(warm, p50, p90, p99)
