"""Which steps at the beginning of a run are warm-up: compiling, first use, filling caches."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FEWEST_STEPS = 3
"""Fewer steps do not tell which of them is slow."""
_SLOWER = 1.2
_FEW, _SLOWER_THAN_FEW = 4, 2.0
"""So few later steps can be alike by chance: a first one has to take twice as long."""
_SPREADS = 5.0
_AS_SLOW = 1 / 3
_RARE = 0.1


def warm_up_steps(lengths: npt.NDArray[np.int64]) -> int:
    """How many of the steps that last ``lengths`` ns are warm-up; at most half of them.

    Those are the first ones as far as each takes a fifth longer than the median of the second half, twice as long where
    that half has few steps, and more than its spread explains. Where more than a tenth of the later steps are slow as
    well, it is a habit of the run and none is warm-up.
    """
    if len(lengths) < FEWEST_STEPS:
        return 0
    later = lengths[len(lengths) // 2 :].astype(np.float64)
    usual = float(np.median(later))
    spread = float(np.median(np.abs(later - usual)))
    slower = _SLOWER if len(later) >= _FEW else _SLOWER_THAN_FEW
    warm = 0
    while warm < len(lengths) // 2 and lengths[warm] > max(slower * usual, usual + _SPREADS * spread):
        warm += 1
    if not warm:
        return 0
    slow = lengths[warm:] > usual + _AS_SLOW * (float(lengths[:warm].min()) - usual)
    return warm if np.mean(slow) <= _RARE else 0
