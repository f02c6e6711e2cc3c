"""What a change of its pipelines would gain a job: the same answer as that of one profile."""

from __future__ import annotations

import re
from collections.abc import Sequence

from npu_tui.analysis.what_if import UnknownChangeError
from npu_tui.jobs.job import Job
from npu_tui.jobs.pipeline import Pipelines
from npu_tui.jobs.pipeline_cases import Change, micro_batches, stage_as_others, stages_even
from npu_tui.output.role_whatif import is_of_roles, role_remedies, role_whatif
from npu_tui.output.whatif import SCHEMA_VERSION, Remedies, Row, WhatIf
from npu_tui.profile.table import us
from npu_tui.trace.message import message

_STAGE = re.compile(r"stage (\d{1,5}) as others")
_MICRO = re.compile(r"([1-9]\d{0,3}) micro[- ]?batch(?:es)?")


def job_whatif(job: Job, texts: Sequence[str]) -> WhatIf:
    """The steps of the pipelines of ``job`` with ``texts`` changed one after another.

    ``stages even``, ``stage N as others``, ``N micro batches`` (of the same size); without a pipeline the changes of
    roles. Raises ``UnknownChangeError`` for a text that means nothing here, and what ``role_whatif`` does.
    """
    runs = job.pipelines
    if not runs.runs or (job.roles is not None and texts and all(map(is_of_roles, texts))):
        return role_whatif(job, texts)
    asked = [_asked(runs, text) for text in texts]
    count, step, total = runs.count, _step(job, runs), runs.total()
    rows: list[Row] = []
    gain = 0
    for number, (text, change, matches, _) in enumerate(asked, 1):
        before, gain = gain, total - runs.total(runs.gains(*(one[1] for one in asked[:number])))
        alone = total - runs.total(runs.gains(change))
        rows.append(
            Row(text=text, matches=matches, alone_us=us(alone / count), gain_us=us((gain - before) / count),
                step_us=us(step - gain / count))
        )  # fmt: skip
    replayed = round(sum(runs.replayed().tolist()))
    recorded = sum(run.length for run in runs.runs)
    micro = {run.plan.micro for run in runs.runs}
    after = next((wanted for _, _, _, wanted in reversed(asked) if wanted), None)
    return WhatIf(
        schema_version=SCHEMA_VERSION, kind="whatif", path=str(job.path), device=None, steps=count, warm_up=0,
        unit="step", recorded_us=us(recorded), replayed_us=us(replayed),
        error=round(abs(replayed - recorded) / recorded, 6), step_us=us(step), step_after_us=us(step - gain / count),
        gain_us=us(gain / count), changes=tuple(rows), timeline=(),
        replays="pipeline",
        micro_batches=next(iter(micro)) if after and len(micro) == 1 else None, micro_batches_after=after,
    )  # fmt: skip


def job_remedies(job: Job) -> Remedies:
    """Changes that would shorten a step, the one that does most first; raises what ``role_remedies`` does."""
    runs = job.pipelines
    if not runs.runs:
        return role_remedies(job)
    stages = max(run.plan.stages for run in runs.runs)
    texts = ["stages even", *(f"stage {stage} as others" for stage in range(stages))]
    rows = [row for text in texts for row in job_whatif(job, [text]).changes if row.alone_us > 0]
    return Remedies("step", tuple(sorted(rows, key=lambda row: -row.alone_us)))


def _step(job: Job, runs: Pipelines) -> float:
    """How long a step takes, ns: that of the job where its files tell, else of the pipelines."""
    return job.length / len(job.steps) if any(profile.steps for profile in job.ranks) else runs.total() / runs.count


def _asked(runs: Pipelines, text: str) -> tuple[str, Change, int, int]:
    """A change in words: as written, what it is, how many passes it concerns, how many micro batches are wanted (0)."""
    words = " ".join(text.lower().split())
    count = sum(len(run.start) for run in runs.runs)
    if words == "stages even":
        return words, stages_even, count, 0
    if match := _STAGE.fullmatch(words):
        stage = int(match[1])
        if matches := sum(int((run.plan.stage == stage).sum()) for run in runs.runs):
            return words, stage_as_others(stage), matches, 0
        raise UnknownChangeError(message("whatif.nothing", text=text))
    if match := _MICRO.fullmatch(words):
        micro = int(match[1])
        if runs.orders(micro):
            return words, micro_batches(micro), count, micro
        raise UnknownChangeError(message("whatif.no_order", count=micro))
    raise UnknownChangeError(message("whatif.unknown.job", text=text))
