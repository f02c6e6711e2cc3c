"""What the user has begun goes on when more of a trace that still loads comes on screen."""

from __future__ import annotations

from pathlib import Path

import pytest
from driving import opened
from measured import session_of

from npu_tui.load import text_trace as loading
from npu_tui.load.errors import Watcher
from npu_tui.load.load import load
from npu_tui.trace.model import Trace
from npu_tui.tui.app import NpuTui
from npu_tui.tui.session import Session

PATH = "fixtures/dispatch_bound"


@pytest.fixture
def sessions_of_one(monkeypatch: pytest.MonkeyPatch) -> tuple[Session, Session]:
    """A session while its trace loads, and that of the whole trace."""
    monkeypatch.setattr(loading, "_FIRST_SECONDS", 0.0)
    monkeypatch.setattr(loading, "_EARLY_SECONDS", 0.0)
    seen: list[Trace] = []
    whole = load(PATH, range_bytes=20_000, watcher=Watcher(early=seen.append))
    early = next(trace for trace in seen if len(trace.slices) > 100)
    return session_of(early, whole=False), session_of(whole)


async def test_a_flag_that_is_being_named_is_kept(sessions_of_one, tmp_path: Path):
    early, whole = sessions_of_one
    notes = tmp_path / "flags.txt"
    async with opened(early, app=NpuTui(session=early, notes=notes)) as driver:
        await driver.press("K")
        driver.main.replace_session(whole)
        await driver.press(*"!", "enter")
        assert [flag.name for flag in driver.main.marks.flags.all] == ["!"]


async def test_flags_made_while_loading_belong_to_the_whole_trace(sessions_of_one, tmp_path: Path):
    early, whole = sessions_of_one
    notes = tmp_path / "flags.txt"
    async with opened(early, app=NpuTui(session=early, notes=notes)) as driver:
        await driver.press("K", "enter")
        driver.main.replace_session(whole)
        await driver.idle()
        assert len(driver.main.marks.flags.all) == 1
    async with opened(whole, app=NpuTui(session=whole, notes=notes)) as driver:
        assert len(driver.main.marks.flags.all) == 1
    assert notes.read_text().count("\n[") + notes.read_text().startswith("[") == 1


async def test_names_are_offered_to_a_command_prompt_that_is_open(sessions_of_one):
    early, whole = sessions_of_one
    name = next(name for name in whole.scene.traces[0].names if name.startswith("aten::"))
    async with opened(early) as driver:
        await driver.press(":")
        driver.main.replace_session(whole)
        await driver.press(*name)
        assert any(found.text == name for found in driver.main.asking.candidates(name)[0])


async def test_hits_of_the_trace_before_are_not_taken(sessions_of_one):
    early, whole = sessions_of_one
    async with opened(early) as driver:
        driver.main.finder.begin("arg:Input")
        driver.main.replace_session(whole)
        await driver.settle()
        assert driver.main.finder.hits.text == "arg:Input"
        assert all(len(mask) == len(whole.scene.traces[0].slices) for mask in driver.state.hit_masks)


async def test_sums_of_the_trace_before_are_not_shown(sessions_of_one):
    early, whole = sessions_of_one
    async with opened(early) as driver:
        driver.main.contents.open_tab("operators")
        before = driver.main.contents
        wanted = before.computing
        assert wanted is not None
        driver.main.replace_session(whole)
        before.take("of the trace before", wanted)
        await driver.idle()
        assert driver.panel.content != "of the trace before"
        await driver.settle()


async def test_what_needs_links_says_that_they_come_later(sessions_of_one, tmp_path: Path):
    early, whole = sessions_of_one
    async with opened(early, app=NpuTui(session=early, notes=tmp_path / "flags.txt")) as driver:
        await driver.press("x")
        assert "once the trace is loaded" in driver.rows()[-1]
        await driver.press("l", "]")
        assert "once the trace is loaded" in driver.rows()[-1]
        driver.main.replace_session(whole)
        await driver.press("x")
        assert "starved launch " in driver.rows()[-1]
