"""The tables about verdicts: findings, and the places that prove them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npu_tui.profile.columns import rank_of
from npu_tui.profile.profile import Profile
from npu_tui.profile.table import Data, Sheet, Span, attributes, labels, numbers, optional, table
from npu_tui.rules.model import Evidence, Finding
from npu_tui.strings import say, words


def findings(profile: Profile, known: Sequence[Finding] | None = None) -> Sheet:
    """The findings in the order of work, each at its first place; ``known`` where they are known.

    Raises ``InputError`` if the file is gone.
    """
    known = profile.findings.findings if known is None else known
    return Sheet(
        len(known),
        {
            "rank": rank_of(profile),
            "number": numbers(np.arange(1, len(known) + 1)),
            **attributes(
                known,
                "id class=cls severity gain=gain_ns step_after=step_after_ns part_of confidence hidden",
                title=lambda finding: words(finding.title),
                detail=lambda finding: words(finding.detail),
            ),
            **_places(profile, [next(iter(finding.evidence), None) for finding in known]),
        },
        lambda row: [
            Span(
                finding.start,
                finding.end,
                finding.lane,
                finding.slice,
                say("findings.place", name=finding.name, note=finding.note),
            )
            for finding in known[row].evidence
        ],
        code=lambda row: next(iter(known[row].code_lines), None),
    )


FINDINGS = table(
    "findings",
    findings,
    sql="rank number id class severity title detail gain step_after part_of confidence hidden slice start end duration "
    "start_ns",
    panel="number class=severity gain line=place what=title",
)


def evidence(profile: Profile) -> Sheet:
    """Every place that proves a finding."""
    rows: list[tuple[int, Finding, Evidence]] = [
        (number, finding, place)
        for number, finding in enumerate(profile.findings.findings, 1)
        for place in finding.evidence
    ]
    lanes = profile.trace.lanes
    places = [place for _, _, place in rows]
    return Sheet(
        len(rows),
        {
            "rank": rank_of(profile),
            "number": numbers(np.array([number for number, _, _ in rows], np.int64)),
            "id": labels([finding.id for _, finding, _ in rows]),
            "name": labels([words(place.name) for place in places]),
            "note": labels([words(place.note) for place in places]),
            "lane": labels([None if place.lane is None else lanes[place.lane].name for place in places]),
            **_places(profile, places),
        },
    )


EVIDENCE = table("evidence", evidence, sql="rank number id slice name note lane start end duration start_ns")


def _places(profile: Profile, places: list[Evidence] | list[Evidence | None]) -> dict[str, Data]:
    known = [None if place is None else (place.start, place.end, place.slice) for place in places]
    origin = profile.tables.start_ns
    return {
        "slice": optional([None if place is None else place[2] for place in known]),
        "start": optional([None if place is None else place[0] for place in known]),
        "end": optional([None if place is None else place[1] for place in known]),
        "duration": optional([None if place is None else place[1] - place[0] for place in known]),
        "start_ns": optional([None if place is None else place[0] + origin for place in known]),
    }
