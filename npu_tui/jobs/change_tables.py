"""The tables of two jobs: parts of the step, stages, ranks, links, what changed. ``make`` takes the comparison.

Times are in us a step; differences are new minus base.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from npu_tui.profile.table import Column, Sheet, from_tuples, table, us
from npu_tui.strings import words

if TYPE_CHECKING:  # a comparison is not needed to name its tables
    from npu_tui.jobs.against import JobComparison, RankChange, StageChange
    from npu_tui.jobs.changes import JobChange

_TOLD = ("computing", "free", "exposed", "wait", "transfer", "bubble")
_OWN: dict[str, Column] = {
    each.id: each
    for each in (
        *(Column(name, "real", "µs", "time") for name in ("before", "after", "step_before", "step_after")),
        *(Column(name, "real", "µs", "change") for name in ("delta", "step_delta")),
        *(Column(f"{name}_delta", "real", "µs", "change") for name in _TOLD),
        *(Column(f"{name}_{side}", "real", "µs", "time") for name in _TOLD for side in ("base", "new")),
        *(Column(name, "whole", "", "id") for name in ("base_rank", "pp_stage")),
        *(Column(name, "whole", "", "count") for name in ("base_ranks", "new_ranks")),
        *(Column(name, "real", "GB/s", "speed") for name in ("base_gb_s", "new_gb_s")),
        Column("role", "label", "", "name"),
        Column("part", "label", "", "word", "compare.part"),
        Column("verdict", "label", "", "word", "compare.computing"),
        Column("alone", "flag", "", "word"),
        Column("ranks", "rows", "", "word"),
    )
}  # fmt: skip


def parts(compared: JobComparison) -> Sheet:
    """What the mean rank spends a step on; the differences sum to that of the step."""
    rows = [(name, us(base), us(new), us(new - base)) for name, base, new in compared.parts]
    return from_tuples(rows, "part before after delta", _OWN)


PARTS = table(
    "job_parts", parts, json="id=part base=before new=after delta",
    page="part_of_step=part base=before new=after change=delta", row="JobPart",
    about="What the mean rank spends a step on; the differences sum to that of the step.", own=_OWN.values(),
)  # fmt: skip


def _changes(row: StageChange | RankChange, names: Sequence[str]) -> list[float | None]:
    """How much more each of ``names`` is, us; None where a side does not tell it."""
    return [None if math.isnan(delta := row.delta(name)) else us(delta) for name in names]


def stages(compared: JobComparison) -> Sheet:
    """The means of the ranks of every stage."""
    rows = [
        (
            row.role, row.stage, *row.counts, us(row.base["work"]), us(row.new["work"]), *_changes(row, ("work",)),
            row.verdict, us(row.base["total"]), us(row.new["total"]), *_changes(row, ("total", *_TOLD)),
            *(None if math.isnan(side[name]) else us(side[name]) for name in _TOLD for side in (row.base, row.new)),
        )
        for row in compared.stages
    ]  # fmt: skip
    sides = " ".join(f"{name}_{side}" for name in _TOLD for side in ("base", "new"))
    names = " ".join(f"{name}_delta" for name in ("step", *_TOLD))
    return from_tuples(
        rows,
        f"role pp_stage base_ranks new_ranks before after delta verdict step_before step_after {names} {sides}",
        _OWN,
    )


_STAGE_COLUMNS = (
    "role pp_stage base_ranks new_ranks step_base=step_before step_new=step_after step_delta work_base=before "
    "work_new=after work_delta=delta computing_delta free_delta exposed_delta verdict"
)
STAGES = table(
    "compared_stages",
    stages,
    json="role? stage=pp_stage? base_ranks new_ranks step_base=step_before step_new=step_after step_delta "
    "base=before new=after delta verdict "
    + " ".join(f"{name}_base? {name}_new? {name}_delta?" for name in _TOLD),
    page=_STAGE_COLUMNS,
    row="ComparedStage",
    about="""The ranks of a stage, means a step. ``base`` and ``new`` are work: computing and idle time.

    ``exposed`` is communication that computing does not hide: ``wait`` and ``transfer``, null where that is not told.
    """,
    own=_OWN.values(),
)  # fmt: skip


def ranks(compared: JobComparison) -> Sheet:
    """Every pair of ranks."""
    names = ("computing", "free", "exposed", "wait", "total")
    rows = [
        (
            row.role, row.rank, row.base_rank, row.stage, us(row.base["work"]), us(row.new["work"]),
            *_changes(row, ("work", *names)), row.verdict, row.alone,
        )
        for row in compared.ranks
    ]  # fmt: skip
    return from_tuples(
        rows,
        "role rank base_rank pp_stage before after delta computing_delta free_delta exposed_delta wait_delta "
        "step_delta verdict alone",
        _OWN,
    )


_RANK_COLUMNS = (
    "role rank base_rank pp_stage work_base=before work_new=after work_delta=delta computing_delta free_delta "
    "exposed_delta step_delta verdict"
)
RANKS = table(
    "compared_ranks",
    ranks,
    json="role? rank base_rank stage=pp_stage? base=before new=after delta computing_delta free_delta exposed_delta "
    "wait_delta? step_delta verdict alone",
    page=_RANK_COLUMNS,
    panel="role rank base_rank pp_stage verdict work_delta=delta work_base=before work_new=after computing_delta "
    "free_delta exposed_delta step_delta",
    row="ComparedRank",
    about="""A rank against the ``base_rank`` with the same work, a step. ``delta_us`` is computing and idle time.

    What it waits for others and transfers is in ``exposed_delta_us``. ``alone``: it changed otherwise than its stage.
    """,
    own=_OWN.values(),
)


def links(compared: JobComparison) -> Sheet:
    """The speed of every transport."""
    return from_tuples(compared.bandwidths, "transport base_gb_s new_gb_s", _OWN)


LINKS = table(
    "compared_links", links, json="transport base_gb_s new_gb_s", page="transport base=base_gb_s new=new_gb_s",
    row="ComparedTransport", about="All bytes over all time of the links of a transport.", own=_OWN.values(),
)  # fmt: skip


def changes(compared: JobComparison, found: Sequence[JobChange]) -> Sheet:
    """What changed: ``found``, the most first."""
    rows = [
        (row.id, row.severity, words(row.title), words(row.detail), list(row.ranks), us(row.delta)) for row in found
    ]
    return from_tuples(rows, "id severity title detail ranks delta", _OWN)


CHANGES = table(
    "job_changes", changes, json="id severity title detail ranks delta?",
    panel="finding=id severity change=delta what=title detail", row="JobChangeRow",
    about="One thing that changed; ``delta_us`` is what it adds to a step, null where nothing tells.",
    own=_OWN.values(), types={"ranks": list[int]},
)  # fmt: skip
