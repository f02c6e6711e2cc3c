"""The tables of two jobs: parts of the step, stages, ranks, links, what changed. ``make`` takes the comparison.

Times are in us a step; differences are new minus base.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from npu_tui.jobs.step_times import TIMES
from npu_tui.profile.table import Column, TableSheet, columns, from_tuples, table, us
from npu_tui.strings import words

if TYPE_CHECKING:  # a comparison is not needed to name its tables
    from npu_tui.jobs.against import JobComparison, RoleChange
    from npu_tui.rules.model import Finding

_NAMES = (*TIMES, "part")
_OWN: dict[str, Column] = {
    **columns("real", "µs", "time", " ".join(f"{name}_base {name}_new" for name in _NAMES)),
    **columns("real", "µs", "change", " ".join(f"{name}_delta" for name in _NAMES)),
    **columns("whole", "", "id", "base_rank pp_stage"),
    **columns("whole", "", "count", "base_ranks new_ranks"),
    **columns("real", "GB/s", "speed", "base_gb_s new_gb_s"),
    **columns("real", "µs", "time", "error"),
    **columns("label", "", "word", "role"),
    **columns("label", "", "word", "part", "compare.part"),
    **columns("label", "", "word", "verdict", "compare.computing"),
    **columns("flag", "", "word", "alone"),
    **columns("rows", "", "word", "ranks"),
}


def parts(compared: JobComparison) -> TableSheet:
    """What the mean rank spends a step on; the differences sum to that of the step."""
    rows = [(name, us(base), us(new), us(new - base)) for name, base, new in compared.parts]
    return from_tuples(rows, "part part_base part_new part_delta", _OWN)


PARTS = table(
    "job_parts", parts, json="id=part base=part_base new=part_new delta=part_delta",
    page="part_of_step=part base=part_base new=part_new change=part_delta", row="JobPart",
    about="What the mean rank spends a step on; the differences sum to that of the step.", own=_OWN,
)  # fmt: skip


def _sheet(rows: Sequence[RoleChange], names: str, cells: Sequence[tuple[Any, ...]]) -> TableSheet:
    """``rows`` with their own ``cells`` of the columns ``names``, and all of ``TIMES`` on both sides."""
    known = [
        (
            *own, row.role, row.stage, row.verdict,
            *(None if math.isnan(time) else us(time)
              for name in TIMES for time in (row.base[name], row.new[name], row.delta(name))),
        )
        for row, own in zip(rows, cells, strict=True)
    ]  # fmt: skip
    times = " ".join(f"{name}_base {name}_new {name}_delta" for name in TIMES)
    return from_tuples(known, f"{names} role pp_stage verdict {times}", _OWN)


_WORK = "base=work_base new=work_new delta=work_delta verdict"
_TOLD = ("computing", "free", "exposed", "wait", "transfer", "bubble")
_COLUMNS = "work_base work_new work_delta computing_delta free_delta exposed_delta step_delta=total_delta verdict"


def stages(compared: JobComparison) -> TableSheet:
    """The means of the ranks of every stage."""
    return _sheet(compared.stages, "base_ranks new_ranks", [row.counts for row in compared.stages])


STAGES = table(
    "compared_stages",
    stages,
    json=f"role? stage=pp_stage? base_ranks new_ranks {_WORK} step_base=total_base step_new=total_new "
    "step_delta=total_delta " + " ".join(f"{name}_base? {name}_new? {name}_delta?" for name in _TOLD),
    page=f"role pp_stage base_ranks new_ranks step_base=total_base step_new=total_new {_COLUMNS}",
    row="ComparedStage",
    about="""The ranks of a stage, means a step. ``base`` and ``new`` are work: computing and idle time.

    ``exposed`` is communication that computing does not hide: ``wait`` and ``transfer``, null where that is not told.
    """,
    own=_OWN,
)


def ranks(compared: JobComparison) -> TableSheet:
    """Every pair of ranks."""
    own = [(row.rank, row.base_rank, row.alone) for row in compared.ranks]
    return _sheet(compared.ranks, "rank base_rank alone", own)


RANKS = table(
    "compared_ranks",
    ranks,
    json=f"role? rank base_rank stage=pp_stage? {_WORK} computing_delta free_delta exposed_delta wait_delta? "
    "step_delta=total_delta alone",
    page=f"role rank base_rank pp_stage {_COLUMNS}",
    panel="role rank base_rank pp_stage verdict work_delta work_base work_new computing_delta free_delta exposed_delta "
    "step_delta=total_delta",
    row="ComparedRank",
    about="""A rank against the ``base_rank`` with the same work, a step. ``delta_us`` is computing and idle time.

    What it waits for others and transfers is in ``exposed_delta_us``. ``alone``: it changed otherwise than its stage.
    """,
    own=_OWN,
)


def links(compared: JobComparison) -> TableSheet:
    """The speed of every transport."""
    return from_tuples(compared.bandwidths, "transport base_gb_s new_gb_s", _OWN)


LINKS = table(
    "compared_links", links, json="transport base_gb_s new_gb_s", page="transport base=base_gb_s new=new_gb_s",
    row="ComparedTransport", about="All bytes over all time of the links of a transport.", own=_OWN,
)  # fmt: skip


def changes(compared: JobComparison, found: Sequence[Finding]) -> TableSheet:
    """What changed: ``found``, the most first."""
    rows = [
        (row.id, row.severity, words(row.title), words(row.detail), list(row.ranks), us(row.delta_ns), us(row.error_ns))
        for row in found
    ]
    return from_tuples(rows, "id severity title detail ranks part_delta error", _OWN)


CHANGES = table(
    "job_changes", changes, json="id severity title detail ranks delta=part_delta? error?",
    row="JobChangeRow",
    about="""One thing that changed; ``delta_us`` is what it adds to a step, null where nothing tells;
    ``error_us`` is how far that may be off (95 %).""",
    own=_OWN, types={"ranks": list[int]},
)  # fmt: skip
