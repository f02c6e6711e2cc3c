"""The kinds of findings about a job, and how one is made: with what the job would save, or without a price."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from npu_tui.rules import pages
from npu_tui.rules.model import Evidence, Finding, Kind, Severity
from npu_tui.rules.rule import severity_of
from npu_tui.strings import say
from npu_tui.trace.message import message

JOB_FINDINGS = (
    Kind("RANK.SLOW", "communication", "job", pages=(pages.SLOW_RANK, pages.SLOW_RANK_CASE, pages.ANALYZE),
         words=("slow", "late_rank", "job_waits", "own_excess")),
    Kind("RANK.STAGE", "compute", "job", words=("own_excess",)),
    Kind("PIPELINE.BUBBLE", "communication", "job"),
    Kind("PIPELINE.TRANSFER", "communication", "job", pages=(pages.ANALYZE,)),
    Kind("RANK.HOST", "dispatch", "job", pages=(pages.BINDING,)),
    Kind("RANK.WANDER", "dispatch", "job", pages=(pages.GC,)),
    Kind("EXPERT.LOAD", "compute", "job"),
    Kind("EXPERT.PADDED", "compute", "job"),
    Kind("EXPERT.SWAP", "compute", "job"),
    Kind("RANK.MISSING", "data", "job"),
    Kind("RANK.CLOCK", "data", "job", pages=(pages.PROFILER,), words=("clock_floor",)),
    Kind("LINK.SLOW", "communication", "job", pages=(pages.ANALYZE,), words=("slow_link",)),
    Kind("LINK.PORT", "communication", "job", pages=(pages.ANALYZE,), words=("slow_link",)),
    Kind("LINK.RING", "communication", "job", pages=(pages.ANALYZE,), words=("slow_link",)),
    Kind("GROUP.HOSTS", "communication", "job", pages=(pages.ANALYZE,), words=("group",)),
    Kind("GROUP.SIZES", "communication", "job", words=("group",)),
    Kind("ROLE.TAIL", "compute", "job"),
    Kind("ROLE.SLOW", "compute", "job"),
)  # fmt: skip
"""Every finding about a job and about the roles in it."""

_CLASSES = {kind.id: kind.cls for kind in JOB_FINDINGS}


def advised(id: str) -> str:
    """What to do about a finding of a job; nothing where it is one of its ranks, whose report has it."""
    return say(f"finding.advice.{id}") if id in _CLASSES else ""


LEAST_SHARE = 0.01
"""Share of the job's time from which the cost of a cause is reported."""


def noted(id: str, codes: tuple[str, str], ranks: tuple[int, ...], severity: Severity, /, **args: object) -> Finding:
    """A finding without a gain; ``codes`` are those of its title and its detail."""
    title, detail = (message(code, **args) for code in codes)
    return Finding(id, _CLASSES[id], severity, title, detail, unit="run", ranks=ranks)


class Held(Struct, frozen=True):
    """What times of a job refer to: a ``unit`` (a step, or the run), ``count`` of them in ``length`` ns."""

    length: float
    count: int = 1
    unit: str = "run"

    @classmethod
    def of_steps(cls, length: float, steps: Sequence[str]) -> Held:
        """The unit of a job with these ``steps``; without steps, or with one that has no name, it is the run."""
        return cls(length, len(steps), "step") if steps and list(steps) != [""] else cls(length)

    def each(self, time: float) -> float:
        """The share of one unit in ``time``, a sum over all of them; ns."""
        return time / self.count

    @property
    def words(self) -> dict[str, object]:
        """``per`` and ``of`` in texts: such a time is one ``a step``; ``a step`` would take less."""
        return {"per": message(f"job.per.{self.unit}"), "of": message(f"job.of.{self.unit}")}


def priced(
    id: str, codes: tuple[str, str], ranks: tuple[int, ...], gain: int, held: Held,
    evidence: tuple[Evidence, ...] = (), role: str | None = None, /, **args: object,
) -> Finding:  # fmt: skip
    """A finding that would save ``gain`` ns, given per unit of ``held``; ``codes`` as for ``noted``."""
    share = gain / max(held.length, 1)
    known = {"gain": held.each(gain), "share": share, **held.words}
    title, detail = (message(code, **known | args) for code in codes)
    severity = severity_of(None, share)
    return Finding(id, _CLASSES[id], severity, title, detail, evidence, (), gain, unit="run", ranks=ranks, role=role)
