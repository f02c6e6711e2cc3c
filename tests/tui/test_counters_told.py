"""Details of a counter: its value at the cursor with its unit."""

from __future__ import annotations

from driving import opened


async def test_a_counter_has_its_unit_and_its_bounds(session):
    async with opened(session, (120, 40)) as driver:
        at = next(index for index, row in enumerate(driver.explorer.rows) if row.kind == "counter")
        driver.state.focus = at
        driver.timeline.changed()
        await driver.press("3")
        await driver.settle()
        assert "MHz" in driver.text()
        assert "lowest" in driver.text()
