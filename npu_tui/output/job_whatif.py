"""What a change of the pipelines, roles or ranks of a job would gain: the same answer as that of one profile."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from msgspec import Struct

from npu_tui.analysis.questions import UnknownChangeError
from npu_tui.jobs.job import Job
from npu_tui.jobs.passes import layers_even, micro_batches, pairs_in_time, stage_as_others, stages_even
from npu_tui.jobs.pipeline import ranks_of_pairs
from npu_tui.jobs.roles import RoleSpan, role_findings, shortened_tails
from npu_tui.jobs.timelines import Moments, moments_of_collectives, moments_of_passes
from npu_tui.load.errors import InputError
from npu_tui.load.roles import replica_of
from npu_tui.output.envelope import PathSource
from npu_tui.output.whatif import Remedies, WhatIf, WhatIfRow
from npu_tui.profile.table import us
from npu_tui.rules.model import Finding
from npu_tui.trace.message import message

_STAGE = re.compile(r"stage (\d{1,5}) as others", re.IGNORECASE)
_PAIR = re.compile(r"messages (\d{1,7}) to (\d{1,7}) as others", re.IGNORECASE)
_MICRO = re.compile(r"([1-9]\d{0,3}) micro[- ]?batch(?:es)?", re.IGNORECASE)
_TAIL = re.compile(r"(?:tails?(?: of (?P<role>\S+))? as the median|fix ROLE\.TAIL)", re.IGNORECASE)
_RANK = re.compile(r"rank (?P<rank>\d{1,7}) as (?:its )?peers", re.IGNORECASE)
_ROLE = re.compile(r"role (?P<role>\S+) ?[x×*] ?(?P<factor>\d{1,6}(?:\.\d{1,6})?)", re.IGNORECASE)


_EVEN = {"stages even": stages_even, "layers even": layers_even}


class _JobChange(Struct, frozen=True):
    """A change of ``matches`` passes or stints; how many ``micro`` batches are wanted, 0 if as many as now."""

    change: Any
    matches: int
    micro: int = 0


class _Pipelines:
    """The pipelines of a job, replayed by the order of their passes."""

    replays: ClassVar[Literal["pipeline", "roles", "ranks"]] = "pipeline"

    def __init__(self, job: Job) -> None:
        self._job, self._runs = job, job.pipelines
        self.count, self._total = self._runs.count, self._runs.total()
        told = any(profile.steps for profile in job.ranks)
        self.step = job.length / len(job.steps) if told else self._total / self.count
        self.recorded = sum(run.length for run in self._runs.runs)
        self.replayed = round(sum(self._runs.replayed().tolist()))
        stages = max(run.plan.stages for run in self._runs.runs)
        self._usual = {pair: usual for late, usual in self._runs.late_pairs() for pair in late}
        self.remedies = [
            *_EVEN,
            *(f"stage {stage} as others" for stage in range(stages)),
            *_messages_in_time(self._usual),
        ]
        micro = {run.plan.micro for run in self._runs.runs}
        self.micro = micro.pop() if len(micro) == 1 else None

    def asked(self, words: str) -> _JobChange:
        """The change that ``words`` name. Raises ``UnknownChangeError``."""
        runs = self._runs
        count = sum(len(run.start) for run in runs.runs)
        if words.lower() in _EVEN:
            return _JobChange(_EVEN[words.lower()], count)
        if match := _STAGE.fullmatch(words):
            stage = int(match[1])
            return _JobChange(stage_as_others(stage), sum(int((run.plan.stage == stage).sum()) for run in runs.runs))
        if pair := pair_of(words):
            count = sum(len(run.between(*pair)) for run in runs.runs) if pair in self._usual else 0
            return _JobChange(pairs_in_time([pair], self._usual.get(pair, 0.0)), count)
        if match := _MICRO.fullmatch(words):
            micro = int(match[1])
            if runs.orders(micro):
                return _JobChange(micro_batches(micro), count, micro)
            raise UnknownChangeError(message("whatif.no_order", count=micro))
        raise UnknownChangeError(message("whatif.unknown.job", text=words))

    def gain(self, asked: Sequence[_JobChange]) -> int:
        """What all ``asked`` together gain, ns."""
        return self._total - self._runs.total(self._runs.gains(*(one.change for one in asked)))

    def moments(self, asked: Sequence[_JobChange]) -> Moments | None:
        """When the ranks pass what is replayed, with all ``asked``; None for other passes than those recorded."""
        if any(one.micro for one in asked):
            return None
        return moments_of_passes(self._job, [one.change for one in asked])


class _Ranks:
    """The collectives of a job; each begins when the last rank has come."""

    replays: ClassVar[Literal["pipeline", "roles", "ranks"]] = "ranks"
    micro = None

    def __init__(self, job: Job) -> None:
        self._job, self._blamed = job, job.blamed
        self.count = max(len(job.steps), 1)
        self.step = job.length / self.count
        self.recorded, self.replayed = job.savings.measured, job.savings.length
        slow = [row for row in job.sums if row.gain]
        self.remedies = [f"rank {row.rank} as its peers" for row in slow]

    def asked(self, words: str) -> _JobChange:
        """The arrivals of the rank that ``words`` name, (n,). Raises ``UnknownChangeError``."""
        match = _RANK.fullmatch(words)
        if match is None:
            raise UnknownChangeError(message("whatif.unknown_rank", text=words))
        ranks = np.array(self._blamed.ranks, np.int64)
        named = ranks[self._blamed.rank] == int(match["rank"]) if len(ranks) else np.zeros(0, np.bool_)
        return _JobChange(named, int(named.sum()))

    def gain(self, asked: Sequence[_JobChange]) -> int:
        """What all ``asked`` together gain, ns."""
        return self._job.savings.gains([np.logical_or.reduce([one.change for one in asked])])[0]

    def moments(self, asked: Sequence[_JobChange]) -> Moments | None:
        """When the ranks come to collectives and leave them, with all ``asked``."""
        reduction = self._job.savings.reduced_to_median(np.logical_or.reduce([one.change for one in asked]))
        return moments_of_collectives(self._job, reduction, self.gain(asked))


class _Roles:
    """The roles of a job; each stint begins when all before it have ended."""

    replays: ClassVar[Literal["pipeline", "roles", "ranks"]] = "roles"
    micro = None

    def __init__(self, job: Job) -> None:
        if job.roles is None:
            raise InputError(message("whatif.no_roles", path=str(job.path)))
        self._roles = job.roles
        self.count, self.step = len(job.roles.steps), job.roles.length
        self.recorded, self.replayed = job.roles.recorded, job.roles.replayed({})
        tails = [replica_of(row.role)[0] for row in role_findings(job.roles) if row.id == "ROLE.TAIL" and row.role]
        self.remedies = [f"tail of {role} as the median" for role in tails]

    def asked(self, words: str) -> _JobChange:
        """The change that ``words`` name: by how many ns stints get shorter. Raises ``UnknownChangeError``."""
        less: dict[RoleSpan, float]
        if match := _TAIL.fullmatch(words):
            less = shortened_tails([tail for tail in self._roles.tails if match["role"] in (None, tail.role)])
        elif match := _ROLE.fullmatch(words):
            spans = [span for span in self._roles.spans if match["role"] in (span.role, span.place)]
            less = {span: (1 - float(match["factor"])) * (span.end - span.start) for span in spans}
        else:
            raise UnknownChangeError(message("whatif.unknown_role", text=words))
        return _JobChange(less, len(less))

    def gain(self, asked: Sequence[_JobChange]) -> int:
        """What all ``asked`` together gain, ns; among two changes of one stint the one that shortens it more counts."""
        less: dict[RoleSpan, float] = {}
        for one in asked:
            less |= {span: max(less.get(span, time), time) for span, time in one.change.items()}
        return self._roles.gain(less)

    @staticmethod
    def moments(asked: Sequence[_JobChange]) -> Moments | None:
        """None: what happens within a stint is not replayed."""
        del asked
        return None


def is_replayed(job: Job) -> bool:
    """Whether something of ``job`` can be replayed: pipelines, roles, or collectives of several ranks."""
    return bool(job.roles is not None or job.pipelines.runs or len(job.blamed))


def _replayed_model(job: Job, texts: Sequence[str] = ()) -> _Pipelines | _Roles | _Ranks:
    """The model that replays ``texts``: of pipelines, roles or ranks. Raises ``InputError`` where ``job`` has none."""
    words = [" ".join(text.split()) for text in texts]
    of_ranks = words and all(_RANK.fullmatch(text) for text in words)
    has_roles = job.roles is not None
    if len(job.blamed) and (of_ranks or not (has_roles or job.pipelines.runs)):
        return _Ranks(job)
    of_roles = words and all(_TAIL.fullmatch(text) or _ROLE.fullmatch(text) for text in words)
    return _Pipelines(job) if job.pipelines.runs and not (has_roles and of_roles) else _Roles(job)


def job_changes(job: Job, finding: Finding) -> list[str]:
    """The texts that ask ``job_whatif`` for the run of ``job`` without ``finding``; empty where nothing replays it."""
    if finding.id == "RANK.STAGE" and job.pipelines.runs:
        slower = finding.title.code.endswith("_slower")
        return [f"stage {job.stage(finding.ranks[0])} as others" if slower else "layers even"]
    if finding.id == "PIPELINE.TRANSFER":
        every = [late for late, _ in job.pipelines.late_pairs()]
        return [text for late in every if ranks_of_pairs(late) == finding.ranks for text in _messages_in_time(late)]
    known = {*job.blamed.ranks}
    as_peers = finding.id in _OF_RANKS and not finding.title.code.startswith("job.uneven")
    if finding.gain_ns and as_peers and known.issuperset(finding.ranks):
        return [f"rank {rank} as its peers" for rank in finding.ranks]
    return []


def pair_of(text: str) -> tuple[int, int] | None:
    """The ranks whose messages a change is about, sender and receiver; None for another change."""
    match = _PAIR.fullmatch(" ".join(text.split()))
    return None if match is None else (int(match[1]), int(match[2]))


def _messages_in_time(pairs: Iterable[tuple[int, int]]) -> list[str]:
    """The changes in which the messages of late ``pairs`` of ranks take as long as others."""
    return [f"messages {source} to {target} as others" for source, target in pairs]


# Findings whose gain is that of their ranks as fast as their peers in every step.
_OF_RANKS = ("RANK.SLOW", "RANK.HOST")


def job_moments(job: Job, texts: Sequence[str]) -> Moments | None:
    """When the ranks of ``job`` pass what is replayed with ``texts`` changed; None where no rank has such moments.

    Raises what ``job_whatif`` does.
    """
    replay = _replayed_model(job, texts)
    return replay.moments([replay.asked(" ".join(text.split())) for text in texts])


def job_whatif(job: Job, texts: Sequence[str]) -> WhatIf:
    """The steps of ``job`` with ``texts`` changed one after another.

    For pipelines ``stages even``, ``layers even`` (whole ones), ``stage N as others``, ``messages A to B as others``
    (of ranks), ``N micro batches`` (of the same size); for roles ``tail as the median``, ``tail of ROLE as the
    median``, ``role ROLE x0.8``; for any ranks ``rank N as its peers``. Raises ``UnknownChangeError`` for a text that
    means nothing here, ``InputError`` where nothing can be replayed.
    """
    replay = _replayed_model(job, texts)
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
    error = abs(replay.replayed - replay.recorded) / replay.recorded if replay.recorded else 0.0
    return WhatIf(
        source=PathSource(str(job.path)), device=None, per="step", count=count,
        warm_up=0, recorded_us=us(replay.recorded), replayed_us=us(replay.replayed), error=round(error, 6),
        step_us=us(replay.step), step_after_us=us(replay.step - gain / count), gain_us=us(gain / count),
        changes=tuple(rows), timeline=(), replays=replay.replays, micro_batches=replay.micro if after else None,
        micro_batches_after=after,
    )  # fmt: skip


def job_remedies(job: Job) -> Remedies:
    """Changes that would shorten a step, the one that does most first. Raises ``InputError`` as ``job_whatif`` does."""
    replay = _replayed_model(job)
    rows = [row for text in replay.remedies for row in job_whatif(job, [text]).changes if row.alone_us > 0]
    return Remedies("step", replay.count, tuple(sorted(rows, key=lambda row: -row.alone_us)))
