"""Why a rank takes longer than its peers, which do the same work: its card, its host, or more work than theirs.

Kernels of equal type and shapes show how fast a card is, calls of CANN how fast a host is. What is left is work: other
kernels, or more of them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from statistics import median_high, median_low

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.analysis.experts import Pace
from npu_tui.analysis.limits import A_PART, HALF, HARDLY_ANY, LITTLE, NAMED, NOTABLE
from npu_tui.jobs.blame import Blame
from npu_tui.jobs.model import RankProfile, WaitedLine
from npu_tui.jobs.rank_files import STILL
from npu_tui.rules.facts import CUBE
from npu_tui.rules.rule import LISTED
from npu_tui.trace.arrays import Bools
from npu_tui.trace.message import Message, message

SLOW_CARD = 1.03
"""How many times as long equal kernels take on a slow card at least: those of even cards differ by less."""
SLOW_HOST = 1.3
"""How many times as long calls of CANN take on a slow host at least: 1.6 and more where its CPUs are bound wrongly."""

OPERATIONS = "operation"
"""The level of operations of the framework, beside those of CANN's calls."""


class Beside(Struct, frozen=True):
    """A rank beside its median peer. ``card``: how many times as long equal kernels take, ``slower``: ns in all.

    ``other`` is the time of kernels that its peers have in other numbers or shapes, ns; ``more`` the types of kernels
    that it computes longer, most first, and how much longer, ns. ``host`` is how many times as long a call of CANN
    takes. ``clock`` is that of its AI cores, ``usual`` that of the peers, MHz. None: unknown. ``products`` and
    ``moving`` are as ``card``, of matrix products and of all other kernels, which memory holds up. ``blocks`` are the
    cores that the kernels run on which lose most of ``slower``, here and on the peers, where fewer. ``asking`` is as
    ``host``, of operations of the framework.
    """

    card: float | None = None
    slower: int = 0
    other: int | None = None
    more: tuple[tuple[str, int], ...] = ()
    host: float | None = None
    clock: float | None = None
    usual: float | None = None
    products: float | None = None
    moving: float | None = None
    blocks: tuple[int, int] | None = None
    asking: float | None = None


def beside_peers(ranks: Sequence[RankProfile], peers: Sequence[Hashable]) -> list[Beside]:
    """Each of ``ranks`` beside those with the same ``peers``; nothing of one that has none with kernels."""
    same: dict[Hashable, list[int]] = defaultdict(list)
    for place, key in enumerate(peers):
        if ranks[place].paces:
            same[key].append(place)
    found = [Beside()] * len(ranks)
    for places in same.values():
        if len(places) > 1:
            every = [ranks[place] for place in places]
            usual, of_host = _usual([each.paces for each in every]), _usual([each.host_paces for each in every])
            by_type = [_by_type(profile.paces) for profile in every]
            of_type = {kind: median_low([times[kind] for times in by_type]) for times in by_type for kind in [*times]}
            clocks = [profile.clock for profile in every if profile.clock is not None]
            clock = median_high(clocks) if clocks else None
            for place, profile, times in zip(places, every, by_type, strict=True):
                longer = sorted(((kind, time - of_type[kind]) for kind, time in times.items()), key=lambda row: -row[1])
                more = tuple(row for row in longer[:NAMED] if row[1] > 0)
                found[place] = replace(_beside(profile, usual, of_host), more=more, clock=profile.clock, usual=clock)
    return found


def _by_type(paces: Sequence[Pace]) -> Counter[str]:
    """How long all kernels of each type take, ns."""
    times: Counter[str] = Counter()
    for pace in paces:
        times[pace.type] += pace.time
    return times


_Kind = tuple[str, str]


def _usual(ranks: Sequence[Sequence[Pace]]) -> dict[_Kind, Pace]:
    """What the median rank does of each kind: how often, for how long each time, and on how many cores.

    Of kinds that most ranks know.
    """
    known: dict[_Kind, list[Pace]] = defaultdict(list)
    for paces in ranks:
        for pace in paces:
            known[pace.type, pace.shapes].append(pace)
    found = {}
    for kind, every in known.items():
        if 2 * len(every) > len(ranks):
            count, each = median_low([pace.count for pace in every]), median_low([pace.each for pace in every])
            found[kind] = Pace(*kind, count, round(each * count), blocks=median_high([pace.blocks for pace in every]))
    return found


