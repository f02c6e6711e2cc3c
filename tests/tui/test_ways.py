"""However a trace comes in, the screen is the same, to the colour."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from driving import opened

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "load"))

from measured import session_of
from ways import every_way

from npu_tui.tui.exports import screen_runs

TRACE = Path("fixtures/dispatch_bound/ASCEND_PROFILER_OUTPUT/trace_view.json")


@pytest.mark.reached_from("npu_tui/load", "npu_tui/trace")
async def test_the_opening_screen_and_links_from_near_are_the_same(tmp_path: Path):
    ways = every_way(TRACE.read_bytes(), tmp_path, 60_000, 1 << 14)
    stored: list[object] = []
    for way, trace in ways:
        if "threads" in way:
            continue  # tests/output has the reports of all ways; these have the columns and the file of the first
        trace.path = "trace_view.json"  # nothing else may differ
        async with opened(session_of(trace), (120, 40)) as driver:
            screens = [screen_runs(driver.app.screen, driver.app.terminal)]
            await driver.press("x", "c", "t", "3")  # the chain of a starved launch, all links, and args from the file
            await driver.settle()
            screens.append(screen_runs(driver.app.screen, driver.app.terminal))
            text = driver.text()
        if not stored:
            stored = screens
            assert "Task Id" in text
            assert "┃" in text
        assert screens == stored, way
