"""Whether the first step is warm-up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npu_tui.analysis.overlap.steps import Step
from npu_tui.trace.model import Trace

_FEWEST_STEPS = 3

_WARM_UP_FACTOR = 1.2

_WARM_UP_SPREADS = 5.0


def warm_up(trace: Trace, steps: Sequence[Step]) -> Step | None:
    """The first of at least three ``steps`` if it takes far longer than the others, as compiling and first use do."""
    numbered = [each for each in steps if each.number is not None and each.window is not None]
    if len(numbered) < _FEWEST_STEPS:
        return None
    items = np.array([each.item for each in numbered])
    wall = (trace.slices.end[items] - trace.slices.start[items]).astype(np.float64)
    usual = float(np.median(wall[1:]))
    spread = float(np.median(np.abs(wall[1:] - usual)))
    return numbered[0] if wall[0] > max(_WARM_UP_FACTOR * usual, usual + _WARM_UP_SPREADS * spread) else None
