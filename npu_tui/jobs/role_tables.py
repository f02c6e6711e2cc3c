"""The tables of roles: each role, each role in a step, and when every rank worked as which one.

Times are in us; those of the day count from the first stint. ``make`` of a table takes the job.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

from npu_tui.jobs.roles import last_of
from npu_tui.profile.table import Column, TableSheet, columns, from_tuples, table, us

if TYPE_CHECKING:  # a job is not needed to name its tables
    from npu_tui.jobs.job import Job

_OWN: dict[str, Column] = {
    **columns("label", "", "name", "role waits_for last_role"),
    **columns("label", "", "word", "in_step known_by"),
    **columns("whole", "", "count", "replicas rank_count step_count"),
    **columns("real", "µs", "time", "works waits waited start end median_end tail"),
}
_table, _sheet = partial(table, own=_OWN, subject="job"), partial(from_tuples, own=_OWN)


def roles(job: Job) -> TableSheet:
    """Every role in the order in which they begin; ``waits`` are those on idle cards, for other ranks in all."""
    rows: list[Sequence[Any]] = []
    known = job.roles
    for row in known.sums if known else ():
        waits = row.waits or {}
        most = max(waits, key=waits.__getitem__, default=None)
        share = row.time / known.length if known else None
        rows.append(
            (
                row.role, row.ranks, len(row.places), row.steps, us(row.time), share,
                None if row.waits is None else us(sum(waits.values())), most, us(waits[most]) if most else None,
                us(row.after),
            )
        )  # fmt: skip
    return _sheet(rows, "role rank_count replicas step_count works share waits waits_for waited tail")


ROLES = _table(
    "roles",
    roles,
    sql="role rank_count replicas step_count works share waits waits_for waited tail",
    json="role ranks=rank_count replicas steps=step_count works share waits? waits_for? waited? tail",
    page="role ranks=rank_count steps=step_count works share waits_for waited tail",
    panel="role ranks=rank_count replicas steps=step_count works share waits waits_for waited tail",
    section="roles",
    row="RoleRow",
    about="A role, means a step and rank; ``tail_us`` is how long after the median rank its last one ends.",
)


def role_steps(job: Job) -> TableSheet:
    """Every role in every step: when it begins, when the median rank ends, and which one is the last."""
    rows: list[Sequence[Any]] = []
    known = job.roles
    for own in known.by_role_step.values() if known else ():
        lasts = last_of(own)
        last, middle = max(lasts, key=lambda span: span.end), median(span.end for span in lasts)
        first = known.spans[0].start if known else 0
        times = (own[0].start - first, last.end - first, middle - first, last.end - middle)
        rows.append((last.role, last.step, len(lasts), *map(us, times), last.place, last.rank))
    return _sheet(rows, "role in_step rank_count start end median_end tail last_role last_rank")


ROLE_STEPS = _table(
    "role_steps",
    role_steps,
    sql="role in_step rank_count start end median_end tail last_role last_rank",
    json="role step=in_step ranks=rank_count start end median_end tail last_role last_rank",
    page="role step=in_step start median_end end tail last_role last_rank",
    section="role_steps",
    row="RoleStepRow",
    about="A role in a step; times count from the first stint of the job.",
)


def stints(job: Job) -> TableSheet:
    """Every stint by its start."""
    spans = job.roles.spans if job.roles else []
    first = spans[0].start if spans else 0
    rows = [
        (span.place, span.rank, span.step, us(span.start - first), us(span.end - first), span.known_by)
        for span in spans
    ]
    return _sheet(rows, "role rank in_step start end known_by")


STINTS = _table(
    "stints",
    stints,
    sql="role rank in_step start end known_by",
    json="role rank step=in_step start end known_by",
    section="stints",
    row="StintRow",
    about="When a rank worked as a role; ``known_by`` a range, the first and last work of its device, or its calls.",
)
