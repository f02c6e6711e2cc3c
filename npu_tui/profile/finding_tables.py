"""The tables about verdicts: findings, and the places that prove them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npu_tui.profile.columns import rank_of
from npu_tui.profile.profile import Profile
from npu_tui.profile.table import Data, Sheet, Span, attributes, labels, numbers, optional, table
from npu_tui.rules.model import Evidence, Finding
from npu_tui.strings import say, words


def findings(profile: Profile, found: Sequence[Finding] | None = None) -> Sheet:
    """The findings in the order of work, each at its first place; ``found`` where they are known.

    Raises ``InputError`` if the file is gone.
    """
    found = profile.findings.findings if found is None else found
    return Sheet(
        len(found),
        {
            "rank": rank_of(profile),
            "number": numbers(np.arange(1, len(found) + 1)),
            **attributes(
                found,
                "id class=cls severity gain=gain_ns step_after=step_after_ns part_of confidence hidden",
                title=lambda each: words(each.title),
                detail=lambda each: words(each.detail),
            ),
            **_places(profile, [next(iter(each.evidence), None) for each in found]),
        },
        lambda row: [
            Span(each.start, each.end, each.lane, each.slice, say("findings.place", name=each.name, note=each.note))
            for each in found[row].evidence
        ],
        code=lambda row: next(iter(found[row].code_lines), None),
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
    found: list[tuple[int, Finding, Evidence]] = [
        (number, finding, place)
        for number, finding in enumerate(profile.findings.findings, 1)
        for place in finding.evidence
    ]
    lanes = profile.trace.lanes
    places = [place for _, _, place in found]
    return Sheet(
        len(found),
        {
            "rank": rank_of(profile),
            "number": numbers(np.array([number for number, _, _ in found], np.int64)),
            "id": labels([each.id for _, each, _ in found]),
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
        "slice": optional([None if each is None else each[2] for each in known]),
        "start": optional([None if each is None else each[0] for each in known]),
        "end": optional([None if each is None else each[1] for each in known]),
        "duration": optional([None if each is None else each[1] - each[0] for each in known]),
        "start_ns": optional([None if each is None else each[0] + origin for each in known]),
    }
