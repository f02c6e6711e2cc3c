"""Memory curves, what is alive when, and the operations that allocated; against the rows of the profiler's files."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np
import pytest

from npu_tui.analysis.collectives import pair_sums
from npu_tui.analysis.joins import cross_check
from npu_tui.analysis.kernels import Coded
from npu_tui.analysis.memory import BEFORE, NEVER, Allocations, MemoryUse, holders, memory_curve
from npu_tui.analysis.steps import step_spread
from npu_tui.load.load import opening_of
from npu_tui.profile.checks import checks_of
from npu_tui.profile.profile import Profile
from npu_tui.view.curves import StepCurve
from npu_tui.view.scene import StepFunction
from npu_tui.view.viewport import Viewport

TRACES = os.environ.get("NPU_TUI_TRACES")
REAL = pytest.mark.skipif(not TRACES, reason="NPU_TUI_TRACES names no folder of real profiles")


def array(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def test_a_curve_keeps_the_highest_of_one_time():
    curve = memory_curve("PTA", "allocated", array(5, 1, 5, 9), array(7, 3, 20, 4))
    assert (curve.time.tolist(), curve.value.tolist()) == ([1, 5, 9], [3, 20, 4])
    assert curve.peak == (5, 20)
    assert (curve.at(0), curve.at(4), curve.at(9)) == (None, 3, 4)


def test_a_peak_is_drawn_however_far_the_view_is_zoomed_out():
    time = np.arange(100_000, dtype=np.int64) * 10
    value = np.ones(100_000, np.int64)
    value[77_777] = 999
    known, highest = StepCurve(StepFunction(time, value, 1_000_000), "memory").cells(Viewport.around(0, 1_000_000, 80))
    assert known.all()
    assert highest.max() == 999


def test_fragmentation_is_the_farthest_that_reserved_stands_above_allocated():
    curves = (
        memory_curve("PTA", "reserved", array(0, 10), array(100, 150)),
        memory_curve("PTA", "allocated", array(0, 5, 12), array(90, 20, 149)),
    )
    nothing = Allocations(Coded([], array()), array(), array(), array())
    assert MemoryUse(curves, nothing, ()).fragmented() == (10, 130)
    assert MemoryUse(curves[:1], nothing, ()).fragmented() is None


def test_what_is_alive_is_held_by_operation_and_line():
    found = Allocations(
        Coded.of(["a", "b", "a", "a"]), array(1, 5, 2, 9), array(0, BEFORE, 10, 20), array(30, 40, NEVER, 25)
    )
    assert found.alive(22).tolist() == [0, 1, 2, 3]
    assert found.alive(25).tolist() == [0, 1, 2], "a release ends it"
    assert found.kept.tolist() == [2]
    rows = holders(found, found.alive(22), ["x", "x", "y", "x"])
    assert [(row.name, row.size, row.members.tolist()) for row in rows] == [
        ("a", 10, [3, 0]),
        ("b", 5, [1]),
        ("a", 2, [2]),
    ]


def test_warm_up_is_left_out_of_the_percentiles():
    found = step_spread(array(900, 300, 100, 101, 102, 99))
    assert found is not None
    assert (found.warm_up, found.p50) == (2, 100.5)
    assert step_spread(array()) is None
    assert step_spread(array(900, 100)).warm_up == 0, "two steps do not tell"
    assert step_spread(array(74, 22, 65, 22, 82, 22)).warm_up == 0, "slow steps are a habit of this run"


def test_a_check_tells_what_differs_and_what_is_missing():
    ours = {("a",): {"count": 2, "total": 105}, ("b",): {"count": 1, "total": 9}, ("z",): {"count": 1}}
    theirs = {("a",): {"count": 2, "total": 100}, ("b",): {"count": 3, "total": None}, ("c",): {"count": 1}}
    found = cross_check("file", ours, theirs, {"total": 5})
    assert (found.rows, found.matched, found.compared, found.differing, found.ours_only) == (3, 2, 3, 2, 1)
    assert [(each.key, each.ours, each.theirs) for each in found.differences] == [(("c",), None, 1), (("b",), 1, 3)]


def test_totals_count_once_beside_the_operations_they_sum_up():
    rows = [
        ("allreduce-total", "g", 0, 1, "HCCS", 10.0, 1_000_000),
        ("allreduce-top1", "g", 0, 1, "HCCS", 8.0, 500_000),
        ("broadcast-total", "g", 0, 1, "HCCS", 5.0, 500_000),
    ]
    (pair,) = pair_sums(rows)
    assert (pair.size, pair.time, pair.operations, pair.speed) == (15e6, 1_500_000, 2, 10.0)


@REAL
@pytest.mark.parametrize("level", [0, 1])
def test_real_memory_and_checks(level):
    folder = Path(TRACES or "") / f"text/level{level}/rank0_ascend_pt"
    opening = opening_of(folder, False)
    profile = Profile(opening.trace(), opening.source)
    output = folder / "ASCEND_PROFILER_OUTPUT"
    with (output / "memory_record.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    for curve in profile.memory.curves:
        column = f"Total {curve.amount.title()}(MB)"
        own = [float(row[column]) for row in rows if row["Component"] == curve.component and row[column].strip()]
        assert curve.peak[1] / 2**20 == pytest.approx(max(own))
    with (output / "operator_memory.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    assert len(profile.memory.allocations) == len(rows)
    assert len(profile.memory.allocations.kept) == sum(not row["Release Time(us)"].strip() for row in rows)
    checks = checks_of(profile)
    assert {check.file for check in checks} >= {"step_trace_time.csv", "kernel_details.csv"}
    assert [(check.file, check.rows - check.matched, check.differing) for check in checks] == [
        (check.file, 0, 0) for check in checks
    ]
