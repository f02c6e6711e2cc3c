"""What steps cost beyond their work: what the host takes ever longer for, and contexts padded to the longest."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from npu_tui.analysis.limits import ENOUGH, HALF, NOTABLE
from npu_tui.analysis.service_blocks import contexts
from npu_tui.analysis.service_cost import FEWEST, Cost, away_from, combined, fitted, given_before, work_of
from npu_tui.analysis.service_steps import Cycle, Work
from npu_tui.analysis.service_timeline import ServiceTimeline
from npu_tui.trace.arrays import F64, I64

GROWING = Cycle.schedule, Cycle.prepare, Cycle.sampling, Cycle.bubble
_CUTS = 48  # moments that are tried at once


class Grown(Struct, frozen=True):
    """A ``part`` of steps takes ``more`` ns from ``until`` on, and so much of it since ``since`` as time has passed.

    Both are one where it takes longer at once. The median step takes ``first`` in the beginning, ``last`` at the end.
    """

    part: Cycle
    since: int
    until: int
    more: float
    first: float
    last: float

    @property
    def at_once(self) -> bool:
        """Whether it takes longer since a moment, not ever longer."""
        return self.since == self.until

    def over(self, moments: I64) -> F64:
        """How much longer than in the beginning it takes at ``moments`` (n,), ns."""
        return self.more * _risen(moments, self.since, self.until)


def _risen(moments: I64, since: int, until: int) -> F64:
    risen: F64 = np.clip((moments - since + (since == until)) / max(until - since, 1), 0.0, 1.0)
    return risen


def grown_of(found: ServiceTimeline) -> tuple[Grown, ...]:
    """The parts of steps of the host that take longer later, be their batches and queues as they may.

    That explains their times better by half than what steps have to do: requests, those that wait, tokens of prompts
    or those given before.
    """
    steps, mine = found.steps, found.serving
    mine = mine[np.argsort(steps.opened[mine], kind="stable")]
    if len(mine) < ENOUGH * FEWEST:
        return ()
    given = np.bincount(found.pair_step, given_before(found), len(steps))
    beside = {Cycle.schedule: _waiting(found), Cycle.prepare: steps.prompts, Cycle.sampling: given}
    told = (_grown(found, mine, part, beside.get(part)) for part in GROWING)
    return tuple(one for one in told if one is not None)


def _waiting(found: ServiceTimeline) -> I64:
    """How many requests wait for their first schedule when each step opens (steps,)."""
    opened, taken = found.steps.opened, found.steps.opened[found.pair_step[found.entries]]
    waits: I64 = np.searchsorted(np.sort(found.came), opened, "right") - np.searchsorted(np.sort(taken), opened)
    return waits


def _grown(found: ServiceTimeline, mine: I64, part: Cycle, beside: I64 | F64 | None) -> Grown | None:
    """How ``part`` of the steps ``mine``, which are by time, got longer; None where it did not, or ``beside`` tells."""
    steps = found.steps
    time, opened = steps.cycle[:, part].astype(np.float64), steps.opened
    mine = mine[found.held[mine, part] == 0]
    if part == Cycle.bubble:
        mine = mine[steps.cycle[mine, Cycle.idle] == 0]
    if len(mine) < ENOUGH * FEWEST:
        return None
    least = NOTABLE * float(np.median(steps.cycle[mine].sum(axis=1)))
    usual = [float(np.median(of)) for of in np.array_split(time[mine], ENOUGH)]
    if usual[-1] - usual[0] < least:
        return None
    time, size, moment = time[mine], steps.size[mine], opened[mine]
    told = [size] if beside is None else [size, beside[mine]]
    plain = combined(time, *told)[1]
    tried = [(int(moment[0]), int(moment[-1]))]
    tried += [(int(cut),) * 2 for cut in moment[np.linspace(FEWEST, len(mine) - FEWEST, _CUTS).astype(np.int64)]]
    fits = [(combined(time, *told, _risen(moment, *one)), one) for one in tried]
    (values, away), (since, until) = min(fits, key=lambda fit: fit[0][1])
    more = values[-1]
    if away > HALF * plain or more < least:
        return None
    return Grown(part, since, until, more, usual[0], usual[-1])


def over_all(found: ServiceTimeline, grown: tuple[Grown, ...]) -> I64:
    """How much longer than in the beginning each part of a cycle takes by what is ``grown``, ns; (steps, 7)."""
    time = np.zeros_like(found.steps.cycle)
    for one in grown:
        time[:, one.part] = np.minimum(one.over(found.steps.opened), found.steps.cycle[:, one.part]).astype(np.int64)
    return time


class Padded(Struct, frozen=True, eq=False):
    """Each request of a pass costs as much context as the longest one of it: what passes ``cost`` by that context.

    Passes that only decode would take the share ``over`` less for what their requests really have.
    """

    cost: Cost
    over: float


def padded_in(found: ServiceTimeline, mine: I64) -> Padded | None:
    """Whether the passes ``mine`` cost the longest context for all; None where what each has tells it nearly as well.

    It explains their times better by half.
    """
    mine = mine[found.stuck[mine] == 0]
    work, steps = work_of(found), found.steps
    longest = np.zeros(len(steps))
    np.maximum.at(longest, found.pair_step, contexts(found))
    alike = work.copy()
    alike[:, 3] = longest * steps.size
    if len(mine) < FEWEST:
        return None
    time, decodes = steps.forward[mine], mine[steps.work[mine] == Work.decode]
    if away_from(alike[mine], time) > HALF * away_from(work[mine], time) or not len(decodes):
        return None
    cost = fitted(alike[mine], time)
    over = cost.context * (alike[decodes, 3] - work[decodes, 3]).sum() / max(float(steps.forward[decodes].sum()), 1.0)
    return Padded(cost, float(over))
