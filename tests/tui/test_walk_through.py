"""One profile walked through with what the screen says alone: what leads to a key stands there before it is pressed."""

from __future__ import annotations

import shlex

import numpy as np
import pytest
from driving import opened

from npu_tui.analysis.code_lines import line_of, user_line
from npu_tui.trace.classes import OpClass
from npu_tui.trace.text import duration_text
from npu_tui.tui.footer import StatusLine

WALK = {
    "the longest kernel": ("6", "tab", "right", "right", "right", "right", "enter"),
    "the code line that launched it": ("3",),
    "the next starved launch": ("x",),
    "the bubble before it": ("V",),
    "the command that opens this view": ("Y",),
    "back out": ("escape", "0"),
}
MOST_KEYS = 13


def status(driver) -> str:
    return str(driver.main.query_one(StatusLine).render())


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_a_walk_through_a_profile(session, size):
    assert sum(map(len, WALK.values())) <= MOST_KEYS
    trace = session.scene.traces[0]
    lasting = trace.slices.end - trace.slices.start
    async with opened(session, size) as driver:
        if size[1] >= 36:
            assert "6 Op" in driver.text()  # on lower screens the panel is one key away
        operators, into, *sorting, enter = WALK["the longest kernel"]
        await driver.press(operators)
        await driver.settle()
        if size[0] >= 120:
            assert "Tab Enter: slowest" in driver.text()
        await driver.press(into)
        await driver.settle()
        assert "Enter" in driver.rows()[-1]  # the bottom line says what it does where there is no room above the table
        await driver.press(*sorting)
        assert "max ▾" in driver.text()
        await driver.press(enter)
        item = driver.state.selection.item
        hardware = [lane.index for lane in trace.file_lanes if trace.layers[lane.layer].kind == "hardware"]
        compute = np.isin(trace.slices.op_class, (OpClass.CUBE, OpClass.VECTOR))
        assert lasting[item] == lasting[compute & np.isin(trace.slices.lane, hardware)].max()
        assert f" · {duration_text(int(lasting[item]))} · at " in status(driver)
        assert trace.name_of(item)[:12] in status(driver)

        assert "3 Details" in driver.text()
        await driver.press(*WALK["the code line that launched it"])
        await driver.settle()
        code = line_of(trace, item)
        assert any(code == user_line(stack) for stack in trace.stacks)
        assert f"code {code.file}:{code.line} in {code.function}   o opens or copies it" in "".join(
            " ".join(row.split()) + "   " for row in driver.rows()
        ).replace(" o opens", "   o opens")

        driver.explorer.go_to(int(trace.slices.start[session.profiles[0].starved[20].item]) - 1)
        await driver.press(*WALK["the next starved launch"])
        launch = session.profiles[0].starved[20]
        assert driver.state.selection.item == launch.item
        assert status(driver).startswith("starved launch 21 of ")
        assert size[0] < 100 or f"{duration_text(launch.lost, 3)} lost before it (V: the gap)" in status(driver)
        assert " · at " in status(driver)

        await driver.press(*WALK["the bubble before it"])
        await driver.settle()
        start, end = driver.state.range
        assert end == launch.start
        assert end - start >= launch.lost
        assert status(driver).startswith(f"range of {duration_text(end - start)} between ")
        assert f"Δt {duration_text(end - start)}" in driver.text()
        await driver.press("P", "P")  # with room above the table, what was lost for how many
        await driver.settle()
        assert ", 1 starved" in driver.text()
        await driver.press("P")

        await driver.press(*WALK["the command that opens this view"])
        words = shlex.split(driver.app.clipboard)
        assert words[0] == "npu-tui"
        assert "--range" in words
        assert "Esc closes" in driver.text()

        await driver.press(*WALK["back out"])
        assert driver.explorer.fitted == driver.explorer.home_bounds()
