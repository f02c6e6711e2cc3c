"""The screen as a picture, without a terminal."""

from __future__ import annotations

import asyncio

from npu_tui.trace.model import Trace
from npu_tui.tui.app import NpuTui
from npu_tui.tui.session import make_session


def picture(trace: Trace, columns: int, rows: int, keys: list[str]) -> str:
    """The SVG of the explorer on ``trace`` at ``columns`` x ``rows`` after ``keys`` (Textual's names) were pressed."""
    return asyncio.run(_picture(trace, columns, rows, keys))


async def _picture(trace: Trace, columns: int, rows: int, keys: list[str]) -> str:
    app = NpuTui(session=make_session([trace]))
    async with app.run_test(size=(columns, rows)) as pilot:
        await pilot.press(*keys)
        await pilot.pause(0.2)
        return app.export_screenshot(simplify=True)
