"""Rows of the tables of real profiles find their slices; starts may be off by a rounding."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from npu_tui.analysis.joins import kernels_allocated_for, rows_of_kernels, rows_of_tasks
from npu_tui.load.errors import InputError
from npu_tui.load.find import find_source
from npu_tui.load.load import load
from npu_tui.profile.profile import Profile
from npu_tui.strings import words

HEALTHY = Path(__file__).resolve().parents[2] / "fixtures" / "healthy"
REAL = Path(os.environ.get("NPU_TUI_TRACES", "")) / "text"


def test_kernels_by_name_and_start() -> None:
    trace = load(HEALTHY)
    keys = zip(trace.slices.name.tolist(), (trace.slices.start // 10).tolist(), strict=True)
    items = np.array(sorted({key: item for item, key in enumerate(keys)}.values()))  # none is near its namesake
    items = items[::7]
    order = np.random.default_rng(3).permutation(len(items))
    off = np.arange(len(items)) % 4 - 1  # the last of four is two away
    names = [trace.name_of(int(items[k])) for k in order]
    start = (trace.slices.start[items] + trace.start_ns + off)[order]
    found = rows_of_kernels(trace, items, [*names, None, "no such name"], np.append(start, [0, 0]))
    expected = np.where(off < 2, np.argsort(order), -1)
    assert (found == expected).mean() > 0.99
    assert rows_of_kernels(trace, items, [], np.zeros(0, np.int64)).tolist() == [-1] * len(items)


def test_tasks_and_kernels_of_cann() -> None:
    rows = np.array([1, 1, 2, 3]), np.array([5, 6, 5, 5]), ["a", "b", "c", None]
    tasks = np.array([2, 1, 9, 2, 3]), np.array([5, 6, 5, 5, 5]), ["c", "b", "c", "other", "any"]
    assert rows_of_tasks(tasks, rows).tolist() == [2, 1, -1, -1, 3]


def test_ids_that_come_again() -> None:
    rows = np.array([1, 1, 2, 4, 4]), np.array([5, 5, 5, 5, 5]), ["a", "a", "c", "d", "d"]
    tasks = np.array([1, 2, 2, 1, 4, 4, 4]), np.full(7, 5), ["a", "c", "c", "a", "d", "d", "d"]
    assert rows_of_tasks(tasks, rows).tolist() == [0, 2, 2, 1, -1, -1, -1]


def test_kernels_of_cann() -> None:
    trace = load(HEALTHY)
    item = len(trace.slices) - 1
    names = [f"cann::{trace.name_of(item)}_in_1", trace.name_of(item), None, "cann::nothing"]
    time = np.full(4, trace.start_ns + int(trace.slices.start[item]), np.int64)
    assert kernels_allocated_for(trace, np.array([item]), names, time).tolist() == [item, item, -1, -1]


@pytest.mark.skipif(not REAL.is_dir(), reason="NPU_TUI_TRACES is not set: it names the folder of the real profiles")
@pytest.mark.parametrize("path", ["level0/rank0", "level0/rank1", "level1/rank0", "level1/rank1"])
def test_every_row_of_a_real_profile_is_joined(path: str) -> None:
    source = find_source(REAL / f"{path}_ascend_pt")
    profile = Profile(load(source), source)
    tables = profile.tables
    assert len(tables.kernel_rows) == 187
    assert (tables.kernel_rows >= 0).all()
    frame = tables.table("kernel_details").frame
    items = np.flatnonzero(profile.compute)
    length = profile.trace.slices.end[items] - profile.trace.slices.start[items]
    assert np.abs(frame["duration"].to_numpy()[tables.kernel_rows] - length).max() <= 1
    assert (tables.collective_slices >= 0).all()
    assert (tables.allocating_slices >= 0).all()
    cache = tables.table("l2_cache").frame
    rows = tables.cache_rows
    assert len(set(rows[rows >= 0].tolist())) == len(cache) == 179
    names = cache["name"].to_list()
    own = [(names[row], profile.trace.name_of(int(item))) for row, item in zip(rows, items, strict=True) if row >= 0]
    assert all(a == b for a, b in own)


def test_a_parent_of_folders_without_a_trace_names_them(tmp_path: Path) -> None:
    for rank in range(2):
        output = tmp_path / f"rank_{rank}_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
        output.mkdir(parents=True)
        (output / "step_trace_time.csv").write_text("Step,Computing,Free\n1,1,1\n")
    with pytest.raises(InputError) as caught:
        find_source(tmp_path)
    said = words(caught.value.message)
    assert "2 profiles without a trace" in said
    assert str(tmp_path / "rank_1_ascend_pt") in said


def test_a_folder_without_a_trace_opens(tmp_path: Path) -> None:
    output = tmp_path / "ASCEND_PROFILER_OUTPUT"
    output.mkdir()
    (tmp_path / "profiler_info_3.json").write_text("{}")
    (output / "op_statistic.csv").write_text("OP Type,Core Type,Count,Total Time(us)\nAdd,AI_VECTOR_CORE,2,5.5\n")
    for path in (tmp_path, output):
        source = find_source(path)
        assert (source.kind, source.rank, source.files, source.folder) == ("companions", 3, (), output)
        profile = Profile(load(source), source)
        assert profile.kind == "profile_directory"
        assert [each.code for each in profile.trace.health.warnings] == ["odd.no_trace"]
        assert len(profile.trace.slices) == 0
        assert profile.tables.table("op_statistic").frame["total"].to_list() == [5500]
        assert len(profile.tables.kernel_rows) == 0
