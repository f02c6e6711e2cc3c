"""A comparison of two profiles as JSON, and as a document: verdict, parts of the step, timelines, changes, tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

import msgspec
from msgspec.structs import replace

from npu_tui.analysis.statistics import Judgement
from npu_tui.compare import tables
from npu_tui.compare.comparison import OwnersUnknown, ProfileComparison
from npu_tui.compare.differences import differences
from npu_tui.compare.measured import MeasuredSide as MeasuredSide
from npu_tui.compare.picture import ComparisonPicture as Pair
from npu_tui.compare.picture import compared_scene
from npu_tui.compare.steps import StepWindow
from npu_tui.output.document import (
    Block,
    Cell,
    Document,
    Finding,
    Findings,
    Heading,
    Items,
    Paragraph,
    Proof,
    Table,
    comparison_document,
    finding_cells,
    first_owners,
    made_table,
    rendered,
    sum_row,
    time_cell,
)
from npu_tui.output.envelope import ComparedSides, NotChecked, Old, Root, not_checked
from npu_tui.output.svg import scene_timeline
from npu_tui.profile.table import Record, rows_of, us
from npu_tui.rules.rule import place_in
from npu_tui.strings import say, words
from npu_tui.trace.message import Message, message
from npu_tui.trace.text import (
    brief,
    change_text,
    mean_count_text,
    printable,
    probability_text,
    share_change_text,
    share_text,
)


class ComparedStep(msgspec.Struct):
    """A step of one side: its number and how long it took; ``reason`` says why it is left out."""

    step: int | None
    wall_us: float
    reason: str | None = None


class SourceEntry(msgspec.Struct):
    """One profile."""

    path: str
    kind: str
    rank: int | None
    profiler_level: int | None


class SideEntry(msgspec.Struct):
    """One profile with the steps that are compared and those that are not."""

    source: SourceEntry
    steps: list[ComparedStep]
    left_out: list[ComparedStep]


class Note(msgspec.Struct):
    """A circumstance that limits the comparison."""

    id: str
    text: str


class Comparable(msgspec.Struct):
    """How far the profiles can be compared: ``verdict`` is same_job, comparable, partly or incomparable.

    ``time_matched`` are the shares of the time of the kernels of base and new that have a counterpart.
    """

    verdict: str
    notes: list[Note]
    ops_matched: float | None
    kernels_matched: float | None
    rungs: dict[str, float]
    time_matched: tuple[float, float] | None = None


class JudgedTime(msgspec.Struct):
    """A time per step on both sides: ``shift_us`` and ``ci_us`` are Hodges-Lehmann, ``p`` an exact rank test.

    ``visible_us`` is the smallest change that these samples would show; ``verdict`` slower, faster, same, unsure or
    incomparable.
    """

    base_us: list[float]
    new_us: list[float]
    delta_us: float
    shift_us: float | None
    ci_us: tuple[float, float] | None
    p: float | None
    visible_us: float | None
    verdict: str


@rows_of(
    parts=tables.PARTS,
    groups=tables.GROUPS,
    lines=tables.LINES,
    collectives=tables.COLLECTIVES,
    config=tables.CONFIG,
    findings=tables.CHANGES,
    profile_findings=tables.PROFILE_FINDINGS,
    owners=tables.OWNERS,
)
class Compared(Root, frozen=True, kw_only=True):
    """The whole comparison."""

    FIRST: ClassVar = ("comparability", "step", "computing", "parts")
    OLD: ClassVar = {
        "not_checked": Old("not_judged", list[Note], lambda rows: [Note(id=row.id, text=row.reason) for row in rows])
    }

    schema_version: Literal[2] = 2
    kind: Literal["compare"] = "compare"
    base: SideEntry
    new: SideEntry
    comparability: Comparable
    step: JudgedTime
    computing: JudgedTime | None
    parts: list[Record]
    groups: list[Record]
    stream_overlap_us: float
    lines: list[Record]
    collectives: list[Record]
    config: list[Record]
    findings: list[Record]
    profile_findings: list[Record]
    not_checked: list[NotChecked]
    owners: list[Record] = []

    @property
    def source(self) -> ComparedSides[SourceEntry]:
        """What was compared."""
        return ComparedSides(self.base.source, self.new.source)


_DIGITS = 6


def compared(comparison: ProfileComparison, single: bool = True, ignored: frozenset[str] = frozenset()) -> Compared:
    """Everything that is known of the change from base to new, without the findings ``ignored``.

    The findings of each profile only if ``single``: they take long.
    """
    circumstances, matched = comparison.comparability, comparison.time_matched
    found = [change for change in differences(comparison) if change.id not in ignored]
    return Compared(
        base=_side_entry(comparison.base),
        new=_side_entry(comparison.new),
        comparability=Comparable(
            circumstances.verdict,
            [Note(note.code.rpartition(".")[2], words(note)) for note in circumstances.notes],
            _rounded_share(circumstances.operations),
            _rounded_share(circumstances.kernels),
            {rung: round(share, _DIGITS) for rung, share in comparison.rungs.items()},
            None if matched is None else (round(matched[0], _DIGITS), round(matched[1], _DIGITS)),
        ),
        step=judged_time(comparison.step),
        computing=None if comparison.computing is None else judged_time(comparison.computing),
        parts=tables.PARTS.records(comparison),
        groups=tables.GROUPS.records(comparison),
        stream_overlap_us=us(comparison.stream_overlap),
        lines=tables.LINES.records(comparison),
        collectives=tables.COLLECTIVES.records(comparison),
        config=tables.CONFIG.records(comparison),
        findings=tables.CHANGES.records(comparison, found=found),
        profile_findings=tables.PROFILE_FINDINGS.records(comparison) if single else [],
        not_checked=[not_checked(why, after=2) for why in _not_judged(comparison)],
        owners=tables.OWNERS.records(comparison),
    )


def _not_judged(comparison: ProfileComparison) -> list[Message]:
    """What is not compared, and why."""
    owners = comparison.owners
    if not isinstance(owners, OwnersUnknown):
        return comparison.comparability.not_judged
    return [
        *comparison.comparability.not_judged,
        message("compare.skipped.owners", side=owners.side, why=owners.reason),
    ]


def _rounded_share(value: float | None) -> float | None:
    return None if value is None else round(float(value), _DIGITS)


def _side_entry(side: MeasuredSide) -> SideEntry:
    profile = side.profile
    return SideEntry(
        SourceEntry(
            printable(profile.path),
            "profile" if profile.source is None else profile.source.kind,
            side.trace.rank,
            profile.profiler_level,
        ),
        [_compared_step(window) for window in side.windows],
        [_compared_step(window, reason) for window, reason in side.sample.left_out],
    )


def _compared_step(window: StepWindow, reason: str | None = None) -> ComparedStep:
    return ComparedStep(window.number, us(window.wall), reason)


def judged_time(judgement: Judgement) -> JudgedTime:
    """A judgement in µs."""
    shift = judgement.shift
    return JudgedTime(
        [us(value) for value in judgement.base.tolist()],
        [us(value) for value in judgement.new.tolist()],
        us(judgement.delta),
        us(shift.estimate) if shift else None,
        (us(shift.low), us(shift.high)) if shift else None,
        _rounded_share(shift.p) if shift else None,
        us(judgement.visible),
        judgement.verdict,
    )


_ATTRIBUTES = 60  # characters of the shapes and data types of a kernel
_LEFT_OUT = 4  # steps left out that are named; the others are counted


def compare_document(report: Compared, pair: Pair | None = None) -> Document:
    """What ``report`` says; with the ``pair`` of profiles as on the screen, a picture of both timelines too."""
    verdict, *rest = verdicts(report)
    blocks: list[Block] = [Paragraph(tuple(rest)), _parts_table(report)]
    if pair is not None:
        blocks += [scene_timeline(compared_scene(pair)), Paragraph((say("compare.picture.legend"),), "faint")]
    blocks += [*_change_blocks(report), _owners_table(report), _kernel_groups(report)]
    if report.stream_overlap_us:
        saved = change_text(-report.stream_overlap_us * 1000)
        blocks.append(Items((f"{say('compare.stream_overlap')}: {saved}",)))
    blocks += [_lines_table(report), _collectives_table(report), known_table(report.profile_findings), _config(report)]
    not_judged = [row.reason for row in report.not_checked]
    sides = report.base.source.path, report.new.source.path
    return comparison_document(verdict, list(_compared_sides(report)), blocks, not_judged, sides)


def _compared_sides(report: Compared) -> Iterator[str]:
    """Who is compared, and which steps are left out."""
    for name, side in (("base", report.base), ("new", report.new)):
        rank = side.source.rank
        count = len(side.steps)
        words = {
            "side": say(f"column.{name}"),
            "path": side.source.path,
            "rank": say("compare.single_device") if rank is None else say("compare.rank", rank=rank),
            "wall": sum(step.wall_us for step in side.steps) / count * 1000,
        }
        if side.steps[0].step is None:
            yield say("compare.side.whole", **words)
        else:
            yield say("compare.side", **words, steps=say("compare.steps", count=count))
        if side.left_out:
            left = [
                say(
                    "compare.left_out.step",
                    step=step.step,
                    reason=say(f"compare.reason.{step.reason}"),
                    wall=step.wall_us * 1000,
                )
                for step in side.left_out[:_LEFT_OUT]
            ]
            if len(side.left_out) > _LEFT_OUT:
                left.append(say("compare.more", count=len(side.left_out) - _LEFT_OUT))
            yield say("compare.left_out", steps=say("list.comma").join(left))


def verdicts(report: Compared) -> Iterator[str]:
    """The verdict on the step, and what it rests on, in lines."""
    yield from judged_lines(report.step, report.computing)
    if report.computing is not None:
        base, new = (sum(times) / len(times) for times in (report.computing.base_us, report.computing.new_us))
        if base and new and _is_by_operation(report):
            yield say("compare.computing.ratio", ratio=f"{new / base:.3g}")
    shares = report.comparability
    operations, kernels = (
        say("report.unknown") if share is None else share_text(share)
        for share in (shares.ops_matched, shares.kernels_matched)
    )
    yield say("compare.matched", operations=operations, kernels=kernels)
    if shares.time_matched is not None and min(shares.time_matched) < 1:
        yield say("compare.time_matched", base=shares.time_matched[0], new=shares.time_matched[1])
    yield from (note.text for note in shares.notes)


def _is_by_operation(report: Compared) -> bool:
    """Whether kernels are compared by what launched them, as another chip runs others."""
    return any(note.id == "by_operation" for note in report.comparability.notes)


def judged_lines(step: JudgedTime, computing: JudgedTime | None) -> Iterator[str]:
    """The verdict on the step, what it rests on, and that on its computing time."""
    yield _verdict_text("compare.verdict", step)
    base = sum(step.base_us) / len(step.base_us)
    if step.ci_us is not None:
        low, high = step.ci_us
        yield say("compare.interval", low=low * 1000, high=high * 1000, p=probability_text(step.p or 0.0))
    elif step.verdict == "unsure":
        yield say("compare.few")
    elif step.verdict in ("slower", "faster"):
        yield say("compare.far", count=min(len(step.base_us), len(step.new_us)))
    if step.visible_us is not None and base:
        yield say("compare.visible", share=step.visible_us / base)
    if computing is not None:
        yield _verdict_text("compare.computing", computing)


def _verdict_text(key: str, judged: JudgedTime) -> str:
    base, new = (sum(times) / len(times) for times in (judged.base_us, judged.new_us))
    return say(
        key,
        verdict=say(f"{key}.{judged.verdict}"),
        base=base * 1000,
        new=new * 1000,
        delta=judged.delta_us * 1000,
        share=judged.delta_us / base if base else 0.0,
    )


def change_cell(us: float | None) -> Cell:
    """A difference in µs with its sign."""
    return Cell(say("report.unknown")) if us is None else Cell(change_text(us * 1000), us)


def _parts_table(report: Compared) -> Table:
    """Every known part of the step and their sum."""
    rows = [row for row in report.parts if row.base_us is not None]
    if rows:
        sums = (round(sum(getattr(row, name) for row in rows), 3) for name in ("base_us", "new_us", "delta_us"))
        rows.append(tables.PARTS.row("sum", *sums, None))
    return replace(rendered(tables.PARTS, rows), sortable=False)


def _change_blocks(report: Compared) -> Iterator[Block]:
    """The changes; one that is part of another comes below it and says so."""
    if not report.findings:
        yield from (Heading(say("compare.findings")), Paragraph((say("compare.nothing"),)))
        return
    base = sum(report.step.base_us) / len(report.step.base_us)
    order = _order(report.findings)
    rows, findings = [], []
    for number, row in enumerate(order, 1):
        delta = "" if row.delta_us is None else change_text(row.delta_us * 1000)
        share = "" if row.delta_us is None or not base else share_change_text(row.delta_us / base)
        title = row.title if row.part_of is None else say("compare.part_of", title=row.title, id=row.part_of)
        cells = [Cell(delta, row.delta_us), Cell(share, row.delta_us), Cell(row.id, name=True), Cell(title)]
        rows.append([*finding_cells(number, row.severity), *cells])
        gain = f"{delta} ({share})" if share else delta
        proofs = tuple(map(_change_proof, row.evidence))
        findings.append(Finding(number, row.id, row.severity, title, gain, "", proofs, tuple(row.advice)))
    title = say("compare.findings")
    table = made_table("findings", "number# severity delta# share# finding what_changed", rows, title)
    # Where not all fit, those stay that are no part of another.
    weights = tuple(1.0 if row.part_of is None else 0.0 for row in order)
    yield Findings(title, replace(table, weights=weights), tuple(findings))


def _order(findings: Sequence[Record]) -> list[Record]:
    """Each change with its parts below it."""
    order = []
    for change in findings:
        if change.part_of is None:
            order += [change, *(row for row in findings if row.part_of == change.id)]
    return order + [row for row in findings if row not in order]


def _change_proof(place: Record) -> Proof:
    side = say(f"column.{place.side}")
    length = (place.end_us - place.start_us) * 1000
    return Proof(say("compare.place.evidence", side=side, at=place.start_us * 1000, length=length, name=place.name))


def _kernel_groups(report: Compared) -> Table:
    """The groups of kernels that changed: a call of each side and how likely chance made the difference.

    Where another chip runs them a call is not the same work: there are their time per step and the ratio.
    """
    per_step = _is_by_operation(report)

    def time(side: Record) -> Cell:
        return time_cell(side.total_us if per_step and side.count else side.median_us)

    def ratio(row: Record) -> Cell:
        if row.rung != "operation" or row.ratio is None:
            return Cell("")
        return Cell(say("compare.ratio", ratio=f"{row.ratio:.3g}"), row.ratio)

    def kernel(row: Record) -> Cell:
        attributes = brief(" ".join(text.strip('"') for text in (row.shapes, row.dtypes) if text), _ATTRIBUTES)
        return Cell(" ".join(filter(None, (row.type, attributes))), name=True)

    return rendered(
        tables.GROUPS,
        [row for row in report.groups if row.delta_us],
        base_calls=lambda row: Cell(mean_count_text(row.base.count), row.base.count),
        base=lambda row: time(row.base),
        new_calls=lambda row: Cell(mean_count_text(row.new.count), row.new.count),
        new=lambda row: time(row.new),
        ratio=ratio,
        p=lambda row: Cell("") if row.q is None else Cell(probability_text(row.q), row.q),
        kernel=kernel,
    )


def _owners_table(report: Compared) -> Table:
    """The owners of the step on both sides, the largest difference first; the rows sum to that of the step."""
    rows = first_owners(report.owners, sums := "base_us new_us delta_us", "where")
    rows += [sum_row(rows, say("table.total"), sums, "where")] if rows else []

    def called(row: Record) -> Cell:
        if row.where is None:
            return Cell(row.name, name=True)
        return Cell(say("compare.owners.place", name=row.name, place=place_in(row.where)), name=True)

    return replace(rendered(tables.OWNERS, rows, owner=called), sortable=False)


def _lines_table(report: Compared) -> Table:
    """The lines of code whose lost time differs, with that of both sides per step."""
    return rendered(
        tables.LINES,
        [row for row in report.lines if row.delta_us],
        base=lambda row: time_cell(row.lost_us[0]),
        new=lambda row: time_cell(row.lost_us[1]),
        line=lambda row: Cell(_line_place(row), name=True),
    )


def _line_place(row: Record) -> str:
    """The code line as the new side has it, and its number in the base if that was another."""
    if row.file is None:
        return say("compare.place.unknown")
    function = row.function or ""
    if row.base_line is None or row.base_line == row.line:
        return say("compare.place", file=row.file, line=row.line, function=function)
    return say("compare.place.moved", file=row.file, line=row.line, base_line=row.base_line, function=function)


def _collectives_table(report: Compared) -> Table:
    return rendered(
        tables.COLLECTIVES,
        report.collectives,
        base=lambda row: time_cell(row.elapsed_us[0]),
        new=lambda row: time_cell(row.elapsed_us[1]),
        change=lambda row: change_cell((row.elapsed_us[1] or 0.0) - (row.elapsed_us[0] or 0.0)),
        base_wait=lambda row: time_cell(row.wait_us[0]),
        new_wait=lambda row: time_cell(row.wait_us[1]),
        collective=lambda row: Cell(
            say("compare.collective", type=row.type, ordinal=row.ordinal + 1, group=row.group), name=True
        ),
    )


def _config(report: Compared) -> Table:
    absent = say("compare.absent")
    return rendered(
        tables.CONFIG, report.config, base=lambda row: Cell(row.base or absent), new=lambda row: Cell(row.new or absent)
    )


def known_table(findings: Sequence[Record]) -> Table:
    """The findings that only one side has."""
    return rendered(tables.PROFILE_FINDINGS, findings, finding=lambda row: Cell(row.id, name=True))
