"""What a change of the pipelines or of the roles of a job would gain: the same answer as that of one profile."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from msgspec import Struct

from npu_tui.analysis.what_if import UnknownChangeError
from npu_tui.jobs.job import Job
from npu_tui.jobs.pipeline_cases import micro_batches, stage_as_others, stages_even
from npu_tui.jobs.role_findings import role_findings, shortened
from npu_tui.jobs.roles import RoleSpan
from npu_tui.load.errors import InputError
from npu_tui.load.roles import replica_of
from npu_tui.output.envelope import PathSource
from npu_tui.output.whatif import Remedies, WhatIf, WhatIfRow
from npu_tui.profile.table import us
from npu_tui.trace.message import message

_STAGE = re.compile(r"stage (\d{1,5}) as others", re.IGNORECASE)
_MICRO = re.compile(r"([1-9]\d{0,3}) micro[- ]?batch(?:es)?", re.IGNORECASE)
_TAIL = re.compile(r"(?:tails?(?: of (?P<role>\S+))? as the median|fix ROLE\.TAIL)", re.IGNORECASE)
_ROLE = re.compile(r"role (?P<role>\S+) ?[x×*] ?(?P<factor>\d{1,6}(?:\.\d{1,6})?)", re.IGNORECASE)


class _JobChange(Struct, frozen=True):
    """A change of ``matches`` passes or stints; how many ``micro`` batches are wanted, 0 if as many as now."""

    change: Any
    matches: int
    micro: int = 0


class _Pipelines:
    """The pipelines of a job, replayed by the order of their passes."""

    replays: ClassVar[Literal["pipeline", "roles"]] = "pipeline"

    def __init__(self, job: Job) -> None:
        self._runs = job.pipelines
        self.count, self._total = self._runs.count, self._runs.total()
        told = any(profile.steps for profile in job.ranks)
        self.step = job.length / len(job.steps) if told else self._total / self.count
        self.recorded = sum(run.length for run in self._runs.runs)
        self.replayed = round(sum(self._runs.replayed().tolist()))
        stages = max(run.plan.stages for run in self._runs.runs)
        self.remedies = ["stages even", *(f"stage {stage} as others" for stage in range(stages))]
        micro = {run.plan.micro for run in self._runs.runs}
        self.micro = micro.pop() if len(micro) == 1 else None

    def asked(self, words: str) -> _JobChange:
        """What the change ``words`` is. Raises ``UnknownChangeError``."""
        runs = self._runs
        count = sum(len(run.start) for run in runs.runs)
        if words.lower() == "stages even":
            return _JobChange(stages_even, count)
        if match := _STAGE.fullmatch(words):
            stage = int(match[1])
            return _JobChange(stage_as_others(stage), sum(int((run.plan.stage == stage).sum()) for run in runs.runs))
        if match := _MICRO.fullmatch(words):
            micro = int(match[1])
            if runs.orders(micro):
                return _JobChange(micro_batches(micro), count, micro)
            raise UnknownChangeError(message("whatif.no_order", count=micro))
        raise UnknownChangeError(message("whatif.unknown.job", text=words))

    def gain(self, asked: Sequence[_JobChange]) -> int:
        """What all ``asked`` together gain, ns."""
        return self._total - self._runs.total(self._runs.gains(*(one.change for one in asked)))


class _Roles:
    """The roles of a job, each of whose stints begins when all before it have ended."""

    replays: ClassVar[Literal["pipeline", "roles"]] = "roles"
    micro = None

    def __init__(self, job: Job) -> None:
        if job.roles is None:
            raise InputError(message("whatif.no_roles", path=str(job.path)))
        self._roles = job.roles
        self.count, self.step = len(job.roles.steps), job.roles.length
        self.recorded = self.replayed = max(span.end for span in job.roles.spans) - job.roles.spans[0].start
        tails = [replica_of(row.role)[0] for row in role_findings(job.roles) if row.id == "ROLE.TAIL" and row.role]
        self.remedies = [f"tail of {role} as the median" for role in tails]

    def asked(self, words: str) -> _JobChange:
        """What the change ``words`` is: by how many ns stints get shorter. Raises ``UnknownChangeError``."""
        less: dict[RoleSpan, float]
        if match := _TAIL.fullmatch(words):
            less = shortened([tail for tail in self._roles.tails if match["role"] in (None, tail.role)])
        elif match := _ROLE.fullmatch(words):
            spans = [span for span in self._roles.spans if match["role"] in (span.role, span.place)]
            less = {span: (1 - float(match["factor"])) * (span.end - span.start) for span in spans}
        else:
            raise UnknownChangeError(message("whatif.unknown_role", text=words))
        return _JobChange(less, len(less))

    def gain(self, asked: Sequence[_JobChange]) -> int:
        """What all ``asked`` together gain, ns; of two changes of one stint the one that shortens it more counts."""
        less: dict[RoleSpan, float] = {}
        for one in asked:
            less |= {span: max(less.get(span, time), time) for span, time in one.change.items()}
        return self._roles.gain(less)


def _replayed(job: Job, texts: Sequence[str] = ()) -> _Pipelines | _Roles:
    """What of ``job`` is replayed. Raises ``InputError`` where it has neither pipelines nor roles."""
    words = [" ".join(text.split()) for text in texts]
    of_roles = words and all(_TAIL.fullmatch(text) or _ROLE.fullmatch(text) for text in words)
    return _Pipelines(job) if job.pipelines.runs and not (job.roles is not None and of_roles) else _Roles(job)


def job_whatif(job: Job, texts: Sequence[str]) -> WhatIf:
    """The steps of ``job`` with ``texts`` changed one after another.

    Of pipelines ``stages even``, ``stage N as others``, ``N micro batches`` (of the same size); of roles ``tail as the
    median``, ``tail of ROLE as the median``, ``role ROLE x0.8``. Raises ``UnknownChangeError`` for a text that means
    nothing here, ``InputError`` where nothing can be replayed.
    """
    replay = _replayed(job, texts)
    asked = [replay.asked(" ".join(text.split())) for text in texts]
    if nothing := [text for text, one in zip(texts, asked, strict=True) if not one.matches]:
        raise UnknownChangeError(message("whatif.nothing", text=nothing[0]))
    rows: list[WhatIfRow] = []
    count, gain = replay.count, 0
    for number, (text, one) in enumerate(zip(texts, asked, strict=True), 1):
        before, gain = gain, replay.gain(asked[:number])
        rows.append(
            WhatIfRow(text=" ".join(text.split()), matches=one.matches, alone_us=us(replay.gain([one]) / count),
                gain_us=us((gain - before) / count), step_us=us(replay.step - gain / count))
        )  # fmt: skip
    after = next((one.micro for one in reversed(asked) if one.micro), None)
    error = abs(replay.replayed - replay.recorded) / replay.recorded
    return WhatIf(
        source=PathSource(str(job.path)), device=None, per="step", count=count,
        warm_up=0, recorded_us=us(replay.recorded), replayed_us=us(replay.replayed), error=round(error, 6),
        step_us=us(replay.step), step_after_us=us(replay.step - gain / count), gain_us=us(gain / count),
        changes=tuple(rows), timeline=(), replays=replay.replays, micro_batches=replay.micro if after else None,
        micro_batches_after=after,
    )  # fmt: skip


def job_remedies(job: Job) -> Remedies:
    """Changes that would shorten a step, the one that does most first. Raises ``InputError`` as ``job_whatif`` does."""
    replay = _replayed(job)
    rows = [row for text in replay.remedies for row in job_whatif(job, [text]).changes if row.alone_us > 0]
    return Remedies("step", replay.count, tuple(sorted(rows, key=lambda row: -row.alone_us)))
