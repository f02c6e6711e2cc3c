"""Steps that compute longer than their equals, and the kernels by which they do.

Nothing is said of steps that differ regularly, or by as much as all differ: gradients that are summed up over several
steps, batches of any length.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from npu_tui.analysis.limits import EVEN, HALF, OUTLYING, SOME
from npu_tui.trace.arrays import F64, I64, Bools


class OddStep(Struct, frozen=True):
    """The step at place ``step`` has kernels (positions) that its ``model``, a usual step, does not have.

    ``first`` to ``last`` are the kernels between which those may lie that are its own alone, where there is one run of
    them of ``count`` kernels: it begins at one of these. Without a run (``count`` 0) ``kernels`` of each type take
    ``keep`` of their time in the model.
    """

    step: int
    model: int
    first: int
    last: int
    count: int
    kernels: I64
    keep: F64


def standing_out(times: I64) -> Bools:
    """Which of the steps that take ``times`` ns take longer than all others differ; (n,), none in most runs.

    Most steps agree, and at least three of them. Those that take longer every so many steps do what the others leave
    out: that is how the program works, and none of them stands out.
    """
    usual = float(np.median(times)) if len(times) else 0.0
    spread = float(np.median(np.abs(times - usual))) if len(times) else 0.0
    odd: Bools = times > max((1 + EVEN) * usual, usual + OUTLYING * spread)
    rest = times[~odd]
    if not odd.any() or len(rest) < SOME or odd.mean() >= HALF or usual <= 0:
        return np.zeros(len(times), np.bool_)
    if float(times[odd].min()) - usual < OUTLYING * float(np.abs(rest - usual).max()):
        return np.zeros(len(times), np.bool_)
    begins = np.flatnonzero(odd & ~np.append(False, odd[:-1]))
    regular = len(begins) > 1 and len(np.unique(np.diff(begins))) == 1
    return odd & (not regular)


def odd_steps(step: I64, kind: I64, length: I64, count: int) -> list[OddStep]:
    """The odd ones of ``count`` steps by their kernels in order of time: ``step`` (-1: none), ``kind``, ``length`` ns.

    (n,) each; kinds are codes from 0.
    """
    inside = np.flatnonzero(step >= 0)
    times = np.rint(np.bincount(step[inside], length[inside], count)).astype(np.int64)
    odd = standing_out(times)
    if not odd.any():
        return []
    usual = np.flatnonzero(~odd)
    model = int(usual[np.argsort(times[usual], kind="stable")[len(usual) // 2]])
    equal = np.flatnonzero(step == model)
    return [_compared(int(at), np.flatnonzero(step == at), model, equal, kind, length) for at in np.flatnonzero(odd)]


def _compared(at: int, own: I64, model: int, equal: I64, kind: I64, length: I64) -> OddStep:
    more = len(own) - len(equal)
    if more > 0:
        ahead = _alike(kind[own], kind[equal])
        behind = _alike(kind[own[::-1]], kind[equal[::-1]])
        if ahead + behind >= len(equal):
            return OddStep(at, model, len(equal) - behind, ahead, more, own, np.ones(len(own)))
    kinds = int(max(kind[own].max(initial=0), kind[equal].max(initial=0))) + 1
    took, usual = (np.bincount(kind[part], length[part], kinds) for part in (own, equal))
    keep = np.minimum(usual / np.maximum(took, 1.0), 1.0)[kind[own]]
    return OddStep(at, model, 0, 0, 0, own, keep)


def _alike(one: I64, other: I64) -> int:
    """How many of the first of both are the same."""
    shorter = min(len(one), len(other))
    differ = np.flatnonzero(one[:shorter] != other[:shorter])
    return int(differ[0]) if len(differ) else shorter
