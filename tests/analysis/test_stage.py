"""The slow stage of the host, and the ranges in which the device waited for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from samples import parts_of

from npu_tui.analysis.device import EVERYTHING, Window
from npu_tui.analysis.drains import dispatch_ranges, launches_in
from npu_tui.analysis.overlap import dequeue_idle_ratio, slow_stage

if TYPE_CHECKING:
    from conftest import Sample
    from samples import Simulated


def test_stage_of_the_real_profiles(real: Sample) -> None:
    parts = parts_of(real.trace)
    idle = dequeue_idle_ratio(real.trace, parts.split, parts.launches, EVERYTHING)
    assert slow_stage(idle) == ("cann" if real.name == "single_card" else "python")


def test_no_answer_without_host_late_time(real: Sample) -> None:
    parts = parts_of(real.trace)
    nothing = Window(real.trace.end, real.trace.end + 1)
    assert slow_stage(dequeue_idle_ratio(real.trace, parts.split, parts.launches, nothing)) is None


def test_idle_ratio_by_its_definition(variation: Simulated) -> None:
    """The dequeue thread's idle time in plain Python."""
    trace, parts = variation.trace, parts_of(variation.trace)
    (floor,) = (each.floor for each in parts.launches.floors)
    code = trace.categories.index("dequeue")
    busy = [
        (int(trace.slices.start[item]), int(trace.slices.end[item]))
        for item in np.flatnonzero(trace.slices.category == code)
    ]
    late = idle = 0.0
    for start, until in zip(parts.split.start.tolist(), parts.split.late_until.tolist(), strict=True):
        low, high = start - floor, until - floor
        late += high - low
        idle += high - low - sum(max(min(end, high) - max(begin, low), 0) for begin, end in busy)
    found = dequeue_idle_ratio(trace, parts.split, parts.launches, EVERYTHING)
    assert found == (pytest.approx(idle / late, abs=1e-6) if late > 0 else None)


def test_ranges_of_level1(level1: Sample) -> None:
    if level1.name != "level1/rank0":
        pytest.skip(reason="the figures are those of rank 0")
    parts = parts_of(level1.trace)
    first, *_ = dispatch_ranges(level1.trace, parts.device, parts.launches)
    assert (first.start / 1000, first.end / 1000) == (pytest.approx(30058, abs=1), pytest.approx(57851, abs=1))
    assert (first.links, first.near_vertical) == (83, 34)
    assert first.idle_ratio == pytest.approx(0.901, abs=0.0005)
    assert first.lost / 1000 == pytest.approx(23265.0, abs=0.1)


def test_ranges_by_their_definition(variation: Simulated) -> None:
    trace, parts = variation.trace, parts_of(variation.trace)
    rows = sorted(variation.truth["launches"], key=lambda row: row["start_ns"])
    groups: list[list[dict]] = []
    for row in rows:
        if row["class"] == "near-vertical":
            if groups and row["start_ns"] - groups[-1][-1]["start_ns"] <= 3_000_000:
                groups[-1].append(row)
            else:
                groups.append([row])
    groups = [group for group in groups if len(group) >= 3]
    found = dispatch_ranges(trace, parts.device, parts.launches)
    assert [(each.start, each.near_vertical) for each in found] == [
        (group[0]["start_ns"], len(group)) for group in groups
    ]
    for each in found:
        inside = [row for row in rows if each.start <= row["start_ns"] <= each.end]
        assert each.links == len(inside)
        assert each.lost == pytest.approx(sum(row["lost_ns"] for row in inside), abs=0.5)
        assert each.idle_ratio is None or 0 <= each.idle_ratio <= 1


def test_launches_of_a_range(real: Sample) -> None:
    parts = parts_of(real.trace)
    middle = real.trace.end // 2
    halves = [launches_in(real.trace, parts.launches, window) for window in (Window(0, middle), Window(middle, 2**62))]
    assert sum(len(each.link) for each in halves) == len(parts.launches.link)
    assert sum(each.lost.sum() for each in halves) == pytest.approx(parts.launches.lost.sum())
