"""What slows the host of an inference service in whatever it does: CPU time that is used up, work that it shares."""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct

from npu_tui.analysis.limits import HALF, NOTABLE, UNSEEN
from npu_tui.analysis.service_cost import FEWEST, combined
from npu_tui.analysis.service_steps import Cycle
from npu_tui.analysis.service_timeline import ServiceTimeline
from npu_tui.analysis.service_within import within
from npu_tui.trace.arrays import F64, I64, Bools
from npu_tui.trace.service import UNKNOWN

_PERIOD = 100_000_000
"""The period of a CPU quota unless it is set (cfs_period_us of the kernel), ns."""
HOSTED = Cycle.schedule, Cycle.prepare, Cycle.sampling, Cycle.bubble
"""Parts of a cycle in which the host works."""


class Stops(Struct, frozen=True, eq=False):
    """The host stands still for ``lasting`` ns until the same moment of every ``period``: from each of ``begin`` on.

    That takes so much of the ``time`` of each part of a cycle (steps, 7).
    """

    period: int
    lasting: int
    begin: I64
    time: I64

    @property
    def end(self) -> I64:
        """(n,), ns."""
        return self.begin + self.lasting


def stops_of(found: ServiceTimeline, others: I64) -> Stops | None:
    """When the host stands still: nothing that it does, in any step or at the moments ``others``, ever ends then.

    So it is where its CPU quota is used up early in each period. Chance leaves no such part of all periods empty.
    """
    steps, mine = found.steps, found.serving
    ends = [steps.end[mine], (steps.start + steps.cycle[:, Cycle.prepare])[mine]]
    ends += [steps.schedule_end[mine][steps.schedule[mine] != UNKNOWN], others]
    moments = np.sort(np.concatenate(ends))
    if len(moments) < FEWEST or moments[-1] - moments[0] < FEWEST * _PERIOD:
        return None
    phase = np.sort(moments % _PERIOD)
    gaps = np.diff(phase, append=phase[0] + _PERIOD)
    at = int(np.argmax(gaps))
    share = float(gaps[at]) / _PERIOD
    if share < NOTABLE or math.log(len(phase)) + len(phase) * math.log1p(-share) > math.log(UNSEEN):
        return None
    # Steps that end at a moment of each period by themselves, as few as there are, leave the rest of it empty.
    busy = np.histogram(phase, bins=_BINS, range=(0, _PERIOD))[0]
    if np.count_nonzero(busy) < HALF * (1 - share) * _BINS:
        return None
    begin = np.arange(moments[0] // _PERIOD - 1, moments[-1] // _PERIOD + 1) * _PERIOD + phase[at]
    lasting = int(gaps[at])
    return Stops(_PERIOD, lasting, begin, within(found, begin, begin + lasting, *HOSTED))


_BINS = 50  # parts of a period, in most of which something of the host ends where it does not stand still


class Shared(Struct, frozen=True, eq=False):
    """All that the host does takes longer by the share ``each`` for each request that is open.

    The ``time`` that this takes of each part of a cycle (steps, 7), and of each of the ranges that told it: ``own``.
    """

    each: float
    time: I64
    own: I64
    open: float


def shared_of(found: ServiceTimeline, begin: I64, end: I64, tokens: I64) -> Shared | None:
    """Whether work on prompts of so many ``tokens``, from ``begin`` to ``end``, takes the longer the more are open.

    It has nothing to do with batches: another one of the same process takes its time. Where it is so, parts of steps
    grow in the same way.
    """
    lat, steps = found.latencies, found.steps
    known = (lat.start != UNKNOWN) & (lat.whole != UNKNOWN)
    came, left = np.sort(lat.start[known]), np.sort((lat.start + lat.whole)[known])

    def under_way(moment: I64) -> I64:
        count: I64 = np.searchsorted(came, moment, "right") - np.searchsorted(left, moment, "right")
        return count

    if len(begin) < FEWEST:
        return None
    time, count = end - begin, under_way(begin)
    plain = combined(time, tokens)[1]
    (fixed, token, more, product), away = combined(time, tokens, count, tokens * count)
    usual = fixed + token * float(tokens.mean())
    if away > HALF * plain or usual <= 0:
        return None
    each = (more + product * float(tokens.mean())) / usual
    own = (time * (1 - 1 / (1 + each * count))).astype(np.int64)
    taken, mine = np.zeros_like(steps.cycle), found.serving
    slowed: F64 = (1 + each * under_way(steps.opened[mine])).astype(np.float64)
    for part in HOSTED:
        lasting: F64 = steps.cycle[mine, part].astype(np.float64)
        size = steps.size[mine]
        free: Bools = (found.held[mine, part] == 0) & (steps.cycle[mine, Cycle.idle] == 0)
        if free.sum() < FEWEST:
            continue
        grown = _grown(lasting, size, slowed, free)
        taken[mine, part] = np.clip(grown * (1 - 1 / slowed), 0, lasting).astype(np.int64)
    return Shared(each, taken, own, float(count.mean()))


def _grown(time: F64, size: I64, slowed: F64, free: Bools) -> F64:
    """The part of ``time`` (n,) that takes as many times as long as it is ``slowed``; the rest is the same for all."""
    (_, fixed, each), _ = combined(time[free], slowed[free], (size * slowed)[free])
    grown: F64 = (fixed + each * size) * slowed
    return grown
