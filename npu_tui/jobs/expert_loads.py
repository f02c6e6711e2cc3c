"""The experts that ranks of a job wait for, in which MoE layers, what balancing them gains, and the findings of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.analysis.limits import A_PART, ALMOST_ALL, HALF, LITTLE, MAINLY, NOTABLE, PLACES
from npu_tui.jobs.experts import Balance
from npu_tui.jobs.finding import LEAST_SHARE, Held, priced
from npu_tui.jobs.job import Job
from npu_tui.jobs.links import LARGE_MB
from npu_tui.jobs.slowness import Reduction, exposed_transfers
from npu_tui.profile.expert_tables import Loads
from npu_tui.rules.model import Evidence, Finding
from npu_tui.rules.rule import runs_of, severity_of
from npu_tui.trace.arrays import F64, I64, Bools
from npu_tui.trace.message import Message, message


class LayerLoad(Struct, frozen=True):
    """One MoE layer over the whole job, ns: the time of its products on the ``mean`` rank and on the ``slowest``.

    ``slowest`` is the rank that is waited for longest in its ``passes``, ``most`` its time. ``uneven`` is the sum of
    the longest loads over that of the means, ``cost`` how long the group that waits longest waits for the load of its
    slowest ranks; ``by_rank`` of that what each rank (a place in ``Job.ranks``) is waited for.
    """

    layer: int
    passes: int
    mean: float
    slowest: int
    most: int
    uneven: float
    cost: int
    by_rank: I64


def layer_loads(job: Job) -> list[LayerLoad]:
    """Every MoE layer by its number; none where nothing is known of the experts."""
    balance = job.experts
    if balance is None:
        return []
    names = [group for group, _, _ in job.calls.kinds]
    codes = {name: number for number, name in enumerate(dict.fromkeys(names))}
    group_of = np.array([codes[name] for name in names], np.int64)[job.blamed.met.kind[job.blamed.meeting]]
    loads, longest = [], np.zeros(len(balance.cost), np.int64)
    np.maximum.at(longest, balance.row, balance.load)
    for layer in balance.layers:
        own = balance.layer == layer
        rows = np.unique(balance.row[own])
        time = np.bincount(balance.rank[own], balance.work[own], len(job.ranks)).astype(np.int64)
        waited = np.bincount(balance.slowest[rows], balance.cost[rows], len(job.ranks)).astype(np.int64)
        place = int(np.argmax(waited if waited.any() else time))
        loads.append(
            LayerLoad(
                layer,
                len(rows),
                float(time[np.unique(balance.rank[own])].mean()),
                place,
                int(time[place]),
                float(longest[rows].sum() / max(balance.mean[rows].sum(), 1)),
                int(np.bincount(group_of[rows], balance.cost[rows]).max()),
                waited,
            )
        )
    return loads


def excess_of(job: Job, balance: Balance) -> F64:
    """How much longer than the mean of its group each rank computes for the experts of each layer, ns.

    (ranks with files, layers); not-a-number where a rank has no such layer.
    """
    layers = balance.layers
    cell = balance.rank, np.searchsorted(layers, balance.layer)
    values = np.full((len(job.ranks), len(layers)), np.nan)
    values[cell] = 0.0
    np.add.at(values, cell, balance.work - balance.mean[balance.row])
    return values


_UNEVEN, _CHANCE = 1.1, 0.05
"""A layer is loaded evenly, but for chance, if its longest ranks take less than this many times the mean. Among many
ranks the longest is further away: of normal times, by as many standard deviations as the root of twice the
logarithm."""


class Hot(Struct, frozen=True, eq=False):
    """Uneven experts of a job: the ``layers`` in which they are, what balancing them gains, ns, and their ranks.

    ``kind``: one rank is waited for most, several are, each in layers of its own, or they take turns.
    ``ranks`` are places in ``Job.ranks``, the dearest first, ``their`` layers those of the first where it is one.
    ``exchanged`` is what of the gain shorter exchanges are.
    """

    kind: str
    ranks: list[int]
    layers: list[LayerLoad]
    their: list[LayerLoad]
    gain: int
    exchanged: int


def hot_experts(job: Job) -> Hot | None:
    """Which ranks hold experts that the others wait for; None where the experts are even or unknown."""
    balance = job.experts
    every = layer_loads(job)
    layers = [load for load in every if load.uneven >= _UNEVEN and load.cost]
    if balance is None or not layers:
        return None
    # Layers that are nearly even gain nothing but chance, unless all of them are uneven together.
    time = sum(load.mean for load in every)
    told = every if sum(load.uneven * load.mean for load in every) >= _UNEVEN * time else layers
    less = np.zeros(len(job.blamed.row), np.int64)
    some = np.isin(balance.layer, [load.layer for load in told])
    less[balance.arrival[some]] = balance.less[some]
    by_rank = np.sum([load.by_rank for load in layers], axis=0)
    order = np.argsort(-by_rank, kind="stable")
    total = int(by_rank.sum())
    ranks = order[: int(np.searchsorted(np.cumsum(by_rank[order]), ALMOST_ALL * total)) + 1].tolist()
    steady = sum(int(load.by_rank.max()) for load in layers)
    kind = "several" if steady >= HALF * total else "turns"
    met = np.bincount(balance.row, minlength=len(balance.cost))
    chance = 1 + _CHANCE * float(np.sqrt(2 * np.log(max(met.max(), 2))))
    if by_rank[ranks[0]] >= HALF * total:
        kind, ranks = "one", ranks[:1]
    if kind == "turns" and max(load.uneven for load in layers) < chance:
        return None
    own = [load for load in layers if load.slowest == ranks[0]]
    dear = max((load.by_rank[ranks[0]] for load in own), default=0)
    their = [load for load in own if load.by_rank[ranks[0]] >= A_PART * dear]
    sooner = job.savings.reduced_transfers(_moved(job, balance, some, balance.spare, "alltoallv"))
    work = Reduction(less, np.zeros(len(job.blamed.ranks), np.int64))
    gain, alone = job.savings.saved([Reduction(less + sooner.before, sooner.tail), work])
    return Hot(kind, ranks, layers, their, gain, gain - alone)


def _moved(job: Job, balance: Balance, some: Bools, of_rows: F64, kind: str) -> I64:
    """How much shorter exchanges around ``some`` of the layers are without the share ``of_rows``, ns of each arrival.

    Those whose type begins with ``kind`` last as long as the rank with most tokens sends or receives; what the slowest
    transfer over a link does not take of them has nothing to do with tokens, nor has any that is bound by latency.
    """
    uses = [use for each in job.ranks for use in each.links if use.type.lower().startswith(kind) and use.speed > 0]
    longest = max((use.size_mb * 1e6 / use.speed for use in uses if use.size_mb >= LARGE_MB), default=0.0)
    spare = np.zeros(len(job.blamed.row))
    for arrival in (balance.arrival, balance.sent):
        known = some & (arrival >= 0)
        spare[arrival[known]] = of_rows[balance.row[known]]
    spare[~_of_kind(job, kind)] = 0
    moving = exposed_transfers(job.blamed, [profile.busy for profile in job.ranks], spare > 0)
    return (np.minimum(moving, longest) * spare).astype(np.int64)


def _of_kind(job: Job, kind: str) -> Bools:
    """Which arrivals are at a collective whose type begins with ``kind``."""
    kinds = np.array([each.lower().startswith(kind) for _, each, _ in job.calls.kinds] or [False])
    of_arrival: Bools = kinds[job.blamed.met.kind[job.blamed.meeting]][job.blamed.row]
    return of_arrival


class PaddedExperts(Struct, frozen=True):
    """Experts that compute ``rows`` where only ``routed`` ones hold tokens; what the job saves without the rest, ns."""

    rows: int
    routed: int
    gain: int


def padded_experts(job: Job) -> PaddedExperts | None:
    """How far experts are padded to a capacity; None where they are not, or the rows that hold tokens are unknown.

    No rank computes as few rows as a mean one sends. Those that are gathered instead of sent may be on several ranks.
    """
    balance = job.experts
    if balance is None:
        return None
    every = [profile.routed for profile in job.ranks if profile.experts]
    routed, rows = sum(every) / len(every), round(float(balance.tokens.mean()))
    if not all(every) or balance.tokens.min() <= (1 + NOTABLE) * routed:
        return None
    if not balance.padded and not _of_kind(job, "alltoall")[balance.sent[balance.sent >= 0]].all():
        return None
    share = 1 - routed / rows
    less = np.zeros(len(job.blamed.row), np.int64)
    less[balance.arrival] = ((balance.work + balance.beside) * share).astype(np.int64)
    everywhere = np.ones(len(balance.row), np.bool_)
    moved = _moved(job, balance, everywhere, np.full(len(job.blamed), share), "alltoall")
    sooner = job.savings.reduced_transfers(moved)
    return PaddedExperts(rows, round(routed), job.savings.saved([Reduction(less + sooner.before, sooner.tail)])[0])


def explained_by_experts(job: Job) -> frozenset[int]:
    """The ranks whose work above their peers' is mostly that of their experts."""
    balance = job.experts
    if balance is None:
        return frozenset()
    # Work above the mean of the group, which the rank is a part of, as work above that of the others.
    count = np.bincount(balance.row, minlength=len(balance.cost))[balance.row]
    above = np.maximum(balance.less, 0) * count / np.maximum(count - 1, 1)
    more = np.bincount(balance.rank, above, len(job.ranks))
    return frozenset(
        row.rank for row, own in zip(job.sums, more.tolist(), strict=False) if own >= MAINLY * max(row.own, 1)
    )


