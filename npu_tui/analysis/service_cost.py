"""What a forward pass of an inference service costs, what comes before and after it, and what sampling grows with."""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from msgspec.structs import astuple, replace

from npu_tui.analysis.limits import (
    A_PART,
    ALMOST_ALL,
    ENOUGH,
    HALF,
    LITTLE,
    LONG_NS,
    MORE_THAN_ONE,
    NEARLY_ALL,
    NOTABLE,
    SOME,
)
from npu_tui.analysis.service_blocks import contexts, growth_of
from npu_tui.analysis.service_steps import Cycle, Work
from npu_tui.analysis.service_timeline import ServiceTimeline
from npu_tui.trace.arrays import F64, I64, Bools
from npu_tui.trace.service import UNKNOWN

FEWEST = 30
"""Steps from which on a cost is known."""
_SAMPLE = 20_000  # steps of one fit, evenly spaced: a service has millions
_CUTS = 24  # moments or sizes that are tried at once
_ROUNDS, _MOST_GROWN = 4, 20.0
"""Fits of a cost, and of its growth or outliers in turn; these count as so many times the usual one at the most."""


class Cost(Struct, frozen=True):
    """A forward pass in ns: ``fixed``, and per token of a prompt, decoded token, token of context and their product."""

    fixed: float
    prompt: float
    decode: float
    context: float
    product: float

    def of(self, work: F64) -> F64:
        """The times of passes of ``work`` (n, 5)."""
        times: F64 = work @ np.array([self.fixed, self.prompt, self.decode, self.context, self.product])
        return times


def work_of(found: ServiceTimeline) -> F64:
    """What each step computes: 1, tokens of prompts, decoded tokens, context and tokens times context (n, 5)."""
    steps, n = found.steps, len(found.steps)
    context = contexts(found)
    kept = np.bincount(found.pair_step, context, n)
    product = np.bincount(found.pair_step, context * found.pair_tokens, n)
    return np.stack([np.ones(n), steps.prompts, steps.decoded, kept, product], axis=1)


def fitted(work: F64, time: I64) -> Cost:
    """The cost that fits ``time`` (n,) best by relative error; no part of it is negative."""
    some = np.linspace(0, len(time) - 1, min(len(time), _SAMPLE)).astype(np.int64)
    work, time = work[some], time[some]
    kept, values = [number for number in range(work.shape[1]) if work[:, number].any()], np.zeros(work.shape[1])
    weight = 1 / np.maximum(time, 1)
    while kept:
        scale = np.abs(work[:, kept]).max(axis=0)
        found = np.linalg.lstsq(work[:, kept] / scale * weight[:, None], time * weight, rcond=None)[0] / scale
        if (found >= 0).all():
            values[kept] = found
            break
        kept.pop(int(np.argmin(found * scale)))
    return Cost(*values.tolist())


def combined(time: F64 | I64, *columns: F64 | I64) -> tuple[list[float], float]:
    """A constant and a factor (>= 0) of each of ``columns`` that fit ``time`` best; how far it is on average."""
    of, kept = np.stack([np.ones(len(time)), *columns], axis=1), list(range(len(columns) + 1))
    values = np.zeros(len(kept))
    while kept:
        found = np.linalg.lstsq(of[:, kept], time, rcond=None)[0]
        if (found[1:] >= 0).all():
            values[kept] = found
            break
        kept.pop(1 + int(np.argmin(found[1:])))
    return values.tolist(), float(np.abs(time - of @ values).mean())


def line_of(x: I64, y: I64) -> tuple[float, float]:
    """The slope and the offset of the straight line through the points, by least squares."""
    away = x - x.mean()
    slope = float(away @ (y - y.mean()) / (away @ away)) if away.any() else 0.0
    return slope, float(y.mean()) - slope * float(x.mean())


def around_of(size: I64, others: I64, time: I64, usual: Bools) -> tuple[float, float, float]:
    """How long what lies around a pass takes by the ``size`` of its batch, at least, and by ``others`` if they matter.

    Others are requests that wait for a schedule, or tokens of prompts whose inputs are prepared.
    """
    size, others, time = size[usual], others[usual], time[usual]
    (fixed, each, more), away = combined(time, size, others)
    if away <= HALF * combined(time, size)[1]:
        return each, fixed, more
    return *line_of(size, time), 0.0


