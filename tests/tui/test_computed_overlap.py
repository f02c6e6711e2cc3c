"""A trace without Overlap Analysis: its lanes are computed and drawn, and b walks the free times."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from driving import opened
from measured import profile_of, session_of

from npu_tui.load.load import load
from npu_tui.view.curves import StepCurve
from npu_tui.view.viewport import Viewport

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """The trace of a fixture without its Overlap Analysis."""
    source = next((ROOT / "fixtures" / "communication_bound").rglob("trace_view.json"))
    events = orjson.loads(source.read_bytes())
    pids = {
        event["pid"]
        for event in events
        if event.get("name") == "process_name" and event["args"]["name"] == "Overlap Analysis"
    }
    assert pids
    file = tmp_path / "trace_view.json"
    file.write_bytes(orjson.dumps([event for event in events if event.get("pid") not in pids]))
    return file


async def test_computed_lanes_are_drawn_as_long_as_those_of_the_file(bare: Path):
    known = profile_of(load(ROOT / "fixtures" / "communication_bound"))
    session = session_of(load(bare))
    charts = {chart.name: chart for chart in session.scene.charts[0] if chart.kind == "share"}
    assert list(charts) == ["Computing", "Communication", "Exposed", "Free"]
    [lanes] = known.overlap_lanes
    for name, (start, end) in zip(
        charts, (lanes.computing, lanes.communication, lanes.not_overlapped, lanes.free), strict=True
    ):
        curve = StepCurve(charts[name].function(), "share")
        whole = Viewport.around(0, session.scene.end, 1000)
        drawn = curve.shares(whole).sum() / 1000 * whole.span / whole.width
        assert drawn == pytest.approx(int((end - start).sum()), rel=0.05), name


def test_without_collectives_there_are_no_lanes_of_communication() -> None:
    session = session_of(load(ROOT / "fixtures" / "kineto"))
    assert [chart.name for chart in session.scene.charts[0] if chart.kind == "share"] == ["Computing", "Free"]


async def test_b_walks_computed_free_times_and_details_tell_of_them(bare: Path):
    session = session_of(load(bare))
    async with opened(session, (120, 40)) as driver:
        assert any(row.kind == "chart" and row.name == "Free" for row in driver.explorer.rows)
        await driver.press("g", "g", "b")
        [found] = session.profiles[0].idles
        assert driver.state.cursor in found.start.tolist()
        assert driver.state.range is None
        await driver.press("3")
        await driver.settle()
        assert "idle for" in driver.text()
