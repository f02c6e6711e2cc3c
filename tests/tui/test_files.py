"""Walks through the tabs of files by keys: which operation holds the memory, which shapes are slow, what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest
from beside import profile_with_files
from driving import opened
from measured import profile_at

from npu_tui.trace.text import duration_text
from npu_tui.tui.session import make_session

HEALTHY = Path(__file__).resolve().parents[2] / "fixtures" / "healthy"


async def test_which_operation_holds_the_memory_at_the_peak(beside):
    profile = beside.profiles[0]
    curve = profile.memory.curve("allocated")
    assert curve is not None
    async with opened(beside, (200, 50)) as driver:
        await driver.send("9")
        await driver.settle()
        before, first = driver.panel.rows[:2]
        assert str(before.cells[3]) == "before profiling, or unknown"
        assert str(first.cells[3]) == "aten::mm"
        assert "model.py:" in str(first.cells[4])
        await driver.press("tab", "down", "enter")
        selection = driver.state.selection
        assert selection is not None
        trace = profile.trace
        assert trace.name_of(selection.item) == "aten::mm"
        start, end = int(trace.slices.start[selection.item]), int(trace.slices.end[selection.item])
        allocations = profile.memory.allocations
        inside = (allocations.start >= start) & (allocations.start <= end)
        assert allocations.alive(curve.peak[0])[inside[allocations.alive(curve.peak[0])]].size == 1


async def test_which_shapes_of_matmul_are_slow(beside):
    profile = beside.profiles[0]
    table = profile.kernel_table
    async with opened(beside, (200, 50)) as driver:
        await driver.send("6")
        await driver.settle()
        for _ in range(6):
            if "64,1024;1024,4096" in driver.text():
                break
            await driver.send("6")
            await driver.settle()
        await driver.send("&matmul\r")
        await driver.settle()
        assert "64,1024;1024,4096" in driver.text()
        await driver.press("enter")
        selection = driver.state.selection
        assert selection is not None
        own = table.type.where(lambda kind: kind == "MatMulV2")
        slowest = table.item[own][table.duration[own].argmax()]
        assert selection.item == int(slowest)
        await driver.send("3")
        await driver.press("P")  # all of it, as its chain comes first
        await driver.settle()
        assert (
            f"Wait Time {duration_text(int(table.wait[table.item == slowest][0]))}" in driver.text()
        )  # as its file says
        assert "idle before" not in driver.text()


async def test_what_a_missing_file_would_tell(beside):
    async with opened(beside, (200, 50)) as driver:
        await driver.send("r")
        await driver.settle()
        rows = {str(row.cells[1]): str(row.cells[2]) for row in driver.panel.rows if row.cells[0] == "file"}
        assert rows["nic.csv"] == "missing   sys_io=True; would show network card traffic"
        assert rows["operator_details.csv"].startswith("missing   activities CPU and NPU; ")
        assert rows["memory_record.csv"].startswith("there, ")
        assert rows["kernel_details.csv"].startswith("there, 126 rows   ")


@pytest.fixture
def tables_alone(tmp_path):
    folder = profile_with_files(HEALTHY, tmp_path / "profile")
    (folder / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").unlink()
    return make_session([profile_at(folder)])


@pytest.mark.parametrize(("size", "page"), [((200, 50), False), ((80, 24), True)])
async def test_without_a_trace_memory_has_its_curves_on_an_axis_of_their_own(tables_alone, size, page):
    profile = tables_alone.profiles[0]
    peak, _ = profile.memory.curve("allocated").peak
    async with opened(tables_alone, size) as driver:
        await driver.settle()
        assert driver.panel.is_full == page
        assert "only a trace shows why" in driver.text().replace("\n", " ")
        names = [driver.main.session.scene.charts[0][row.chart].name for row in driver.explorer.rows]
        assert names == ["Memory allocated", "reserved", "unused", "process", "HCCL"]
        assert driver.main.session.scene.end >= max(int(curve.time[-1]) for curve in profile.memory.curves)
        await driver.send("9")
        await driver.settle()
        await driver.press(*(["tab"] if page else []), "down", "enter")
        await driver.settle()
        start, end = driver.state.range
        assert start <= peak < end
        assert "curves of memory only" in driver.text()
        assert "█" in driver.text()
