"""Collectives that cost too much: in one flat ring over hosts, of groups that fit in one host, after one late rank."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median_low

import numpy as np
from msgspec import Struct

from npu_tui.analysis.limits import HALF, SOME
from npu_tui.jobs.finding import Held, noted, priced
from npu_tui.jobs.job import Group, Job
from npu_tui.jobs.links import NETWORK, Link
from npu_tui.jobs.model import Busy, RankProfile
from npu_tui.jobs.slowness import exposed_transfers
from npu_tui.rules.model import Finding
from npu_tui.rules.rule import SEVERITY_MEDIUM
from npu_tui.trace.arrays import I64
from npu_tui.trace.intervals import union
from npu_tui.trace.message import Message, message


class RootRank(Struct, frozen=True):
    """The ``rank`` that alone computes what it broadcasts, mostly such ``kernels``: types, and how long each takes.

    It computes ``time`` longer than the others, which ``waits`` for it in broadcasts; ns over all steps.
    """

    rank: int
    time: int
    waits: int
    kernels: tuple[tuple[str, int], ...]


def _waits(job: Job) -> tuple[int, I64] | None:
    """The place of the rank that waits least in broadcasts, and how much longer each other one does there, ns.

    What a rank computes meanwhile is no wait. None where the ranks do not make equally many.
    """
    table = job.calls
    sent = np.array(["broadcast" in kind.lower() for _, kind, _ in table.kinds] + [False])[table.kind]
    counts = np.bincount(table.rank[sent], minlength=len(job.ranks))
    if len(job.ranks) < 2 or not counts.all() or counts.min() < counts.max():
        return None
    waits = np.zeros((len(job.ranks), int(counts[0])), np.int64)
    begun = np.zeros(waits.shape, np.int64)
    for place, profile in enumerate(job.ranks):
        own = sent & (table.rank == place)
        start, end = table.start[own], table.end[own]
        hidden = 0 if profile.busy is None else profile.busy.until(end) - profile.busy.until(start)
        waits[place], begun[place] = end - start - hidden, start - (profile.recorded or 0)
    place = int(waits.sum(axis=1).argmin())
    # What began before that rank was recorded may have been the start of its profiler.
    waits = waits[:, begun[place] >= waits.max(axis=0)].sum(axis=1)
    return place, np.delete(waits, place) - waits[place]


def root_of(job: Job) -> RootRank | None:
    """The rank whose work the others wait for in broadcasts; None where none has kernels that they have not.

    A rank that sends waits for no other. Ranks that are broadcast the same as they have, such as buffers that all of
    them computed, wait for no other either.
    """
    steps, found = [sum(step.computing for step in each.steps) for each in job.ranks], _waits(job)
    if found is None or not all(steps):
        return None
    place, waits = found[0], median_low(found[1].tolist())
    more, beside = steps[place] - median_low(steps[:place] + steps[place + 1 :]), job.beside[place]
    if beside.other is None or min(more, beside.other) < HALF * waits or waits < HALF * more or more <= 0:
        return None
    kernels = tuple(row for row in beside.more if row[1] >= HALF * beside.more[0][1])
    return RootRank(job.ranks[place].rank, more, waits, kernels)


def late_roots(job: Job, why: Callable[[Job, Sequence[int], int], Message | None]) -> list[Finding]:
    """The rank that comes late with what it broadcasts, though it computes no more; ``why`` says what makes it late.

    No rank waits for one that receives late, so broadcasts are no meetings: here they are those of their root.
    """
    found = _waits(job) if job.length else None
    if found is None:
        return []
    rank, gain = job.ranks[found[0]].rank, int(found[1].min())
    known = next((row.gain or 0 for row in job.sums if row.rank == rank), 0)
    if gain < SEVERITY_MEDIUM.default * job.length or known >= HALF * gain or root_of(job) is not None:
        return []
    by = why(job, (rank,), gain)
    codes = f"job.root.title{'_by' * (by is not None)}", "job.root.detail"
    return [priced("RANK.SLOW", codes, (rank,), gain, Held.of_steps(job.length, job.steps), rank=rank, what=by or "")]


def rooted(root: RootRank, what: Message, share: float, held: Held) -> tuple[Message, Message]:
    """Title and detail of broadcasts of that ``root``: ``what`` they cost, without which that ``share`` is saved."""
    args: dict[str, object] = {"rank": root.rank, "time": held.each(root.time), "waits": held.each(root.waits)}
    args |= {"kernels": [kind for kind, _ in root.kernels], "what": what, "share": share, **held.words}
    parts = [message("job.rooted.detail", **args), message("job.rooted.advice", **args)]
    return message("job.rooted.title", **args), message("list.sentences", parts=parts)


class FlatRing(Struct, frozen=True):
    """A ring of all ``ranks`` over several hosts in collectives of ``type``: each sends everything to the next one.

    With all links of a host at once, and as many rings between the hosts as each has ranks, a collective takes the
    share ``keep`` of its time.
    """

    ranks: tuple[int, ...]
    type: str
    keep: float


def flat_rings(links: Iterable[Link], hosts: Iterable[Sequence[int]]) -> list[FlatRing]:
    """The rings in which the ranks of ``hosts`` use one link each, though others of their host have links too.

    One with a slow link is none of them: its times are those of that link, and it is the link that must be mended.
    """
    host_of = {rank: number for number, ranks in enumerate(hosts) for rank in ranks}
    by_type: dict[str, list[Link]] = defaultdict(list)
    for link in links:
        by_type[link.type].append(link)
    rings = []
    for kind, used in sorted(by_type.items()):
        following: dict[int, set[int]] = defaultdict(set)
        links_from: dict[int, list[Link]] = defaultdict(list)
        for link in used:
            following[link.source].add(link.target)
            links_from[link.source].append(link)
        left = set(following)
        while left:
            start = at = min(left)
            ring = []
            while at in left and len(following[at]) == 1:
                left.remove(at)
                ring.append(at)
                (at,) = following[at]
            left.discard(start)
            inside, between = list[float](), list[float]()
            along = [link for rank in ring for link in links_from[rank]]
            for link in along:
                (inside if host_of.get(link.source) == host_of.get(link.target) else between).append(link.speed)
            count = len({host_of.get(rank) for rank in ring})
            of_host = len(ring) // max(count, 1)
            healthy = all(link.verdict == "as_others" for link in along)
            if at == start and healthy and of_host >= SOME and inside and between:
                fast, far = float(np.median(inside)), float(np.median(between))
                # Of S bytes each link of a host moves S / ranks of it, those between hosts what each rank has of them.
                share = (1 / of_host / fast + (count - 1) / len(ring) / far) * min(fast, far)
                rings.append(FlatRing(tuple(sorted(ring)), kind, share / (1 - 1 / len(ring))))
    return rings


def ring_findings(job: Job) -> list[Finding]:
    """Collectives over several hosts whose ranks all send through one link, while the others of their host are idle."""
    findings, held = [], Held.of_steps(job.length, job.steps)
    for ring in flat_rings(job.links, [host.ranks for host in job.hosts]):
        gain = min(in_less(job, ring.ranks, ring.type, ring.keep), _most_saved(job))
        if not job.length or gain < SEVERITY_MEDIUM.default * job.length:
            continue
        hosts = sum(not {*host.ranks}.isdisjoint(ring.ranks) for host in job.hosts)
        args: dict[str, object] = {
            "type": ring.type,
            "count": len(ring.ranks),
            "hosts": hosts,
            "keep": ring.keep,
            "gain": held.each(gain),
        }
        codes = "job.ring.title", "job.ring.detail"
        findings.append(priced("LINK.RING", codes, ring.ranks, gain, held, **args))
    return findings


def in_less(job: Job, ranks: Sequence[int], kind: str, keep: float) -> int:
    """What the job saves where collectives of ``kind`` over all ``ranks`` move their data in ``keep`` of the time, ns.

    What a rank computes meanwhile hides as much of a shorter one.
    """
    groups = {group.name for group in job.groups if {*ranks} <= {*group.ranks}}
    return _transfers_saved(job, {(group, kind): keep for group in groups})


def _most_saved(job: Job) -> int:
    """The most that shorter transfers save, ns: the exposed communication of the rank with least; 0 where unknown."""
    return min((sum(step.exposed for step in each.steps) for each in job.ranks if each.steps), default=0)


def _transfers_saved(job: Job, keep: Mapping[tuple[str, str], float]) -> int:
    """What the job saves where collectives of a (group, type) move their data in ``keep`` of the time, ns.

    For those that take longer, what goes along with computing, or with collectives that take less, is hidden as now.
    """
    blame = job.blamed
    spare = np.array([1 - keep.get((group, kind), 1.0) for group, kind, _ in blame.met.table.kinds] or [0.0])
    of_arrival = spare[blame.met.kind[blame.meeting]][blame.row]
    busy = [profile.busy for profile in job.ranks]
    less = exposed_transfers(blame, (), of_arrival > 0) * of_arrival
    less = np.minimum(less, exposed_transfers(blame, busy, of_arrival > 0))
    more = exposed_transfers(blame, [_with_calls(each, keep) for each in job.ranks], of_arrival < 0) * of_arrival
    moved = np.where(of_arrival < 0, more, less)
    return job.savings.saved([job.savings.reduced_transfers(moved.astype(np.int64))])[0]


def _with_calls(profile: RankProfile, keep: Mapping[tuple[str, str], float]) -> Busy | None:
    """When the device computes in its collectives, or makes one of those that ``keep`` less than their time."""
    if profile.busy is None:
        return None
    calls = profile.calls
    own = np.array([keep.get((group, kind), 1.0) < 1 for group, kind, _ in calls.kinds] or [False])[calls.kind]
    both = (profile.busy.start, calls.start[own]), (profile.busy.end, calls.end[own])
    start, end = map(np.concatenate, both)
    return Busy(*union(start, end))


class _Carried(Struct, frozen=True):
    """What the collectives of one type of a group move: MB over each link, GB/s, to another host and within one."""

    far: float
    far_speed: float
    near: float
    near_speed: float

    def time(self, kind: str) -> float:
        """How long links move data for the largest of them, ms: hosts first and then between them, but tokens at once.

        In two phases each link of a mesh moves S / ranks: now of the ranks of a host, then of all of them.
        """
        both = [size / speed for size, speed in ((self.far, self.far_speed), (self.near, self.near_speed)) if size]
        return max(both, default=0.0) if is_exchange(kind) else sum(both)

    def within(self, kind: str, hosts: int, ranks: int) -> float:
        """MB over each link of a mesh within one host."""
        if is_exchange(kind):
            return max(self.far, self.near)
        # Without any link within a host a ring over the hosts moves all but one part of S.
        return self.near / hosts if self.near else self.far / (hosts - 1) * hosts / ranks


def is_exchange(kind: str) -> bool:
    """Whether each rank has data of its own for each other one."""
    return kind.lower().startswith("alltoall")


def spread_findings(job: Job) -> list[Finding]:
    """Groups that send over the network though nothing hides it: of tensors, and those that exchange tokens."""
    host_of = {rank: number for number, host in enumerate(job.hosts) if host.known for rank in host.ranks}
    types: dict[str, set[str]] = defaultdict(set)
    for called, kind, _ in job.calls.kinds:
        types[called].add(kind)
    spread = {"tensor": list[Group](), "experts": list[Group]()}
    for group in job.groups if job.length else ():
        of_host = Counter(host_of.get(rank, -1) for rank in group.ranks)
        exchanges = any(map(is_exchange, types[group.name]))
        # Of more ranks than a host has, some are always on another one.
        fits = len(group.ranks) <= min(len(job.hosts[host].ranks) for host in of_host) if -1 not in of_host else False
        if len(of_host) > 1 and -1 not in of_host and (group.kind == "tp" or (exchanges and fits)):
            spread["tensor" if group.kind == "tp" else "experts"].append(group)
    return [found for name, groups in spread.items() for found in _spread_finding(job, name, groups, host_of)]


def _spread_finding(job: Job, name: str, every: Sequence[Group], host_of: Mapping[int, int]) -> list[Finding]:
    """What the groups ``every`` would gain within one host each, and the others lose by it."""
    own = [link.speed for link in job.links if host_of.get(link.source, -1) == host_of.get(link.target, -2)]
    keep: dict[tuple[str, str], float] = {}
    spread, told = list[Group](), [0.0, 0.0]  # the speeds of the first one
    for group in every:
        carried = {kind: each for kind, each in _carried(job, group, host_of).items() if each.far}
        hosts = len({host_of[rank] for rank in group.ranks})
        if not carried:
            continue
        spread.append(group)
        for kind, moved in carried.items() if own else ():
            near_speed = moved.near_speed or float(np.median(own))
            alone = moved.within(kind, hosts, len(group.ranks)) / near_speed
            # What links do not explain of a collective within a host, else of this one, stays.
            taken = _longest(job, group, kind)
            beside = _beside_links(job, kind, host_of) or (taken / moved.time(kind) if taken else 1.0)
            keep[group.name, kind] = alone * beside / (taken or moved.time(kind))
            told = told if any(told) else [moved.far_speed, near_speed]
    if not spread:
        return []
    first, held = spread[0], Held.of_steps(job.length, job.steps)
    args: dict[str, object] = {"ranks": [*first.ranks[:8]], "count": len(spread)}
    args |= {"hosts": len({host_of[rank] for rank in first.ranks}), "speed": told[0], "usual": told[1]}
    args["of_what"] = message(f"job.spread.{name}")
    ranks = tuple(sorted({rank for group in spread for rank in group.ranks}))
    if not keep:
        if name != "tensor":
            return []
        return [noted("GROUP.HOSTS", ("job.spread.bare", "job.spread.unpriced"), ranks, "medium", **args)]
    gain = min(_transfers_saved(job, keep | _longer(job, spread, host_of, told[1] / told[0])), _most_saved(job))
    if gain < SEVERITY_MEDIUM.default * job.length:
        return []
    return [priced("GROUP.HOSTS", ("job.spread.title", "job.spread.detail"), ranks, gain, held, **args)]


def _carried(job: Job, group: Group, host_of: Mapping[int, int]) -> dict[str, _Carried]:
    """What ``group`` moves over the network and within hosts, by the type of its collectives."""
    links = [link for link in job.links if link.source in group.ranks and link.target in group.ranks]
    carried = {}
    for kind in {kind for name, kind, _ in job.calls.kinds if name == group.name}:
        same = [link for link in links if link.type == kind]
        far = [link for link in same if host_of[link.source] != host_of[link.target] and link.transport == NETWORK]
        near = [link for link in same if host_of[link.source] == host_of[link.target]]
        ends = [(max(link.size_mb for link in each), float(np.median([link.speed for link in each]))) if each
                else (0.0, 0.0) for each in (far, near)]  # fmt: skip
        carried[kind] = _Carried(*ends[0], *ends[1])
    return carried


def _longest(job: Job, group: Group, kind: str) -> float:
    """How long the longer ones of the collectives of ``kind`` take that ``group`` makes, ms, once all ranks came."""
    blame = job.blamed
    kinds = np.array([(name, each) == (group.name, kind) for name, each, _ in blame.met.table.kinds] + [False])
    took = blame.transfer[kinds[blame.met.kind[blame.meeting]]]
    return float(np.median(took[took >= HALF * np.percentile(took, 90)])) / 1e6 if took.any() else 0.0


def _beside_links(job: Job, kind: str, host_of: Mapping[int, int]) -> float:
    """How many times as long as their links move data collectives of ``kind`` within one host take; 0 if unknown."""
    times = []
    for group in job.groups:
        if len({host_of.get(rank, -1) for rank in group.ranks}) == 1 and len(group.ranks) > 1:
            moved, took = _carried(job, group, host_of).get(kind), _longest(job, group, kind)
            if moved is not None and moved.near and took:
                times.append(took / moved.time(kind))
    return max(float(np.median(times)), 1.0) if times else 0.0


def _longer(
    job: Job, spread: Sequence[Group], host_of: Mapping[int, int], times: float
) -> dict[tuple[str, str], float]:
    """How many times as long the groups that share a host now take if those ``spread`` do, by (group, type).

    Each group has one rank on a host then, so that the ranks of other groups are on several. The network is so many
    ``times`` as slow as a link. Transfers within hosts and between them go at once, which is the best of HCCL.
    """
    size, longer = len(spread[0].ranks), {}
    for group in job.groups:
        hosts = {host_of.get(rank, -1) for rank in group.ranks}
        if len(hosts) > 1 or group.name in {each.name for each in spread} or -1 in hosts:
            continue
        count, here = len(group.ranks), max(len(job.hosts[min(hosts)].ranks) // size, 1)
        if here >= count:
            continue
        for kind in {kind for name, kind, _ in job.calls.kinds if name == group.name}:
            if is_exchange(kind):
                longer[group.name, kind] = max((count - here) * times, 1.0)
            else:
                between = (1 - here / count) * times
                longer[group.name, kind] = count / here * max(here > 1, between)
    return longer
