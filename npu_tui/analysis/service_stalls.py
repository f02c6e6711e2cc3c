"""What holds the engines of an inference service up now and then: pauses, stuck steps, and the rhythm of both."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from npu_tui.analysis.limits import (
    A_PART,
    ALMOST_ALL,
    ENOUGH,
    EVEN,
    FAR_LONGER,
    HALF,
    LITTLE,
    MORE_THAN_ONE,
    NEARLY_ALL,
    NOTABLE,
    SOME,
    UNSEEN,
)
from npu_tui.analysis.service_cost import FEWEST, combined, fitted, in_lockstep, rounds_of, work_of
from npu_tui.analysis.service_steps import Cycle, Steps
from npu_tui.analysis.service_timeline import ServiceTimeline, Stalls
from npu_tui.trace.arrays import F64, I64, Bools

_HOSTED = Cycle.schedule, Cycle.prepare, Cycle.forward, Cycle.sampling, Cycle.bubble  # the host works, or may do so
_HOST = np.array([1, 1, 1, 0, 0])  # the host's time grows with these columns of what steps compute, not with context
_ROUNDS = 4  # fits of a cost and of what is far from it in turn
_MOST = 300  # moments of an engine whose rhythm is looked for: those of a long recording repeat it


def held_in(found: ServiceTimeline, under_way: Bools) -> I64:
    """The excess of each part of a step's cycle over its usual time, 0 where chance explains it; (steps, 7).

    It is where it is far longer than usual, and longer than a step: a pass or its inputs beside what they compute
    costs, a schedule beside others, a pause with requests ``under_way``. However short it is, what ends at the same
    moment of every period is no stall either.

    Engines in lockstep wait for the longest: it is unknown which one was stuck, and a pause is one of all.
    """
    steps, work, apart = found.steps, work_of(found), not in_lockstep(found)
    held, short = np.zeros_like(steps.cycle), np.zeros_like(steps.cycle)
    bubble = steps.cycle[:, Cycle.bubble] if apart else _shortest(steps.cycle[:, Cycle.bubble], rounds_of(found))
    for number in range(len(found.engines)):
        part = steps.of(number)
        mine, busy = (part.start + np.flatnonzero(of[part]) for of in (steps.size > 0, under_way))
        if len(busy):
            times, step = bubble[busy], float(np.median(steps.cycle[busy].sum(axis=1)))
            usual, most = float(np.median(times)), float(np.quantile(times, ALMOST_ALL))
            # Pauses are many times a step, as requests come and go, unless nearly all others are far shorter.
            far = times > max(min(FAR_LONGER * max(usual, step), FAR_LONGER * most), step)
            held[busy, Cycle.bubble] = np.where(far, times - usual, 0)
        if len(mine):
            times, step = steps.cycle[mine, Cycle.schedule], float(np.median(steps.cycle[mine].sum(axis=1)))
            usual = float(np.median(times))
            held[mine, Cycle.schedule] = np.where(times > max(FAR_LONGER * usual, step), times - usual, 0)
        if len(mine) < FEWEST or not apart:
            continue
        held[mine, Cycle.forward] = _longer(work[mine], steps.forward[mine], step, sized=True)
        free = mine[held[mine, Cycle.forward] == 0]
        held[free, Cycle.forward] = _now_and_again(work[free], steps.forward[free], NOTABLE * step)
        alone = work[mine] * _HOST
        held[mine, Cycle.prepare] = _longer(alone, steps.cycle[mine, Cycle.prepare], step)
        for column in _HOSTED:
            of = work[mine] if column == Cycle.forward else alone
            short[mine, column] = _longer(of, steps.cycle[mine, column], NOTABLE * step, HALF)
    if _ends_by_a_clock(steps, short):
        np.maximum(held, short, out=held)
    return held


def _shortest(time: I64, group: I64) -> I64:
    """The shortest ``time`` in the group of each (n,), its own where it has none."""
    least = np.full(int(group.max(initial=0)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(least, group[group >= 0], time[group >= 0])
    return np.where(group >= 0, least[group], time)


def _longer(work: F64, time: I64, least: float, usually: float = NEARLY_ALL, sized: bool = False) -> I64:
    """The excess of ``time`` over the cost of ``work`` where it is at least ``least`` and far above the usual; else 0.

    What this share of times is off at the most is usual; so is what most batches of a size take if ``sized``.
    """
    floor = max(int(LITTLE * least), 1)  # what takes no time at all is no measure of what is off
    time, found = time + floor, np.zeros(len(time), np.int64)
    for _ in range(_ROUNDS):  # what was held up says nothing of the cost
        usual = found == 0
        if usual.sum() < FEWEST:
            break
        cost = fitted(work[usual], time[usual]).of(work)
        ratio = time / np.maximum(cost, 1)  # where all are slow none is held up
        cost *= np.maximum(_speed(ratio), np.maximum(_of_size(work, ratio), 1) if sized else 1)
        away = float(np.quantile(np.abs(time / np.maximum(cost, 1) - 1)[usual], usually))
        far = time - cost > np.maximum(FAR_LONGER * away * cost, least)
        found = np.where(far, time - cost, 0).astype(np.int64)
        if ((found == 0) == usual).all():
            break
    return found


def _now_and_again(work: F64, time: I64, least: float) -> I64:
    """The excess of those of passes that take longer by the same time, now and again, whatever they compute; else 0.

    Neither the moment nor the size of the batch says which: both kinds come in turn, and hardly any lies between them.
    """
    none, kind = np.zeros(len(time), np.int64), work[:, 1] > 0
    for some in (kind, np.ones(len(time), np.bool_)):  # many are of passes with prompts alone
        if some.sum() < 2 * FEWEST:
            continue
        at = np.flatnonzero(some)
        longer = _upper(work[at], time[at], least)
        if longer is None:
            continue
        share, turns = float(longer.mean()), int(np.count_nonzero(np.diff(longer)))
        sizes = np.unique(np.stack([work[at, 2], kind[at]]), axis=1, return_inverse=True)[1].ravel()
        both = np.minimum(np.bincount(sizes, longer), np.bincount(sizes, ~longer)).sum()
        if turns < 2 * share * (1 - share) * len(at) * HALF or both < HALF * min(longer.sum(), (~longer).sum()):
            continue
        cost = fitted(work[at][~longer], time[at][~longer]).of(work[at])
        none[at[longer]] = np.maximum(time[at] - cost, 0)[longer].astype(np.int64)
        break
    return none


def _upper(work: F64, time: I64, least: float) -> Bools | None:
    """Which of passes take longer than the others for the same work, by at least so much; None where none stand out."""
    rest = time - fitted(work, time).of(work)
    longer = rest > (np.quantile(rest, LITTLE) + np.quantile(rest, 1 - LITTLE)) / 2
    for _ in range(4 * _ROUNDS):
        if min(longer.sum(), (~longer).sum()) < FEWEST:
            return None
        rest = time - fitted(work[~longer], time[~longer]).of(work)
        excess = float(np.median(rest[longer]))
        if ((rest > excess / 2) == longer).all():
            break
        longer = rest > excess / 2
    between = (rest > excess / 4) & (rest < 3 * excess / 4)
    return longer if excess >= least and between.mean() <= LITTLE else None


def _of_size(work: F64, ratio: F64) -> F64:
    """The median of ``ratio`` (n,) among passes for as many requests, for which no graph may be captured; 1 of few."""
    _, kind, every = np.unique(2 * work[:, 2] + (work[:, 1] > 0), return_inverse=True, return_counts=True)
    parts = np.split(ratio[np.argsort(kind.ravel(), kind="stable")], np.cumsum(every)[:-1])
    return np.array([float(np.median(part)) if len(part) >= ENOUGH else 1.0 for part in parts])[kind.ravel()]


def _speed(ratio: F64) -> F64:
    """The median of ``ratio`` (n,) among some hundred steps around each: less than half of these are ever stuck."""
    parts = np.array_split(ratio, max(len(ratio) // (4 * FEWEST), 1))
    return np.repeat([float(np.median(part)) for part in parts], [len(part) for part in parts])


def _ends_by_a_clock(steps: Steps, held: I64) -> bool:
    """Whether what ``held`` (steps, 7) ends in a rhythm of its own, not in that of all steps or of some in turn."""
    stalls = Stalls.of(steps, held)
    if len(stalls.step) < ENOUGH or (np.diff(np.unique(stalls.step)) == 1).mean() > HALF:
        return False
    beat = beat_of(stalls.end, steps.engine[stalls.step])
    return beat is not None and _agreement(_by_engine(steps.end, steps.engine), 1 / beat.period) < HALF


class Beat(Struct, frozen=True):
    """Moments come ``period`` ns after each other, some turns left out, and ``agree``: 1 where all do exactly."""

    period: float
    agree: float


def beat_of(moments: I64, engine: I64) -> Beat | None:
    """The rhythm of ``moments`` (n,), ns, of each engine with a phase of its own; None where most have none.

    What a timer starts waits for the end of a step: only the phases have to agree.
    """
    mine = [one[:_MOST] for one in _by_engine(moments, engine) if len(one) >= SOME]
    count = sum(map(len, mine))
    # A phase of each engine and a period can be found for any few moments: more than these have to agree.
    if count < len(mine) + 1 + SOME or count < HALF * min(len(moments), _MOST):
        return None
    usual = float(np.median(np.concatenate([np.diff(one) for one in mine])))
    span = max(float(np.ptp(one)) for one in mine)
    if span > FAR_LONGER * max(map(len, mine)) * usual:  # some long breaks among many moments are no turns left out
        return None
    for times in range(1, FAR_LONGER + 1) if usual > 0 else ():  # the usual distance may be of several turns
        rate = times / usual
        rates = np.arange((1 - NOTABLE) * rate, (1 + NOTABLE) * rate, 1 / (2 * FAR_LONGER * span))
        agree = np.array([_agreement(mine, one) for one in rates.tolist()])
        best = int(agree.argmax())
        sure = count * agree[best] ** 2 / -np.log(UNSEEN)  # chance brings 1 once in so many times, 2 in its square
        exact = agree[best] >= ALMOST_ALL and (times == 1 or sure >= 2)
        if exact or (agree[best] >= HALF and sure >= 2 * MORE_THAN_ONE):
            return Beat(1 / float(rates[best]), float(agree[best]))
    return None


def _by_engine(moments: I64, engine: I64) -> list[F64]:
    """The ``moments`` of each engine in order, since the first of all."""
    return [np.sort((moments - moments.min())[engine == one]).astype(np.float64) for one in np.unique(engine).tolist()]


def _agreement(moments: list[F64], rate: float) -> float:
    """How well the phases of the ``moments`` of each engine agree at ``rate`` (1/ns), from 0 to 1."""
    off = sum(abs(np.exp(2j * np.pi * rate * one).sum()) for one in moments)
    return float(off) / max(sum(map(len, moments)), 1)


def pieces_of(found: ServiceTimeline, column: Cycle) -> tuple[float, int] | None:
    """The length of the equal pieces that a part of steps takes, be the batch as large as it may; the most of them.

    None where it is as long for all, or by what steps compute, or comes in no such pieces.
    """
    steps, mine = found.steps, found.serving
    times, work = steps.cycle[mine, column], work_of(found)[mine]
    if len(times) < FEWEST:
        return None
    ordered = np.sort(times)
    levels = np.split(ordered, np.flatnonzero(np.diff(ordered) > EVEN * ordered[-1]) + 1)
    levels = [one for one in levels if len(one) >= SOME]
    if sum(map(len, levels)) < NEARLY_ALL * len(times):
        return None
    middle = np.array([one.mean() for one in levels])
    beat = beat_of(middle, np.zeros(len(middle), np.int64))
    if beat is None or combined(times, work[:, 1], work[:, 2])[1] < A_PART * beat.period:
        return None
    return beat.period, round(float(np.ptp(middle)) / beat.period)