def _beside(profile: RankProfile, usual: dict[_Kind, Pace], of_host: dict[_Kind, Pace]) -> Beside:
    """How fast the card and the host of ``profile`` are, beside the usual kinds of kernels and of calls."""
    other, times, lost = 0, {True: 0, False: 0}, {True: 0.0, False: 0.0}
    fewer: defaultdict[tuple[int, int], float] = defaultdict(float)
    shaped = [pace for pace in profile.paces if pace.shapes]
    for pace in shaped:
        of_peers = usual.get((pace.type, pace.shapes))
        if of_peers is not None:
            more, product = pace.time - pace.count * of_peers.each, CUBE.search(pace.type) is not None
            times[product] += pace.time
            lost[product] += more
            if 0 < pace.blocks < of_peers.blocks:
                fewer[pace.blocks, of_peers.blocks] += more
        if of_peers is None or abs(pace.count - of_peers.count) > LITTLE * of_peers.count:
            other += pace.time
    ratios: dict[bool, list[tuple[float, int]]] = {True: [], False: []}
    for pace in profile.host_paces:
        if (kind := (pace.type, pace.shapes)) in of_host and of_host[kind].time > 0:
            ratios[pace.shapes == OPERATIONS].append((pace.each / of_host[kind].each, pace.count))
    host, asking = (_middle(sorted(ratios[of])) for of in (False, True))
    equal, slower = sum(times.values()), sum(lost.values())
    known = equal > max(slower, A_PART * sum(pace.time for pace in profile.paces))
    blocks = max(fewer, key=lambda pair: fewer[pair], default=None)
    if sum(fewer.values()) < HALF * slower:
        blocks = None
    products, moving = (times[of] / (times[of] - lost[of]) if times[of] > lost[of] else None for of in (True, False))
    card, others = equal / (equal - slower) if known else None, other if shaped else None
    return Beside(card, round(slower), others, (), host, None, None, products, moving, blocks, asking)


def slow_in(every: Sequence[Beside]) -> tuple[str, dict[str, object]]:
    """In what all the slow cards of ``every`` are slow, with the words of that: those of the one that is least so.

    Its AI cores have a lower clock, or its kernels get fewer of them; or its memory is slow, where matrix products,
    which compute most for each byte, take no longer than on the peers.
    """
    least = min(every, key=lambda each: each.card or 0.0)
    words: dict[str, object] = {"times": least.card, "clock": least.clock, "usual": least.usual}
    if all(each.clock is not None and each.clock <= (1 - LITTLE) * (each.usual or 0) for each in every):
        return "clock", words
    if least.blocks is not None and all(each.blocks is not None for each in every):
        return "cores", words | {"cores": least.blocks[0], "all": least.blocks[1]}
    if all((each.products or SLOW_CARD) < SLOW_CARD <= (each.moving or 0.0) for each in every):
        return "memory", words | {"products": least.products, "times": least.moving}
    return "card", words


def _middle(weighted: Sequence[tuple[float, int]]) -> float | None:
    """The median of the values, each as often as its weight says; None without any."""
    half = sum(weight for _, weight in weighted) / 2
    for value, weight in weighted:
        half -= weight
        if half <= 0:
            return value
    return None


def stands_still(
    ranks: Sequence[RankProfile], place: int, gain: int, steps: Sequence[str], slow: Bools
) -> Message | None:
    """What the title of the rank at ``place`` says where its process stands still for most of its ``gain``, ns.

    The usual one of the others, which do the same work, does not. The rank is ``slow`` in some of the ``steps``.
    """
    times = [next((row.gain * row.count for row in each.findings if row.id == STILL), 0) for each in ranks]
    told = next((row.title for row in ranks[place].findings if row.id == STILL), None)
    if told is None or times[place] - median_low([*times[:place], *times[place + 1 :]] or [0]) < HALF * gain:
        return None
    named = [step for step, there in zip(steps, slow.tolist(), strict=True) if there and step]
    if not named:
        return message("job.slow.by.still", what=told)
    args = {"named": named[:LISTED], "count": len(named), "all": len(steps), "what": told}
    return message("job.slow.by.still_in", **args)


_TIMES = ("computing", "free")
"""Fields of a step that are about equal on ranks with the same work."""


def reasons(
    ranks: Sequence[RankProfile], peers: Sequence[Hashable], blame: Blame, slow: Sequence[bool],
    beside: Sequence[Beside],
) -> list[list[Message]]:  # fmt: skip
    """Why each of ``ranks`` differs from those with the same ``peers``; for ``slow`` ones traces are compared too.

    With traces, the work before each collective that the rank was late for by its own work is compared: kernels, their
    time, and launches that came late with their code lines. Without traces, the times of whole steps are.
    """
    typical = _typical_times(ranks, peers)
    same: dict[Hashable, list[int]] = defaultdict(list)
    for place, key in enumerate(peers):
        same[key].append(place)
    reasons_of = []
    for place, profile in enumerate(ranks):
        texts = (
            _reasons_from_segments(place, ranks, same[peers[place]], blame, beside[place].card) if slow[place] else []
        )
        texts = texts or _reasons_from_steps(profile, typical.get(peers[place], {}))
        told = [row for row in profile.findings if row.id != STILL][:NAMED] if slow[place] else ()
        each = [message("job.why.finding", id=finding.id, gain=finding.gain) for finding in told]
        texts += [message("job.why.told", found=each)] if each else []
        reasons_of.append(texts)
    return reasons_of


