"""Walks through the tabs of files by keys: which operation holds the memory, which shapes are slow, what is missing."""

from __future__ import annotations

from driving import opened


async def test_which_operation_holds_the_memory_at_the_peak(beside):
    profile = beside.profiles[0]
    curve = profile.memory.curve("allocated")
    assert curve is not None
    async with opened(beside, (200, 50)) as driver:
        await driver.send("9")
        await driver.settle()
        first = driver.panel.rows[0]
        assert str(first.cells[3]) == "aten::mm"
        assert "model.py:" in str(first.cells[4])
        await driver.press("tab", "enter")
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


async def test_what_a_missing_file_would_tell(beside):
    async with opened(beside, (200, 50)) as driver:
        await driver.send("r")
        await driver.settle()
        rows = {str(row.cells[1]): str(row.cells[2]) for row in driver.panel.rows if row.cells[0] == "file"}
        assert rows["nic.csv"] == "missing   sys_io=True; would tell network card traffic"
        assert rows["memory_record.csv"].startswith("there, ")
        assert rows["kernel_details.csv"].startswith("there, 126 rows   ")