def described_swaps(loads: Loads, work: Sequence[float] = ()) -> Iterator[Message]:
    """How uneven ``loads`` are, then which swap gains most; ``work`` is that of the mean rank on each layer, us."""
    args: dict[str, object] = {
        "phase": loads.phase, "rank": loads.ranks[0], "count": len(loads.ranks), "layers": len(loads.tokens),
        "uneven": loads.times_mean(loads.of_rank.max(axis=1)),
    }  # fmt: skip
    if len(loads.ranks) < 2:
        yield message("expert_files.one", **args)
        return
    yield message("expert_files.uneven", **args)
    less, mean = loads.of_rank.max(axis=1) - loads.swapped, loads.of_rank.mean(axis=1)
    layer = int(np.argmax(less))
    swap, saves = loads.swaps[layer], loads.saves(work)
    if swap is None:
        yield message("expert_files.even")
    else:
        args |= {
            "layer": layer, "expert": swap.expert, "rank": loads.ranks[swap.place], "other": swap.other_expert,
            "other_rank": loads.ranks[swap.other], "swapped": loads.times_mean(loads.swapped),
            "before": float(loads.of_rank[layer].max() / mean[layer]), "after": swap.most / float(mean[layer]),
        }  # fmt: skip
        yield message("expert_files.swap", **args)
        if saves is not None:
            yield message("expert_files.saves", saves=saves * 1e3)
    if loads.missing:
        yield message("expert_files.missing", count=len(loads.missing))


