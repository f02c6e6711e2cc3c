"""Collectives over several hosts that need not be: in one flat ring, or of tensor groups, and what they cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from msgspec import Struct

from npu_tui.jobs.finding import Held, noted, priced
from npu_tui.jobs.job import Group, Job
from npu_tui.jobs.links import Link
from npu_tui.jobs.slowness import exposed_transfers
from npu_tui.rules.model import Finding
from npu_tui.rules.rule import SEVERITY_MEDIUM


class FlatRing(Struct, frozen=True):
    """A ring of all ``ranks`` over several hosts in collectives of ``type``: each sends everything to the next one.

    With all links of a host at once, and as many rings between the hosts as each has ranks, a collective takes the
    share ``keep`` of its time.
    """

    ranks: tuple[int, ...]
    type: str
    keep: float


_FEWEST_IN_HOST = 3
"""Ranks of a host from which links of them are idle in a ring."""


def flat_rings(links: Iterable[Link], hosts: Iterable[Sequence[int]]) -> list[FlatRing]:
    """The rings in which the ranks of ``hosts`` use one link each, though others of their host have links too."""
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
            for link in (link for rank in ring for link in links_from[rank]):
                (inside if host_of.get(link.source) == host_of.get(link.target) else between).append(link.speed)
            count = len({host_of.get(rank) for rank in ring})
            of_host = len(ring) // max(count, 1)
            if at == start and of_host >= _FEWEST_IN_HOST and inside and between:
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
    """What the job saves where collectives of a (group, type) move their data in ``keep`` of the time, ns."""
    blame = job.blamed
    spare = np.array([1 - keep.get((group, kind), 1.0) for group, kind, _ in blame.met.table.kinds] or [0.0]).clip(0)
    of_arrival = spare[blame.met.kind[blame.meeting]][blame.row]
    bare = exposed_transfers(blame, [profile.busy for profile in job.ranks], of_arrival > 0)
    moved = np.minimum(exposed_transfers(blame, (), of_arrival > 0) * of_arrival, bare)
    return job.savings.saved([job.savings.reduced_transfers(moved.astype(np.int64))])[0]


def spread_findings(job: Job) -> list[Finding]:
    """Tensor groups whose ranks send over the network: nothing hides what each layer sends there."""
    host_of = {rank: number for number, host in enumerate(job.hosts) if host.known for rank in host.ranks}
    own = [link.speed for link in job.links if host_of.get(link.source, -1) == host_of.get(link.target, -2)]
    keep: dict[tuple[str, str], float] = {}
    spread, told = list[Group](), [0.0, 0.0]  # the speeds of the first one
    links_from: dict[int, list[Link]] = defaultdict(list)
    for link in job.links:
        links_from[link.source].append(link)
    for group in job.groups if job.length else ():
        if group.kind != "tp" or not host_of.keys() >= {*group.ranks}:
            continue
        hosts, members = len({host_of[rank] for rank in group.ranks}), {*group.ranks}
        links = [link for rank in sorted(members) for link in links_from[rank] if link.target in members]
        network = [link for link in links if host_of[link.source] != host_of[link.target] and link.transport == "RDMA"]
        if not network:
            continue
        spread.append(group)
        for kind in {link.type for link in network} if own else ():
            far = [link for link in network if link.type == kind]
            near = [link for link in links if link.type == kind and host_of[link.source] == host_of[link.target]]
            speeds = [float(np.median([link.speed for link in each] or own)) for each in (far, near)]
            sizes = [max((link.size_mb for link in each), default=0.0) for each in (far, near)]
            # In two phases each link of a mesh moves S / ranks: now of the ranks of a host, then of all of them.
            # Without any in a host a ring over the hosts moves all but one part of S.
            alone = sizes[1] / hosts if near else sizes[0] / (hosts - 1) * hosts / len(group.ranks)
            keep[group.name, kind] = alone / speeds[1] / (sizes[0] / speeds[0] + sizes[1] / speeds[1])
            told = told if any(told) else speeds
    if not spread:
        return []
    first, held = spread[0], Held.of_steps(job.length, job.steps)
    gain = min(_transfers_saved(job, keep), _most_saved(job))
    args: dict[str, object] = {"ranks": [*first.ranks[:8]], "count": len(spread)}
    args |= {"hosts": len({host_of[rank] for rank in first.ranks}), "speed": told[0], "usual": told[1]}
    ranks = tuple(sorted({rank for group in spread for rank in group.ranks}))
    if not keep:
        return [noted("GROUP.HOSTS", ("job.spread.bare", "job.spread.unpriced"), ranks, "medium", **args)]
    if gain < SEVERITY_MEDIUM.default * job.length:
        return []
    return [priced("GROUP.HOSTS", ("job.spread.title", "job.spread.detail"), ranks, gain, held, **args)]
