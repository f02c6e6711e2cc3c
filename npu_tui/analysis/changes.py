"""Where a series of runs changes its level: few, noisy values, some of them outliers, in the order of their runs.

A change is looked for as one place that parts the runs, and as a stretch between two places (binary and circular binary
segmentation: Olshen and others, 2004), on values whose outliers are drawn in. How often chance would do as well is
counted over the same values in other orders, and, as runs near each other are often alike, in orders that are as much
alike as those beside the changes: no other noise is assumed. Libraries that find changes (ruptures) give neither that
chance nor the interval of runs and of sizes in which a change lies, and these are what is reported.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace
from numpy.lib.stride_tricks import sliding_window_view

from npu_tui.analysis.limits import A_PART, OUTLYING, SIGMAS, UNSEEN
from npu_tui.analysis.statistics import FEWEST, LEVEL, MAD_TO_SIGMA, WITHIN, shift
from npu_tui.trace.arrays import F64, I64

MOST = 150
"""Runs that are looked at, the last ones."""
_RISK = 0.02  # how often chance alone may make a change in a history
_ORDERS = 999  # with the order that was recorded they are 1,000: chance is known to one in a thousand
_BLOCKS = 20
"""Into how many blocks of runs a longer history is cut for these orders: runs near each other are often alike."""
_ALIKE, _ALIKE_SPREAD = 0.1, 0.2
"""How much a run is like the one before (autocorrelation) where few runs say so: about this, give or take."""
_AT_ONCE = 1 << 21  # numbers of one table of permuted sums
_LEAST_SPREAD = 0.0005
"""The share of the level that runs which agree better are said to spread by."""
_SHOWN = 5.0  # standard errors of a difference of levels that are found in four of five histories (simulated)
_NEAR = 60  # runs on either side of a change that show how large it is
# A squared distance from a level, in variances, from which on a run says no more about the place of a change.
_FAR = SIGMAS**2


class LevelChange(NamedTuple):
    """The level changes from run ``place - 1`` to ``place``; the new one begins with run ``first`` to ``last`` (95 %).

    ``delta`` is how far the new level lies above the old one, ``low`` to ``high`` its 95 % interval, ``p`` that of the
    rank test between both.
    """

    place: int
    first: int
    last: int
    delta: float
    low: float
    high: float
    p: float


class _Drift(NamedTuple):
    """The level grows by ``slope`` from run to run, from run ``first`` to run ``last``."""

    slope: float
    first: int
    last: int


class Course(Struct, frozen=True):
    """The ``changes`` of a series in order; or its ``drift`` from run to run, where that fits better.

    It ``grows`` from the first one of these runs to the second one. ``visible`` is the smallest change of the last
    level that four runs would show, None with fewer than four of it. ``ahead`` counts the last runs that are off that
    level, too few to judge. ``outliers`` are runs far from their level; where more than a fifth are, as on two machines
    in turn, there are none.
    """

    changes: tuple[LevelChange, ...]
    drift: float | None
    visible: float | None
    ahead: int
    grows: tuple[int, int] = (0, 0)
    outliers: tuple[int, ...] = ()

    @property
    def begin(self) -> int:
        """The run with which the last level begins."""
        return self.changes[-1].place if self.changes else 0


class Expected(NamedTuple):
    """What one more run of a level would be: ``centre`` within ``reach`` (95 %); ``runs`` are those of the level."""

    centre: float
    reach: float
    runs: F64


def course(values: F64) -> Course:
    """How the level of ``values`` (n,) runs, all in the order of their runs and above 0."""
    values = np.asarray(values, np.float64)[-MOST:]
    places = _change_points(values, 0, _RISK)
    if places:
        places = _change_points(values, 0, _RISK, _likeness(values, places))
    drift = _drift(values, places)
    if drift is not None:
        return Course((), drift.slope, None, 0, (drift.first, drift.last))
    told = Course(_sure_changes(values, places), None, None, 0)
    ahead = _deviating_runs(values[told.begin :])
    whole = values[told.begin : len(values) - ahead]
    level = usual_of(whole)
    if len(level) < (1 - A_PART) * len(whole):
        level = whole  # two modes: the next runs may be of either
    visible = (
        _SHOWN * _spread_of_level(level) * math.sqrt(1 / FEWEST + 1 / len(level)) if len(level) >= FEWEST else None
    )
    bounds = [0, *(change.place for change in told.changes), len(values) - ahead]
    outliers = (
        begin + int(run)
        for begin, end in pairwise(bounds)
        if end - begin >= 2 * FEWEST and (far := _far(values[begin:end])).mean() <= A_PART
        for run in np.flatnonzero(far)
    )
    return replace(told, visible=visible, ahead=ahead, outliers=tuple(outliers))


def usual_of(level: F64) -> F64:
    """The runs of ``level`` (n,) but for outliers."""
    return level[~_outlying(level)]


def _far(level: F64) -> npt.NDArray[np.bool_]:
    """Which runs are as far off the others of ``level`` (n,) by the standard deviation of these."""
    usual = usual_of(level)
    return np.asarray(np.abs(level - usual.mean()) > OUTLYING * _spread_of_level(usual))


def _outlying(level: F64) -> npt.NDArray[np.bool_]:
    off = np.abs(level - np.median(level)) if len(level) else level
    return np.asarray(off > OUTLYING * _scale(level)) if len(level) else np.zeros(0, np.bool_)


def expected(level: F64) -> Expected | None:
    """What one more run of ``level`` (n,) would be; None with fewer than four runs that are no outliers."""
    kept = usual_of(level)
    if len(kept) < FEWEST:
        return None
    reach = _quantile(len(kept) - 1) * _spread_of_level(kept) * math.sqrt(1 + 1 / len(kept))
    return Expected(float(kept.mean()), reach, kept)


def _quantile(freedom: int) -> float:
    """The 97.5 % quantile of Student's t, to 0.03 from three degrees of freedom on (expansion of Fisher, 1941)."""
    z = WITHIN
    terms = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + sum(term / float(freedom**power) for power, term in enumerate(terms, 1))


