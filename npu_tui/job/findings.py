"""What is wrong with a job as a whole: slow ranks, stages, hosts, links, clocks, and ranks that are missing."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from statistics import median
from typing import Literal

from npu_tui.job.job import Job
from npu_tui.trace.message import Message, message

Severity = Literal["high", "medium", "low", "info"]
Shape = Literal["always", "stage", "host", "wandering", "once"]

_HIGH, _MEDIUM, _LOW = 0.10, 0.03, 0.01
"""Shares of the job's time that a cause must cost to be told with that severity."""

_ALWAYS = 0.8
"""Share of the steps in which a rank must be the slowest by its own work to be so always."""

_ENOUGH_STEPS = 4
_STAGE = 1.15
"""A stage that computes this many times as long as the fastest one holds up the pipeline."""

_DRIFT = 1e-5


@dataclass(frozen=True, slots=True)
class Evidence:
    """Where it shows: a rank, and the time on its own device clock, ns since 1970."""

    rank: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class JobFinding:
    """One thing that is wrong; ``gain`` is what the job would save, ns, None where nothing is replayed."""

    id: str
    severity: Severity
    title: Message
    detail: Message
    ranks: tuple[int, ...]
    gain: int | None
    evidence: tuple[Evidence, ...] = ()


def job_findings(job: Job) -> list[JobFinding]:
    """Everything, the dearest first; what only limits the report comes last."""
    found = [*_stages(job), *_slow_ranks(job), *_wandering(job), *_links(job)]
    found.sort(key=lambda finding: -(finding.gain or 0))
    return [*found, *_missing(job), *_clocks(job), *_sizes(job)]


def shapes(job: Job) -> dict[int, Shape]:
    """How each rank with own excess is slow: always, with its host, in changing turns, or once."""
    slowest = _slowest_by_step(job)
    found: dict[int, Shape] = {}
    if len(slowest) < _ENOUGH_STEPS:
        return dict.fromkeys(slowest.values(), "once") if len(slowest) == 1 else {}
    counts = Counter(slowest.values())
    for rank, count in counts.items():
        found[rank] = "always" if count >= _ALWAYS * len(slowest) else "wandering" if len(counts) > 2 else "once"
    for host in job.hosts:
        share = sum(counts[rank] for rank in host.ranks) / len(slowest)
        if len(job.hosts) > 1 and len(host.ranks) > 1 and share >= _ALWAYS and "always" not in found.values():
            found |= {rank: "host" for rank in host.ranks if rank in counts}
    return found


def _slowest_by_step(job: Job) -> dict[str, int]:
    """The rank with the most own excess in every step in which that is worth telling."""
    rows: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for (rank, step), (own, _) in job.by_step.items():
        rows[step].append((own, rank))
    least = _LOW * job.length / max(len(rows), 1)
    return {step: rank for step, (own, rank) in ((step, max(row)) for step, row in rows.items()) if own >= least}


def _severity(share: float) -> Severity:
    return "high" if share >= _HIGH else "medium" if share >= _MEDIUM else "low"


def _slow_ranks(job: Job) -> list[JobFinding]:
    found, shape = [], shapes(job)
    there = {profile.rank for profile in job.ranks}
    for own in job.sums:
        gain = own.gain or 0
        if not job.length or gain < _LOW * job.length or shape.get(own.rank) == "wandering":
            continue
        args: dict[str, object] = {"rank": own.rank, "gain": gain, "own": own.own, "cost": own.cost}
        args |= {"last": own.came_last, "count": own.collectives}
        kind = shape.get(own.rank, "once") if own.rank in there else "outside"
        steps = sum(rank == own.rank for rank in _slowest_by_step(job).values())
        title = message("job.late.title" if kind == "outside" else "job.slow.title", share=gain / job.length, **args)
        detail = message(f"job.slow.{kind}", steps=steps, all=len(job.steps), **args)
        evidence = _evidence(job, own.rank)
        found.append(JobFinding("RANK.SLOW", _severity(gain / job.length), title, detail, (own.rank,), gain, evidence))
    return found


def _evidence(job: Job, rank: int) -> tuple[Evidence, ...]:
    """The work before the collectives that the rank made late the most by its own, at most five."""
    rows = [
        (arrival.own, each.meeting.calls[rank].start, arrival.gap)
        for each in job.blamed
        for arrival in each.arrivals
        if arrival.rank == rank and arrival.own and arrival.own > 0 and arrival.gap is not None
    ]
    return tuple(Evidence(rank, start - gap, start) for _, start, gap in sorted(rows, reverse=True)[:5])


