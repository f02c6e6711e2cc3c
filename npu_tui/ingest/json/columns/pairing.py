"""Link ends paired by (category, id)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

I64 = npt.NDArray[np.int64]

SOURCE, STEP, TARGET = 0, 1, 2


class Pairs(Struct, frozen=True):
    """Indices of link ends that belong together, and how many ends found no partner."""

    source: I64
    target: I64
    lone_sources: int
    lone_targets: int


def link_keys(category: npt.NDArray[np.int32], low: I64, high: I64) -> npt.NDArray[np.int32]:
    """Numbers for the distinct (category, id) of link ends, an id being the numbers ``low`` and ``high``; (n,)."""
    keys = np.zeros(len(low), np.int32)
    if not len(low):
        return keys
    order = np.argsort(low, kind="stable")
    same = np.take(low, order)
    rank = np.append(0, np.cumsum(same[1:] != same[:-1]))
    least, span = int(high.min()), int(high.max()) - int(high.min()) + 1
    ways = span * (int(category.max()) + 1)
    if len(low) * ways < 1 << 62:
        joint = rank * ways + np.take(category * np.int64(span) + (high - least), order)
        again = np.argsort(joint, kind="stable")
        order, joint = np.take(order, again), np.take(joint, again)
        fresh = joint[1:] != joint[:-1]
    else:
        order = order[np.lexsort((order, high[order], category[order], rank))]
        fresh = (low[order][1:] != low[order][:-1]) | (high[order][1:] != high[order][:-1])
        fresh |= category[order][1:] != category[order][:-1]
    keys[order[1:]] = np.cumsum(fresh)
    return keys


def pair_ends(key: npt.NDArray[np.int32], phase: npt.NDArray[np.int8]) -> Pairs:
    """Sources and targets of link ends given in file order; ``phase`` is 0 source, 1 step, 2 target.

    A key with one source links it to all its targets. Where a key is used again, the file tells: with as many sources
    as targets the k-th goes to the k-th, otherwise a target belongs to the source before it. A step (``t``) ends one
    link and begins the next.
    """
    is_source = phase != TARGET
    is_target = phase != SOURCE
    keys = int(key.max()) + 1 if len(key) else 0
    sources = np.flatnonzero(is_source)
    targets = np.flatnonzero(is_target)
    source_count = np.bincount(key[sources], minlength=keys)
    target_count = np.bincount(key[targets], minlength=keys)
    steps = np.bincount(key[phase == STEP], minlength=keys)
    sources = sources[np.argsort(key[sources], kind="stable")]
    targets = targets[np.argsort(key[targets], kind="stable")]
    first_source = np.concatenate(([0], np.cumsum(source_count)))
    first_target = np.concatenate(([0], np.cumsum(target_count)))
    of = key[targets]
    rank = np.arange(len(targets)) - first_target[of]
    alone = source_count[of] == 1
    even = (source_count[of] == target_count[of]) & (steps[of] == 0)
    at = np.where(alone, 0, np.where(even, rank, -1))
    for i in np.flatnonzero(at < 0):
        low, high = first_source[of[i]], first_source[of[i] + 1]
        at[i] = max(int(np.searchsorted(sources[low:high], targets[i])) - 1, 0)
    linked = source_count[of] > 0
    source = sources[(first_source[of] + at)[linked]]
    target = targets[linked]
    apart = source != target  # a step with nothing before it would be its own source
    linked[np.flatnonzero(linked)[~apart]] = False
    source, target = source[apart], target[apart]
    return Pairs(
        source,
        target,
        int(np.count_nonzero(target_count[key[sources]] == 0)),
        int(np.count_nonzero(~linked)),
    )
