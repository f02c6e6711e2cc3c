"""Three screens with their colours, as pictures."""

from __future__ import annotations

import pytest

from npu_tui.tui.app import NpuTui


@pytest.mark.parametrize(
    ("profile", "size", "keys"),
    [
        ("healthy", (120, 40), ()),
        ("dispatch_bound", (120, 40), ("x", "c")),
        ("dispatch_bound", (80, 24), ("t", "f")),
    ],
    ids=["opening", "chain", "links"],
)
def test_picture(snap_compare, sessions, profile, size, keys):
    async def settled(pilot) -> None:
        await pilot.press(*keys)
        await pilot.pause(0.3)

    assert snap_compare(NpuTui(session=sessions[profile]), terminal_size=size, run_before=settled)
