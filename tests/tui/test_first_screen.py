"""What the first screen shows at 80x24: of everything that ran at least a row."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from driving import opened
from measured import session_of

from npu_tui.load.load import load

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ("healthy", "older_chip", "level0", "newest_torch_npu", "mindspore", "interrupted")
TRACES = (
    "text/level0/rank0_ascend_pt", "text/level1/rank1_ascend_pt", "single_card", "db/level0/rank0_ascend_pt",
    "db/level1/rank1_ascend_pt",
)  # fmt: skip


async def shown_of(path: Path) -> None:
    session = session_of(load(path))
    trace, scene = session.scene.traces[0], session.scene
    async with opened(session, (80, 24)) as driver:
        rows, state = driver.explorer.rows, driver.state
        shown = rows[state.top : state.top + driver.explorer.list.height]
    kinds = {trace.layers[row.layer].kind for row in shown}
    assert {layer.kind for layer in trace.layers if layer.lanes} <= kinds
    if any(lane.name == "Free" for lane in trace.lanes):
        assert any(row.lane >= 0 and trace.lanes[row.lane].name == "Free" for row in shown)
    if any(role.kind == "compute" for role in scene.roles[0]):
        assert any(row.lane >= 0 and scene.roles[0][row.lane].kind == "compute" for row in shown)


@pytest.mark.parametrize("name", FIXTURES)
async def test_the_first_screen_of_a_fixture_shows_every_layer_a_compute_stream_and_free(name: str):
    await shown_of(ROOT / "fixtures" / name)


@pytest.mark.skipif("NPU_TUI_TRACES" not in os.environ, reason="NPU_TUI_TRACES names no folder of real profiles")
@pytest.mark.parametrize("name", TRACES)
async def test_the_first_screen_of_a_real_profile_shows_every_layer_a_compute_stream_and_free(name: str):
    await shown_of(Path(os.environ["NPU_TUI_TRACES"]) / name)
