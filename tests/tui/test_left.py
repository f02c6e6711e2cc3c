"""What was on screen comes back where a comparison from within is stopped."""

from __future__ import annotations

import time
from pathlib import Path

from npu_tui.load.load import opening_of
from npu_tui.tui.app import NpuTui
from npu_tui.tui.screen import MainScreen

ROOT = Path(__file__).resolve().parents[2]


async def test_a_comparison_that_is_stopped_leaves_what_was_there() -> None:
    app = NpuTui([opening_of(ROOT / "fixtures" / "dispatch_bound", cached=False)], cached=False)
    async with app.run_test(size=(120, 40)) as pilot:

        async def settled() -> MainScreen:
            deadline = time.monotonic() + 60
            while not isinstance(app.screen, MainScreen) or app.is_loading:
                assert time.monotonic() < deadline
                await pilot.pause(0.05)
            return app.screen

        first = await settled()
        app.compare_with(str(ROOT / "fixtures" / "healthy"))
        app.stop_loading()
        await pilot.pause(0.2)
        again = await settled()
        assert app.is_running
        assert again is not first
        assert again.explorer.scene.traces[0].path == first.explorer.scene.traces[0].path
        assert len(again.explorer.scene.traces) == 1
