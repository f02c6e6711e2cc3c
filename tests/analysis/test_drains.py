"""Drains of the real profiles and of the simulator."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from samples import parts_of

from npu_tui.analysis.drains import Drains, between_kernels, drains

if TYPE_CHECKING:
    from conftest import Sample
    from samples import Simulated

#: Drains, those of a filled queue, and causes.
DRAINS = {
    "level0/rank0": (36, 7, {"python": 23, "sync": 8, "cann": 3, "work": 2}),
    "level0/rank1": (35, 6, {"python": 22, "sync": 8, "cann": 3, "work": 2}),
    "level1/rank0": (34, 6, {"python": 21, "sync": 8, "compile": 3, "work": 2}),
    "level1/rank1": (34, 6, {"python": 21, "sync": 8, "compile": 3, "work": 2}),
    "single_card": (11, 6, {"compile": 8, "python": 2, "sync": 1}),
}


def test_drains_of_the_real_profiles(real: Sample) -> None:
    parts = parts_of(real.trace)
    found = drains(real.trace, parts.device, parts.pairs)
    assert (len(found), found.interrupted.sum()) == DRAINS[real.name][:2]
    assert found.counted() == DRAINS[real.name][2]
    assert (found.end - found.start >= 100_000).all()
    assert (real.trace.slices.end[found.before] == found.start).all()
    assert (found.end <= real.trace.slices.start[found.after]).all()


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
    assert list(zip(found.start, found.end, found.peak_backlog, strict=True)) == expected
    for name, column in (
        ("start_ns", np.rint(found.start)),
        ("end_ns", np.rint(found.end)),
        ("peak_backlog", found.peak_backlog),
        ("interrupted", found.interrupted),
    ):
        assert "drains" not in variation.truth or [row[name] for row in variation.truth["drains"]] == column.tolist()


@pytest.mark.parametrize("seed", range(5))
def test_kernels_of_unknown_launches_cut_drains(seed: int) -> None:
    """As marking every 50 us in which a kernel runs."""
    draw = np.random.default_rng(seed)
    start = np.sort(draw.integers(0, 400, 12)) * 50_000
    slices = SimpleNamespace(start=start, end=start + draw.integers(1, 12, 12) * 50_000)
    edges = np.arange(4) * 5_000_000.0
    whole = Drains(edges, edges + 4_000_000, np.int8([1, 2, 3, 4]), np.arange(4), np.full(4, 90), np.full(4, 91))
    cut = between_kernels(SimpleNamespace(slices=slices), whole, np.arange(12))  # type: ignore[arg-type]
    idle = np.ones(600, bool)
    for low, high in zip(slices.start // 50_000, slices.end // 50_000, strict=True):
        idle[low:high] = False
    kept = np.zeros(600, bool)
    for low, high in zip(cut.start, cut.end, strict=True):
        kept[int(low) // 50_000 : int(high) // 50_000] = True
    inside = np.arange(600) % 100 < 80
    inside[400:] = False
    alone = idle & ~np.append(False, idle[:-1] & inside[:-1]) & ~np.append(idle[1:] & inside[1:], False)
    assert (kept[inside] == (idle & ~alone)[inside]).all()
    assert (cut.cause == cut.start // 5_000_000 + 1).all()
    assert all(slices.end[cut.before[cut.before < 90]] <= cut.start[cut.before < 90])
    assert all(slices.start[cut.after[cut.after < 90]] == cut.end[cut.after < 90])