class Slower(Struct, frozen=True):
    """Since a moment forward passes take ``factor`` times as long for the same work; what they cost ``before``.

    Where they take ever longer, it is so from ``until`` on, which is no later than ``since`` otherwise. Times are
    ``away`` from it by so much on average, relative to them, and ``smooth`` from a cost that does not change.
    """

    since: int
    factor: float
    before: Cost
    until: int = 0
    away: float = 0.0
    smooth: float = 0.0

    @property
    def is_slow(self) -> bool:
        """Whether they got slower bit by bit."""
        return self.until > self.since


def slower_since(found: ServiceTimeline, mine: I64) -> Slower | None:
    """Whether the engines that decode got slower (or faster) by their steps ``mine``; None where too few show it."""
    steps = found.steps
    if len(mine) < 4 * FEWEST:
        return None
    mine = mine[np.argsort(steps.start[mine], kind="stable")]
    mine = mine[np.linspace(0, len(mine) - 1, min(len(mine), _SAMPLE)).astype(np.int64)]
    work, time, start, of = work_of(found)[mine], steps.forward[mine], steps.start[mine], steps.engine[mine]
    tried: list[tuple[float, int, float, Cost]] = []
    low, high = 0, len(time)
    for _ in range(3):  # ever nearer
        cuts = np.linspace(max(low, FEWEST), min(high, len(time) - FEWEST), _CUTS).astype(np.int64)
        for cut in np.unique(cuts).tolist():
            cost = fitted(work[:cut], time[:cut])
            ratio = time / np.maximum(cost.of(work), 1)
            for number in np.unique(of[:cut]).tolist():  # one that is slower all the time has not become so
                ratio[of == number] /= max(float(np.median(ratio[:cut][of[:cut] == number])), 1e-9)
            factor = max(float(np.median(ratio[cut:])), 1e-9)
            rest = float(np.abs(ratio[:cut] - 1).sum() + np.abs(ratio[cut:] / factor - 1).sum())
            tried.append((rest, cut, factor, cost))
        rest, cut, factor, cost = min(tried, key=lambda one: one[0])
        width = max((high - low) // 16, 2)
        low, high = cut - width, cut + width
    grown, smooth = _growth(work, time, start, of), away_from(work, time)
    if grown[0] < ALMOST_ALL * rest:
        return Slower(int(start[0]), grown[1], grown[2], int(start[-1]), grown[0] / len(time), smooth)
    if factor < 1 and 2 * cut < len(time):  # the longer part shows the cost better
        cost = Cost(*(value / factor for value in astuple(fitted(work[cut:], time[cut:]))))
    return Slower(int(start[cut]), factor, cost, 0, rest / len(time), smooth)


def away_from(work: F64, time: I64) -> float:
    """How far ``time`` is from the cost that fits it best, on average and relative to it."""
    return float(np.abs(time / np.maximum(fitted(work, time).of(work), 1) - 1).mean())


class Jump(Struct, frozen=True):
    """Steps of more than ``size`` requests take ``factor`` times what their work costs in smaller ones.

    Those with prompts take ``mixed`` times as long. ``away`` is the mean deviation of times from that, as a share of
    them.
    """

    size: int
    factor: float
    away: float
    mixed: float = 1.0


def jump_in(found: ServiceTimeline, mine: I64, captured: int = 0) -> Jump | None:
    """The size of batches above which steps take longer at once, not by the work; None where too few steps show it.

    It explains times better by half than a cost that all steps share, or is known: ``captured`` is the largest size
    with a graph (0: unknown).
    """
    steps = found.steps
    mine = mine[(steps.work[mine] == Work.decode) & (found.stuck[mine] == 0)]
    mine = mine[np.linspace(0, len(mine) - 1, min(len(mine), _SAMPLE)).astype(np.int64)]
    size, work, time = steps.size[mine], work_of(found)[mine], steps.forward[mine]
    if len(mine) >= FEWEST:  # an engine that is slower may have the larger batches
        ratio = time / np.maximum(fitted(work, time).of(work), 1)
        for number in np.unique(steps.engine[mine]).tolist():
            own = steps.engine[mine] == number
            time[own] = np.rint(time[own] / max(float(np.median(ratio[own])), 1e-9)).astype(np.int64)
    sizes = np.unique(size)
    if len(mine) < 2 * FEWEST or len(sizes) < MORE_THAN_ONE:
        return None
    if captured:
        known = _jump_at(captured, size, work, time)
        return replace(known, mixed=_of_mixed(found, known)) if known.size else None
    best = Jump(0, 1.0, HALF * away_from(work, time))
    some = np.unique(sizes[np.linspace(0, len(sizes) - 2, 4 * _CUTS).astype(np.int64)])
    for cut in some.tolist():
        best = min(best, _jump_at(cut, size, work, time), key=lambda one: one.away)
    beside = (sizes[:-1] > some[some < best.size].max(initial=0)) & (
        sizes[:-1] < some[some > best.size].min(initial=int(sizes[-1]))
    )
    for cut in sizes[:-1][beside].tolist() if best.size else ():
        best = min(best, _jump_at(cut, size, work, time), key=lambda one: one.away)
    return replace(best, mixed=_of_mixed(found, best)) if best.size else None


def _of_mixed(found: ServiceTimeline, jump: Jump) -> float:
    """How many times as long larger steps with prompts take: these run eagerly anyway, so that many do not."""
    steps, work, mixed = found.steps, work_of(found), found.steps.work == Work.mixed
    mixed &= found.serves[found.steps.engine] & (found.stuck == 0)
    small, large = mixed & (steps.size <= jump.size), mixed & (steps.size > jump.size)
    if min(small.sum(), large.sum()) < SOME:
        return jump.factor
    alone = (steps.work == Work.decode) & (steps.size <= jump.size) & (found.stuck == 0) | small
    cost = fitted(work[alone], steps.forward[alone])
    return max(float(np.median(steps.forward[large] / np.maximum(cost.of(work[large]), 1))), 1.0)


def _jump_at(cut: int, size: I64, work: F64, time: I64) -> Jump:
    """The rise of costs above ``cut`` requests; ``away`` is infinite where a side has fewer steps than ``FEWEST``."""
    below = size <= cut
    # The factor is that of the sizes just above the cut: half as large again, or as far as enough steps reach.
    reach = np.sort(size[~below])[min(FEWEST, int((~below).sum())) - 1]
    following = ~below & (size <= max((1 + HALF) * cut + 1, float(reach)))
    if min(below.sum(), following.sum()) < FEWEST:
        return Jump(0, 1.0, np.inf)
    cost = fitted(work[below], time[below])
    ratio = time / np.maximum(cost.of(work), 1)
    factor = max(float(np.median(ratio[following])), 1e-9)
    rest = float(np.abs(ratio[below] - 1).sum() + np.abs(ratio[~below] / factor - 1).sum())
    return Jump(cut, factor, rest / len(time))


class Filled(Struct, frozen=True):
    """Steps that only decode cost ``cost`` and ``more`` ns, less ``each`` for a request: their batch is filled up.

    So it is where they have more than ``above`` requests. ``sure`` is whether steps with prompts show what a request
    costs; else it is assumed to be filled up to ``size``. Times are ``away`` from that by so much, relative to them.
    """

    cost: Cost
    more: float
    each: float
    size: int
    sure: bool
    above: int
    away: float


def filled_in(found: ServiceTimeline, mine: I64, above: int = 0) -> Filled | None:
    """Whether steps that only decode take the same time for any number of requests, as where all run one large graph.

    Steps with a prompt, which compute more in less time, show that they could take less. Steps of no more than
    ``above`` requests have a smaller graph.
    """
    steps = found.steps
    mine = mine[(found.stuck[mine] == 0) & (steps.size[mine] > above)]
    alone = steps.work[mine] == Work.decode
    decodes, others = mine[alone], mine[~alone & (steps.prompts[mine] > 0)]
    if min(len(decodes), len(others)) < FEWEST:
        return None
    work, time = work_of(found), steps.forward
    usual = fitted(work[decodes], time[decodes])
    beside = work[others] * [1, 1, 1, 0, 1]  # of whole prompts tokens and context are the same: that of decodes is kept
    real = fitted(beside, np.maximum(time[others] - usual.context * work[others, 3], 1).astype(np.int64))
    cheaper = (time[others] < (1 - LITTLE) * usual.fixed).sum()
    flat = usual.decode * float(np.median(steps.decoded[decodes])) <= NOTABLE * usual.fixed
    if not flat or cheaper < MORE_THAN_ONE or real.fixed > ALMOST_ALL * usual.fixed:
        return None
    size = 2 << int(steps.size[decodes].max() - 1).bit_length()  # none was full: at least the next but one
    each = real.decode or usual.decode + (usual.fixed - real.fixed) / size
    cost = Cost(real.fixed, real.prompt, each, usual.context, real.product)
    away = np.abs(np.append(usual.of(work[decodes]) / time[decodes], real.of(work[others]) / time[others]) - 1).mean()
    return Filled(cost, usual.fixed - real.fixed, each - usual.decode, size, real.decode > 0, above, float(away))


class Floor(Struct, frozen=True):
    """No pass takes less than ``least`` ns, however little it computes; what it computes would take ``cost``.

    Passes that only decode would take the share ``over`` less. Times are ``away`` from that by so much on average.
    """

    least: float
    cost: Cost
    over: float
    away: float


def floor_in(found: ServiceTimeline, mine: I64) -> Floor | None:
    """The least time of passes, where passes with longer prompts show that those that only decode cost far less.

    It explains times better by half than a cost that all passes share. None where too few passes take longer.
    """
    steps, mine = found.steps, mine[found.stuck[mine] == 0]
    work, time = work_of(found)[mine], steps.forward[mine]
    alone = steps.work[mine] == Work.decode
    if min(alone.sum(), (~alone).sum()) < FEWEST:
        return None
    least = float(np.median(time[alone]))
    longer = ~alone & (time > np.quantile(time[alone], ALMOST_ALL))
    for _ in range(_ROUNDS):  # which passes take longer than the least time, and what these cost, imply each other
        if longer.sum() < FEWEST:
            return None
        cost = fitted(work[longer], time[longer])
        longer = ~alone & (cost.of(work) > least)
    own = cost.of(work)
    away = float(np.abs(time / np.maximum(own, least) - 1).mean())
    if away > HALF * away_from(work, time) or (own[alone] < least).mean() < NEARLY_ALL:
        return None
    return Floor(least, cost, float(1 - own[alone].mean() / least), away)


def _growth(work: F64, time: I64, start: I64, engine: I64) -> tuple[float, float, Cost]:
    """How far ``time`` is in all from a cost that grows evenly from the first to the last step, by which factor."""
    place = (start - start[0]) / max(int(start[-1] - start[0]), 1)
    line = np.ones(len(time))
    for _ in range(_ROUNDS):  # the cost and its growth are separated ever better
        cost = fitted(work, np.rint(time / line).astype(np.int64))
        ratio = time / np.maximum(cost.of(work), 1)
        slope, first = np.polyfit(place, np.clip(ratio / np.median(ratio), 1 / _MOST_GROWN, _MOST_GROWN), 1)
        line = np.maximum(1 + slope / max(first, 1 / _MOST_GROWN) * place, 1 / _MOST_GROWN)
    ratio = time / np.maximum(cost.of(work) * line, 1)
    for number in np.unique(engine).tolist():
        ratio[engine == number] /= max(float(np.median(ratio[engine == number])), 1e-9)
    return float(np.abs(ratio - 1).sum()), float(line[-1]), cost


def in_lockstep(found: ServiceTimeline) -> bool:
    """Whether the engines that give tokens begin their steps together: each waits for the longest.

    Few begin while another engine computes, as they would where only a clock starts some of them at a time.
    """
    steps, mine = found.steps, found.serves[found.steps.engine]
    start, end, engine = steps.opened[mine], steps.end[mine], steps.engine[mine]
    alone = (np.unique(start // LONG_NS, return_counts=True)[1] == 1).sum()
    if alone > HALF * len(start):
        return False
    amid = np.zeros(len(start), np.bool_)
    for number in np.unique(engine).tolist():
        own = engine == number
        at = np.searchsorted(start[own], start - LONG_NS) - 1
        until = np.maximum.accumulate(end[own])[np.maximum(at, 0)]
        amid |= ~own & (at >= 0) & (until > start + LONG_NS)
    return bool(amid.sum() <= A_PART * len(start))


def rounds_of(found: ServiceTimeline) -> I64:
    """Which steps of the engines that give tokens begin together: a number of each step, -1 of the others."""
    rounds, mine = np.full(len(found.steps), -1), np.flatnonzero(found.serves[found.steps.engine])
    mine = mine[np.argsort(found.steps.opened[mine], kind="stable")]
    rounds[mine] = np.cumsum(np.diff(found.steps.opened[mine], prepend=0) > LONG_NS)
    return rounds


class Lockstep(Struct, frozen=True):
    """Engines that begin their steps together: what the longest of their passes costs, and the ``gap`` (ns) after it.

    The others wait for it ``inside`` of their passes, or after them; with a ``barrier`` no pass goes on before the last
    one has begun. With as much work for each the longest passes would be shorter by the share ``uneven``. ``leading``
    are the steps that have most to do of those together.
    """

    cost: Cost
    gap: float
    inside: bool
    barrier: bool
    uneven: float
    leading: I64


def lockstep_of(found: ServiceTimeline) -> Lockstep | None:
    """How engines in lockstep step; None where they are not, or with too few steps."""
    steps, rounds = found.steps, rounds_of(found)
    mine = np.flatnonzero((rounds >= 0) & (steps.size > 0) & (found.stuck == 0))
    if not in_lockstep(found) or len(mine) < FEWEST:
        return None
    _, which = np.unique(rounds[mine], return_inverse=True)
    count, which = int(which.max()) + 1, which.ravel()
    work, forward, bubble = work_of(found)[mine], steps.forward[mine], steps.cycle[mine, Cycle.bubble]
    closed = np.where(steps.schedule == UNKNOWN, steps.opened, steps.schedule_end)[mine]
    waits = bubble - np.maximum(steps.start[mine] - closed, 0)
    busy = (bubble > 0) & (steps.cycle[mine, Cycle.idle] == 0) & (found.paused[mine] == 0)
    begun = (steps.start + steps.cycle[:, Cycle.prepare])[mine]
    (longest, late, ended), (early, gap) = np.zeros((3, count), np.int64), np.full((2, count), np.iinfo(np.int64).max)
    np.maximum.at(longest, which, forward)
    np.maximum.at(late, which, begun)
    np.maximum.at(ended, which, begun + forward)
    np.minimum.at(early, which, begun + forward)
    inside = bool(np.median((ended - early) / np.maximum(longest, 1)) <= 1 - ALMOST_ALL)
    np.minimum.at(gap, which[busy], np.maximum(waits, 0)[busy])
    gap = gap[np.unique(which[busy])]
    barrier, lead = False, (begun - late[which] if inside else np.zeros(len(mine), np.int64))
    time = ended[which] - begun if inside else longest[which]
    cost, heaviest, away = _together(work, which, lead, time)
    if inside:  # who has begun waits for the last one from its beginning on, or at its end alone
        met = _together(work, which, lead * 0, ended[which] - late[which])
        barrier = met[2] < away
        cost, heaviest, away = met if barrier else (cost, heaviest, away)
    each = np.stack([np.bincount(which, column, count) for column in work.T], axis=1) / np.count_nonzero(found.serves)
    each[:, 0] = 1  # who has nothing to compute takes part in the step all the same
    uneven = 1 - float(cost.of(each).sum() / max(cost.of(work[heaviest]).sum(), 1.0))
    return Lockstep(cost, float(gap.mean()) if len(gap) else 0.0, inside, barrier, uneven, mine[heaviest])


def _together(work: F64, which: I64, lead: I64, time: I64) -> tuple[Cost, I64, float]:
    """What the pass costs that ends last of those of each round (n,), from when it began; which these are.

    It began by ``lead`` ns after others, and the round ended ``time`` ns later; the last figure is how far that is.
    """
    heaviest, weight = np.zeros(int(which.max()) + 1, np.int64), time.astype(np.float64)
    for _ in range(_ROUNDS):  # where all passes end together their work tells which that is
        order = np.argsort(weight + lead, kind="stable")
        heaviest[which[order]] = order
        cost = fitted(work[heaviest], np.maximum(time, 1)[heaviest])
        weight = cost.of(work)
    return cost, heaviest, away_from(work[heaviest], np.maximum(time, 1)[heaviest])


_MOST_REQUESTS, _MOST_STEPS = 1_500, 4_000
"""So many are fitted together: a second. Requests beyond are not distinguished."""


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
    """How sampling grows with more than the size of the batch; None where the size explains it as well.

    Another reason explains it where times are nearer to it by half. None as well with too few steps.
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
    tried = [_separated(time[mine], steps.size[mine], inside, chosen, once) for once in (True, False)]
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
    both[np.diag_indices(len(rids))] += HALF  # little is known of who is in few steps
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


def _separated(time: F64, size: I64, inside: F64, chosen: Bools, once: bool) -> tuple[Bools, list[float], float]:
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
