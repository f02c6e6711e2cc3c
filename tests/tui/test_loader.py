"""Loading in a thread, from before there is a screen."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from npu_tui.load.errors import InputError
from npu_tui.load.load import Opening
from npu_tui.trace.message import message
from npu_tui.tui import loading, session
from npu_tui.tui.app import NpuTui
from npu_tui.tui.loading import Advanced, Crashed, Early, Ended, Heard, Loader
from npu_tui.tui.session import Session
from npu_tui.view.painter import Painter

FIXTURE = Path("fixtures/dispatch_bound")


def heard_of(loader: Loader, begin: bool = False) -> list[Heard]:
    heard: list[Heard] = []
    loader.listen(heard.append)
    if begin:
        loader.start()
    deadline = time.monotonic() + 20
    while not heard or isinstance(heard[-1], (Advanced, Early)):
        assert time.monotonic() < deadline, "the loading does not end"
        time.sleep(0.01)
    return heard


def started(loader: Loader) -> Loader:
    loader.start()
    return loader


def test_it_ends_with_a_session_and_draws_once():
    drawn = []
    loader = started(
        Loader([Opening(FIXTURE, cached=False)], picture=lambda trace, whole: drawn.append((trace, whole)))
    )
    ended = heard_of(loader)[-1]
    assert isinstance(ended, Ended)
    assert isinstance(ended.result, Session)
    assert ended.result.whole
    assert drawn == [(ended.result.scene.traces[0], True)]
    assert not drawn[0][0].health.truncated


def test_what_takes_long_to_draw_is_there_before_the_screen_has_it(monkeypatch):
    whole = Opening(FIXTURE, cached=False).trace()
    monkeypatch.setattr(loading, "DEEP", 2)
    monkeypatch.setattr(session, "_LONG", len(whole.slices))
    composed = []
    compose = Painter.compose
    monkeypatch.setattr(Painter, "compose", lambda *given: composed.append(given[0]) or compose(*given))

    def parts(opening, watcher):
        watcher.early(replace(whole))
        return whole

    monkeypatch.setattr(Opening, "trace", parts)
    loader = Loader([Opening(FIXTURE, cached=False)])
    heard = heard_of(loader, begin=True)
    sessions = [each.session if isinstance(each, Early) else each.result for each in heard]
    deep = [lane.first_row for lane in whole.lanes if lane.rows > 2]
    assert deep
    for each in sessions:
        assert sorted(each.scene.traces[0].folded) == deep
    assert composed == [each.painter for each in sessions]


def test_who_listens_late_hears_how_it_ended():
    loader = started(Loader([Opening(FIXTURE, cached=False)]))
    heard_of(loader)
    assert [type(each) for each in heard_of(loader)] == [Ended]


def test_of_a_part_and_how_far_it_is_a_late_listener_hears_of_the_part(monkeypatch):
    reached, go_on = threading.Event(), threading.Event()
    whole = Opening(FIXTURE, cached=False).trace()

    def parts(opening, watcher):
        watcher.progress(1, 4, 10)
        watcher.early(whole)
        watcher.progress(2, 4, 20)
        reached.set()
        assert go_on.wait(20)
        return whole

    monkeypatch.setattr(Opening, "trace", parts)
    loader = started(Loader([Opening(FIXTURE, cached=False)]))
    assert reached.wait(20)
    heard: list[Heard] = []
    loader.listen(heard.append)
    assert isinstance(heard[0], Early)
    assert not heard[0].session.whole
    go_on.set()
    assert isinstance(heard_of(loader)[-1], Ended)


def test_what_cannot_be_read_is_told(tmp_path):
    loader = started(Loader([Opening(tmp_path / "nothing.json", cached=False)]))
    ended = heard_of(loader)[-1]
    assert isinstance(ended, Ended)
    assert isinstance(ended.result, InputError)


def test_after_cancelling_nothing_more_is_told(monkeypatch):
    reached, go_on, said = threading.Event(), threading.Event(), []

    def slow(opening, watcher):
        reached.set()
        assert go_on.wait(20)
        said.append(watcher.progress(1, 2, 3))
        raise InputError(message("input.memory", path="p"))

    monkeypatch.setattr(Opening, "trace", slow)
    loader = started(Loader([Opening(FIXTURE, cached=False)]))
    heard: list[Heard] = []
    loader.listen(heard.append)
    assert reached.wait(20)
    loader.cancel()
    go_on.set()
    while loader.is_busy:
        time.sleep(0.01)
    assert heard == [Ended(None)]
    assert said == [False]


def test_an_error_of_the_program_ends_the_application(monkeypatch):
    def broken(opening, watcher):
        raise ZeroDivisionError("broken")

    monkeypatch.setattr(Opening, "trace", broken)
    heard = heard_of(started(Loader([Opening(FIXTURE, cached=False)])))
    assert isinstance(heard[-1], Crashed)


async def ended(app: NpuTui) -> None:
    async with app.run_test():
        for _ in range(2_000):
            await asyncio.sleep(0.01)
            if app._exception is not None:
                return


async def test_the_application_ends_with_it(monkeypatch):
    def broken(opening, watcher):
        raise ZeroDivisionError("broken")

    monkeypatch.setattr(Opening, "trace", broken)
    app = NpuTui([Opening(FIXTURE, cached=False)])
    with pytest.raises(ZeroDivisionError):
        await ended(app)
    assert app.return_code == 70
