"""The tables of two jobs: parts of the step, stages, ranks, links, what changed. ``make`` takes the comparison.

Times are in us a step; differences are new minus base.

Findings say what changed: the work of ranks, of stages, of all; transfers; what is not compared.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from npu_tui.analysis.limits import NAMED, NEARLY_ALL
from npu_tui.jobs.against import RANKS_NAMED, JobComparison, RankChange, RoleChange
from npu_tui.jobs.step_times import TIMES
from npu_tui.profile.table import Column, TableSheet, columns, from_tuples, table, us
from npu_tui.rules import pages
from npu_tui.rules.model import Finding, Kind
from npu_tui.rules.rule import priced_change
from npu_tui.strings import words
from npu_tui.trace.message import Message, message

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


JOB_DIFFERENCES = (
    Kind("DIFF.RANK", "compute", "compare", pages=(pages.SLOW_RANK,)),
    Kind("DIFF.STAGE", "compute", "compare"),
    Kind("DIFF.WORK", "compute", "compare"),
    Kind("DIFF.NETWORK", "communication", "compare", pages=(pages.ANALYZE,)),
    Kind("DIFF.RANKS", "config", "compare"),
)
"""Every finding about two jobs."""

_KINDS = {kind.id: kind for kind in JOB_DIFFERENCES}


def job_changes(compared: JobComparison) -> list[Finding]:
    """Everything that changed: what takes longer, the most first, then what takes less, then what is not compared."""
    found = [*_works(compared, "slower"), *_works(compared, "faster"), *_network(compared)]
    found.sort(key=lambda change: -(change.delta_ns or 0.0))
    return [*found, *_not_compared(compared)]


def _works(compared: JobComparison, verdict: str) -> Iterator[Finding]:
    """The ranks whose work is ``verdict``: all together, those of a stage, and each that changed by itself."""
    ranks = compared.ranks
    moved = [row for row in ranks if row.verdict == verdict]
    common = [row for row in moved if not row.alone]
    if len(ranks) > 1 and len(moved) >= NEARLY_ALL * len(ranks):
        usual = _mean(common or moved)
        yield _change("DIFF.WORK", f"against.work.{verdict}", moved, usual, compared)
        moved = [row for row in moved if row.alone and abs(row.delta("work")) > abs(usual)]
    else:
        stages: dict[tuple[str | None, int | None], list[RankChange]] = defaultdict(list)
        for row in ranks:
            stages[row.role, row.stage].append(row)
        for (role, stage), of_stage in stages.items():
            together = [row for row in of_stage if row in common]
            if len(stages) > 1 and len(together) > 1 and len(together) >= NEARLY_ALL * len(of_stage):
                place = place_of(role, stage)
                yield _change(
                    "DIFF.STAGE", f"against.stage.{verdict}", together, _mean(together), compared, place=place
                )
                moved = [row for row in moved if row not in together]
    if len(moved) > NAMED:
        yield _change("DIFF.RANK", f"against.ranks.{verdict}", moved, _mean(moved), compared)
        return
    for row in moved:
        yield _change("DIFF.RANK", f"against.rank.{verdict}", [row], row.delta("work"), compared, rank=row.rank)


def place_of(role: str | None, stage: int | None) -> Message:
    """A stage, a role, or a stage of a role."""
    known = "both" if role and stage is not None else "role" if role else "stage"
    return message(f"against.place.{known}", role=role, stage=stage)


def _mean(rows: Sequence[RankChange]) -> float:
    return sum(row.delta("work") for row in rows) / len(rows)


def _change(
    id: str, code: str, rows: Sequence[RankChange], delta: float, compared: JobComparison, **args: object
) -> Finding:
    base, computing, free = (
        sum(row.base["work"] for row in rows) / len(rows),
        *(sum(row.delta(name) for row in rows) / len(rows) for name in ("computing", "free")),
    )
    ranks = tuple(row.rank for row in rows)
    waits = [row.delta("exposed") for row in compared.ranks if row not in rows and not row.role]
    args |= {"delta": abs(delta), "share": abs(delta) / base if base else 0.0, "base": base, "new": base + delta}
    args |= {"count": len(rows), "all": len(compared.ranks), "ranks": list(ranks[:RANKS_NAMED])}
    said = [message("against.detail", computing=computing, free=free)]
    errors = [row.error for row in rows if row.error is not None]
    error = math.sqrt(sum(one * one for one in errors)) / len(rows) if len(errors) == len(rows) else None
    said += [] if error is None else [message("against.error", error=error)]
    if len(rows) == 1 and rows[0].base_rank != rows[0].rank:
        said.append(message("against.was", rank=rows[0].base_rank))
    if waits:
        said.append(message("against.others", waits=sum(waits) / len(waits)))
    title, roles = message(code, **args), {row.role for row in rows}
    if id == "DIFF.RANK" and len(roles) == 1 and rows[0].role:
        title = message("job.of_role", role=rows[0].role, what=title)
    return _job_change(id, title, message("list.sentences", parts=said), compared, delta, error, ranks)


def _job_change(
    id: str, title: Message, detail: Message, compared: JobComparison, delta: float | None,
    error: float | None = None, ranks: tuple[int, ...] = (),
) -> Finding:  # fmt: skip
    """What adds ``delta`` ns to the work, or to the transfers, of a step; None: that is not compared."""
    found = priced_change(_KINDS[id], delta, compared.step.before, title, detail)
    return replace(found, ranks=ranks, error_ns=error)


def _network(compared: JobComparison) -> Iterator[Finding]:
    """The finding about slower or faster transfers; where none are timed, about exposed time that no rank explains."""
    told = [message("against.speed", transport=name, base=base, new=new) for name, base, new in compared.bandwidths]
    links = [message("against.speeds", speeds=told)] if told else []
    transfers = compared.transfers
    step = compared.step.before
    if transfers is not None:
        if transfers.verdict in ("slower", "faster"):
            args = {"base": transfers.before, "new": transfers.after}
            args |= {"delta": abs(transfers.delta), "share": abs(transfers.delta) / step}
            title = message(f"against.network.{transfers.verdict}", **args)
            detail = message("list.sentences", parts=[message("against.network.detail"), *links])
            yield _job_change("DIFF.NETWORK", title, detail, compared, transfers.delta)
        return
    exposed = next((new - base for name, base, new in compared.parts if name == "exposed"), 0.0)
    if compared.step.verdict != "slower" or any(row.verdict != "same" for row in compared.stages):
        return
    if exposed >= compared.tolerance.computing * step and all(
        row.verdict in ("same", "unsure") for row in compared.ranks
    ):
        title = message("against.network.exposed", delta=exposed, share=exposed / step)
        detail = message("list.sentences", parts=[message("against.network.perhaps"), *links])
        yield _job_change("DIFF.NETWORK", title, detail, compared, exposed)


def _not_compared(compared: JobComparison) -> Iterator[Finding]:
    """Ranks that only one job has, and jobs that are divided otherwise: nothing is said of their ranks."""
    pairing = compared.pairing
    ranks = () if pairing.way == "none" else (*pairing.base_only, *pairing.new_only)
    for reason in compared.losses:
        if reason.code.startswith("against."):
            yield _job_change("DIFF.RANKS", reason, message("against.not_compared"), compared, None, ranks=ranks)
