"""What a large database shows while it is read: first tasks, then the whole device, then everything."""

from __future__ import annotations

from pathlib import Path

import pytest
from small import LAUNCHES, small_database

from npu_tui.load import database as loading
from npu_tui.load.errors import Watcher
from npu_tui.trace.model import Trace

FEW = 15


def named(trace: Trace, item: int) -> tuple[int, int, str]:
    """A slice by its times and name."""
    begin, end = (int(column[item]) + trace.start_ns for column in (trace.slices.start, trace.slices.end))
    return begin, end, trace.name_of(item)


def on_streams(trace: Trace) -> list[tuple[int, int, str]]:
    """The slices on the streams of devices, by time."""
    lanes = [lane for lane in trace.file_lanes if trace.layers[lane.layer].kind == "hardware"]
    return sorted(named(trace, item) for lane in lanes for item in range(lane.first, lane.last))


def test_the_first_tasks_come_before_the_whole_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = small_database(tmp_path / "ascend_pytorch_profiler_3.db")
    monkeypatch.setattr(loading, "_WORTH_A_PICTURE", 0)
    monkeypatch.setattr(loading, "_FIRST_ROWS", FEW)
    shown: list[Trace] = []
    trace = loading.load_database(database, None, Watcher(early=shown.append))
    first, device = shown
    assert len(first.slices) == FEW < LAUNCHES
    assert on_streams(first) == on_streams(trace)[:FEW]
    assert on_streams(device) == on_streams(trace)
    assert len(trace.slices) > len(device.slices)
    monkeypatch.undo()
    alone = loading.load_database(database, None)
    assert (alone.events, alone.health) == (trace.events, trace.health)


def test_the_first_rows_have_what_all_rows_have(tmp_path: Path) -> None:
    database = loading.open_database(small_database(tmp_path / "ascend_pytorch_profiler_3.db"))
    try:
        columns = ("startNs", "endNs", "streamId", "no such column")
        whole, first = loading.DatabaseTables(database), loading.DatabaseTables(database, most=FEW)
        table = whole.find("TASK")
        assert table is not None
        every, some = (tables.read(table, columns, ("taskId",)) for tables in (whole, first))
        assert len(some) == FEW < len(every)
        assert every.number[:FEW].tolist() == some.number.tolist()
        for name in (*columns, "taskId"):
            assert every[name].dtype == some[name].dtype
            assert every[name][:FEW].tolist() == some[name].tolist()
    finally:
        database.close()
