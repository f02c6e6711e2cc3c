"""The ranks of a job from what a cluster analysis left of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from npu_tui.jobs.job import Job
from npu_tui.jobs.model import (
    CLUSTER,
    NO_ORDINAL,
    NO_PAIR,
    LinkUse,
    RankCalls,
    RankProfile,
    is_message,
    pair_of,
)
from npu_tui.jobs.rank_files import call_name, steps_of
from npu_tui.load.cluster import MOST_RANKS, Cluster, ClusterCall, read_cluster
from npu_tui.load.errors import InputError
from npu_tui.trace.message import message

_LOCAL = "LOCAL"

_Peers = dict[tuple[str, str, str], set[tuple[int, int]]]
"""The pairs of ranks between which bytes went in (step, group, collective)."""


def cluster_job(folder: Path) -> Job:
    """The job whose cluster analysis wrote ``folder``. Raises ``InputError`` where it tells of no rank."""
    cluster = read_cluster(folder)
    ranks = cluster.ranks
    if not ranks:
        raise InputError(message("input.no_rank", path=str(folder), files=sorted(cluster.states)))
    broken = [
        message(f"job.cluster.{state}", file=name)
        for name, state in cluster.states.items()
        if state in ("unreadable", "cut_off")
    ]
    if len(cluster.steps) == MOST_RANKS:
        broken.append(message("job.cluster.ranks", most=MOST_RANKS))
    peers: _Peers = defaultdict(set)
    links: dict[int, list[LinkUse]] = defaultdict(list)
    for step, name, group, use in _links(cluster):
        links[use.source].append(use)
        if is_message(use.type):
            peers[step, group, name].add((use.source, use.target))
    groups: dict[int, dict[str, tuple[int, ...]]] = defaultdict(dict)
    for name, key, members in cluster.groups:
        for rank in members:
            of_rank = groups[rank]
            of_rank[name if name and name not in of_rank else key] = members
    profiles = [
        RankProfile(
            rank,
            folder,
            CLUSTER,
            host_name=cluster.hosts.get(rank, ""),
            groups=groups[rank],
            calls=_calls(cluster.calls[rank], rank, peers),
            steps=tuple(
                steps_of((row.step, row.bubble, (row.computing, row.exposed, row.free)) for row in cluster.steps[rank])
            ),
            links=tuple(links[rank]),
            stage=cluster.stages.get(rank),
        )
        for rank in ranks
    ]
    return Job(folder, profiles, broken)


def _links(cluster: Cluster) -> Iterator[tuple[str, str, str, LinkUse]]:
    """Step, name, group and use of every link between two ranks."""
    for link in cluster.links:
        size, speed = link.size or 0.0, link.speed or 0.0
        if link.transport != _LOCAL and link.source != link.target and size > 0 and speed > 0:
            kind = call_name(link.operation)[0]
            yield (
                link.step,
                link.operation,
                link.group,
                LinkUse(link.source, link.target, link.transport, kind, size, speed),
            )


def _calls(calls: list[ClusterCall], rank: int, peers: _Peers) -> RankCalls:
    """The collectives of ``rank``; a message is between it and the one rank that ``peers`` tells of.

    Where ``peers`` tells of any message, one without ends is left out: two ranks that send to others do not meet.
    """
    kinds, ordinals, pairs, kept = [], [], [], []
    for call in calls:
        kind, suffix, ordinal = call_name(call.name)
        ends = [pair for pair in peers.get((call.step, call.group, call.name), ()) if rank in pair]
        if peers and is_message(kind) and len(ends) != 1:
            continue
        kept.append(call)
        kinds.append((call.group or suffix, kind, call.step))
        ordinals.append(NO_ORDINAL if ordinal is None else ordinal)
        pairs.append(pair_of(*ends[0]) if len(ends) == 1 else NO_PAIR)
    names = [call.name for call in kept]
    return RankCalls.sorted(names, kinds, ordinals, [call.start for call in kept], [call.end for call in kept], pairs)
