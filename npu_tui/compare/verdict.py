"""Slower, faster, same or unsure: what samples of a time can tell about a change."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.compare.statistics import Shift, paired_shift, shift, visible_change

F64 = npt.NDArray[np.float64]

Verdict = Literal["slower", "faster", "same", "unsure", "incomparable"]


class Judgement(Struct, frozen=True):
    """How a time per step changed, ns; ``shift`` is None where there are too few samples for a rank test.

    ``delta`` is the difference of the means, ``visible`` the smallest change that such samples would show.
    """

    base: F64
    new: F64
    delta: float
    shift: Shift | None
    visible: float | None
    verdict: Verdict


def judge(base: F64, new: F64, tolerance: float, paired: bool = False, few: Verdict | None = "unsure") -> Judgement:
    """The change from ``base`` to ``new`` (ns per step), held against ``tolerance`` (a share of the base mean).

    With ``paired`` the samples belong together one by one. ``few`` is the verdict where a side has less than four
    samples and the means differ; None lets the difference of the means decide there.
    """
    centre = float(base.mean())
    delta = float(new.mean()) - centre
    limit = tolerance * centre
    found = paired_shift(new - base) if paired and len(base) == len(new) else None
    found = found or shift(base, new)
    visible = visible_change(base, new)
    verdict: Verdict
    if np.array_equal(np.sort(base), np.sort(new)):
        verdict = "same"
    elif found is not None:
        verdict = _by_interval(found, limit)
        if verdict == "same" and abs(delta) > limit:
            verdict = "unsure"  # few samples changed, but by much
    else:
        verdict = few or _by_mean(delta, limit)
    return Judgement(base, new, delta, found, visible, verdict)


def _by_mean(delta: float, limit: float) -> Verdict:
    if abs(delta) <= limit:
        return "same"
    return "slower" if delta > 0 else "faster"


def _by_interval(found: Shift, limit: float) -> Verdict:
    if -limit <= found.low and found.high <= limit:
        return "same"
    if found.low > 0 and found.estimate >= limit:
        return "slower"
    if found.high < 0 and found.estimate <= -limit:
        return "faster"
    return "unsure"