def evened(loads: Loads) -> float:
    """By how many times the mean of a rank the swaps make the rank with most tokens less."""
    before, after = loads.times_mean(loads.of_rank.max(axis=1)), loads.times_mean(loads.swapped)
    return 0.0 if before is None or after is None else before - after


def layer_works(job: Job) -> list[float]:
    """What the mean rank of ``job`` computes for the experts of each layer in a step, us."""
    return [load.mean / max(len(job.steps), 1) / 1e3 for load in layer_loads(job)]


def expert_findings(job: Job) -> list[Finding]:
    """Experts that get more tokens than others, so that ranks wait for those that hold them."""
    hot = hot_experts(job)
    if hot is None or not job.length or hot.gain < LEAST_SHARE * job.length:
        return []
    steps = max(len(job.steps), 1)
    layers = hot.their if hot.kind == "one" else hot.layers
    ranks = tuple(job.ranks[place].rank for place in hot.ranks)
    args: dict[str, object] = {
        "rank": ranks[0], "ranks": list(ranks[:8]), "count": len(ranks),
        "layers": runs_of([load.layer for load in layers]),
        "waits": sum(load.cost for load in layers) / steps,
        "uneven": max(load.uneven for load in layers),
        "most": sum(load.most for load in layers) / steps, "mean": sum(load.mean for load in layers) / steps,
    }  # fmt: skip
    places = sorted(layers, key=lambda load: -load.cost)[:PLACES]
    evidence = tuple(place for load in places for place in _longest(job, load))
    codes = f"job.experts.{hot.kind}", f"job.experts.{hot.kind}.detail"
    found = priced("EXPERT.LOAD", codes, ranks, hot.gain, Held.of_steps(job.length, job.steps), evidence, **args)
    if hot.exchanged < LITTLE * hot.gain:
        return [found]
    shorter = message("job.experts.exchanged", time=hot.exchanged / steps, **Held.of_steps(job.length, job.steps).words)
    return [replace(found, detail=message("list.sentences", parts=[found.detail, shorter]))]


def padding_findings(job: Job) -> list[Finding]:
    """Experts that compute rows of a capacity which no token fills."""
    padded = padded_experts(job)
    if padded is None or not job.length or padded.gain < LEAST_SHARE * job.length:
        return []
    args = {"rows": padded.rows, "routed": padded.routed, "times": padded.rows / padded.routed}
    codes, ranks = ("job.padded.title", "job.padded.detail"), tuple(each.rank for each in job.ranks if each.experts)
    return [priced("EXPERT.PADDED", codes, ranks, padded.gain, Held.of_steps(job.length, job.steps), **args)]


def swap_findings(job: Job) -> list[Finding]:
    """The dumps of expert loads in which swaps of experts make the ranks most even, where that is notably more."""
    loads = max(job.loads, key=evened, default=None)
    if loads is None or evened(loads) < LITTLE:
        return []
    work = layer_works(job.parts[0])
    title, *detail = described_swaps(loads, work)
    rank, saves = loads.ranks[int(np.argmax(loads.of_rank.sum(axis=0)))], loads.saves(work) if job.length else None
    gain = None if saves is None else round(saves * 1e3 * max(len(job.steps), 1))
    severity = "medium" if gain is None else severity_of(None, gain / job.length)
    told = message("list.sentences", parts=detail)
    return [Finding("EXPERT.SWAP", "compute", severity, title, told, gain_ns=gain, unit="run", ranks=(rank,))]


def _longest(job: Job, load: LayerLoad) -> list[Evidence]:
    """The pass in which the slowest rank of a layer computes longest for its experts."""
    balance = job.experts
    if balance is None:
        return []
    own = np.flatnonzero((balance.layer == load.layer) & (balance.rank == load.slowest))
    longest = own[np.argmax(balance.work[own])]
    return [Evidence(int(balance.start[longest]), int(balance.end[longest]), rank=job.ranks[load.slowest].rank)]