def _typical_times(ranks: Sequence[RankProfile], peers: Sequence[Hashable]) -> dict[Hashable, dict[str, float]]:
    """The lower median of the computing and the free time of a step, ns, over the ranks with the same ``peers``."""
    times: dict[Hashable, list[tuple[float, ...]]] = defaultdict(list)
    for profile, key in zip(ranks, peers, strict=True):
        if profile.steps:
            times[key].append(tuple(_mean(profile, name) for name in _TIMES))
    return {
        key: {name: median_low(of_peers) for name, of_peers in zip(_TIMES, zip(*rows, strict=True), strict=True)}
        for key, rows in times.items()
        if len(rows) > 1
    }


def _mean(profile: RankProfile, name: str) -> float:
    return float(sum([getattr(step, name) for step in profile.steps]) / len(profile.steps))


def _reasons_from_steps(profile: RankProfile, usual: dict[str, float]) -> list[Message]:
    if not usual or not profile.steps:
        return []
    least = HARDLY_ANY * _mean(profile, "total")
    more = {name: _mean(profile, name) - time for name, time in usual.items()}
    return [message(f"job.why.{name}", more=time) for name, time in more.items() if time > least]


def _reasons_from_segments(
    place: int, ranks: Sequence[RankProfile], same: list[int], blame: Blame, card: float | None
) -> list[Message]:
    """The work in the steps in which the rank's own work made it late, compared with its median peer."""
    work = ranks[place].work
    others = [other for other in same if other != place and ranks[other].work is not None]
    if work is None or not others:
        return []
    first, own_row = blame.met.table.first, blame.rank == place
    late = np.flatnonzero(own_row & (blame.own > 0) & (blame.call >= 0))
    excess = int(blame.own[late].sum())
    if not excess:
        return []
    # What peers did while they waited for this rank is work of the same step, not of the same segment.
    slow_steps = np.isin(blame.steps[blame.row], blame.steps[blame.row[late]])
    chosen = np.flatnonzero(own_row & (blame.call >= 0) & slow_steps)
    calls, rows = blame.call[chosen] - first[place], blame.row[chosen]

    def excess_over_peers(name: str) -> int:
        mine = getattr(work, name)[calls]
        peers = []
        for other in others:
            call_in = np.full(len(blame), -1)
            theirs = np.flatnonzero((blame.rank == other) & (blame.call >= 0))
            call_in[blame.row[theirs]] = blame.call[theirs] - first[other]
            at = call_in[rows]
            peers.append(np.where(at >= 0, getattr(ranks[other].work, name)[at], mine))
        return int((mine - np.median(np.stack(peers), axis=0)).sum())

    kernels, computing, lost = excess_over_peers("kernels"), excess_over_peers("computing"), excess_over_peers("lost")
    texts = []
    if lost > NOTABLE * excess:
        texts.append(message("job.why.lost", more=lost))
        texts += _slow_lines(ranks[place].lines, [ranks[other].lines for other in others], excess)
    if computing > NOTABLE * excess:
        took, of_peers = int(work.computing[calls].sum()), int(work.computing[calls].sum()) - computing
        slower = took * (int(work.kernels[calls].sum()) - kernels) / max(of_peers * int(work.kernels[calls].sum()), 1)
        if card is not None:
            code, slower = "slower" if card >= SLOW_CARD else "more" if kernels > 0 else "bigger", card
        else:
            code = "slower" if slower >= 1 + LITTLE and kernels <= 0 else "more" if kernels > 0 else "computing"
        texts.append(message(f"job.why.{code}", more=computing, kernels=kernels, times=slower))
    return texts


def _slow_lines(mine: Sequence[WaitedLine], others: Sequence[Sequence[WaitedLine]], excess: int) -> list[Message]:
    """The lines of code for which the device waits longer than on the median peer, longest first."""
    tables = [{(line.file, line.line): line.lost for line in lines} for lines in others]
    rows = []
    for line in mine:
        more = line.lost - median_low([table.get((line.file, line.line), 0) for table in tables])
        if more > NOTABLE * excess:
            rows.append((more, line))
    rows.sort(key=lambda row: -row[0])
    return [message("job.why.line", file=line.file, line=line.line, more=more) for more, line in rows[:NAMED]]
