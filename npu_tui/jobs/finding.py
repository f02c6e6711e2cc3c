"""The kinds of findings about a job, and how one is made: with what the job would save, or without a price."""

from __future__ import annotations

from npu_tui.rules import pages
from npu_tui.rules.model import Evidence, Finding, Kind, Severity
from npu_tui.rules.rule import severity_of
from npu_tui.trace.message import message

JOB_FINDINGS = (
    Kind("RANK.SLOW", "communication", "job", pages=(pages.SLOW_RANK, pages.SLOW_RANK_CASE, pages.ANALYZE),
         words=("slow", "late_rank", "job_waits", "own_excess")),
    Kind("RANK.STAGE", "compute", "job", words=("own_excess",)),
    Kind("PIPELINE.TRANSFER", "communication", "job", pages=(pages.ANALYZE,)),
    Kind("RANK.HOST", "dispatch", "job", pages=(pages.BINDING,)),
    Kind("RANK.WANDER", "dispatch", "job", pages=(pages.GC,)),
    Kind("EXPERT.LOAD", "compute", "job"),
    Kind("EXPERT.SWAP", "compute", "job"),
    Kind("RANK.MISSING", "data", "job"),
    Kind("RANK.CLOCK", "data", "job", pages=(pages.PROFILER,), words=("clock_floor",)),
    Kind("LINK.SLOW", "communication", "job", pages=(pages.ANALYZE,), words=("slow_link",)),
    Kind("LINK.PORT", "communication", "job", pages=(pages.ANALYZE,), words=("slow_link",)),
    Kind("GROUP.SIZES", "communication", "job", words=("group",)),
    Kind("ROLE.TAIL", "compute", "job"),
    Kind("ROLE.SLOW", "compute", "job"),
)  # fmt: skip
"""Every finding about a job and about the roles in it."""

_CLASSES = {kind.id: kind.cls for kind in JOB_FINDINGS}

LEAST = 0.01
"""Share of the job's time from which what a cause costs is told."""


def noted(id: str, codes: tuple[str, str], ranks: tuple[int, ...], severity: Severity, /, **args: object) -> Finding:
    """What has no price; ``codes`` are those of its title and its detail."""
    title, detail = (message(code, **args) for code in codes)
    return Finding(id, _CLASSES[id], severity, title, detail, unit="run", ranks=ranks)


def priced(
    id: str, codes: tuple[str, str], ranks: tuple[int, ...], gain: int, length: float,
    evidence: tuple[Evidence, ...] = (), role: str | None = None, /, **args: object,
) -> Finding:  # fmt: skip
    """What a job of ``length`` ns would save ``gain`` ns without; ``codes`` as for ``noted``."""
    share = gain / max(length, 1)
    title, detail = (message(code, **{"gain": gain, "share": share} | args) for code in codes)
    severity = severity_of(None, share)
    return Finding(id, _CLASSES[id], severity, title, detail, evidence, (), gain, unit="run", ranks=ranks, role=role)
