"""A folder of profiles, of summaries of them, or of what a cluster analysis left, to a job."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from npu_tui.jobs.job import Job
from npu_tui.jobs.kept import cluster_of, is_kept, is_of_experts, summaries_in
from npu_tui.jobs.meetings import placed
from npu_tui.jobs.model import (
    NO_ORDINAL,
    NO_PAIR,
    LinkUse,
    RankCalls,
    RankProfile,
    is_message,
    pair_of,
)
from npu_tui.jobs.rank_files import call_name, companion_rank, companion_steps
from npu_tui.jobs.role_steps import named_hosts, steps_joined, with_stints, without_peers
from npu_tui.jobs.summary import read_summaries
from npu_tui.load.cluster import MOST_RANKS, Cluster, ClusterCall, read_cluster
from npu_tui.load.companions import companions_of
from npu_tui.load.errors import InputError, walled
from npu_tui.load.find import Source, find_sources, unparsed_in
from npu_tui.load.format import Survey
from npu_tui.load.raw import is_raw
from npu_tui.load.roles import RolePlaces, empty_below
from npu_tui.trace.message import Message, message
from npu_tui.trace.recorder import CLUSTER, EXPERTS


def _expert_job(path: Path, survey: Survey) -> Job:
    """The ranks that dumps or placements at ``path`` are about. Raises ``InputError`` where none can be read."""
    job = Job(path, [], survey=survey)
    files = job.expert_files
    ranks = {dump.rank for dump in files.dumps} or {rank for one in files.placements for rank in one.devices}
    if not ranks:
        raise InputError(files.problems[0])
    job.ranks = placed([RankProfile(rank, path, EXPERTS.kind) for rank in sorted(ranks)])
    return job


BY_THEMSELVES = 8
"""Ranks up to which traces are read without being asked for."""

SMALL = 256 << 20
"""Bytes of all traces together up to which that holds."""

_PROBED = 16 << 20  # bytes of the first trace up to which it is asked for roles that no folder names

UNKNOWN = -1
"""Stands for the rank of a profile that does not say it."""

# In the name of a trace of PyTorch that holds the host side of an engine only, beside those of its ranks.
_OF_THE_ENGINE = "async_llm"

Progress = Callable[[int, int], None]
"""Told how many ranks of how many are read."""


def open_job(
    path: Path,
    traces: bool | None = None,
    progress: Progress | None = None,
    beside_only: bool = False,
    survey: Survey | None = None,
) -> Job:
    """The job of all profiles at or below ``path``, or what ``is_kept`` without them.

    Files beside the traces come first; the traces are read too if ``traces`` says so, or, where it is None, if they are
    few and small. With ``beside_only`` no trace is read, whatever the files beside it hold. Raises ``InputError`` if
    nothing is there, or nothing of it can be read.
    """
    survey = survey or Survey()
    summaries = summaries_in(path, survey)
    if summaries:
        profiles, reasons = read_summaries(summaries)
        if not profiles and reasons:
            raise InputError(reasons[0])
        return job_of(path, profiles, reasons)
    if (folder := cluster_of(path, survey)) is not None:
        return cluster_job(folder)
    if is_of_experts(path, survey):
        return _expert_job(path, survey)
    sources = find_sources(path, survey)
    ignored = [source for source in sources if _OF_THE_ENGINE in source.path.name] if len(sources) > 1 else []
    sources = [source for source in sources if source not in ignored] or sources
    if traces is None:
        traces = reads_traces(sources)
    ranks: list[RankProfile] = []
    light = None if not traces and _bytes_of(sources) <= SMALL else False
    broken = []
    places = RolePlaces(survey)
    for number, source in enumerate(sources, 1):
        if progress is not None:
            progress(number, len(sources))
        try:
            with walled(source.opened):
                # The first profile shows whether all stages of a process are in one.
                probed = number == 1 and _bytes_of([source]) <= _PROBED if not ranks else bool(ranks[0].stints)
                stints = True if light is None and probed else light
                ranks.append(read_rank(source, traces and not beside_only, beside_only, places, stints))
        except InputError as error:
            broken.append((source, error))
    if not ranks:
        raise broken[0][1]
    unread = [message("job.broken", path=str(source.opened), why=error.message) for source, error in broken]
    unread += [message("job.of_engine", path=str(source.path)) for source in ignored]
    if (unparsed := unparsed_in(path, sources, survey)) is not None:
        unread.append(unparsed)
    if path.is_dir():
        used = [file for source in (*sources, *ignored) for file in (source.path, *source.files)]
        empty = empty_below(path, used, survey)
        unread += [message("job.empty", path=place) for place in empty if not is_raw(Path(place), survey)]
    return job_of(path, ranks, unread, survey)


def open_steps(path: Path, progress: Progress | None = None) -> Job:
    """The job at ``path`` with the steps of its ranks: by the files beside the traces, which are read where those lack.

    Raises ``InputError`` as ``open_job`` does.
    """
    survey = Survey()
    job = open_job(path, progress=progress, beside_only=True, survey=survey)
    bare = any(profile.has_trace and not profile.steps for profile in job.ranks) and not is_kept(path, survey)
    return open_job(path, True, progress, survey=survey) if bare else job


def job_of(
    path: Path, profiles: Sequence[RankProfile], broken: Sequence[Message] = (), survey: Survey | None = None
) -> Job:
    """The job of ``profiles``, whose ranks are those of each role."""
    by_role: dict[str, list[RankProfile]] = defaultdict(list)
    for profile in named_hosts(profiles):
        by_role[profile.role].append(profile)
    if len(by_role) < 2:
        return _job_of_one(path, profiles, broken, survey)
    parts = [_job_of_one(path, by_role[role], survey=survey) for role in sorted(by_role)]
    told = [*broken, *(reason for part in parts for reason in part.broken)]
    ranks = [without_peers(profile) for part in parts for profile in part.ranks]
    return Job(path, ranks, told, parts=parts, survey=survey)


def _job_of_one(
    path: Path, profiles: Sequence[RankProfile], broken: Sequence[Message] = (), survey: Survey | None = None
) -> Job:
    """The job of ``profiles`` of one role: one of each rank; those of unknown rank get free numbers."""
    profiles, reasons = steps_joined(profiles), list(broken)
    by_rank: dict[int, RankProfile] = {}
    same: dict[int, list[RankProfile]] = defaultdict(list)
    for profile in profiles:
        same[profile.rank].append(profile)
    unknown = same.pop(UNKNOWN, [])
    twice = any(len(profiles_of) > 1 for profiles_of in same.values())
    meets = Counter(group for profile in profiles if twice for group in _groups_of(profile))
    for rank, profiles_of in same.items():
        chosen = max(profiles_of, key=lambda profile: _company(profile, meets))
        by_rank[rank] = chosen
        reasons += [
            message("job.twice", rank=rank, path=str(other.path)) for other in profiles_of if other is not chosen
        ]
    for profile in unknown:
        rank = max(by_rank, default=-1) + 1
        by_rank[rank] = replace(profile, rank=rank)
        if len(profiles) > 1:
            reasons.append(message("job.unnumbered", path=str(profile.path), rank=rank))
    return _since_all_record(Job(path, [by_rank[rank] for rank in sorted(by_rank)], reasons, survey=survey))


def _since_all_record(job: Job) -> Job:
    """``job`` with steps that leave out what ranks waited for one that did not record yet."""
    if all(profile.recorded is None for profile in job.ranks) or not job.skewed.any():
        return job
    every, waited = job.all_blamed, defaultdict[tuple[int, str], int](int)
    for row in np.flatnonzero(job.skewed[every.row]).tolist():
        meeting, rank = int(every.row[row]), int(every.rank[row])
        if rank < len(job.ranks):
            step = every.met.table.kinds[every.met.kind[every.meeting[meeting]]][2]
            waited[rank, step] += int(every.come[meeting] - every.start[row])
    ranks = [
        replace(profile, steps=tuple(step.without(waited[place, step.step]) for step in profile.steps))
        for place, profile in enumerate(job.ranks)
    ]
    return Job(job.path, ranks, job.broken, survey=job.survey)


def _company(profile: RankProfile, meets: Counter[str]) -> tuple[int, int]:
    """How many profiles share a group with ``profile``, and its first call, ns.

    For two profiles of one rank they decide which belongs to the job.
    """
    return sum(meets[group] for group in _groups_of(profile)), profile.calls[0].start if len(profile.calls) else 0


def _groups_of(profile: RankProfile) -> set[str]:
    return {group for group, _, _ in profile.calls.kinds}


def reads_traces(sources: Sequence[Source]) -> bool:
    """Whether the traces are so few and small that they are read without being asked for."""
    if len(sources) > BY_THEMSELVES:
        return False
    return _bytes_of(sources) <= SMALL


def _bytes_of(sources: Sequence[Source]) -> int:
    """Bytes of all traces of ``sources``; none where one of them is gone, which is reported when it is read."""
    try:
        return sum(file.stat().st_size for source in sources for file in source.files)
    except OSError:
        return 0


def read_rank(
    source: Source,
    traces: bool,
    beside_only: bool = False,
    places: RolePlaces | None = None,
    stints: bool | None = None,
) -> RankProfile:
    """What the profile of one rank says, ``UNKNOWN`` for its rank where it does not say that.

    The trace is read too if ``traces`` says so, or, unless ``beside_only``, if nothing beside it has its collectives.
    Else it is asked only when the rank worked as which role: with ``stints``, or, where that is None, in a role. Raises
    ``InputError``.
    """
    rank = UNKNOWN if source.rank is None else source.rank
    profile = companion_rank(source, companions_of(source), rank, places)
    if source.kind == "companions" and not profile.steps:
        from npu_tui.jobs.rank_trace import with_kernels  # few ranks have kernels only

        profile = with_kernels(profile, source)
    if source.kind == "companions" and traces and not beside_only:
        from npu_tui.jobs.rank_trace import with_passes  # as above

        return with_passes(profile, source)
    if source.kind == "companions" or beside_only:
        return profile
    if not traces and profile.calls:
        if stints or (stints is None and profile.role):
            return with_stints(profile, source)
        return profile
    from npu_tui.jobs.rank_trace import with_trace  # most of a large job is read without traces

    return with_trace(profile, source, traces or not profile.role)


_LOCAL = "LOCAL"

_Peers = dict[tuple[str, str, str], set[tuple[int, int]]]
"""The pairs of ranks between which bytes went in (step, group, collective)."""


def cluster_job(folder: Path) -> Job:
    """The job whose cluster analysis wrote ``folder``. Raises ``InputError`` where it has no rank."""
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
    for step, name, group, use in _cluster_rank_links(cluster):
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
            CLUSTER.kind,
            host_name=cluster.hosts.get(rank, ""),
            groups=groups[rank],
            calls=_cluster_rank_calls(cluster.calls[rank], rank, peers),
            steps=tuple(
                companion_steps(
                    (row.step, row.bubble, (row.computing, row.exposed, row.free)) for row in cluster.steps[rank]
                )
            ),
            links=tuple(links[rank]),
            stage=cluster.stages.get(rank),
        )
        for rank in ranks
    ]
    return Job(folder, profiles, broken)


def _cluster_rank_links(cluster: Cluster) -> Iterator[tuple[str, str, str, LinkUse]]:
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


def _cluster_rank_calls(calls: list[ClusterCall], rank: int, peers: _Peers) -> RankCalls:
    """The collectives of ``rank``; a message is between it and the one rank in ``peers``.

    Where ``peers`` has any message, one without ends is left out: two ranks that send to others do not meet.
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
