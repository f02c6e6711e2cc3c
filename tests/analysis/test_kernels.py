"""Kernels in columns and groups: statistics against numpy and the rows of op_statistic.csv, outliers, bytes."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np
import pytest

from npu_tui.analysis.kernels import Coded, Groups, KernelTable, tensor_bytes, waits
from npu_tui.analysis.operators import WAYS, kernel_groups
from npu_tui.analysis.statistics import histogram
from npu_tui.load.load import opening_of
from npu_tui.profile.profile import Profile

TRACES = os.environ.get("NPU_TUI_TRACES")
REAL = pytest.mark.skipif(not TRACES, reason="NPU_TUI_TRACES names no folder of real profiles")


def table(durations: list[int], shapes: list[str | None]) -> KernelTable:
    count = len(durations)
    texts = Coded.of(["MatMulV2"] * count)
    nothing, unknown = Coded([], np.full(count, -1, np.int64)), np.full(count, np.nan)
    start = np.arange(count, dtype=np.int64) * 1_000_000
    return KernelTable(
        np.arange(count), start, np.array(durations, np.int64), np.zeros(count, np.int64), texts, texts, nothing,
        Coded.of(shapes), nothing, nothing, nothing, unknown, unknown, {}, unknown,
    )  # fmt: skip


def test_groups_have_the_percentiles_of_numpy():
    random = np.random.default_rng(7)
    key, value = random.integers(0, 9, 400), random.integers(1, 10_000, 400)
    groups = Groups(key, value)
    for number, code in enumerate(groups.keys.tolist()):
        own = value[key == code]
        for percent in (0.0, 50.0, 90.0, 99.0, 100.0):
            assert groups.percentile(percent)[number] == pytest.approx(np.percentile(own, percent))
        assert groups.total[number] == own.sum()
        assert value[groups.items(number)].tolist() == sorted(own.tolist(), reverse=True)


def test_an_outlier_is_one_among_its_own_shapes():
    found = table([100, 101, 99, 100, 102, 2000, 5000], ["2,2"] * 6 + ["9,9"])
    assert np.flatnonzero(found.outliers()).tolist() == [5]
    assert not table([100, 101, 99, 100, 102, 2000], [None] * 6).outliers().any(), "nothing tells that they are alike"
    assert not table([100, 2000], ["2,2"] * 2).outliers().any(), "two calls tell nothing"
    row = next(each for each in kernel_groups(found, "shapes") if each.shapes == "2,2")
    assert (row.count, row.outliers, row.longest, row.p50) == (6, 1, 2000, 100.5)


@pytest.mark.parametrize("by", WAYS)
def test_every_way_of_grouping_holds_every_kernel_once(by):
    found = table([5, 9, 1, 7], ["1", "2", None, "1"])
    groups = kernel_groups(found, by)
    assert sorted(k for each in groups for k in each.members().tolist()) == [0, 1, 2, 3]
    assert sum(each.total for each in groups) == 22
    assert sum(each.share for each in groups) == pytest.approx(1.0)
    assert [each.total for each in groups] == sorted((each.total for each in groups), reverse=True)


@pytest.mark.parametrize(
    ("shapes", "dtypes", "size"),
    [
        ("32,3;64", "FLOAT;DT_BF16", 32 * 3 * 4 + 128),
        (";8", "INT64;BOOL", 16),  # a scalar
        ("8;8", "FLOAT", None),
        ("8", "WHATEVER", None),
        ("-1", "FLOAT", None),
        (None, "FLOAT", None),
    ],
)
def test_bytes_of_tensors(shapes, dtypes, size):
    found = tensor_bytes(shapes, dtypes)
    assert np.isnan(found) if size is None else found == size


def test_a_wait_ends_whatever_ran_before():
    own = np.array([0, 100, 400]), np.array([50, 150, 450])
    assert waits(*own, np.array([200]), np.array([390])).tolist() == [0, 50, 10]


def test_a_histogram_holds_everything():
    found = histogram(np.array([1, 1, 10, 1000]), 3)
    assert found.count.tolist() == [2, 1, 1]
    assert found.edges[0] == 1
    assert found.edges[-1] == 1000
    single = histogram(np.array([7, 7]), 5)
    assert (single.edges.tolist(), single.count.tolist()) == ([7, 7], [2])
    empty_between = histogram(np.array([1, 100_000]), 5)
    assert empty_between.edges.tolist() == pytest.approx([1, 10, 100, 1_000, 10_000, 100_000])
    assert empty_between.count.tolist() == [1, 0, 0, 0, 1]


@REAL
@pytest.mark.parametrize("rank", [0, 1])
def test_types_and_cores_are_those_of_op_statistic(rank):
    folder = Path(TRACES or "") / f"text/level1/rank{rank}_ascend_pt"
    opening = opening_of(folder, False)
    profile = Profile(opening.trace(), opening.source)
    found = {(each.type, each.core): each for each in kernel_groups(profile.kernel_table, "type")}
    with (folder / "ASCEND_PROFILER_OUTPUT/op_statistic.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) == len(found)
    for row in rows:
        each = found[row["OP Type"], row["Core Type"]]
        assert each.count == int(row["Count"])
        assert each.total / 1000 == pytest.approx(float(row["Total Time(us)"]), abs=0.01)
        assert each.longest / 1000 == pytest.approx(float(row["Max Time(us)"]), abs=0.002)
        assert each.average / 1000 == pytest.approx(float(row["Avg Time(us)"]), abs=0.002)
    table = profile.kernel_table
    waited = table.details["wait"]
    theirs = np.array([float(waited.at(k) or "nan") for k in range(len(table))])
    assert np.nanmax(np.abs(theirs - table.wait)) <= 10
