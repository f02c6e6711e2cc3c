"""What dumps of expert loads and placements say, in a sentence each, and their part of a report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from msgspec.structs import replace

from npu_tui.load.format import Survey
from npu_tui.load.formats.experts import ExpertFiles, expert_files_in, read_expert_files
from npu_tui.output.document import Block, Heading, Paragraph, Table, rendered
from npu_tui.output.envelope import REASONS, NotChecked, Root, not_checked
from npu_tui.profile.expert_tables import LOAD_LAYERS, LOAD_RANKS, LOADS, PLACEMENTS, loads_of
from npu_tui.profile.table import Record, rows_of
from npu_tui.strings import say, words
from npu_tui.trace.message import message

_MOST_TOLD = 12  # sentences that a page gets; the tables and JSON have every phase


@rows_of(loads=LOADS, ranks=LOAD_RANKS, layers=LOAD_LAYERS, placements=PLACEMENTS)
class ExpertsReport(Root, frozen=True, kw_only=True):
    """All that is said of dumps of loads and of placements: a part of other documents."""

    OLD: ClassVar = {"not_checked": REASONS}

    verdict: list[str]
    loads: list[Record]
    ranks: list[Record]
    layers: list[Record]
    placements: list[Record]
    not_checked: list[NotChecked]


def experts_at(path: Path, survey: Survey | None = None) -> ExpertsReport | None:
    """The report of the files at ``path``, None where there are none."""
    paths = expert_files_in(path, survey)
    return experts_report(read_expert_files(paths)) if paths else None


def experts_report(files: ExpertFiles, work: Sequence[float] = ()) -> ExpertsReport:
    """All that is said of ``files``; ``work`` is what the mean rank computes for each layer in a step, us."""
    from npu_tui.jobs.expert_loads import swaps_told  # all of a job, which few reports are about

    known = loads_of(files)
    said = list(files.problems)
    said += [
        message("expert_files.apart", phase=one.phase, layers=len(one.tokens), experts=one.tokens.shape[2])
        for one in known
        if one.placement is None and files.placements
    ]
    placements = PLACEMENTS.records(files.placements)
    return ExpertsReport(
        verdict=[*(words(told) for one in known for told in swaps_told(one, work)), *map(_placement_text, placements)],
        loads=LOADS.records(known, work=work),
        ranks=LOAD_RANKS.records(known),
        layers=LOAD_LAYERS.records(known),
        placements=placements,
        not_checked=list(map(not_checked, said)),
    )


def _placement_text(row: Record) -> str:
    args = {name: getattr(row, name) for name in ("path", "layers", "devices", "slots", "experts")}
    copies = say("expert_files.differ") if row.redundant is None else say("expert_files.copies", count=row.redundant)
    twice = say("expert_files.twice", count=row.twice) if row.twice else ""
    missing = say("expert_files.unplaced", count=row.missing) if row.missing else ""
    return say("expert_files.placement", **args) + copies + twice + missing


def experts_part(report: ExpertsReport | None) -> Iterator[Block]:
    """What stands of dumps and placements in the report of the profiles beside them; nothing without any."""
    if report is not None:
        yield Heading(say("expert_files.title"))
        yield Paragraph((*report.verdict[:_MOST_TOLD], *(row.reason for row in report.not_checked)))
        yield from (table for table in _tables(report) if table.rows)


def _tables(report: ExpertsReport) -> Iterator[Table]:
    """Ranks, those with most tokens, layers, the most uneven ones, and placements."""
    ranks = tuple(row.times_mean or 0.0 for row in report.ranks)
    layers = tuple(row.uneven or row.expert_uneven for row in report.layers)
    yield replace(rendered(LOAD_RANKS, report.ranks, "", True), weights=ranks)
    yield replace(rendered(LOAD_LAYERS, report.layers, "", True), weights=layers)
    yield rendered(PLACEMENTS, report.placements, "", True)