def _spread_of_level(level: F64) -> float:
    return max(float(level.std(ddof=1)), _LEAST_SPREAD * float(level.mean()))


def _scale(values: F64) -> float:
    """The standard deviation of most of ``values``."""
    median = float(np.median(values))
    return max(MAD_TO_SIGMA * float(np.median(np.abs(values - median))), _LEAST_SPREAD * median)


def _drawn_in(values: F64) -> F64:
    median, reach = float(np.median(values)), WITHIN * _scale(values)
    return np.clip(values, median - reach, median + reach) - median


def _likeness(values: F64, places: list[int]) -> float:
    """How much a run is like the one before, beside the changes at ``places``: what few runs say counts in part.

    The levels are means of the same runs, which makes what is left look less alike, by a run a level (Kendall, 1954).
    """
    parts = [_drawn_in(part) for part in np.split(values, places)]
    rest = np.concatenate([part - part.mean() for part in parts])
    lost = len(parts) / len(values)
    free = max(1 - 3 * lost, _LEAST_FREE)
    told = (float(rest[1:] @ rest[:-1]) / max(float(rest @ rest), 1e-300) + lost) / free
    own, usual = len(values) * free**2, 1 / _ALIKE_SPREAD**2
    return min(max((own * told + usual * _ALIKE) / (own + usual), 0.0), _MOST_ALIKE)


# They keep the estimate finite where parts are many, and orders apart: at 1 all would be one.
_LEAST_FREE, _MOST_ALIKE = 0.25, 0.9


def _orders(drawn: F64, alike: float) -> F64:
    """``drawn`` in other orders, (orders, n); those that are ``alike`` spread as much as it does."""
    count = len(drawn)
    block = np.arange(count) // max(1, count // _BLOCKS)
    chance = np.random.default_rng(count).random((_ORDERS, block[-1] + 1))
    series = drawn[np.argsort(chance[:, block], axis=1, kind="stable")]
    if not alike:
        return series
    series -= drawn.mean()
    for run in range(1, count):
        series[:, run] = alike * series[:, run - 1] + math.sqrt(1 - alike**2) * series[:, run]
    return np.asarray(series * (drawn.std() / np.maximum(series.std(axis=1, keepdims=True), 1e-300)))


