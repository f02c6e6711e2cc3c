"""Steps against step_trace_time.csv, the simulator, and steps that claim the same time."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pytest
from samples import rows_of

from npu_tui.analysis.device import EVERYTHING, device_slices
from npu_tui.analysis.overlap import computed_lanes, overlap_lanes
from npu_tui.analysis.steps import step_sums, steps

if TYPE_CHECKING:
    from conftest import Sample
    from samples import Simulated


def test_step_trace_time(profile: Sample) -> None:
    """All columns, from the lanes of the file and from the slices of the device."""
    (row,) = rows_of(profile.file.with_name("step_trace_time.csv"))
    (device,) = device_slices(profile.trace)
    found = steps(profile.trace)
    assert [str(step.number) for step in found] == [row["Step"]]
    for lanes in (*overlap_lanes(profile.trace, [device]), computed_lanes(profile.trace, device)):
        (sums,) = step_sums(profile.trace, found, lanes)
        own = sums.overlap
        columns = {
            "Computing": own.computing,
            "Communication(Not Overlapped)": own.not_overlapped,
            "Overlapped": own.communication - own.not_overlapped,
            "Communication": own.communication,
            "Free": own.free,
            "Bubble": sums.bubble,
        }
        for column, time in columns.items():
            assert time / 1000 == pytest.approx(float(row[column]), abs=0.05), column
        assert sums.stage is not None
        assert sums.preparing is not None
        assert sums.stage / 1000 == pytest.approx(float(row["Stage"]), abs=0.3)
        assert sums.preparing / 1000 == pytest.approx(float(row["Preparing"]), abs=0.3)


def test_steps_of_the_simulation(variation: Simulated) -> None:
    trace, truth = variation.trace, variation.truth
    found = steps(trace)
    assert [step.name for step in found] == [row["name"] for row in truth["steps"]]
    for step, row in zip(found, truth["steps"], strict=True):
        assert trace.slices.start[step.item] == row["start_ns"]
        assert trace.slices.end[step.item] == row["end_ns"]
        assert step.window is not None
    assert all(one.window.end <= two.window.start for one, two in itertools.pairwise(found))


def test_what_the_steps_leave_of_the_lanes_started_outside_of_them(variation: Simulated) -> None:
    trace = variation.trace
    (lanes,) = overlap_lanes(trace, device_slices(trace))
    found = steps(trace)
    sums = step_sums(trace, found, lanes)
    for kind, part in (("computing", lanes.computing), ("free", lanes.free), ("communication", lanes.communication)):
        inside = np.zeros(len(part[0]), bool)
        for step in found:
            inside |= step.window.holds(part[0])
        assert sum(getattr(row.overlap, kind) for row in sums) == (part[1] - part[0])[inside].sum()


def test_without_steps_there_is_one_row(bundled: Sample) -> None:
    from dataclasses import replace

    trace = bundled.trace
    plain = replace(trace, lanes=[lane for lane in trace.lanes if not lane.derived])
    (step,) = steps(plain)
    assert (step.name, step.number, step.window) == (None, None, EVERYTHING)
    (lanes,) = overlap_lanes(trace, device_slices(trace))
    (sums,) = step_sums(plain, [step], lanes)
    assert sums.overlap == lanes.sums(EVERYTHING)
    assert sums.stage == sums.overlap.total


def test_without_links_no_step_has_a_window(bundled: Sample) -> None:
    from dataclasses import replace

    from measured import answers

    trace = bundled.trace
    unlinked = replace(trace, link_categories=[f"x{name}" for name in trace.link_categories])
    assert all(step.window is None for step in steps(unlinked))
    found = answers(unlinked)
    assert all(row["computing_us"] is None for row in found["steps"])
    assert found["overlap"]["computing_us"] is not None
    assert found["overlap"]["free_host_late_us"] is None
    assert found["dispatch"]["lost_us"] is None
    assert {"dispatch", "overlap.free", "steps.window"} <= {each["id"] for each in found["not_checked"]}
