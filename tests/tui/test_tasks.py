"""What a user asks of a profile, each answered on screen within so many keys."""

from __future__ import annotations

from pathlib import Path

import pytest
from driving import opened
from measured import session_of

from npu_tui.analysis.calls import host_operators
from npu_tui.load.load import load
from npu_tui.profile.work_tables import OPERATORS
from npu_tui.strings import say
from npu_tui.trace.classes import OpClass
from npu_tui.trace.text import duration_text
from npu_tui.tui.session import Session


@pytest.fixture(scope="module")
def waiting() -> Session:
    return session_of(load(Path(__file__).resolve().parents[2] / "fixtures" / "communication_bound"))


async def answer(session: Session, *keys: str, size: tuple[int, int] = (120, 40)) -> tuple[int, str, object]:
    """How many keys were pressed (a text that is typed is one), what is on screen then, and what was copied."""
    async with opened(session, size) as driver:
        for key in keys:
            await driver.send(key)
            await driver.settle()
        return len(keys), driver.text(), driver.app.clipboard


async def test_the_longest_kernel_and_its_operation(session):
    keys, text, _ = await answer(session, "6", "6", "\r")
    assert keys <= 3
    profile = session.profiles[0]
    top = OPERATORS.records(profile)[0]
    assert duration_text(top.max_us * 1000) in text
    assert "aten::" in text.splitlines()[-1]


async def test_why_the_device_is_idle_between_two_times(session):
    keys, text, _ = await answer(session, ":", "3ms", "\r")
    assert keys <= 3
    assert " idle " in text.splitlines()[-1]
    assert "host was late" in text.splitlines()[-1]
    keys, text, _ = await answer(session, ":", "2ms..5ms", "\r", "3")
    assert keys <= 4
    assert "host late" in text
    assert say("idle.next") in text


async def test_a_moment_takes_no_unit(session):
    """Every character counts: the time alone is read in ms."""
    keys, text, _ = await answer(session, *":3\r")
    assert keys <= 5
    assert " idle " in text.splitlines()[-1]


async def test_the_code_line_with_most_time(session):
    keys, text, _ = await answer(session, "2")
    assert keys <= 2
    hot = next(row for row in text.splitlines() if row.startswith(" ████ "))
    assert hot.split()[2] == "ms"


async def test_steps_and_how_they_differ(session):
    keys, text, _ = await answer(session, "r")
    assert keys <= 2
    assert "p50" in text
    assert text.count("ProfilerStep#") >= len(session.profiles[0].steps)


async def test_slices_of_a_class_and_a_length(session):
    profile = session.profiles[0]
    slices = profile.trace.slices
    long = (slices.end - slices.start > 20_000) & (slices.op_class == OpClass.CUBE)
    found = int((long & profile.compute).sum())
    assert found > 1
    keys, text, _ = await answer(session, "/", "dur>20us class=cube", "\r")
    assert keys <= 3
    assert f"8 Search {found}" in text


async def test_a_marked_moment_is_found_again(session):
    async with opened(session) as driver:
        at = driver.state.cursor
        for key in ("K", "here", "\r", "A", ":", "here", "\r"):
            await driver.send(key)
            await driver.settle()
            assert key != "A" or driver.state.cursor != at
        assert driver.state.cursor == at


async def test_another_recording_is_compared_from_within(session, monkeypatch):
    asked = []
    async with opened(session) as driver:
        monkeypatch.setattr(driver.app, "compare_with", asked.append)
        await driver.send(":compare ../earlier\r")
        await driver.settle()
    assert asked == ["../earlier"]


async def test_forward_against_backward(session):
    operators = host_operators(session.scene.traces[0])
    names = [session.scene.traces[0].name_of(int(item)) for item in operators.item]
    totals = dict.fromkeys(names, 0)
    for name, time in zip(names, operators.backward.tolist(), strict=True):
        totals[name] += time
    longest = max(totals.values())
    _, text, _ = await answer(session, "%")
    rows = text.splitlines()
    first = rows[next(k for k, row in enumerate(rows) if "its backward" in row) + 1]
    assert duration_text(longest) in first
    assert any(f"  {name} " in f"{first} " for name, time in totals.items() if time == longest)
    keys, text, _ = await answer(session, "%", "%")
    assert keys <= 4
    assert text.splitlines()[-1].lstrip().startswith("forward ")


async def test_the_distribution_of_one_operation(session):
    keys, text, _ = await answer(session, "6", "6", " ")
    assert keys <= 4
    for word in ("p50", "p90", "max"):
        assert word in text


async def test_what_cann_does_meanwhile(session):
    keys, text, _ = await answer(session, "b", "b", "3", "P", "P")
    assert keys <= 5
    assert say("idle.meanwhile") in text
    assert "CANN" in text


async def test_the_cost_of_all_syncs(session):
    keys, text, _ = await answer(session, "T")
    assert keys <= 3
    assert "block the host for" in text
    assert "device idle ▾" in text
    assert "  aten::_local_scalar_dense → aclrt" in text  # no empty chart takes the room of names


async def test_culprit_or_victim(waiting):
    keys, text, _ = await answer(waiting, size=(80, 24))
    assert keys == 0
    assert "COMMUNICATION, not this rank" in text


async def test_what_communication_is_exposed_and_who_came_last(waiting):
    keys, text, _ = await answer(waiting, "7", size=(80, 24))
    assert keys <= 2
    heading = next(line for line in text.splitlines() if "exposed" in line and "elapsed" in line and "name" in line)
    assert "last" in heading


async def test_the_code_line_in_the_editor(session):
    keys, text, copied = await answer(session, "1", "o")
    assert keys <= 3
    line = session.findings[0].findings[0].code_lines[0]
    assert f"{line.file}:{line.line}" in copied or line.file in text


async def test_the_view_is_shared_with_one_key(session):
    keys, _, copied = await answer(session, "Y")
    assert keys == 1
    assert str(copied).startswith("npu-tui ")
