"""Whether two samples of times differ (slower, faster, same or unsure), and how durations are distributed.

Times are int64 or float64 ns. The tests are those of Mann and Whitney (1947), Wilcoxon (1945), Hodges and Lehmann
(1963), Benjamini and Hochberg (1995).

How durations are distributed: percentiles and histograms.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.trace.arrays import F64, I64
from npu_tui.trace.intervals import covered
from npu_tui.trace.model import Trace

FEWEST = 4
"""Samples a side needs before a rank test can decide anything at the 5 % level."""
FEWEST_PAIRS = 6
"""The same for paired samples."""
LEVEL = 0.05  # what lies outside of a 95 % interval
WITHIN = 1.959964
"""Standard deviations of normal values within which 95 % of them lie."""
_EXACT_SIZE = 120  # samples in all up to which the distribution is counted; above, it is normal to many digits
_VISIBLE = 2.87  # sum of the normal quantiles of 5 % (two sides) and 80 % power, with 2.5 % for unequal spreads
MAD_TO_SIGMA = 1.4826
"""From the median of absolute deviations to a standard deviation of normal values."""


class Shift(Struct, frozen=True):
    """How far ``new`` lies above ``base``: Hodges-Lehmann estimate, its 95 % interval and the exact two-sided p."""

    estimate: float
    low: float
    high: float
    p: float


def shift(base: F64, new: F64) -> Shift | None:
    """The shift between independent samples; None below four on either side."""
    base, new = np.asarray(base, np.float64), np.asarray(new, np.float64)
    if min(len(base), len(new)) < FEWEST:
        return None
    differences = np.sort((new[:, None] - base[None, :]).ravel())
    reach = _interval_rank(len(base), len(new))
    return Shift(
        float(np.median(differences)),
        float(differences[reach]),
        float(differences[len(differences) - 1 - reach]),
        rank_sum_p(base, new),
    )


def paired_shift(difference: F64) -> Shift | None:
    """The shift of paired samples from their differences (Wilcoxon's signed ranks); None below six pairs."""
    difference = np.asarray(difference, np.float64)
    count = len(difference)
    if count < FEWEST_PAIRS:  # below, no outcome is rare enough for the 5 % level
        return None
    means = np.sort(((difference[:, None] + difference[None, :]) / 2)[np.triu_indices(count)])
    reach = _signed_interval_rank(count)
    return Shift(
        float(np.median(means)), float(means[reach]), float(means[len(means) - 1 - reach]), signed_rank_p(difference)
    )


def rank_sum_p(base: F64, new: F64) -> float:
    """Two-sided p of the Mann-Whitney test, exact also with ties up to 120 samples."""
    together = np.concatenate((base, new))
    ranks = _double_ranks(together)
    observed, chosen = int(ranks[: len(base)].sum()), len(base)
    if len(together) <= _EXACT_SIZE:
        ways = _subset_sums(ranks, chosen)
        return _two_sided(ways, observed)
    mean = ranks.sum() * chosen / len(ranks)
    spread = math.sqrt(chosen * (len(ranks) - chosen) * float(ranks.astype(np.float64).var()) / (len(ranks) - 1))
    return _normal_two_sided(observed - mean, spread)


def signed_rank_p(difference: F64) -> float:
    """Two-sided p of Wilcoxon's signed-rank test; differences of zero are left out."""
    difference = difference[difference != 0]
    if not len(difference):
        return 1.0
    ranks = _double_ranks(np.abs(difference))
    observed = int(ranks[difference > 0].sum())
    if len(ranks) > _EXACT_SIZE:
        spread = math.sqrt(float((ranks.astype(np.float64) ** 2).sum()) / 4)
        return _normal_two_sided(observed - ranks.sum() / 2, spread)
    ways = np.zeros(int(ranks.sum()) + 1)
    ways[0] = 1.0
    for rank in ranks.tolist():
        ways[rank:] = ways[rank:] + ways[: len(ways) - rank]
        ways /= 2
    return _two_sided(ways, observed)


def discoveries(p: F64) -> F64:
    """The q value of each p: the share of false discoveries up to it (Benjamini-Hochberg). NaN stays NaN."""
    q = np.full(len(p), np.nan)
    known = np.flatnonzero(~np.isnan(p))
    if not len(known):
        return q
    order = known[np.argsort(p[known], kind="stable")]
    scaled = p[order] * len(order) / np.arange(1, len(order) + 1)
    q[order] = np.minimum.accumulate(scaled[::-1])[::-1]
    return q


def visible_change(base: F64, new: F64) -> float | None:
    """The smallest change of the mean that samples as noisy as these would show; None where they show no noise."""
    several = [side - np.median(side) for side in (base, new) if len(side) > 1]
    if not several:
        return None
    residuals = np.concatenate(several)
    sigma = MAD_TO_SIGMA * float(np.median(np.abs(residuals)))
    return _VISIBLE * sigma * math.sqrt(1 / len(base) + 1 / len(new)) or None


def _double_ranks(values: F64) -> npt.NDArray[np.int64]:
    """Twice the rank of each value, from 2 on; equal values share their mean rank."""
    _, code, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    ranks: npt.NDArray[np.int64] = (2 * last - count + 1)[code]
    return ranks


def _subset_sums(ranks: npt.NDArray[np.int64], chosen: int) -> F64:
    """The distribution of the sum of ``chosen`` of ``ranks`` drawn at random, as probabilities by sum."""
    total = int(ranks.sum())
    ways = np.zeros((chosen + 1, total + 1))
    ways[0, 0] = 1.0
    for number, rank in enumerate(ranks.tolist(), 1):
        for size in range(min(number, chosen), 0, -1):
            ways[size, rank:] += ways[size - 1, : total + 1 - rank]
    shares: F64 = ways[chosen] / ways[chosen].sum()
    return shares


def _two_sided(ways: F64, observed: int) -> float:
    sums = np.arange(len(ways))
    share = ways / ways.sum()
    centre = float((sums * share).sum())
    far = np.abs(sums - centre) >= abs(observed - centre) - 1e-9 * max(1.0, centre)
    return min(1.0, float(share[far].sum()))


def _normal_two_sided(distance: float, spread: float) -> float:
    return 1.0 if spread == 0 else math.erfc(abs(distance) / spread / math.sqrt(2))


def _interval_rank(base: int, new: int) -> int:
    """How many of the sorted differences lie outside the 95 % interval on either side."""
    if base + new > _EXACT_SIZE:
        spread = math.sqrt(base * new * (base + new + 1) / 12)
        return max(0, math.floor(base * new / 2 - WITHIN * spread))
    ways = _subset_sums(np.arange(1, base + new + 1), base)[base * (base + 1) // 2 :]
    return _outside(ways)


def _signed_interval_rank(count: int) -> int:
    if count > _EXACT_SIZE:
        spread = math.sqrt(count * (count + 1) * (2 * count + 1) / 24)
        return max(0, math.floor(count * (count + 1) / 4 - WITHIN * spread))
    ways = np.zeros(count * (count + 1) // 2 + 1)
    ways[0] = 1.0
    for rank in range(1, count + 1):
        ways[rank:] = ways[rank:] + ways[: len(ways) - rank]
        ways /= 2
    return _outside(ways / ways.sum())


def _outside(share: F64) -> int:
    return max(0, int(np.searchsorted(np.cumsum(share), LEVEL / 2, "right")) - 1)


Verdict = Literal["slower", "faster", "same", "unsure", "incomparable"]


class Tolerance(Struct, frozen=True):
    """Changes up to this share of the base are ignored: of the step, and of its computing time."""

    step: float = 0.03
    computing: float = 0.01


_OUTLIER, _LEAST_SPREAD = 5.0, 0.01  # see ``longest_usual``
SEVERAL = 2
"""Where one side has so many more outliers than the other, they are what differs: they are compared as well."""


def longest_usual(times: F64) -> float:
    """The time of a step above which it is an outlier, not compared: five spreads above the median, ns.

    The spread is the median of absolute deviations, at least 1 % of the median: steps may agree to the nanosecond.
    """
    centre = float(np.median(times))
    return centre + _OUTLIER * max(float(np.median(np.abs(times - centre))), _LEAST_SPREAD * centre)


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

    @property
    def before(self) -> float:
        """The mean of the base, ns."""
        return float(self.base.mean())

    @property
    def after(self) -> float:
        """The mean of the new side, ns."""
        return float(self.new.mean())


def judge(base: F64, new: F64, tolerance: float, paired: bool = False, few: Verdict | None = "unsure") -> Judgement:
    """The change from ``base`` to ``new`` (ns per step), held against ``tolerance`` (a share of the base mean).

    With ``paired`` the samples belong together one by one. ``few`` is the verdict where a side has less than four
    samples and the means differ; None lets the difference of the means decide there, as it does where that is far
    beyond what such samples show.
    """
    centre = float(base.mean())
    delta = float(new.mean()) - centre
    limit = tolerance * centre
    moved = paired_shift(new - base) if paired and len(base) == len(new) else None
    moved = moved or shift(base, new)
    visible = visible_change(base, new)
    verdict: Verdict
    if np.array_equal(np.sort(base), np.sort(new)):
        verdict = "same"
    elif moved is not None:
        verdict = _judged_by_interval(moved, limit)
        if verdict == "same" and abs(delta) > limit:
            verdict = "unsure"  # few samples changed, but by much
        elif (verdict, delta < 0) in (("slower", True), ("faster", False)):
            verdict = "unsure"  # most samples changed one way, a few by more the other way
    else:
        verdict = _judged_by_mean(delta, limit) if few is None or _is_far(base, new, visible) else few
    return Judgement(base, new, delta, moved, visible, verdict)


# A change so many times the smallest that samples show is one, though two or three say little of their spread.
_FAR = 3.0


def _is_far(base: F64, new: F64, visible: float | None) -> bool:
    """Whether the samples of the two sides, two of each or more, lie that far apart."""
    apart = max(float(new.min() - base.max()), float(base.min() - new.max()))
    return visible is not None and min(len(base), len(new)) > 1 and apart > _FAR * visible


def _judged_by_mean(delta: float, limit: float) -> Verdict:
    if abs(delta) <= limit:
        return "same"
    return "slower" if delta > 0 else "faster"


def _judged_by_interval(moved: Shift, limit: float) -> Verdict:
    if -limit <= moved.low and moved.high <= limit:
        return "same"
    if moved.low > 0 and moved.estimate >= limit:
        return "slower"
    if moved.high < 0 and moved.estimate <= -limit:
        return "faster"
    return "unsure"


class Distribution(Struct, frozen=True):
    """Durations in ns of the slices ``items``, the slowest first; ``union`` counts overlapping time once."""

    count: int
    total: int
    union: int
    shortest: int
    p50: float
    p90: float
    longest: int
    items: I64


def distribution(trace: Trace, items: I64) -> Distribution | None:
    """The distribution of the durations of ``items``; None without items."""
    if not len(items):
        return None
    start, end = trace.slices.start[items], trace.slices.end[items]
    length = end - start
    p50, p90 = np.percentile(length, [50, 90])
    order = np.argsort(-length, kind="stable")
    return Distribution(
        len(items),
        int(length.sum()),
        covered(start, end),
        int(length.min()),
        float(p50),
        float(p90),
        int(length.max()),
        items[order],
    )


def by_code(trace: Trace, items: I64, code: I64) -> list[tuple[int, Distribution]]:
    """The distribution of ``items`` per ``code`` (-1: left out), most time first."""
    rows = []
    for value in np.unique(code[code >= 0]).tolist():
        spread = distribution(trace, items[code == value])
        if spread is not None:
            rows.append((value, spread))
    return sorted(rows, key=lambda pair: -pair[1].total)


class Histogram(Struct, frozen=True):
    """``count[k]`` values lie in ``[edges[k], edges[k + 1])``; the last bin includes its upper edge."""

    edges: npt.NDArray[np.float64]
    count: npt.NDArray[np.int64]


def histogram(values: npt.NDArray[np.int64], bins: int) -> Histogram:
    """``values`` (clipped to 1 or more) in ``bins`` bins of equal ratio from the lowest to the highest value.

    Equal values give a single bin.
    """
    values = np.maximum(values, 1)
    low, high = int(values.min()), int(values.max())
    if low == high:
        return Histogram(np.array([low, high], np.float64), np.array([len(values)], np.int64))
    # Durations of one kernel may span from 1 us to 10 ms: bins of equal width would hold all but a few in the first.
    edges = np.geomspace(low, high, bins + 1)
    edges[0], edges[-1] = low, high  # geomspace may miss both by a rounding error
    at = np.clip(np.searchsorted(edges, values, "right") - 1, 0, bins - 1)
    return Histogram(edges, np.bincount(at, minlength=bins).astype(np.int64))
