"""Which steps at the beginning of a run are warm-up: compiling, first use, filling caches."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FEWEST_STEPS = 3
"""Fewer steps do not tell which of them is slow."""
_SLOWER = 1.2
_SPREADS = 5.0
_AS_SLOW = 1 / 3
_RARE = 0.1


def warm_up_steps(lengths: npt.NDArray[np.int64]) -> int:
    """How many of the steps that last ``lengths`` ns are warm-up; at most half of them.

    Those are the first ones as far as each takes a fifth longer than the median of the second half, and more than its
    spread explains. Where more than a tenth of the later steps are slow as well, it is a habit of the run and none is
    warm-up.
    """
    if len(lengths) < FEWEST_STEPS:
        return 0
    later = lengths[len(lengths) // 2 :].astype(np.float64)
    usual = float(np.median(later))
    spread = float(np.median(np.abs(later - usual)))
    warm = 0
    while warm < len(lengths) // 2 and lengths[warm] > max(_SLOWER * usual, usual + _SPREADS * spread):
        warm += 1
    if not warm:
        return 0
    slow = lengths[warm:] > usual + _AS_SLOW * (float(lengths[:warm].min()) - usual)
    return warm if np.mean(slow) <= _RARE else 0
