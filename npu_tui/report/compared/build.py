"""A ``Comparison`` as the typed report that every format is written from."""

from __future__ import annotations

from npu_tui.compare import tables
from npu_tui.compare.comparison import Comparison
from npu_tui.compare.differences import Difference, differences
from npu_tui.compare.measured import Side
from npu_tui.compare.statistics import Judgement
from npu_tui.compare.steps import StepWindow
from npu_tui.ingest.errors import InputError
from npu_tui.profile.table import us
from npu_tui.report.compared import schema
from npu_tui.report.values import text
from npu_tui.strings import words
from npu_tui.trace.message import Message

SCHEMA = 1
_DIGITS = 6


def compared(comparison: Comparison, single: bool = True) -> schema.Compared:
    """Everything that is known of the change from base to new; the findings of each profile only if ``single``."""
    circumstances = comparison.comparability
    return schema.Compared(
        schema_version=SCHEMA,
        kind="compare",
        base=_side(comparison.base),
        new=_side(comparison.new),
        comparability=schema.Comparable(
            circumstances.verdict,
            [_note(each) for each in circumstances.notes],
            _share(circumstances.operations),
            _share(circumstances.kernels),
            {rung: round(share, _DIGITS) for rung, share in comparison.rungs.items()},
        ),
        step=_judged(comparison.step),
        computing=None if comparison.computing is None else _judged(comparison.computing),
        parts=tables.PARTS.records(comparison),
        groups=tables.GROUPS.records(comparison),
        stream_overlap_us=us(comparison.stream_overlap),
        lines=tables.LINES.records(comparison),
        collectives=tables.COLLECTIVES.records(comparison),
        config=tables.CONFIG.records(comparison),
        findings=[_finding(comparison, each) for each in differences(comparison)],
        profile_findings=profile_findings(comparison) if single else [],
        not_judged=[_note(each) for each in circumstances.not_judged],
    )


def _share(value: float | None) -> float | None:
    return None if value is None else round(float(value), _DIGITS)


def _note(each: Message) -> schema.Note:
    return schema.Note(each.code.rpartition(".")[2], words(each))


def _side(side: Side) -> schema.Side:
    profile = side.profile
    return schema.Side(
        schema.Source(
            text(profile.path) or "",
            "profile" if profile.source is None else profile.source.kind,
            side.trace.rank,
            profile.profiler_level,
        ),
        [_step(each) for each in side.windows],
        [_step(each, reason) for each, reason in side.sample.left_out],
    )


def _step(window: StepWindow, reason: str | None = None) -> schema.ComparedStep:
    return schema.ComparedStep(window.number, us(window.wall), reason)


def _judged(found: Judgement) -> schema.Judged:
    shift = found.shift
    return schema.Judged(
        [us(value) for value in found.base.tolist()],
        [us(value) for value in found.new.tolist()],
        us(found.delta),
        us(shift.estimate) if shift else None,
        (us(shift.low), us(shift.high)) if shift else None,
        _share(shift.p) if shift else None,
        us(found.visible),
        found.verdict,
    )


def _finding(comparison: Comparison, found: Difference) -> schema.Finding:
    traces = {"base": comparison.base.trace, "new": comparison.new.trace}
    return schema.Finding(
        found.id,
        found.cls,
        found.severity,
        words(found.title),
        us(found.delta),
        [
            schema.Place(
                place.side,
                us(place.start),
                us(place.end),
                None if place.lane is None else text(traces[place.side].lanes[place.lane].name),
                text(place.name) or "",
            )
            for place in found.places
        ],
        [words(each) for each in found.advice],
        found.part_of,
    )


def profile_findings(comparison: Comparison) -> list[schema.KnownFinding]:
    """The findings above info that only one side has, of the rules that could be applied to both.

    Between two ranks of one job nothing came or went: one of them has it.
    """
    try:
        (base, base_silent), (now, new_silent) = (side.profile.titles for side in comparison.sides)
    except InputError:
        return []
    own = [{key: title for key, title in of.items() if key not in base_silent | new_silent} for of in (base, now)]
    names = ("only_new", "only_base") if comparison.comparability.same_job else ("new", "solved")
    new = [schema.KnownFinding(key, names[0], words(title)) for key, title in own[1].items() if key not in own[0]]
    return new + [
        schema.KnownFinding(key, names[1], words(title)) for key, title in own[0].items() if key not in own[1]
    ]
