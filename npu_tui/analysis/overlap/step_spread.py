"""Percentiles of the lengths of steps, the first ones left out where they are plainly warm-up."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.analysis.overlap.warm_up import warm_up_steps


class StepSpread(Struct, frozen=True):
    """Percentiles in ns of the steps after the first ``warm_up`` ones."""

    warm_up: int
    p50: float
    p90: float
    p99: float


def step_spread(lengths: npt.NDArray[np.int64]) -> StepSpread | None:
    """Of steps that last ``lengths`` ns; None without any."""
    if not len(lengths):
        return None
    warm = warm_up_steps(lengths)
    p50, p90, p99 = np.percentile(lengths[warm:], (50, 90, 99)).tolist()
    return StepSpread(warm, p50, p90, p99)
