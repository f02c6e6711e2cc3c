"""Drains of the real profiles and of the simulator."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from samples import parts_of

from npu_tui.analysis.drains import drains

if TYPE_CHECKING:
    from conftest import Sample
    from samples import Simulated

#: Drains, those of a filled queue, and causes.
DRAINS = {
    "level0/rank0": (36, 7, {"python": 24, "sync": 6, "cann": 3, "copy": 2, "work": 1}),
    "level0/rank1": (35, 6, {"python": 23, "sync": 6, "cann": 3, "copy": 2, "work": 1}),
    "level1/rank0": (34, 6, {"python": 22, "sync": 8, "compile": 3, "work": 1}),
    "level1/rank1": (34, 6, {"python": 22, "sync": 8, "compile": 3, "work": 1}),
    "single_card": (11, 6, {"compile": 8, "python": 2, "sync": 1}),
}


def test_drains_of_the_real_profiles(real: Sample) -> None:
    parts = parts_of(real.trace)
    found = drains(real.trace, parts.device, parts.pairs)
    assert (len(found), sum(each.interrupted for each in found)) == DRAINS[real.name][:2]
    assert Counter(each.cause for each in found) == DRAINS[real.name][2]
    for each in found:
        assert each.end - each.start >= 100_000
        assert real.trace.slices.end[each.before] == each.start
        assert each.end <= real.trace.slices.start[each.after]


def test_drains_by_their_definition(variation: Simulated) -> None:
    """Counted event by event, from the truth of the launches where it lists drains."""
    parts, trace = parts_of(variation.trace), variation.trace
    floor = variation.truth["dispatch"]["clock_floor_ns"]
    changes = []
    for link in parts.pairs.link.tolist():
        start, end = trace.links.target_time[link], trace.slices.end[trace.links.target_slice[link]]
        changes += [(min(float(trace.links.source_time[link]) + floor, float(start)), 1), (float(end), -1)]
    changes.sort()
    expected, depth, peak = [], 0, 0
    for (time, change), (following, _) in itertools.pairwise(changes):
        depth += change
        peak = max(peak, depth)
        if depth == 0 and following - time >= 100_000:
            expected.append((pytest.approx(time, abs=1), pytest.approx(following, abs=1), peak))
            peak = 0
    found = drains(trace, parts.device, parts.pairs)
    assert [(each.start, each.end, each.peak_backlog) for each in found] == expected
    if "drains" in variation.truth:
        rows = [
            {
                "start_ns": round(each.start),
                "end_ns": round(each.end),
                "peak_backlog": each.peak_backlog,
                "interrupted": each.interrupted,
            }
            for each in found
        ]
        assert rows == variation.truth["drains"]
