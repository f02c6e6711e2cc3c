"""The film of a job: the rank that holds up the others and the one that waits longest, as recorded and without it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct

from npu_tui.analysis.what_if import UnknownChangeError
from npu_tui.jobs.film import waiting_rank
from npu_tui.jobs.job import Job
from npu_tui.load.errors import InputError
from npu_tui.output.film import no_moments
from npu_tui.output.job_whatif import job_changes, job_moments, job_whatif, pair_of
from npu_tui.strings import say, words
from npu_tui.tui.film import job_film_session
from npu_tui.tui.job_overview import Examined
from npu_tui.tui.loading import Make


class JobFilm(Struct, frozen=True):
    """The timelines to load, by their ``paths``, and what makes the session of their profiles."""

    paths: tuple[Path, ...]
    make: Make


def film_without(examined: Examined, number: int) -> JobFilm | str:
    """The film of the job without finding ``number``, or why there is none."""
    if not examined.findings:
        return say("ranks.finding.none")
    finding = examined.findings[number]
    job = next((part for part in examined.job.parts if part.role == finding.role), examined.job)
    texts = job_changes(job, finding)
    if not texts:
        return say("film.job_only")
    name = say("film.rung", number=number + 1, title=words(finding.title))
    return _film_of(job, finding.ranks, texts, name)


def film_asked(job: Job, texts: Sequence[str]) -> JobFilm | str:
    """The film of ``job`` with ``texts`` changed, as ``npu-tui whatif`` has them; or why there is none."""
    texts = [text.strip() for text in texts if text.strip()]
    named = [int(word) for text in texts for word in text.split() if word.isdecimal()]
    stages = {profile.rank: job.stage(profile.rank) for profile in job.ranks}
    of_stage = [rank for rank, stage in stages.items() if stage in named and "stage" in texts[0].lower()]
    return _film_of(job, of_stage or [rank for rank in named if rank in stages] or [*stages], texts, "; ".join(texts))


def _film_of(job: Job, ranks: Sequence[int], texts: Sequence[str], name: str) -> JobFilm | str:
    """The film of the first of ``ranks`` that is there and the one that waits longest for it, or gets its messages."""
    try:
        answer = job_whatif(job, texts)
    except UnknownChangeError as error:
        return words(error.message)
    except InputError as error:
        return words(error.message)
    if job_moments(job, texts) is None:
        return words(no_moments(answer, name))
    known = {profile.rank: profile for profile in job.ranks}
    here = [rank for rank in ranks if rank in known]
    told = [rank for rank in here if any(rank in run.ranks for run in job.pipelines.runs)] or here
    pair = pair_of(texts[0])
    waiting = waiting_rank(job, told[0] if told else -1)
    shown = list(pair or [*told[:1], *([] if waiting is None else [waiting])])
    gone = [rank for rank in shown if known[rank].has_trace and not known[rank].path.exists()]
    if gone:
        return say("ranks.elsewhere", ranks=gone, path=str(known[gone[0]].path))
    paths = tuple(known[rank].path for rank in shown if known[rank].has_trace)
    return JobFilm(paths, partial(job_film_session, job, shown, texts, name))
