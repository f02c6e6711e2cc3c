"""Which link between two ranks, or which port of one, is slower than the others of its kind.

Links are compared with links of the same transport, operation and size class only, as bandwidth depends on all three.
Median polish splits the logarithm of each into what is common, what the sender's port and the receiver's port add, and
what is left to the link itself (Tukey).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from npu_tui.job.model import LinkUse

F64 = npt.NDArray[np.float64]

Verdict = Literal["slow", "slow_sender", "slow_receiver", "as_others"]

_ROUNDS = 20
_ODD = 3.5
"""Robust standard deviations from which a link stands out."""
_SLOW = 0.8
"""A link or port with more than this share of the usual bandwidth is not called slow, however even the others are."""
_LARGE_MB = 1.0
"""Smaller transfers are bound by latency, which says nothing of a link."""
_LEAST = 4
"""Links of one kind below which none can stand out."""
_SCALE = 1.4826
"""From the median of absolute deviations to a standard deviation of normal values."""


@dataclass(frozen=True, slots=True)
class Link:
    """One link: ``speed`` and what its ports and kind let expect, GB/s; ``score`` in robust standard deviations."""

    source: int
    target: int
    transport: str
    type: str
    size_mb: float
    speed: float
    expected: float
    score: float
    verdict: Verdict


def judged_links(uses: Iterable[LinkUse]) -> list[Link]:
    """Every link by source and target, each in the kind it was used in."""
    kinds: dict[tuple[str, str, int], dict[tuple[int, int], list[LinkUse]]] = defaultdict(lambda: defaultdict(list))
    for use in (use for use in uses if use.size_mb >= _LARGE_MB):
        kinds[use.transport, use.type, round(math.log2(use.size_mb))][use.source, use.target].append(use)
    found = [link for pairs in kinds.values() for link in _of_kind(pairs)]
    return sorted(found, key=lambda link: (link.source, link.target, link.transport, link.type, link.size_mb))


def _of_kind(pairs: dict[tuple[int, int], list[LinkUse]]) -> list[Link]:
    ranks = sorted({rank for pair in pairs for rank in pair})
    place = {rank: number for number, rank in enumerate(ranks)}
    table = np.full((len(ranks), len(ranks)), np.nan)
    for (source, target), uses in pairs.items():
        table[place[source], place[target]] = math.log(float(np.median([use.speed for use in uses])))
    middle, sent, received, left = _polished(table)
    deviation = _SCALE * float(np.nanmedian(np.abs(left)))
    few = len(pairs) < _LEAST
    found = []
    for (source, target), uses in pairs.items():
        i, j = place[source], place[target]
        own, score = float(table[i, j]), float(left[i, j]) / max(deviation, 1e-3)
        expected = math.exp(own - float(left[i, j]))
        verdict: Verdict = "as_others"
        if not few and score < -_ODD and math.exp(float(left[i, j])) < _SLOW:
            verdict = "slow"
        elif not few and math.exp(float(sent[i])) < _SLOW:
            verdict, expected = "slow_sender", math.exp(middle)
        elif not few and math.exp(float(received[j])) < _SLOW:
            verdict, expected = "slow_receiver", math.exp(middle)
        size = float(np.median([use.size_mb for use in uses]))
        use = uses[0]
        found.append(Link(source, target, use.transport, use.type, size, math.exp(own), expected, score, verdict))
    return found


def _polished(table: F64) -> tuple[float, F64, F64, F64]:
    """Common value, effect of every row and column, and what is left; NaN cells count nowhere."""
    left = table.copy()
    middle, rows, columns = 0.0, np.zeros(len(table)), np.zeros(len(table))
    there = ~np.isnan(table)
    for _ in range(_ROUNDS):
        for axis, effect in ((1, rows), (0, columns)):
            seen = there.any(axis=axis)
            step = np.zeros(len(table))
            step[seen] = np.nanmedian(left[seen] if axis == 1 else left[:, seen], axis=axis)
            left = left - (step[:, None] if axis == 1 else step[None, :])
            effect += step
            common = float(np.median(effect[seen]))
            effect[seen] -= common
            middle += common
    return middle, rows, columns, left
