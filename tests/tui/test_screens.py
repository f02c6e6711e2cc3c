from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path

import pytest
from driving import keys_of, opened
from measured import session_of

from npu_tui.load.errors import InputError
from npu_tui.load.load import Opening, load
from npu_tui.trace.message import message
from npu_tui.tui.app import LoadingScreen, NpuTui
from npu_tui.tui.screen import MainScreen
from npu_tui.tui.sheets import HelpSheet
from npu_tui.tui.terminal.internals import strips_of

FIXTURE = Path("fixtures/dispatch_bound")


async def until(condition) -> None:
    """Wait for ``condition``, ten seconds at most."""
    for _ in range(1_000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it does not come true")


# --- help


@pytest.mark.parametrize("key", ["escape", "?"])
async def test_help_opens_and_closes(session, key):
    async with opened(session) as driver:
        await driver.press("?")
        assert isinstance(driver.app.screen, HelpSheet)
        await driver.press(key)
        assert isinstance(driver.app.screen, MainScreen)
        assert driver.app.focused is driver.timeline


async def test_help_scrolls_on_a_small_screen(session):
    async with opened(session, (80, 24)) as driver:
        await driver.press("?")
        before = driver.text()
        await driver.press("pagedown")
        await until(lambda: driver.text() != before)


# --- sequences of keys


async def test_g_waits_for_the_second_g(session):
    async with opened(session) as driver:
        await driver.press("G")
        last = driver.state.focus
        assert last == len(driver.explorer.rows) - 1
        await driver.press("g")
        assert driver.state.focus == last
        await driver.press("g")
        assert driver.state.focus == 0


async def test_another_key_ends_a_sequence(session):
    async with opened(session) as driver:
        await driver.press("G", "g", "k", "g")
        assert driver.state.focus == len(driver.explorer.rows) - 2


# --- odd traces


async def test_a_time_that_is_far_off_stops_nothing(tmp_path):
    file = tmp_path / "trace_view.json"
    times = ["0.000", "10.000", "1751342400000000.000", "1751342400000007.000"]
    file.write_text(json.dumps([{"ph": "X", "name": "op", "pid": 1, "tid": 1, "ts": ts, "dur": 5} for ts in times]))
    async with opened(session_of(load(file))) as driver:
        await driver.press("s", "W", "W", "j", "l", "l", "l", "f", "t", "d", "0", "space", "h")
        assert driver.selected == "op"
        assert driver.window[0] <= driver.state.cursor < driver.window[1]


async def test_ctrl_c_overtakes_what_was_typed_before_it():
    async with opened(session_of(load(FIXTURE))) as driver:
        window = driver.window
        driver.app.interrupted = True  # as soon as it has been read
        for event in keys_of("wwddd\x03"):
            driver.app.post_message(event)
        await until(lambda: driver.app._exit)
        assert driver.window == window
    assert driver.app.return_code == 130


async def test_what_runs_beside_is_not_written_down(monkeypatch):
    workers = []

    def changed(screen, event):
        workers.append(event.worker)

    monkeypatch.setattr(MainScreen, "on_worker_state_changed", changed, raising=False)
    async with opened(session_of(load(FIXTURE))) as driver:
        await driver.press("2", "4")
    assert workers
    assert all(len(worker.description) < 100 for worker in workers)


# --- loading


async def test_the_loading_screen_gives_way_to_the_trace():
    app = NpuTui([Opening(FIXTURE, cached=False)])
    async with app.run_test(size=(120, 40)):
        await until(lambda: isinstance(app.screen, MainScreen))
        assert app.screen.session.scene.traces[0].rank == 0


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"not a trace", b'[{"ph":"X"'])
async def test_what_is_no_trace_ends_the_program_with_the_reason(tmp_path, content):
    file = tmp_path / "trace_view.json"
    file.write_bytes(content)
    app = NpuTui([Opening(file, cached=False)])
    async with app.run_test():
        await until(lambda: not app.is_running or app._exit)
    assert isinstance(app.return_value, InputError)
    assert str(file) in str(app.return_value)
    assert "\n" not in str(app.return_value)
    assert app.return_code == 3


async def test_escape_cancels_loading(monkeypatch):
    reached, go_on = threading.Event(), threading.Event()

    def slow(opening, watcher):
        reached.set()
        go_on.wait(10)
        watcher.progress(1, 2, 3)
        raise AssertionError("loading goes on after it was cancelled")

    monkeypatch.setattr("npu_tui.load.load.Opening.trace", slow)
    app = NpuTui([Opening(FIXTURE, cached=False)])
    async with app.run_test():
        await until(reached.is_set)
        assert isinstance(app.screen, LoadingScreen)
        for event in keys_of("\x1b"):
            app.post_message(event)
        await until(lambda: app._exit)
        go_on.set()
    assert app.return_value is None
    assert app.return_code == 130


async def test_the_loading_screen_tells_how_far_it_is(monkeypatch):
    reached, go_on = threading.Event(), threading.Event()

    def slow(opening, watcher):
        watcher.progress(3 << 20, 7 << 20, 12_345)
        reached.set()
        go_on.wait(10)
        raise InputError(message("input.memory", path="p"))

    monkeypatch.setattr("npu_tui.load.load.Opening.trace", slow)
    app = NpuTui([Opening(FIXTURE, cached=False)])
    async with app.run_test(size=(80, 24)) as pilot:
        await until(reached.is_set)
        await pilot.pause()
        text = "\n".join(strip.text for strip in strips_of(app.screen))
        go_on.set()
        assert "3 of 7 MB, 12,345 events" in text
        assert "fixtures/dispatch_bound" in text
        await until(lambda: app._exit)


async def test_a_burst_never_closes_the_main_screen(session):
    async with opened(session) as driver:
        for burst in ("\x10zoom\r\r", "\x10\r\r\r", "\x10copy\r\r\x1b", "?\x1b\x1b\x1b", "\x10\x1b\x1b\x1b"):
            for _ in range(2):
                await driver.send(burst, at_once=True)
                await driver.filled()
            assert sum(isinstance(screen, MainScreen) for screen in driver.app.screen_stack) == 1
            while not isinstance(driver.app.screen, MainScreen):
                await driver.press("escape")
            driver.state.selection = None
            await driver.press("x")
            assert driver.selected is not None


async def test_keys_ahead_of_the_main_screen_are_kept(session):
    app = NpuTui(session=session)
    async with app.run_test(size=(120, 40)):
        for event in keys_of("w:3ms\r"):
            event.set_sender(app)
            app.post_message(event)
        await until(lambda: isinstance(app.screen, MainScreen) and app.screen.explorer.state.cursor == 3_000_000)
        start, end = app.screen.explorer.home_bounds()
        assert app.screen.explorer.state.viewport.span < 0.9 * (end - start)