def _change_points(values: F64, start: int, risk: float, alike: float = 0.0) -> list[int]:
    """Where ``values`` change, each part by itself until chance would do as well; counted from ``start``."""
    count = len(values)
    if count < 2 * FEWEST:
        return []
    drawn = _drawn_in(values)
    low, high = np.triu_indices(count + 1, FEWEST)
    length = high - low
    edge = (low == 0) | (high == count)
    apart = (count - length >= FEWEST) & ((low == 0) | (low >= FEWEST)) & ((high == count) | (count - high >= FEWEST))
    low, high, length, edge = low[apart], high[apart], length[apart], edge[apart]
    weight = np.sqrt(length * (count - length) / count)
    sums = np.append(0.0, np.cumsum(drawn))
    score = np.abs(sums[high] - sums[low] - length / count * sums[-1]) / weight
    parts = np.array_split(_orders(drawn, alike), math.ceil(_ORDERS * len(low) / _AT_ONCE))
    chance = np.concatenate([_best(part, low, high, weight, edge) for part in parts])
    # A place and a stretch are held against their own chance: there are far more stretches.
    usual = np.maximum(np.quantile(chance, 1 - risk, axis=0), 1e-300)
    found = np.array([score[edge].max(), score[~edge].max(initial=0.0)]) / usual
    best = int(np.where(edge, score / usual[0], score / usual[1]).argmax())
    cuts = [cut for cut in (int(low[best]), int(high[best])) if 0 < cut < count]
    as_good = int(((chance / usual).max(1) >= found.max() * (1 - 1e-9)).sum())
    if (1 + as_good) / (1 + _ORDERS) > risk:
        return []
    inner = [
        place
        for a, b in pairwise([0, *cuts, count])
        for place in _change_points(values[a:b], start + a, risk * (b - a) / count, alike)
    ]
    return sorted([*(start + cut for cut in cuts), *inner])


def _best(drawn: F64, low: I64, high: I64, weight: F64, edge: npt.NDArray[np.bool_]) -> F64:
    """The highest score of a place and of a stretch in each row of ``drawn`` (orders, n); (orders, 2)."""
    count = drawn.shape[1]
    sums = np.concatenate((np.zeros((len(drawn), 1)), np.cumsum(drawn, axis=1)), axis=1)
    score = np.abs(sums[:, high] - sums[:, low] - (high - low) / count * sums[:, -1:]) / weight
    return np.stack((score[:, edge].max(1), score[:, ~edge].max(1, initial=0.0)), axis=1)


