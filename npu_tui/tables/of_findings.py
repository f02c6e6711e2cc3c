"""The tables about verdicts and memory."""

from __future__ import annotations

import numpy as np

from npu_tui.analysis.work.joined.memory import BEFORE, NEVER, MemoryCurve
from npu_tui.profile.profile import Profile
from npu_tui.rules.model import Evidence, Finding
from npu_tui.strings import words
from npu_tui.tables.places import UNKNOWN, absolute, rank_of
from npu_tui.tables.sheet import Data, Sheet, coded, labels, numbers, optional


def findings(profile: Profile) -> Sheet:
    """The findings in the order of work, each at its first place. Raises ``InputError`` if the file is gone."""
    found = profile.whole.findings.findings
    rows = len(found)
    return Sheet(
        rows,
        {
            "rank": rank_of(profile, rows),
            "number": numbers(np.arange(1, rows + 1)),
            "id": labels([each.id for each in found]),
            "class": labels([each.cls for each in found]),
            "severity": labels([each.severity for each in found]),
            "title": labels([words(each.title) for each in found]),
            "detail": labels([words(each.detail) for each in found]),
            "gain": optional([each.gain_ns for each in found]),
            "step_after": optional([each.step_after_ns for each in found]),
            "part_of": labels([each.part_of for each in found]),
            "confidence": labels([each.confidence for each in found]),
            "hidden": numbers(np.array([each.hidden for each in found], np.bool_)),
            **_places(profile, [next(iter(each.evidence), None) for each in found]),
        },
    )


def evidence(profile: Profile) -> Sheet:
    """Every place that proves a finding."""
    found: list[tuple[int, Finding, Evidence]] = [
        (number, each, place)
        for number, each in enumerate(profile.whole.findings.findings, 1)
        for place in each.evidence
    ]
    lanes = profile.trace.lanes
    places = [place for _, _, place in found]
    return Sheet(
        len(found),
        {
            "rank": rank_of(profile, len(found)),
            "number": numbers(np.array([number for number, _, _ in found], np.int64)),
            "id": labels([each.id for _, each, _ in found]),
            "name": labels([words(place.name) for place in places]),
            "note": labels([words(place.note) for place in places]),
            "lane": labels([None if place.lane is None else lanes[place.lane].name for place in places]),
            **_places(profile, places),
        },
    )


def _places(profile: Profile, places: list[Evidence] | list[Evidence | None]) -> dict[str, Data]:
    known = [None if each is None else (each.start, each.end, each.slice) for each in places]
    origin = profile.tables.start_ns
    return {
        "slice": optional([None if each is None else each[2] for each in known]),
        "start": optional([None if each is None else each[0] for each in known]),
        "end": optional([None if each is None else each[1] for each in known]),
        "duration": optional([None if each is None else each[1] - each[0] for each in known]),
        "start_ns": optional([None if each is None else each[0] + origin for each in known]),
    }


def memory(profile: Profile) -> Sheet:
    """Every record of memory, of allocators, the process and the modules of CANN."""
    curves: list[MemoryCurve] = [*profile.memory.curves, *profile.memory.modules]
    lengths = [len(curve.time) for curve in curves]
    which = np.repeat(np.arange(len(curves), dtype=np.int64), lengths)
    time = np.concatenate([curve.time for curve in curves]) if curves else np.zeros(0, np.int64)
    value = np.concatenate([curve.value for curve in curves]) if curves else np.zeros(0, np.int64)
    return Sheet(
        len(time),
        {
            "rank": rank_of(profile, len(time)),
            "component": coded([curve.component for curve in curves], which),
            "amount": coded([curve.amount for curve in curves], which),
            "start": numbers(time),
            "start_ns": absolute(profile, time),
            "value": numbers(value),
        },
    )


def allocations(profile: Profile) -> Sheet:
    """Every allocation of operator_memory.csv."""
    found, rows = profile.memory.allocations, len(profile.memory.allocations)
    none = int(np.iinfo(np.int64).min)
    start = np.where(found.start == BEFORE, none, found.start)
    end = np.where(found.end == NEVER, none, found.end)
    origin = profile.tables.start_ns
    item = profile.tables.allocating_slices if rows else np.zeros(0, np.int64)
    return Sheet(
        rows,
        {
            "rank": rank_of(profile, rows),
            "slice": numbers(item, UNKNOWN),
            "name": coded(found.name.values, found.name.code),
            "size": numbers(found.size),
            "start": numbers(start, none),
            "end": numbers(end, none),
            "duration": numbers(np.where((start == none) | (end == none), none, found.end - found.start), none),
            "start_ns": numbers(np.where(start == none, none, found.start + origin), none),
        },
    )
