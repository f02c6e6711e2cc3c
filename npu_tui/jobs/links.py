"""Which link between two ranks, or which port of one, is slower than the others of its kind.

Links are compared with links of the same transport, operation and size class only, as bandwidth depends on all three;
a single one that goes another way than all others of its ranks is compared with those.
Median polish splits the logarithm of each into what is common, what the sender's port and the receiver's port add, and
what is left to the link itself (Tukey).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.analysis.limits import FEWEST_EQUALS, HALF, MORE_THAN_ONE, NEARLY_ALL, OUTLYING
from npu_tui.analysis.statistics import MAD_TO_SIGMA
from npu_tui.jobs.columns import MOST_ROUNDS, Grouped
from npu_tui.jobs.meetings import members
from npu_tui.jobs.model import LinkUse, RankProfile
from npu_tui.trace.arrays import F64, I64

Verdict = Literal["slow", "falters", "slow_sender", "slow_receiver", "as_others"]
_UseKind = tuple[str, str, int]
"""Transport, operation and class of sizes."""

NETWORK = "RDMA"
"""The transport between hosts."""
LARGE_MB = 1.0
"""Smaller transfers are bound by latency, which says nothing of a link."""


class Link(Struct, frozen=True):
    """One link: ``speed`` and what its ports and kind let expect, GB/s; ``score`` in robust standard deviations.

    One that falters has that speed in ``count`` of ``all`` equal transfers, what to expect in the others. ``beside`` is
    the transport of the others where it is another one.
    """

    source: int
    target: int
    transport: str
    type: str
    size_mb: float
    speed: float
    expected: float
    score: float
    verdict: Verdict
    count: int = 0
    all: int = 0
    beside: str = ""


def placed_links(ranks: Sequence[RankProfile]) -> list[LinkUse]:
    """The links of all ranks between ranks of the job; those of groups whose ranks are not known are left out.

    communication_matrix.json names places in a group. Its ranks are those that the metadata list, or all that recorded
    calls in it, if the place of every rank on disk fits.
    """
    made: dict[str, dict[int, RankProfile]] = defaultdict(dict)
    for profile in ranks:
        for group in {use.group for use in profile.links}:
            made[group][profile.rank] = profile
    placed = []
    for group, profiles in made.items():
        uses = [use for profile in profiles.values() for use in profile.links if use.group == group]
        if not group:
            placed += uses
            continue
        places = {
            profile.rank: {use.source for use in profile.links if use.group == group} for profile in profiles.values()
        }
        order = members(profiles, places)
        if order is not None:
            placed += [replace(use, source=order[use.source], target=order[use.target], group="") for use in uses
                      if max(use.source, use.target) < len(order)]  # fmt: skip
    return placed


def judged_links(uses: Iterable[LinkUse]) -> list[Link]:
    """Every link by source and target, each in the kind it was used in; uses without size or speed do not count."""
    kinds: dict[_UseKind, list[LinkUse]] = defaultdict(list)
    for use in uses:
        if LARGE_MB <= use.size_mb < math.inf and 0 < use.speed < math.inf:
            kinds[use.transport, use.type, round(math.log2(use.size_mb))].append(use)
    links = [link for same in _beside_others(kinds) for link in _judged_links(same)]
    return sorted(links, key=lambda link: (link.source, link.target, link.transport, link.type, link.size_mb))


def _beside_others(kinds: Mapping[_UseKind, list[LinkUse]]) -> list[list[LinkUse]]:
    """The uses of each of ``kinds``; those over a transport that few links have stand with those of another transport.

    That is so where each of their ends reaches several ranks over the other one in the same operation, and a single
    one over this: hosts are not built so. In a ring each rank has one link, and hosts are apart by the network.
    """
    joined, ends = {kind: [*uses] for kind, uses in kinds.items()}, {kind: _ends(uses) for kind, uses in kinds.items()}
    for kind in kinds:
        few = ends[kind].total() < 2 * FEWEST_EQUALS and {*ends[kind].values()} == {1} and kind[0] != NETWORK
        others = (other for other in joined if other[1:] == kind[1:] and other[0] not in (kind[0], NETWORK))
        for other in [*others] if few else ():
            if all(ends[other][end] >= MORE_THAN_ONE for end in ends[kind]):
                joined[other] += joined.pop(kind)
                break
    return [*joined.values()]


def _ends(uses: Iterable[LinkUse]) -> Counter[tuple[str, int]]:
    """From and to how many ranks each rank sends and receives."""
    pairs = {(use.source, use.target) for use in uses}
    return Counter(end for source, target in pairs for end in (("from", source), ("to", target)))


def _judged_links(uses: list[LinkUse]) -> list[Link]:
    """The links of one transport and kind, by source and target, each compared with what its two ports let expect."""
    ends = np.array([(use.source, use.target) for use in uses], np.int64)
    ranks, places = np.unique(ends, return_inverse=True)
    places = places.reshape(ends.shape)
    pairs, pair = np.unique(places[:, 0] * len(ranks) + places[:, 1], return_inverse=True)
    source, target = pairs // len(ranks), pairs % len(ranks)
    own_uses = Grouped(pair, len(pairs))
    speeds = own_uses.medians(np.log([use.speed for use in uses]))
    faltering = {
        int(at): use for at, use in sorted(zip(pair, uses, strict=True), key=lambda row: row[1].slow) if use.slow
    }
    if len(faltering) > HALF * len(pairs):  # no matter of single links
        faltering = {}
    for at, use in faltering.items():  # the rows of a file are now a slow transfer, now another
        speeds[at] = math.log(use.speed)
    sizes = own_uses.medians(np.array([use.size_mb for use in uses]))
    times = np.bincount(pair)
    middle, sent, received, left = _polished(source, target, speeds, len(ranks))
    deviation = max(MAD_TO_SIGMA * float(np.median(np.abs(left))), 1e-3)
    score = left / deviation
    few = len(pairs) < FEWEST_EQUALS
    slow = (score < -OUTLYING) & (np.exp(left) < NEARLY_ALL) & (times >= min(MORE_THAN_ONE, times.max()))
    kind, transports = uses[0].type, {int(at): use.transport for at, use in zip(pair, uses, strict=True)}
    usually = Counter(transports.values()).most_common(1)[0][0]
    # A port is slow that has several links, all of them slow; else it is the link.
    below = speeds < middle + math.log(NEARLY_ALL)
    ports = [
        (np.exp(effect) < NEARLY_ALL)
        & (np.bincount(side, below, len(ranks)) == np.maximum(np.bincount(side, None, len(ranks)), 2))
        for effect, side in ((sent, source), (received, target))
    ]
    # Where as many are slow as are not, the middle is neither: those that are not show what to expect.
    usual = float(np.median(speeds[~below])) if (~below).any() else middle
    links = []
    for number in range(len(pairs)):
        i, j, speed = int(source[number]), int(target[number]), float(speeds[number])
        expected = math.exp(speed - float(left[number]))
        verdict: Verdict = "as_others"
        if not few and slow[number]:
            # Of ports with few links the slow one is half of what they seem to be.
            verdict, others = "slow", np.arange(len(pairs)) != number
            expected = math.exp(usual + sum(
                float(np.median(speeds[own]) - usual) for side, end in ((source, i), (target, j))
                if (own := others & (side == end)).any()
            ))  # fmt: skip
        elif not few and below[number] and min(math.exp(float(sent[i])), math.exp(float(received[j]))) < NEARLY_ALL:
            verdict = "slow_sender" if ports[0][i] else "slow_receiver" if ports[1][j] else "slow"
            expected = math.exp(usual)
        elif few and times[number] >= MORE_THAN_ONE and speed < float(speeds.max()) + math.log(HALF):
            # Too few for a spread: less than half of what another one reaches is no noise, time after time.
            verdict, expected = "slow", math.exp(float(speeds.max()))
        size, z = float(sizes[number]), float(score[number])
        transport = transports[number]
        link = Link(int(ranks[i]), int(ranks[j]), transport, kind, size, math.exp(speed), expected, z, verdict)
        link = link if transport == usually else replace(link, beside=usually)
        slowly = faltering.get(number)
        if verdict == "as_others" and slowly is not None:
            speed, expected = slowly.slow_speed, slowly.speed
            link = replace(link, speed=speed, expected=expected, verdict="falters", count=slowly.slow, all=slowly.calls)
        links.append(link)
    return links


def _polished(source: I64, target: I64, value: F64, count: int) -> tuple[float, F64, F64, F64]:
    """Common value, effect of every source and target (count,), and what is left of each ``value`` (n,)."""
    left, middle = value.copy(), 0.0
    effects = np.zeros((2, count))
    sides = [(number, side, Grouped(side, count)) for number, side in enumerate((source, target))]
    for _ in range(MOST_ROUNDS):
        moved = 0.0
        for number, side, grouped in sides:
            step = np.nan_to_num(grouped.medians(left))
            left = left - step[side]
            effects[number] += step
            common = float(np.median(effects[number][np.unique(side)]))
            effects[number][np.unique(side)] -= common
            middle += common
            moved = max(moved, float(np.abs(step).max(initial=0.0)))
        if moved < 1e-9:
            break
    return middle, effects[0], effects[1], left
