"""The comparison of two jobs: its JSON document, kind ``compare_jobs``, and the document for readers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

import msgspec

from npu_tui.jobs.against import JobComparison
from npu_tui.jobs.change_tables import CHANGES, LINKS, PARTS, RANKS, STAGES, job_changes
from npu_tui.jobs.job import Job
from npu_tui.load.errors import InputError
from npu_tui.output.compare_report import JudgedTime, judged_lines, judged_time
from npu_tui.output.document import Block, Cell, Document, Finding, Findings, Paragraph, comparison_document, rendered
from npu_tui.output.envelope import REASONS, ComparedSides, NotChecked, Old, Root, not_checked
from npu_tui.output.job_report import JobSource
from npu_tui.profile.table import Record, rows_of
from npu_tui.rules.model import Finding as FoundByRule
from npu_tui.strings import say, words
from npu_tui.trace.message import Message, message
from npu_tui.trace.text import change_text, printable

RANKS_SHOWN = 16
"""Rows of a table that a terminal or an issue gets: all ranks of two hosts."""


class JobSide(msgspec.Struct):
    """One job: how many ``ranks`` and ``traces`` there are, in which forms, and which steps are compared or not."""

    path: str
    ranks: int
    traces: int
    kinds: list[str]
    missing: list[int]
    steps: list[str]
    left_out: list[str]


@rows_of(parts=PARTS, stages=STAGES, ranks=RANKS, links=LINKS, findings=CHANGES)
class ComparedJobs(Root, frozen=True, kw_only=True):
    """What changed between two jobs. ``ranks`` are empty where they cannot be paired.

    ``paired_by`` is their place in stages and groups, their number, or none. ``step`` and ``computing`` are those of
    the mean rank, ``transfer`` is null where it cannot be separated from waiting. Ranks of one job alone are not
    compared.
    """

    FIRST: ClassVar = ("step", "computing", "parts")
    OLD: ClassVar = {"not_checked": Old("not_judged", REASONS.type, REASONS.value)}

    schema_version: Literal[2] = 2
    kind: Literal["compare_jobs"] = "compare_jobs"
    base: JobSide
    new: JobSide
    verdict: list[str]
    paired_by: Literal["place", "number", "none"]
    step: JudgedTime
    computing: JudgedTime
    transfer: JudgedTime | None
    parts: list[Record]
    stages: list[Record]
    ranks: list[Record]
    base_only_ranks: list[int]
    new_only_ranks: list[int]
    links: list[Record]
    findings: list[Record]
    not_checked: list[NotChecked]

    @property
    def source(self) -> ComparedSides[JobSource]:
        """What was compared."""
        base, new = (JobSource(job.path, job.ranks, job.traces, job.kinds) for job in (self.base, self.new))
        return ComparedSides(base, new)


def compared_jobs(compared: JobComparison, ignored: frozenset[str] = frozenset()) -> ComparedJobs:
    """All of ``compared``, without the findings that are ``ignored``. Raises ``InputError`` where no step is known."""
    if not compared.is_comparable:
        base, new = (str(job.path) for job in compared.jobs)
        raise InputError(message("against.no_steps", base=base, new=new))
    found = [change for change in job_changes(compared) if change.id not in ignored]
    step = judged_time(compared.step)
    verdict, *rest = judged_lines(step, None)
    sides = [_job_side(job, times.steps, left) for job, times, left in
             zip(compared.jobs, compared.times, compared.left_out, strict=True)]  # fmt: skip
    return ComparedJobs(
        base=sides[0], new=sides[1], verdict=[verdict, *_led(compared, found), *rest],
        paired_by=compared.pairing.way, step=step, computing=judged_time(compared.computing),
        transfer=None if compared.transfers is None else judged_time(compared.transfers),
        parts=PARTS.records(compared), stages=STAGES.records(compared), ranks=RANKS.records(compared),
        base_only_ranks=[*compared.pairing.base_only], new_only_ranks=[*compared.pairing.new_only],
        links=LINKS.records(compared), findings=CHANGES.records(compared, found=found),
        not_checked=[not_checked(why) for why in _not_judged(compared)],
    )  # fmt: skip


def _job_side(job: Job, steps: list[str], left_out: list[str]) -> JobSide:
    traces = sum(profile.has_trace for profile in job.ranks)
    kinds = sorted({profile.kind for profile in job.ranks})
    names = [[printable(step) for step in of_side] for of_side in (steps, left_out)]
    return JobSide(printable(str(job.path)), len(job.ranks), traces, kinds, job.missing, *names)


def _led(compared: JobComparison, found: list[FoundByRule]) -> Iterator[str]:
    """What changed most; what was compared, where nothing did."""
    told = [change for change in found if change.id != "DIFF.RANKS"]
    if told:
        yield words(told[0].title)
    elif not compared.ranks:
        yield words(compared.losses[0])
    elif compared.step.verdict == "same":
        yield say("against.nothing", count=len(compared.ranks))
    else:
        yield say("against.nobody")


def _not_judged(compared: JobComparison) -> Iterator[Message]:
    yield from compared.losses
    for job in compared.jobs:
        yield from (reason for reason in job.broken if reason not in compared.losses)
    if compared.jobs[0].missing and compared.jobs[0].missing == compared.jobs[1].missing:
        missing = compared.jobs[0].missing
        yield message("against.missing", count=len(missing), ranks=missing[:8])
    if compared.transfers is None:
        yield message("against.no_transfers")
    if sum(row.verdict == "unsure" for row in compared.ranks):
        count = sum(row.verdict == "unsure" for row in compared.ranks)
        yield message("against.unsure", count=count)


def compared_jobs_document(found: ComparedJobs, compared: JobComparison | None = None) -> Document:
    """What ``found`` says; with what is ``compared``, a map of the changes by rank and step too."""
    verdict, *rest = found.verdict
    lines = [rest[0], *[*judged_lines(found.step, found.computing)][1:]]
    blocks: list[Block] = [Paragraph(tuple(lines)), rendered(PARTS, found.parts)]
    if found.findings:
        rows = tuple(_change_finding(number, row) for number, row in enumerate(found.findings, 1))
        blocks.append(Findings(say("compare.findings"), None, rows, frozenset(range(1, len(rows) + 1))))
    for part in () if compared is None else compared.jobs[1].parts:
        from npu_tui.output.job_document import heat_picture  # text and Markdown have none

        blocks += heat_picture(part, "change", compared)
    moved = sorted(found.ranks, key=lambda row: (row.verdict not in ("slower", "faster"), -abs(row.delta_us), row.rank))
    if len(found.stages) > 1 or not moved:  # one stage is the mean rank, whose step is above
        blocks.append(rendered(STAGES, found.stages, "", True))
    if moved:
        blocks += [rendered(RANKS, moved, "", True, base_rank=_base_rank), Paragraph((say("against.work"),), "faint")]
    blocks.append(rendered(LINKS, found.links))
    sides = [_about_side(name, side) for name, side in (("base", found.base), ("new", found.new))]
    not_judged = [row.reason for row in found.not_checked]
    return comparison_document(verdict, sides, blocks, not_judged, (found.base.path, found.new.path))


def _base_rank(row: Record) -> Cell:
    return Cell("" if row.base_rank == row.rank else str(row.base_rank), row.base_rank)


def _about_side(name: str, side: JobSide) -> str:
    steps = say("compare.steps", count=len(side.steps))
    line = say(
        "against.side", side=say(f"column.{name}"), path=side.path, ranks=side.ranks, traces=side.traces, steps=steps
    )
    return line + (say("against.left_out", steps=side.left_out[:8]) if side.left_out else "")


def _change_finding(number: int, row: Record) -> Finding:
    delta = "" if row.delta_us is None else change_text(row.delta_us * 1000)
    return Finding(number, row.id, row.severity, row.title, delta, row.detail)
