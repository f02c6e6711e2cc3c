"""What the sampling of an inference service grows with: the batch, the answers so far, or some of the requests."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from npu_tui.analysis.limits import ENOUGH, HALF, LITTLE, NOTABLE, SOME
from npu_tui.analysis.service_blocks import growth_of
from npu_tui.analysis.service_cost import FEWEST, combined
from npu_tui.analysis.service_steps import Cycle
from npu_tui.analysis.service_timeline import ServiceTimeline
from npu_tui.trace.arrays import F64, I64, Bools

_MOST_REQUESTS, _MOST_STEPS = 1_500, 4_000
"""So many are fitted together: a second. Requests beyond are not told apart."""


class Sampling(Struct, frozen=True, eq=False):
    """Sampling takes ``fixed`` ns, ``each`` a request, ``token`` a token that the requests of a step were given before.

    With one of the requests ``special`` (by rid) in it a step takes ``extra`` ns longer, ``once`` or for each of them.
    Times are ``away`` from it by so much on average, ns.
    """

    fixed: float
    each: float
    token: float
    special: Bools
    extra: float
    once: bool
    away: float


def sampling_of(found: ServiceTimeline) -> Sampling | None:
    """How sampling grows with more than the size of the batch; None where the size tells it as well, or too few steps.

    Another reason explains it where times are nearer to it by half.
    """
    steps, mine, lat = found.steps, found.serving, found.latencies
    time: F64 = steps.cycle[:, Cycle.sampling].astype(np.float64)
    mine = mine[np.linspace(0, len(mine) - 1, min(len(mine), _MOST_STEPS)).astype(np.int64)]
    if len(mine) < FEWEST or time[mine].mean() <= NOTABLE * steps.forward[mine].mean():
        return None
    grown = np.bincount(found.pair_step, given_before(found), len(steps))
    none = np.zeros(len(lat.start), np.bool_)
    plain = combined(time[mine], steps.size[mine])
    (fixed, each, token), away = combined(time[mine], steps.size[mine], grown[mine])
    if away <= HALF * plain[1]:
        return Sampling(fixed, each, token, none, 0.0, False, away)
    some = _special(found, mine, time[mine])
    if some is None:
        return None
    rids, inside, chosen = some
    tried = [_told_apart(time[mine], steps.size[mine], inside, chosen, once) for once in (True, False)]
    chosen, (fixed, each, extra), away = min(tried, key=lambda one: one[-1])
    if away > HALF * plain[1] or not 0 < chosen.sum() <= HALF * len(chosen):
        return None
    none[rids[chosen]] = True
    return Sampling(fixed, each, 0.0, none, extra, away == tried[0][-1], away)


def given_before(found: ServiceTimeline) -> F64:
    """How many tokens the request of each pair (n,) was given before that step."""
    rid = found.pair_rid
    made = np.where(found.pair_prompt, 0.0, growth_of(found.latencies)[rid])
    before = np.append(0.0, np.cumsum(made))[:-1]
    begins = np.append(True, np.diff(rid) != 0)[: len(rid)]
    given: F64 = before - before[np.maximum.accumulate(np.where(begins, np.arange(len(rid)), 0))]
    return given + (~found.pair_prompt)  # the step of the prompt gave the first one


def _special(found: ServiceTimeline, mine: I64, time: F64) -> tuple[I64, F64, Bools] | None:
    """The requests (n,) of the steps ``mine``, who is in which (steps, n), and in whose sampling takes longest (n,).

    None where requests are not of two clearly different kinds.
    """
    place = np.full(len(found.steps), -1)
    place[mine] = np.arange(len(mine))
    pairs = np.flatnonzero(place[found.pair_step] >= 0)
    rids, of = np.unique(found.pair_rid[pairs], return_inverse=True)
    if not SOME <= len(rids) <= _MOST_REQUESTS:
        return None
    inside = np.zeros((len(mine), len(rids)), np.float32)
    inside[place[found.pair_step[pairs]], of.ravel()] = 1
    known = inside.sum(axis=0)
    least = float(np.quantile(time, LITTLE))
    both = (inside.T @ inside).astype(np.float64)
    both[np.diag_indices(len(rids))] += HALF  # who is in few steps is told little of
    weight = np.linalg.solve(both, inside.T.astype(np.float64) @ (time - least))
    values = np.sort(weight[known >= ENOUGH])
    if len(values) < 2 * SOME:
        return None
    cuts = np.arange(1, len(values))
    low = np.cumsum(values)[:-1] / cuts
    high = (values.sum() - np.cumsum(values)[:-1]) / (len(values) - cuts)
    between = cuts * (len(values) - cuts) * (high - low) ** 2 / len(values) ** 2
    best = int(np.argmax(between))
    if between[best] < HALF * max(float(values.var()), 1.0) or len(values) - cuts[best] < SOME:
        return None
    return rids, inside.astype(np.float64), weight > (values[best] + values[best + 1]) / 2


def _told_apart(time: F64, size: I64, inside: F64, chosen: Bools, once: bool) -> tuple[Bools, list[float], float]:
    """Requests of ``inside`` (steps, n), begun with those ``chosen``, whose steps take longer, ``once`` or for each.

    One after another is taken in or left out, the one that brings times nearest to what they are then.
    """
    chosen = chosen.copy()
    for _ in range(len(chosen)):
        count = inside @ chosen
        values, away = combined(time, size, np.minimum(count, 1) if once else count)
        fixed, each, extra = values
        rest = time - fixed - each * size - extra * (np.minimum(count, 1) if once else count)
        out, into = (count == 1, count == 0) if once else (count > 0, count >= 0)
        better = np.where(
            chosen, inside.T @ (-(extra**2 + 2 * extra * rest) * out), inside.T @ ((2 * extra * rest - extra**2) * into)
        )
        at = int(np.argmax(better))
        if better[at] <= 0:
            break
        chosen[at] = not chosen[at]
    return chosen, values, away
