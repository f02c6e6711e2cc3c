"""The JSON document of a job."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec
import numpy as np

from npu_tui.analysis.limits import HALF, NEARLY_ALL
from npu_tui.jobs.expert_loads import hot_experts, layer_works
from npu_tui.jobs.findings import job_findings
from npu_tui.jobs.job import Job
from npu_tui.jobs.part_tables import JOB_OWNERS, JOB_PATH, RANK_SHARES
from npu_tui.jobs.tables import FINDINGS
from npu_tui.load.roles import replica_of
from npu_tui.output import envelope
from npu_tui.output.envelope import REASONS, NotChecked, Old, Root
from npu_tui.output.report_schema import ExpertsReport, experts_report
from npu_tui.profile.table import Record, declared_tables, rows_of, us, with_sections
from npu_tui.rules.inputs import first_of_largest
from npu_tui.rules.model import MUCH_LOST, Finding
from npu_tui.rules.rule import runs_of
from npu_tui.strings import words
from npu_tui.trace.arrays import summed
from npu_tui.trace.message import Message, Said, message
from npu_tui.trace.text import brief, printable


class JobSource(msgspec.Struct):
    """Where the job lies: how many ``ranks`` and ``traces`` there are, and in which forms."""

    path: str
    ranks: int
    traces: int
    kinds: list[str]


class RoleClock(msgspec.Struct):
    """When the first stint began, ns since 1970, and what puts all on one clock.

    ``host``: they ran on one; ``collectives``: those of a role tie its hosts; ``system``: the clocks of several hosts.
    """

    start_ns: int
    method: Literal["host", "collectives", "system"]


@rows_of(owners=JOB_OWNERS, ranks=RANK_SHARES, stretches=JOB_PATH)
class JobPathPart(msgspec.Struct, frozen=True):
    """The chain of what held up the end of the job, through its ranks; where there is none, ``reason`` says why.

    ``owners`` and ``ranks`` add up to ``length_us`` each, most first. Gains are those of one of the ``count`` that
    ``per`` names. ``sentence`` says which rank holds the path longest. ``stretches`` are by time: of ``stretch_count``
    the 1,000 longest.
    """

    told: bool
    reason: str | None = None
    sentence: str | None = None
    per: str | None = None
    count: int | None = None
    length_us: float | None = None
    owners: list[Record] = []
    ranks: list[Record] = []
    stretch_count: int = 0
    stretches: list[Record] = []


@with_sections("npu_tui.jobs", required="hosts groups clock rank_table heat collectives links")
@rows_of(findings=FINDINGS)
class JobReport(Root, frozen=True):
    """A job in numbers; the lists are the sections that tables declare."""

    ORDER: ClassVar = (
        "source hosts groups steps verdict clock rank_table heat collectives links missing findings not_checked "
        "expert_layers expert_ranks pipelines stages passes expert_files schema_version kind roles role_steps stints "
        "role_clock critical_path"
    )
    FIRST: ClassVar = ("critical_path",)
    OLD: ClassVar = {"verdict": Old(type=str, value=" ".join), "not_checked": REASONS}

    source: JobSource
    steps: list[str]
    verdict: list[str]
    missing: list[int]
    findings: list[Record]
    not_checked: list[NotChecked]
    expert_files: ExpertsReport | None = None
    schema_version: Literal[2] = 2
    kind: Literal["ranks"] = "ranks"
    role_clock: RoleClock | None = None
    critical_path: JobPathPart | None = None

    if TYPE_CHECKING:

        def __getattr__(self, section: str) -> list[Record]: ...


def job_report(job: Job, path: bool = True) -> JobReport:
    """All of ``job`` in numbers; titles and details are in the language in use.

    The critical path is there where ``path`` asks for it: it reads the traces of the ranks that it leads to.
    """
    collects = gc.isenabled()
    gc.disable()  # nothing of a report is cyclic, and a collection walks every collective
    try:
        return _report(job, path_part(job) if path else None)
    finally:
        if collects:
            gc.enable()


def path_part(job: Job) -> JobPathPart:
    """The critical path of ``job``, or why there is none."""
    from npu_tui.jobs.path import job_path  # a screen shows the job before its path

    told = job_path(job)
    if told.reason is not None:
        return JobPathPart(told=False, reason=words(told.reason))
    stretches = JOB_PATH.make(job, path=told)
    length = np.array([one.end - one.start for one in told.stretches], np.int64)
    longest = np.sort(first_of_largest(length, _MOST_STRETCHES))
    return JobPathPart(
        told=True,
        sentence=None if told.sentence is None else words(told.sentence),
        per=told.unit,
        count=told.count,
        length_us=us(told.length),
        owners=JOB_OWNERS.records(job, path=told),
        ranks=RANK_SHARES.records(job, path=told),
        stretch_count=len(told.stretches),
        stretches=JOB_PATH.rows(stretches.taken(longest)),
    )


_MOST_STRETCHES = 1_000


def _report(job: Job, path: JobPathPart | None) -> JobReport:
    findings, parts = job_findings(job), job.parts if job.has_profiles else ()
    kinds = sorted({profile.kind for profile in job.ranks})
    traces = sum(max(len(profile.folders), 1) for profile in job.ranks if profile.has_trace)
    sections: dict[str, Any] = {
        table.section: [
            row
            for subject in ([job] if table.subject == "job" else parts)
            for row in table.records(subject, **table.options)
        ]
        for table in declared_tables("npu_tui.jobs")
        if table.section
    }
    return JobReport(
        source=JobSource(printable(str(job.path)), len(job.ranks), traces, kinds),
        steps=[printable(step) for step in _step_names(job)],
        verdict=list(map(words, _sentences(job, findings))),
        missing=sorted({rank for part in parts for rank in part.missing}),
        findings=FINDINGS.records(job, findings=findings),
        not_checked=[envelope.not_checked(why) for why in not_checked(job)],
        expert_files=_expert_files(job),
        role_clock=None if job.roles is None else RoleClock(job.roles.spans[0].start, job.roles.clock),
        critical_path=path,
        **sections,
    )


def _expert_files(job: Job) -> ExpertsReport | None:
    files = job.expert_files
    there = files.dumps or files.placements or files.problems
    return experts_report(files, layer_works(job.parts[0])) if there else None


def _step_names(job: Job) -> list[str]:
    """The steps of ``job``; those of its roles where no file names any."""
    return job.roles.steps if job.steps in ([], [""]) and job.roles is not None else job.steps


def _sentences(job: Job, findings: list[Finding]) -> list[Message]:
    """The verdict; what little is found comes after much that has no cause."""
    first = verdict(job, findings)
    loss = _unexplained_rank(job) if findings and findings[0].severity == "low" and len(job.parts) < 2 else None
    return [first] if loss is None else [loss, first]


def verdict(job: Job, findings: list[Finding]) -> Message:
    """The dearest cause in a sentence; what was compared, where there is none."""
    if findings and findings[0].severity != "info":
        return findings[0].title
    if len(job.parts) > 1:
        return message("job.verdict.roles", roles=len(job.parts), ranks=len(job.ranks), steps=len(job.steps))
    if (loss := _unexplained_rank(job)) is not None:
        return loss
    if not job.has_profiles:
        return message("job.verdict.experts", ranks=len(job.ranks))
    if not len(job.blamed):
        return message("job.verdict.nothing", ranks=len(job.ranks))
    return message("job.verdict.even", ranks=len(job.ranks), collectives=len(job.blamed))


def _unexplained_rank(job: Job) -> Message | None:
    """The rank that spends most of its steps in exposed communication, where that is much and has no cause yet."""
    losses: list[tuple[float, int, int, int, int]] = []  # share of a step, rank; exposed, all, bubble of one, ns
    for profile in job.ranks:
        exposed, total = (sum(getattr(step, name) for step in profile.steps) for name in ("exposed", "total"))
        if total and exposed > MUCH_LOST * total:
            count, bubble = len(profile.steps), sum(step.bubble or 0 for step in profile.steps)
            losses.append((exposed / total, profile.rank, exposed // count, total // count, bubble // count))
    if not losses:
        return None
    share, rank, exposed, total, bubble = max(losses)
    args: dict[str, Any] = {"rank": rank, "exposed": exposed, "total": total, "share": share}
    received = [loss for loss in losses if bubble and loss[4] >= NEARLY_ALL * bubble]
    if len(received) > 1:  # a stage waits as one
        bubbles, totals = ([loss[part] for loss in received] for part in (4, 3))
        return message(
            "job.verdict.bubble", ranks=runs_of(sorted(loss[1] for loss in received)), least=min(bubbles),
            most=max(bubbles), share=sum(bubbles) / sum(totals),
        )  # fmt: skip
    waited = _waited_per_step(job, rank)
    if bubble:
        why = "bubble"
    elif not any(profile.recorder.has_times for profile in job.ranks):
        why = "cluster"
    elif waited is not None and 2 * waited < exposed:
        return message("job.verdict.transfers", **args, waited=waited)
    elif any(profile.level == 0 for profile in job.ranks):
        why = "level"
    elif not any(profile.has_trace for profile in job.ranks):
        why = "missing" if job.missing else "beside"
    elif all(profile.work is None for profile in job.ranks):
        why = "traces"
    else:
        why = "waits"
    told = message(f"job.unexplained.{why}", bubble=bubble, missing=runs_of(sorted(job.missing)))
    return message("job.verdict.unexplained", **args, mostly=_mostly(job, rank, exposed), why=told)


def _mostly(job: Job, rank: int, exposed: int) -> Said:
    """Which type of collective takes most of what is ``exposed`` in a step of ``rank``, ns; empty without one."""
    profile = next(profile for profile in job.ranks if profile.rank == rank)
    calls, types = profile.calls, [type_ for _, type_, _ in profile.calls.kinds]
    names, where = np.unique(types, return_inverse=True)
    times = summed(where[calls.kind], calls.end - calls.start, len(names)) // max(len(profile.steps), 1)
    if not len(times) or times.max() < HALF * exposed:
        return ""
    return message("job.unexplained.mostly", name=brief(names[times.argmax()]), time=int(times.max()))


def _waited_per_step(job: Job, rank: int) -> int | None:
    """How long ``rank`` waits for others in each step, ns; None where that is not known of all its collectives."""
    place, blamed = [profile.rank for profile in job.ranks].index(rank), job.blamed
    own = np.flatnonzero(blamed.rank == place)
    calls = len(job.ranks[place].calls)
    traced = all(profile.recorded is not None for profile in job.ranks)
    if not traced or job.missing or job.untied or not calls or len(own) < calls:
        return None
    return int(blamed.wait[own].sum()) // max(len(job.ranks[place].steps), 1)


# What is said of one role only where there is no other: the ends of all are compared, on one clock.
_OF_ALL = ("job.one_rank", "job.no_meetings", "job.roles.system", "job.roles.no_hosts")


def _not_checked_of_roles(job: Job) -> list[Message]:
    """What could not be known of some roles, which are named, or of all."""
    roles: dict[str, tuple[Message, list[str]]] = {}
    for part in job.parts:
        for reason in not_checked(part)[len(part.broken) :]:
            if reason.code not in _OF_ALL:
                roles.setdefault(words(reason), (reason, []))[1].append(replica_of(part.role or "–")[0])
    reasons = [
        reason if len(named) == len(job.parts) else message("job.of_roles", roles=sorted(set(named))[:8], what=reason)
        for reason, named in roles.values()
    ]
    return [*job.broken, *reasons, *_clock_of_roles(job)]


def _clock_of_roles(job: Job) -> list[Message]:
    """Roles without known times, and that only system clocks tie hosts, where that is so."""
    if job.roles is None:
        return []
    timed = {span.place for span in job.roles.spans}
    traced = {part.role for part in job.parts for profile in part.ranks if profile.has_trace}
    bare = [part.role for part in job.parts if part.role is not None and part.role not in timed]
    known = [host for host in job.hosts if host.known]
    reasons = [
        message(f"job.roles.{why}", roles=named[:8])
        for why, named in (
            ("unread", [role for role in bare if role in traced]),
            ("untimed", [role for role in bare if role not in traced]),
        )
        if named and len(job.parts) > 1
    ]
    if job.roles.clock == "system":
        reasons.append(message("job.roles.system", hosts=len(known)) if known else message("job.roles.no_hosts"))
    return reasons


def not_checked(job: Job) -> list[Message]:
    """What could not be known, and why."""
    if len(job.parts) > 1:
        return _not_checked_of_roles(job)
    if not job.has_profiles:
        return [message("job.experts.alone")]
    reasons, word = list(job.broken), job.recorder.word
    reasons += [problem for profile in job.ranks for problem in profile.problems]
    if len(job.ranks) < 2:
        reasons.append(message("job.one_rank"))
    elif not len(job.meetings):
        reasons.append(message(word("job.no_meetings")))
    if job.messages_apart:
        reasons.append(message("job.messages", count=job.messages_apart))
    reasons += job.pipelines.left_out
    reasons += map(message, job.recorder.job_notes)
    if job.layout is None and len(job.ranks) > 1:
        stages = any(job.stage(profile.rank) is not None for profile in job.ranks)
        reasons.append(message(word("job.no_layout.stages" if stages else "job.no_layout")))
    levels = {profile.level for profile in job.ranks if profile.level is not None}
    if len(levels) > 1:
        reasons.append(message("job.levels", levels=[str(level) for level in sorted(levels)]))
    if any(each.fused for profile in job.ranks for each in profile.experts):
        reasons.append(message("job.experts.fused"))
    if job.experts is not None and job.experts.padded and hot_experts(job) is None:
        reasons.append(message("job.experts.padded"))
    if not job.links:
        reasons.append(message(job.no_links))
    return reasons + _clock_of_roles(job)