def _drift(values: F64, places: list[int]) -> _Drift | None:
    """How ``values`` grow from run to run, where that says more of them than levels between ``places`` do.

    They may grow from some run on, or up to one. Without places they do so all along, if chance would not.
    """
    count = len(values)
    if count < 2 * FEWEST:
        return None
    run, drawn = np.arange(count), _drawn_in(values)
    every = _Drift(float(np.polyfit(run, values, 1)[0]), 0, count - 1)
    if not places:
        rest = values - every.slope * run
        chance = np.abs(_orders(drawn, _likeness(rest, [])) @ (run - run.mean()))
        as_good = int((chance >= abs(float(drawn @ (run - run.mean())))).sum())
        grown = abs(every.slope) * (count - 1) >= UNSEEN * float(np.median(values))
        return every if grown and (1 + as_good) / (1 + _ORDERS) <= _RISK else None
    least = count * (_LEAST_SPREAD * float(np.median(values))) ** 2
    price = 2 * math.log(count)

    def bits(of_growth: F64, of_levels: float) -> F64:
        saved = count * np.log(np.maximum(of_growth, least) / max(of_levels, least))
        return np.asarray(saved - price * (len(places) - 1))

    slope, at_start = np.polyfit(run, drawn, 1)
    of_line = np.array(((drawn - slope * run - at_start) ** 2).sum())
    of_levels = sum(float(((part - part.mean()) ** 2).sum()) for part in np.split(drawn, places))
    best, drift = 0.0, None
    if (saved := float(bits(of_line, of_levels))) < best:
        best, drift = saved, every
    # What grows for a while only is drawn in to levels: here what is left is.
    parts = np.split(values, places)
    left = np.concatenate([part - np.median(part) for part in parts])
    reach = WITHIN * 2 * _scale(left + float(np.median(values)))
    # A single run far from those around it is no growth to it, nor from it.
    around = np.median(sliding_window_view(np.pad(values, 2, mode="edge"), 5), axis=1)
    values = np.where(np.abs(values - around) > reach, around, values)
    parts = np.split(values, places)
    of_levels = sum(float(((part - part.mean()).clip(-reach, reach) ** 2).sum()) for part in parts)
    for first in range(count - FEWEST):
        last = np.arange(first + FEWEST, count if first else count - 1)
        shape = np.minimum(np.maximum(run - first, 0), (last - first)[:, None]).astype(np.float64)
        shape -= shape.mean(axis=1, keepdims=True)
        slopes = shape @ values / (shape**2).sum(axis=1)
        rest = values - values.mean() - slopes[:, None] * shape
        ends = (first > 0) + (last < count - 1).astype(np.int64)
        told = bits((rest.clip(-reach, reach) ** 2).sum(axis=1), of_levels) + 2 * price * ends
        at = int(told.argmin())
        if told[at] < best:
            best, drift = float(told[at]), _Drift(float(slopes[at]), first, int(last[at]))
    return drift


def _sure_changes(values: F64, places: list[int]) -> tuple[LevelChange, ...]:
    """The changes at ``places``, each between its neighbours, without those that are small or not sure."""
    told: list[LevelChange] = []
    for number, place in enumerate(places):
        begin = told[-1].place if told else 0
        end = places[number + 1] if number + 1 < len(places) else len(values)
        first, place, last = _interval(values[begin:end], place - begin)
        moved = shift(values[begin : begin + place][-_NEAR:], values[begin + place : end][:_NEAR])
        if moved is None or moved.p > LEVEL:
            continue
        if abs(moved.estimate) >= UNSEEN * float(np.median(values)):
            told.append(
                LevelChange(begin + place, begin + first, begin + last, moved.estimate, moved.low, moved.high, moved.p)
            )
    return tuple(told)


def _interval(values: F64, place: int) -> tuple[int, int, int]:
    """First, likeliest and last place (95 %) of the one change of ``values``, which lies near ``place``."""
    levels = [float(np.median(side)) for side in (values[:place], values[place:])]
    scale = _scale(np.concatenate((values[:place] - levels[0], values[place:] - levels[1])) + levels[0])
    before, after = (((values - level) / scale) ** 2 for level in levels)
    # A value far from both levels says nothing of the place; one near either of two levels far apart belongs to that.
    near = np.minimum(before, after) < _FAR
    sure = max(_FAR, (levels[1] - levels[0]) ** 2 / (16 * scale**2))
    before, after = (np.minimum(side, np.where(near, sure, _FAR)) for side in (before, after))
    cost = (np.append(0.0, np.cumsum(before)) + np.append(np.cumsum(after[::-1])[::-1], 0.0)) / 2
    cost = cost[FEWEST : len(values) - FEWEST + 1]
    share = np.exp(cost.min() - cost)
    order = np.argsort(-share, kind="stable")
    kept = order[: int(np.searchsorted(np.cumsum(share[order]), (1 - LEVEL) * share.sum())) + 1]
    return FEWEST + int(kept.min()), FEWEST + int(order[0]), FEWEST + int(kept.max())


def _deviating_runs(level: F64) -> int:
    """How many of the last runs, ``FEWEST`` at most, deviate to the same side from the runs of ``level`` before."""
    for ahead in range(FEWEST, 0, -1):
        usual = expected(level[:-ahead])
        if usual is None:
            continue
        off = level[-ahead:] - usual.centre
        if (off > usual.reach).all() or (off < -usual.reach).all():
            return ahead
    return 0
