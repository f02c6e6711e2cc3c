"""The JSON document of a comparison."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from npu_tui.analysis.statistics import Judgement
from npu_tui.compare import tables
from npu_tui.compare.comparison import ProfileComparison
from npu_tui.compare.differences import differences
from npu_tui.compare.measured import MeasuredSide as MeasuredSide
from npu_tui.compare.owners import Untold
from npu_tui.compare.steps import StepWindow
from npu_tui.output.envelope import ComparedSides, NotChecked, Old, Root, not_checked
from npu_tui.profile.table import Record, rows_of, us
from npu_tui.strings import words
from npu_tui.trace.message import Message, message
from npu_tui.trace.text import printable


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
            [_circumstance(note) for note in circumstances.notes],
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
    if not isinstance(owners, Untold):
        return comparison.comparability.not_judged
    return [
        *comparison.comparability.not_judged,
        message("compare.skipped.owners", side=owners.side, why=owners.reason),
    ]


def _rounded_share(value: float | None) -> float | None:
    return None if value is None else round(float(value), _DIGITS)


def _circumstance(note: Message) -> Note:
    """A circumstance by the last word of its code: ``level`` of ``compare.note.level``."""
    return Note(note.code.rpartition(".")[2], words(note))


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
