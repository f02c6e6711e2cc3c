"""Who leaves while something loads or searches does not wait for it."""

from __future__ import annotations

import asyncio
import os
import sys
import threading

import pytest

from npu_tui.tui.app import BackgroundThreads


def test_the_event_loop_ends_while_a_thread_works():
    beside, begun, goes_on, results = BackgroundThreads(), threading.Event(), threading.Event(), []

    def work() -> None:
        begun.set()
        results.append(goes_on.wait(20))

    async def leave() -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(beside)
        loop.run_in_executor(None, work)
        assert begun.wait(20)

    asyncio.run(leave())
    assert beside.is_busy
    assert not results
    goes_on.set()


async def test_what_is_done_is_not_busy():
    beside = BackgroundThreads()
    assert beside.submit(int, "7").result(20) == 7
    beside.shutdown()
    assert not beside.is_busy


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has priorities of threads")
def test_what_computes_gives_way_and_so_does_what_it_starts():
    found: list[int] = []

    def priority() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    def work() -> None:
        other = threading.Thread(target=lambda: found.append(priority()))
        other.start()
        other.join()
        found.append(priority())

    before, beside = priority(), BackgroundThreads()
    beside.submit(work).result(20)
    beside.shutdown()
    assert found == [min(before + 10, 19)] * 2
    assert priority() == before
