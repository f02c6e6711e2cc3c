"""However the program ends, the terminal is as it was before."""

from __future__ import annotations

import os
import signal
import sys
import termios
import time
from collections.abc import Callable, Iterator

import pytest
from terminals import PROGRAM, Terminal, answering, starts_programs

pytestmark = starts_programs

PROFILE = "fixtures/dispatch_bound"
KEYBOARD = b"\x1b[>"
"""How kitty's keyboard mode is taken begins with this."""
ENDING = [signal.SIGHUP, signal.SIGINT]
"""One handler serves all of them from the start; of Ctrl+C there is another before it."""
CRASH = """
import os, signal, sys, threading
from npu_tui.view.painter import Painter
asked, real = threading.Event(), Painter.compose
signal.signal(signal.SIGUSR1, lambda *_: asked.set())
def compose(*words):
    if asked.is_set():
        os.write(1, b"asked")
        {what}
    return real(*words)
Painter.compose = compose
from npu_tui.cli.main import main
sys.exit(main([{path!r}]))
"""


def broken(what: str) -> list[str]:
    """The program, in which drawing a frame after SIGUSR1 does ``what``."""
    return [sys.executable, "-c", CRASH.format(what=what, path=PROFILE)]


def breaks(terminal: Terminal) -> None:
    """Let the next frame break, and wait for it."""
    os.kill(terminal.pid, signal.SIGUSR1)

    def drawn() -> bool:
        terminal.send("w")
        return b"asked" in terminal.output

    terminal.until(drawn, "draws nothing")


def takes_over(terminal: Terminal) -> None:
    """Wait until the application draws; the first picture stands before that."""
    terminal.until(lambda: {"1049", "1000", "2004", "kitty"} <= terminal.modes(), "does not begin")


@pytest.fixture
def opened() -> Iterator[Callable[..., Terminal]]:
    terminals: list[Terminal] = []

    def start(command: list[str], **environment: str) -> Terminal:
        terminals.append(Terminal(command, **environment))
        terminals[-1].shows("Ascend Hardware")
        takes_over(terminals[-1])
        return terminals[-1]

    yield start
    for terminal in terminals:
        terminal.close()


def restored(terminal: Terminal) -> None:
    assert terminal.modes() == set()
    assert termios.tcgetattr(terminal.fd)[:4] == terminal.settings[:4]
    assert not terminal.screen.cursor.hidden


@pytest.mark.few(1)
@pytest.mark.parametrize("number", ENDING, ids=lambda number: number.name)
def test_signals(opened, number):
    terminal = opened([*PROGRAM, PROFILE])
    os.kill(terminal.pid, number)
    assert terminal.exit_code() == 128 + number
    restored(terminal)


def test_ctrl_c_while_the_terminal_is_asked():
    terminal = Terminal([*PROGRAM, PROFILE])  # it never answers
    try:
        terminal.until(lambda: terminal.read() or b"\x1b[6n" in terminal.output, "asked nothing")
        os.kill(terminal.pid, signal.SIGINT)
        assert terminal.exit_code() == 130
        assert b"\x1b[?1049" not in terminal.output
        restored(terminal)
    finally:
        terminal.close()


PICTURED = """
import sys, time
class Waiting:
    def find_spec(self, name, *_):
        if name == "textual":
            time.sleep(20)
sys.meta_path.insert(0, Waiting())
from npu_tui.cli.main import main
sys.exit(main([{path!r}]))
"""
"""The program, whose first picture stands long, as importing what draws the others takes its time."""


def pictured() -> Terminal:
    terminal = Terminal([sys.executable, "-c", PICTURED.format(path=PROFILE)], answers=answering())
    terminal.shows("Ascend Hardware")
    terminal.until(lambda: "1049" in terminal.modes(), "takes no screen")
    return terminal


def test_a_signal_while_the_first_picture_stands():
    terminal = pictured()
    try:
        os.kill(terminal.pid, signal.SIGTERM)
        assert terminal.exit_code() == 128 + signal.SIGTERM
        restored(terminal)
        assert b"\x1b[<" not in terminal.output
    finally:
        terminal.close()


def test_keys_while_the_first_picture_stands_do_not_show():
    terminal = pictured()
    try:
        before = terminal.rows()
        terminal.send("abc\x1a")
        time.sleep(0.2)
        assert terminal.rows() == before
        terminal.send("\x03")
        assert terminal.exit_code() == 130
        restored(terminal)
    finally:
        terminal.close()


def test_without_threads_one_line_says_so():
    code = (
        "import threading\n"
        'def refuse(self): raise RuntimeError("can\'t start new thread")\n'
        "threading.Thread.start = refuse\n"
        "import sys; from npu_tui.cli.main import main\n"
        f"sys.exit(main(['--theme', 'dark', '--glyphs', 'ascii', {PROFILE!r}]))"
    )
    terminal = Terminal([sys.executable, "-c", code])
    try:
        assert terminal.exit_code() == 3
        restored(terminal)
        assert [row for row in terminal.rows() if row] == [
            "npu-tui: the system cannot start more threads; close other programs, or raise its limit (ulimit -u)"
        ]
    finally:
        terminal.close()


