"""Signals while the terminal is given back."""

from __future__ import annotations

import os
import signal

import pytest

from npu_tui.tui.terminal import terminal
from npu_tui.tui.terminal.terminal import Guard


@pytest.mark.parametrize("threads", [True, False], ids=["threads", "no threads"])
def test_ctrl_c_while_the_terminal_is_given_back_does_not_stop_that(monkeypatch, threads):
    done: list[str] = []

    class Watch:
        """In place of the thread that would end this process."""

        def __init__(self, *_: object) -> None:
            self.daemon = False

        def start(self) -> None:
            if not threads:
                raise RuntimeError("can't start new thread")

    def interrupted(text: str) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        done.append(text)

    monkeypatch.setattr(terminal.threading, "Timer", Watch)
    monkeypatch.setattr(terminal, "_tell", interrupted)
    monkeypatch.setattr(terminal, "_attributes", lambda: ["as before"])
    monkeypatch.setattr(terminal.termios, "tcsetattr", lambda *settings: done.append(settings[2][0]))
    before = signal.getsignal(signal.SIGINT)
    with Guard() as guard:
        guard.draws(lambda code: None)
    assert len(done) == 2
    assert done[1] == "as before"
    assert signal.getsignal(signal.SIGINT) is before
