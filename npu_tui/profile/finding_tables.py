"""The tables about verdicts: findings, and the places that prove them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npu_tui.profile.profile import Profile
from npu_tui.profile.table import (
    Data,
    NestedRows,
    Span,
    TableSheet,
    attributes,
    columns,
    labels,
    numbers,
    optional,
    row_type,
    table,
    us,
)
from npu_tui.rules.model import Base, Confidence, Evidence, Finding, FindingClass, Severity
from npu_tui.strings import say, words
from npu_tui.trace.text import printable

EvidenceRow = row_type(
    "EvidenceRow",
    "A place that proves a finding; ``lane`` is None where it is on none.",
    start_us=float,
    end_us=float,
    lane=str | None,
    name=str,
    note=str,
)
PlaceRow = row_type("PlaceRow", "A line of code.", file=str, line=int, function=str)

_OWN = {
    **columns("whole", "", "count", "gain_after count"),
    **columns("label", "", "word", "per", "finding.unit"),
    **columns("rows", "", "word", "evidence advice steps code_lines sources"),
}


def findings(profile: Profile, known: Sequence[Finding] | None = None) -> TableSheet:
    """The findings in the order of work, each at its first place; ``known`` where they are known.

    Raises ``InputError`` if the file is gone.
    """
    known = profile.findings.findings if known is None else known

    def proofs(finding: Finding) -> list[Any]:
        lanes = profile.trace.lanes
        return [
            EvidenceRow(
                us(place.start),
                us(place.end),
                None if place.lane is None else printable(lanes[place.lane].name),
                words(place.name),
                words(place.note),
            )
            for place in finding.evidence
        ]

    return TableSheet(
        len(known),
        {
            "number": numbers(np.arange(1, len(known) + 1)),
            **attributes(
                known,
                "id class=cls severity gain=gain_ns per=unit count "
                "step_after=step_after_ns part_of confidence hidden gain_after",
                _OWN,
                title=lambda finding: words(finding.title),
                detail=lambda finding: words(finding.detail),
                gain_alone=lambda finding: None if finding.remedy is None else finding.remedy.gain,
                whatif=lambda finding: finding.whatif,
            ),
            "evidence": NestedRows(lambda: list(map(proofs, known))),
            "advice": NestedRows(lambda: [list(map(words, finding.advice)) for finding in known]),
            "steps": NestedRows(lambda: [list(finding.steps) for finding in known]),
            "code_lines": NestedRows(
                lambda: [
                    [PlaceRow(printable(code.file), code.line, printable(code.function)) for code in finding.code_lines]
                    for finding in known
                ]
            ),
            "sources": NestedRows(lambda: [list(finding.sources) for finding in known]),
            **_evidence_columns(profile, [next(iter(finding.evidence), None) for finding in known]),
        },
        lambda row: [
            Span(
                place.start, place.end, place.lane, place.slice, say("findings.place", name=place.name, note=place.note)
            )
            for place in known[row].evidence
        ],
        code=lambda row: next(iter(known[row].code_lines), None),
        base=Base(known[0].unit, known[0].count) if known else None,
    )


FINDINGS = table(
    "findings",
    findings,
    sql="rank number id class severity title detail gain per count step_after gain_alone whatif part_of "
    "confidence hidden "
    "slice start end duration start_ns",
    json="id cls=class severity title detail evidence advice gain? per count gain_after step_after? "
    "gain_alone? whatif? part_of? steps hidden confidence code_lines sources",
    panel="number class=severity gain line=place what=title",
    section="findings",
    row="FindingRow",
    about="""A finding; ``gain_us`` is what the step would lose in length, None where it cannot be told.

    ``per`` says of what: a step, or what repeats in a run without steps (token, iteration, repetition), else
    the whole run or range; ``count`` is how many of them were measured.

    ``step_after_us`` is None for what is no step of the ladder, ``part_of`` for what no other finding contains.
    ``gain_after`` is how many findings above must be fixed first for the gain, as they take as long at the same time.
    ``whatif`` is the change that replays the run without it, None where none does; ``gain_alone_us`` is its gain.
    ``steps`` are the numbers of the steps it shows in.
    """,
    own=_OWN,
    types={
        "class": FindingClass,
        "severity": Severity,
        "confidence": Confidence,
        "evidence": list[EvidenceRow],  # type: ignore[valid-type]
        "advice": list[str],
        "steps": list[int],
        "code_lines": list[PlaceRow],  # type: ignore[valid-type]
        "sources": list[str],
    },
)


def evidence(profile: Profile) -> TableSheet:
    """Every place that proves a finding."""
    rows: list[tuple[int, Finding, Evidence]] = [
        (number, finding, place)
        for number, finding in enumerate(profile.findings.findings, 1)
        for place in finding.evidence
    ]
    lanes = profile.trace.lanes
    places = [place for _, _, place in rows]
    return TableSheet(
        len(rows),
        {
            "number": numbers(np.array([number for number, _, _ in rows], np.int64)),
            "id": labels([finding.id for _, finding, _ in rows]),
            "name": labels([words(place.name) for place in places]),
            "note": labels([words(place.note) for place in places]),
            "lane": labels([None if place.lane is None else lanes[place.lane].name for place in places]),
            **_evidence_columns(profile, places),
        },
    )


EVIDENCE = table("evidence", evidence, sql="rank number id slice name note lane start end duration start_ns")


def _evidence_columns(profile: Profile, places: list[Evidence] | list[Evidence | None]) -> dict[str, Data]:
    origin = profile.tables.start_ns
    columns = ("slice", "start", "end", "duration", "start_ns")
    cells: list[tuple[int | None, ...]] = [
        (None,) * len(columns)
        if place is None
        else (place.slice, place.start, place.end, place.end - place.start, place.start + origin)
        for place in places
    ]
    return {column: optional([row[k] for row in cells]) for k, column in enumerate(columns)}