STRAY = {
    "GBK": b"\xc4\xe3\xba\xc3",
    "mouse": b"\x1b[M\x20\xff\x21",
    "reports": b"\x1b[1;2R" * 5,
    "size": b"\x1b[48;9999;9999;9;9t",
    "key": b"\x1b[99999999999u",
}


def test_what_a_terminal_may_do_to_it_ends_nothing(opened):
    """A size that no terminal has, a stop from outside, stray bytes, and at last a paste whose end never comes."""
    terminal = opened([*PROGRAM, PROFILE], COLUMNS="99999999", LINES="99999999")
    assert terminal.output.count(b"\x1b[?1049h") == 1, "the application draws over the first picture"
    terminal.send("x")
    terminal.shows("starved launch 1")
    for _ in range(2):
        taken = terminal.output.count(KEYBOARD)
        os.kill(terminal.pid, signal.SIGSTOP)
        time.sleep(0.2)
        os.kill(terminal.pid, signal.SIGCONT)
        # Keys that come before it has taken the keyboard again are dropped, as those for a stopped program.
        terminal.until(lambda taken=taken: terminal.output.count(KEYBOARD) > taken, "did not take the keyboard")
    for data in STRAY.values():
        for _ in range(3):
            os.write(terminal.fd, data)
            terminal.send("w")
    terminal.send("\x1b[200~half a paste")
    terminal.send("q" * 50)
    time.sleep(0.2)
    terminal.send("\x03")
    assert terminal.exit_code() == 130
    restored(terminal)


def test_a_trace_that_is_piped_without_standard_error_is_drawn_on_standard_output(shell):
    shell.send(f"cat {PROFILE}/*/trace_view.json | '{sys.executable}' -m npu_tui - 2>&-\r")
    shell.shows("Ascend Hardware")
    shell.send(":q\r")
    shell.until(lambda: shell.rows()[-1].startswith("ready>") or "ready>" in "\n".join(shell.rows()), "the shell")
    assert shell.modes() - {"2004"} == set()


def test_a_signal_while_the_program_hangs(opened):
    terminal = opened(broken("import time; time.sleep(1000)"))
    breaks(terminal)
    os.kill(terminal.pid, signal.SIGTERM)
    assert terminal.exit_code() == 128 + signal.SIGTERM
    restored(terminal)


@pytest.mark.few(1)
@pytest.mark.parametrize(("what", "code"), [("raise RuntimeError('broken')", 70), ("raise MemoryError", 70)])
def test_exceptions(opened, what, code):
    terminal = opened(broken(what))
    breaks(terminal)
    assert terminal.exit_code() == code
    restored(terminal)
    rows = "\n".join(terminal.rows())
    assert "internal error" in rows
    assert "report it" in rows
    assert "Traceback" not in rows
    assert "locals" not in rows


def test_standard_error_is_kept_from_the_screen(opened):
    terminal = opened(broken("os.write(2, b'thread panicked\\nat a place\\n')"))
    breaks(terminal)
    terminal.shows("standard error: thread panicked")
    assert sum("panicked" in row or "at a place" in row for row in terminal.rows()) == 1
    terminal.send(":q\r")
    assert terminal.exit_code() == 0
    restored(terminal)
    _, given_back, after = terminal.output.rpartition(b"\x1b[?1049l")
    assert given_back
    assert b"thread panicked" in after
    assert b"at a place" in after


def test_a_terminal_that_goes_away_ends_the_program():
    terminal = Terminal([*PROGRAM, PROFILE])
    terminal.shows("Ascend Hardware")
    os.close(terminal.fd)
    deadline = time.monotonic() + 20
    while not terminal._ended():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def shell() -> Iterator[Terminal]:
    terminal = Terminal(["bash", "--norc", "--noprofile", "-i"], PS1="ready> ")
    terminal.shows("ready>")
    yield terminal
    terminal.close()


def steady(shell) -> list[str]:
    """The screen without its first and last line, once it stays the same for half a second."""
    before: list[str] = []
    while before != (before := shell.rows()[1:-1]):
        time.sleep(0.5)
    return before


def test_suspended_and_resumed_it_shows_the_same(shell):
    shell.send(f"'{sys.executable}' -m npu_tui {PROFILE}\r")
    shell.shows("Ascend Hardware")
    shell.send("x")
    shell.shows("starved launch 1")
    shell.shows("DISPATCH")  # the trace is examined, nothing more comes by itself
    first = steady(shell)
    shell.send("W")
    shell.until(lambda: shell.rows()[1:-1] != first, "the zoom")
    before = steady(shell)
    shell.send("\x1a")
    shell.shows("Stopped")
    assert shell.modes() - {"2004"} == set()  # bash reads with bracketed paste
    shell.send("clear; fg\r")
    shell.until(lambda: shell.rows()[1:-1] == before, "the screen as it was")
    shell.send("s")
    shell.until(lambda: shell.rows()[1:-1] != before, "the next frame")
    shell.send(":q\r")
    shell.shows("ready>")
    assert shell.modes() - {"2004"} == set()
