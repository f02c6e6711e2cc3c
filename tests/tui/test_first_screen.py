"""What the first screen shows at 80x24: of everything that ran at least a row."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from driving import Driver, opened
from measured import profile_at

from npu_tui.strings import say, speaking
from npu_tui.trace.text import cell_count
from npu_tui.tui.head import wrapped_to_end
from npu_tui.tui.session import Session, make_session
from npu_tui.tui.terminal.frames import ALERT

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ("healthy", "older_chip", "level0", "newest_torch_npu", "mindspore", "interrupted")
TRACES = (
    "text/level0/rank0_ascend_pt", "text/level1/rank1_ascend_pt", "single_card", "db/level0/rank0_ascend_pt",
    "db/level1/rank1_ascend_pt",
)  # fmt: skip


def session_at(path: Path) -> Session:
    return make_session([profile_at(path)])


def has_a_row_of_everything(driver: Driver) -> None:
    """Every layer, a compute stream and free time."""
    scene = driver.main.session.scene
    trace, state = scene.traces[0], driver.state
    shown = driver.explorer.rows[state.top : state.top + driver.explorer.list.height]
    kinds = {trace.layers[row.layer].kind for row in shown}
    assert {layer.kind for layer in trace.layers if layer.lanes} <= kinds
    if any(lane.name == "Free" for lane in trace.lanes):
        assert any(row.lane >= 0 and trace.lanes[row.lane].name == "Free" for row in shown)
    if any(role.kind == "compute" for role in scene.roles[0]):
        assert any(row.lane >= 0 and scene.roles[0][row.lane].kind == "compute" for row in shown)


@pytest.mark.skipif("NPU_TUI_TRACES" not in os.environ, reason="NPU_TUI_TRACES names no folder of real profiles")
@pytest.mark.parametrize("name", TRACES)
async def test_the_first_screen_of_a_real_profile_shows_every_layer_a_compute_stream_and_free(name: str):
    async with opened(session_at(Path(os.environ["NPU_TUI_TRACES"]) / name), (80, 24)) as driver:
        has_a_row_of_everything(driver)


@pytest.mark.parametrize("name", [*FIXTURES, "dispatch_bound", "communication_bound", "kineto"])
async def test_the_first_screen_has_everything_few_figures_and_only_the_first_finding_is_red(name: str):
    """Names of ranges and paths have digits as well, but are no figures."""
    session = session_at(ROOT / "fixtures" / name)
    async with opened(session, (80, 24)) as driver:
        if name in FIXTURES:
            has_a_row_of_everything(driver)
        await driver.pilot.resize_terminal(120, 40)
        await driver.settle()
        head = driver.main.head
        lines = [line._text for line in (head.headline, head.verdict, head.facts) if line.rows]
        said = "\n".join(line.plain for line in lines if line is not None)
        figures = re.findall(r"(?<![\w#:./])\d[\d.,]*(?=%| |\n|$|,)", said.replace(session.profiles[0].trace.path, ""))
        assert len(figures) <= 20, figures
        for number, text in enumerate(head.verdict._text.split("\n") if head.verdict._text else ()):
            red = any(ALERT in str(span.style) for span in text.spans)
            assert not red or number == 0
        overlaps = [row for row in driver.rows() if re.match(r"▎\s+(?:Computing|Communication|Free)\b", row)]
        assert not [row for row in overlaps if "%" in row[: driver.timeline.frame.gutter]]  # of the view, not the step
        for line in (head.headline._text, head.facts._text):
            assert line is None or not any(ALERT in str(span.style) for span in line.spans)


async def test_where_only_one_share_has_room_it_is_the_largest():
    """In a low terminal shares stand in the first line; the communication of this rank takes most of its time."""
    with speaking("zh"):
        async with opened(session_at(ROOT / "fixtures" / "communication_bound"), (80, 24)) as driver:
            await driver.settle()
            [overlap] = driver.main.session.profiles[0].overlaps
            parts = {"compute": overlap.computing, "exposed": overlap.not_overlapped, "free": overlap.free}
            largest = max(parts, key=lambda name: parts[name])
            assert largest != "free"
            assert say(f"header.{largest}", share=f"{overlap.ratio(parts[largest]):.1%}") in driver.rows()[0]


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("width", [38, 78, 118])
def test_a_sentence_that_is_too_long_keeps_what_it_gains(language: str, width: int) -> None:
    facts = {"stage": 1, "ranks": "2, 3", "time": 238_000_000, "less": 167_100_000, "gain": 31_030_000, "share": 0.038}
    with speaking(language):
        said = say("job.passes.title", **facts, of=say("finding.unit.step"))
        lines = wrapped_to_end(said, width, 2)
        gain = re.split("[;；]", said)[-1].replace(" ", "")
    assert len(lines) <= 2
    assert all(cell_count(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "").endswith(gain)
    assert "31.03" in gain
    assert "…" not in "".join(lines) or width == 38