def _stages(job: Job) -> list[JobFinding]:
    """Stages of the pipeline that compute longer than the others."""
    layout = job.layout
    if layout is None or layout.pipeline < 2:
        return []
    computing: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for profile in job.ranks:
        if profile.steps:
            computing[layout.stage(profile.rank)].append((sum(step.computing for step in profile.steps), profile.rank))
    if len(computing) < 2:
        return []
    middle = {stage: median(time for time, _ in rows) for stage, rows in computing.items()}
    slow, fast = max(middle, key=middle.__getitem__), min(middle, key=middle.__getitem__)
    apart = middle[slow] - middle[fast]
    within = max(max(time for time, _ in rows) - min(time for time, _ in rows) for rows in computing.values())
    if middle[fast] <= 0 or middle[slow] < _STAGE * middle[fast] or within > apart / 2:
        return []
    ranks = tuple(sorted(rank for _, rank in computing[slow]))
    even = middle[slow] - sum(middle.values()) / len(middle)
    args = {
        "stage": slow,
        "ranks": list(ranks),
        "time": round(middle[slow]),
        "other": fast,
        "less": round(middle[fast]),
    }
    share = even / job.length if job.length else 0.0
    return [
        JobFinding(
            "RANK.STAGE",
            _severity(share),
            message("job.stage.title", **args),
            message("job.stage.detail", even=round(even), **args),
            ranks,
            round(even),
        )
    ]


def _wandering(job: Job) -> list[JobFinding]:
    slowest = _slowest_by_step(job)
    ranks = [rank for rank, shape in shapes(job).items() if shape == "wandering"]
    if not ranks or not job.length:
        return []
    cost = sum(max(own for (rank, at), (own, _) in job.by_step.items() if at == step) for step in slowest)
    share = cost / job.length
    args = {"steps": len(slowest), "ranks": len(ranks), "cost": cost, "share": share}
    title, detail = message("job.wander.title", **args), message("job.wander.detail", **args)
    return [JobFinding("RANK.WANDER", _severity(share), title, detail, tuple(sorted(ranks)), cost)]


def _links(job: Job) -> list[JobFinding]:
    found = []
    for link in (link for link in job.links if link.verdict == "slow"):
        args = {"source": link.source, "target": link.target, "transport": link.transport, "type": link.type}
        speeds = {"speed": link.speed, "expected": link.expected, "size": link.size_mb * 1e6}
        found.append(
            JobFinding(
                "LINK.SLOW",
                "medium",
                message("job.link.title", **args, **speeds),
                message("job.link.detail", **args, **speeds),
                (link.source, link.target),
                None,
            )
        )
    ports: dict[tuple[int, str], list[tuple[float, float]]] = defaultdict(list)
    for link in job.links:
        if link.verdict in ("slow_sender", "slow_receiver"):
            rank = link.source if link.verdict == "slow_sender" else link.target
            ports[rank, link.verdict].append((link.speed, link.expected))
    for (rank, verdict), rows in sorted(ports.items()):
        port = {
            "rank": rank,
            "links": len(rows),
            "speed": median(speed for speed, _ in rows),
            "expected": median(expected for _, expected in rows),
        }
        title, detail = message(f"job.port.{verdict}", **port), message("job.port.detail", **port)
        found.append(JobFinding("LINK.PORT", "medium", title, detail, (rank,), None))
    return found


def _missing(job: Job) -> list[JobFinding]:
    if not job.missing:
        return []
    args = {"count": len(job.missing), "ranks": job.missing[:8], "there": len(job.ranks)}
    title = message("job.missing.title", **args)
    return [JobFinding("RANK.MISSING", "info", title, message("job.missing.detail", **args), tuple(job.missing), None)]


def _clocks(job: Job) -> list[JobFinding]:
    found = []
    untied = tuple(clock.rank for clock in job.clocks if not clock.is_tied)
    if untied:
        args = {"count": len(untied), "ranks": list(untied[:8])}
        title, detail = message("job.clock.title", **args), message("job.clock.detail", **args)
        found.append(JobFinding("RANK.CLOCK", "info", title, detail, untied, None))
    drifting = [clock for clock in job.clocks if abs(clock.drift) > _DRIFT]
    for clock in drifting:
        args = {"rank": clock.rank, "drift": clock.drift * 1e6}
        title, detail = message("job.drift.title", **args), message("job.drift.detail", **args)
        found.append(JobFinding("RANK.CLOCK", "info", title, detail, (clock.rank,), None))
    return found


def _sizes(job: Job) -> list[JobFinding]:
    found = []
    for each in job.unpaired[:5]:
        least, most = min(each.counts.values()), max(each.counts.values())
        args = {"type": each.type, "group": each.group, "step": each.step, "least": least, "most": most}
        title, detail = message("job.sizes.title", **args), message("job.sizes.detail", **args)
        found.append(JobFinding("GROUP.SIZES", "low", title, detail, tuple(sorted(each.counts)), None))
    return found
