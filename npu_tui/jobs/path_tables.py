"""The tables of the path of a job: whose it is, how long each rank holds it, and its stretches.

Times are in us as in the other tables of a job. ``make`` of a table takes the job.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from npu_tui.analysis.path import PathKind
from npu_tui.profile.finding_tables import PlaceRow
from npu_tui.profile.path_tables import OWN, owner_columns
from npu_tui.profile.table import TableSheet, attributes, columns, from_tuples, numbers, table, us
from npu_tui.strings import words

if TYPE_CHECKING:  # as in the other tables of a job
    from npu_tui.jobs.job import Job
    from npu_tui.jobs.model import RankFinding
    from npu_tui.jobs.path import JobOwner, JobPath

_OWN = {
    **OWN,
    **columns("real", "µs", "time", "start end duration on_path gain"),
    **columns("flag", "", "word", "recorded"),
}
_table, _sheet = partial(table, own=_OWN, subject="job"), partial(from_tuples, own=_OWN)


def _path_of(job: Job, path: JobPath | None) -> JobPath:
    if path is not None:
        return path
    from npu_tui.jobs.path import job_path  # a walk needs the replay

    return job_path(job)


def _finding_of(owner: JobOwner, findings: Sequence[RankFinding]) -> str | None:
    """The first of the ``findings`` of its rank that is about ``owner``, which one could do without."""
    line = None if owner.where is None else (owner.where.file, owner.where.line)
    return next((row.id for row in findings if owner.gain is not None and row.explains(owner.text, line)), None)


def owners(job: Job, path: JobPath | None = None) -> TableSheet:
    """Whose the ``path`` of ``job`` is, most time first."""
    told = _path_of(job, path)
    rows, known = told.owners, {profile.rank: profile.findings for profile in job.ranks}
    about = owner_columns([(owner, owner.text, owner.name) for owner in rows])
    figures = attributes(
        rows,
        "rank",
        _OWN,
        on_path=lambda owner: us(owner.on_path),
        ratio=lambda owner: owner.on_path / told.length,
        gain=lambda owner: us(told.gain_of(owner)),
        finding=lambda owner: _finding_of(owner, known.get(owner.rank, ())),
        per=lambda owner: told.unit,
        count=lambda owner: told.count,
    )
    return TableSheet(len(rows), {"number": numbers(np.arange(1, len(rows) + 1)), **about, **figures})


JOB_OWNERS = _table(
    "job_owners",
    owners,
    sql="number rank kind doing title name file line function thread stretches on_path ratio gain per count",
    json="number rank? kind doing title name where? thread? count=stretches on_path ratio gain? finding?",
    page="rank what=title kind share=ratio time=on_path gain",
    row="JobOwnerRow",
    about="""Whose some stretches of the path of a job are: what ``rank`` does then (None: no task names it).

    ``title`` says it in a few words. A rank that is not recorded is ``late_rank``, and holds the path for as long as
    others waited for it. By ``gain_us`` one of what the path's ``per`` names is shorter without it: at no collective by
    more than the rank came after the second. ``finding`` is that of the rank alone which is about the owner.
    """,
    types={"kind": PathKind, "where": PlaceRow},
)


def rank_shares(job: Job, path: JobPath | None = None) -> TableSheet:
    """How long each rank holds the ``path`` of ``job``, most time first."""
    told = _path_of(job, path)
    rows = [(share.rank, us(share.on_path), share.on_path / told.length, share.recorded) for share in told.ranks]
    return _sheet(rows, "rank on_path ratio recorded")


RANK_SHARES = _table(
    "rank_shares",
    rank_shares,
    json="rank? on_path ratio recorded",
    row="RankShareRow",
    about="How long a rank holds the path of a job; ``recorded``: its trace says by what.",
)


def stretches(job: Job, path: JobPath | None = None) -> TableSheet:
    """Every stretch of the ``path`` of ``job``: each begins where the one before ends."""
    rows = [
        (
            us(one.start), us(one.end), us(one.end - one.start), one.rank, one.kind, one.lane or None,
            one.name or words(told.owners[one.owner].text), one.owner + 1, one.owner,
        )
        for told in (_path_of(job, path),)
        for one in told.stretches
    ]  # fmt: skip
    return _sheet(rows, "start end duration rank kind lane name owner index")


JOB_PATH = _table(
    "job_path",
    stretches,
    sql="start end duration rank kind lane name owner",
    json="start end rank? kind lane? name owner=index",
    row="JobStretchRow",
    about="""A stretch of the path of a job, from where the path begins, on the clock of the first rank.

    It begins where the one before ends. ``owner`` is the index of whose it is in ``owners``, from 0.
    """,
    types={"kind": PathKind},
)
