"""Flags, copies, and the command that opens a view again."""

from __future__ import annotations

import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
from argparse import ArgumentParser
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest
from driving import Driver, opened

from npu_tui.cli.options import add_place, start_of
from npu_tui.load.load import load
from npu_tui.trace.model import Trace
from npu_tui.tui.app import NpuTui
from npu_tui.tui.exports import command_here, quoted
from npu_tui.tui.flags import Flag, Flags, FlagSheet, identity_of
from npu_tui.tui.footer import StatusLine
from npu_tui.tui.screen import MainScreen
from npu_tui.tui.tabs.table import TabTable
from npu_tui.tui.terminal.terminal import to_tmux
from npu_tui.view.start import NO_TAB


def status(driver) -> str:
    return str(driver.main.query_one(StatusLine).render())


def here(driver) -> str:
    """The command that opens what is on screen."""
    tab = driver.panel.tab if driver.panel.is_shown else NO_TAB
    return command_here(driver.explorer, driver.main.finder.hits.text, tab)


def opening_of(command: str):
    """What the command line makes of a command that Y has copied."""
    words = shlex.split(command)
    assert words[0] == "npu-tui"
    parser = ArgumentParser()
    add_place(parser)
    return start_of(parser, parser.parse_args(words[2:]))


VIEWS = {
    "zoomed with a tab": ["x", "W", "w", "d", "4"],
    "range": ["x", "m", "z", "s"],
    "range by keyboard": ["v", "D", "v"],
    "searched": ["/", "Gelu", "enter", "n"],
    "chain": ["x", "c", "t"],
    "folded and hidden": ["j", "space", "G", "space", "x", "H", "j", "H", "i"],
    "pinned and the last rows": ["x", "p", "G", "p", "g", "g", "G", "k", "pageup"],
    "no panel": ["q", "0", "G"],
    "namesake": ["x", "}", "b", "f"],
}


async def share_rows(driver: Driver) -> None:
    """Let the panel take the rows that lanes leave blank, whatever they asked back in the views before this one."""
    await driver.settle()
    driver.panel._asked_back.clear()
    driver.main.on_timeline_fitted()
    await driver.settle()


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("keys", "size"), [(keys, [(120, 40), (80, 24)][at % 2]) for at, keys in enumerate(VIEWS.values())], ids=VIEWS
)
async def test_the_copied_command_opens_the_same_view(session, keys, size):
    async with opened(session, size) as driver:
        await driver.press(*keys)
        await share_rows(driver)
        command = here(driver)
        expected, before = driver.rows(), driver.state
        expected_rows = [(row.lane, row.depth, row.series, row.chart) for row in driver.explorer.rows]
    app = NpuTui(session=session, start=opening_of(command))
    async with opened(session, size, app) as driver:
        await share_rows(driver)
        after = driver.state
        views = [(view.start, view.span, view.width) for view in (after.viewport, before.viewport)]
        assert views[0] == views[1]
        assert (after.cursor, after.range) == (before.cursor, before.range)
        assert (after.selection, after.focus, after.top, after.pinned) == (
            before.selection, before.focus, before.top, before.pinned
        )  # fmt: skip
        assert [(row.lane, row.depth, row.series, row.chart) for row in driver.explorer.rows] == expected_rows
        # The status line may still tell what the last key did.
        assert driver.rows()[:-1] == expected[:-1]


@pytest.mark.parametrize(
    "word", ["\x1b]0;owned\x07", "a\u202eb", "plain", "it's", "a\\b\x00"[:3] + "\x9b", "\udcff", "你\n"]
)
def test_a_word_for_the_shell_is_printable_and_the_same(word, tmp_path):
    text = quoted(word)
    assert text.isprintable()
    done = subprocess.run(["bash", "-c", f"printf %s {text}"], capture_output=True, check=True)
    assert done.stdout == word.encode("utf-8", "surrogateescape")


async def test_upper_y_copies_the_command_and_shows_it(session):
    async with opened(session, (400, 40)) as driver:
        await driver.press("x", "Y")
        assert driver.app.clipboard == here(driver)
        assert driver.app.clipboard[:60] in status(driver)
    async with opened(session) as driver:
        await driver.press("x", "Y")
        assert not isinstance(driver.app.screen, MainScreen)
        assert "--select" in driver.text()
        await driver.press("escape")
        assert isinstance(driver.app.screen, MainScreen)


async def test_y_copies_the_name_or_the_table_row(session):
    async with opened(session) as driver:
        await driver.press("y")
        assert "nothing to copy" in status(driver)
        await driver.press("x", "y")
        assert driver.app.clipboard == driver.selected
        await driver.press("4", "tab", "y")
        assert driver.app.clipboard.count("\t") == 5
        assert "HostToDevice" in driver.app.clipboard


async def test_tables_are_copied_as_text_and_csv(session):
    async with opened(session) as driver:
        driver.search("Gelu")
        await driver.press("8")
        await driver.settle()
        count = len(driver.main.finder.hits)
        await driver.run("copy_text")
        lines = driver.app.clipboard.splitlines()
        assert len(lines) == count + 1
        assert lines[0].split() == ["duration", "start", "lane", "name"]
        assert status(driver) == f"copied {count} rows"
        await driver.run("copy_csv")
        assert driver.app.clipboard.splitlines()[0] == "duration,start,lane,name"


async def test_no_more_is_copied_than_terminals_take(session):
    async with opened(session) as driver:
        driver.search("a")
        await driver.press("8")
        await driver.settle()
        await driver.run("copy_text")
        assert isinstance(driver.panel.content, TabTable)
        rows = len(driver.panel.content.rows)
        size = len(driver.app.clipboard.encode())
        if size > 70_000:
            assert f"of {rows:,} rows" in status(driver)
        assert size <= 74_994


# --- flags


async def test_k_flags_the_cursor_the_selection_and_the_range_as_insight_does(session, tmp_path):
    notes = tmp_path / "notes" / "flags.txt"
    async with opened(session, app=NpuTui(session=session, notes=notes)) as driver:
        await driver.press("K", "enter")
        assert driver.state.flags == (driver.state.cursor,)
        await driver.press("x", "K", "enter")
        launch = next(flag for flag in driver.main.marks.flags.all if flag.name == driver.selected)
        assert launch.end > launch.start
        driver.explorer.set_range(3_000_000, 4_000_000)
        await driver.press("K", "slow", "enter")
        assert Flag(3_000_000, 4_000_000, "slow") in driver.main.marks.flags.all
        assert "⚑" in driver.text()
    text = notes.read_text()
    assert f"[{identity_of(session.scene.traces[0])}]" in text
    assert "3.000000ms..4.000000ms  slow" in text
    async with opened(session, app=NpuTui(session=session, notes=notes)) as driver:
        assert len(driver.main.marks.flags.all) == 3


async def test_k_on_a_flag_renames_it_and_an_empty_name_deletes_it(session, tmp_path):
    async with opened(session, app=NpuTui(session=session, notes=tmp_path / "f")) as driver:
        await driver.press("K", "enter", "K", "here", "enter")
        assert [flag.name for flag in driver.main.marks.flags.all] == ["here"]
        await driver.press("K", "backspace", "enter")
        assert driver.main.marks.flags.all == []
        assert driver.state.flags == ()
        await driver.press("K", "escape")
        assert driver.main.marks.flags.all == []


async def test_the_list_of_flags_jumps_renames_and_deletes(session, tmp_path):
    async with opened(session, app=NpuTui(session=session, notes=tmp_path / "f")) as driver:
        await driver.run("flags")
        assert "no flags" in status(driver)
        for time in (2_000_000, 5_000_000, 7_000_000):
            driver.explorer.go_to(time)
            await driver.press("K", "enter")
        await driver.run("flags")
        assert isinstance(driver.app.screen, FlagSheet)
        await driver.press("down", "enter")
        assert driver.state.cursor == 5_000_000
        await driver.run("flags")
        await driver.press("d", "r", "end", *"!", "enter")
        assert [flag.name for flag in driver.main.marks.flags.all] == ["flag-2!", "flag-3"]
        await driver.press(":", "flag-3", "enter")
        assert driver.state.cursor == 7_000_000


def test_the_file_keeps_what_others_have_written(session, tmp_path):
    trace, file = session.scene.traces[0], tmp_path / "flags.txt"
    file.write_text(f"# mine\n[other-trace] /x\n1ms  theirs\n\n[{identity_of(trace)}] /y\n; a remark\n2ms..3ms old\n")
    flags = Flags(trace, file)
    assert flags.all == [Flag(2_000_000, 3_000_000, "old")]
    flags.add(Flag(1, 1, "new\x1b[31m"))
    other = Flags(trace, file)
    assert other.all == [Flag(1, 1, "new?[31m"), Flag(2_000_000, 3_000_000, "old")]
    other.delete(other.all[1])
    flags.add(Flag(5, 5, "late"))
    lines = file.read_text().splitlines()
    assert lines[:4] == ["# mine", "[other-trace] /x", "1ms  theirs", ""]
    assert "; a remark" in lines
    assert [flag.name for flag in Flags(trace, file).all] == ["new?[31m", "late"]


def test_a_file_that_cannot_be_written_is_said_once_and_flags_stay(session, tmp_path):
    folder = tmp_path / "taken"
    folder.write_text("a file")
    flags = Flags(session.scene.traces[0], folder / "flags.txt")
    flags.add(Flag(1, 1, "a"))
    assert "kept in memory only" in flags.problem
    assert flags.all == [Flag(1, 1, "a")]


async def test_a_piped_trace_is_opened_again_through_a_pipe(session, monkeypatch):
    monkeypatch.setattr(session.scene.traces[0], "path", "-")
    async with opened(session, (400, 40)) as driver:
        await driver.press("x", "Y")
        words = shlex.split(driver.app.clipboard)
        assert words[:3] == ["npu-tui", "-", "--view"]
        assert status(driver).startswith("copied; pipe the same trace into this command: npu-tui - ")
    async with opened(session) as driver:
        await driver.press("x", "Y")
        assert "pipe the same trace into it" in driver.text()


@pytest.mark.parametrize(
    ("called", "found", "expected"),
    [
        ("venv/bin/npu-tui", True, ["npu-tui"]),
        ("venv/bin/npu-tui", False, ["{here}/venv/bin/npu-tui"]),
        ("/site/npu_tui/__main__.py", False, [sys.executable, "-m", "npu_tui"]),
    ],
)
async def test_the_copied_command_can_be_run_from_anywhere(session, monkeypatch, called, found, expected):
    monkeypatch.setattr(sys, "argv", [called])
    monkeypatch.setattr(shutil, "which", lambda _: "/bin/npu-tui" if found else None)
    async with opened(session) as driver:
        words = shlex.split(here(driver))
    assert words[: len(expected)] == [word.format(here=Path.cwd()) for word in expected]
    assert Path(words[len(expected)]).is_absolute()


TMUX = """#!/bin/sh
echo "$@" > "$FOLDER/words"
cat > "$FOLDER/text"
exit $CODE
"""


@pytest.mark.parametrize(
    ("inside", "code", "through"), [("/tmp/tmux", 0, True), ("/tmp/tmux", 1, False), ("", 0, False)]
)
def test_tmux_takes_a_copy_where_it_can(tmp_path, monkeypatch, inside, code, through):
    (tmp_path / "tmux").write_text(TMUX)
    (tmp_path / "tmux").chmod(0o755)
    for name, value in (("PATH", f"{tmp_path}:/usr/bin:/bin"), ("FOLDER", tmp_path), ("CODE", code), ("TMUX", inside)):
        monkeypatch.setenv(name, str(value))
    assert to_tmux("aclnnMatMul 乘\n") is through
    if inside:
        assert (tmp_path / "words").read_text() == "load-buffer -w -\n"
        assert (tmp_path / "text").read_text(encoding="utf-8") == "aclnnMatMul 乘\n"


@pytest.mark.parametrize("taken", [True, False])
async def test_what_tmux_does_not_take_goes_to_the_terminal(session, monkeypatch, taken):
    given, written = [], []
    monkeypatch.setattr("npu_tui.tui.app.to_tmux", lambda text: given.append(text) or taken)
    async with opened(session) as driver:
        monkeypatch.setattr(type(driver.app), "is_headless", False)
        monkeypatch.setattr(driver.app._driver, "write", written.append)
        driver.app.copy_to_clipboard("aclnnMatMul")
    assert given == ["aclnnMatMul"]
    assert driver.app.clipboard == "aclnnMatMul"
    assert any(text.startswith("\x1b]52;c;") for text in written) is not taken


def test_lines_that_are_no_utf_8_stay_as_they_are(tmp_path: Path) -> None:
    trace = load("fixtures/healthy")
    path = tmp_path / "notes"
    other = "[0123456789abcdef] other\n1ms  慢\n\x85\x0c".encode("gb18030")
    path.write_bytes(other + b"\r\n")
    Flags(trace, path).add(Flag(5, 5, "mine"))
    assert path.read_bytes().startswith(other + b"\r\n")
    assert [flag.name for flag in Flags(trace, path).all] == ["mine"]
    path.write_bytes(path.read_bytes().replace(b"mine", "慢".encode("gb18030")))
    assert [flag.name for flag in Flags(trace, path).all] == ["慢"]


def write_flags(trace: Trace, file: Path, name: str, out: int) -> None:
    """What a program of its own does, forked from this one: flags come and some go; ``out`` hears which it kept."""
    draw, flags, kept = random.Random(name), Flags(trace, file), list[Flag]()
    with open(out, "w") as told:
        for number in range(25) if name != "1" else count():  # the first one writes until it is killed
            kept.append(Flag(int(name) * 1000 + number, int(name) * 1000 + number, f"{name}-{number}"))
            flags.add(kept[-1])
            if draw.random() < 0.3:
                flags.delete(kept.pop(draw.randrange(len(kept))))
            print(len(kept), file=told, flush=True)
        print(*(flag.name for flag in kept), file=told)


@pytest.mark.reached_from("npu_tui/tui/flags.py")
def test_no_flag_of_several_writers_is_lost_though_one_of_them_is_killed(session, tmp_path: Path) -> None:
    file = tmp_path / "flags.txt"
    file.write_text("a remark of mine\n[another-trace] title\n1 ms  theirs\n")
    writers, heard = [], []
    with ExitStack() as files:
        for name in ("1", "2", "3"):
            read, write = os.pipe()
            if not (writer := os.fork()):
                try:
                    write_flags(session.scene.traces[0], file, name, write)
                    os._exit(0)
                finally:
                    os._exit(1)
            os.close(write)
            writers.append(writer)
            heard.append(files.enter_context(open(read)))
        for _ in range(10):
            heard[0].readline()
        os.kill(writers[0], signal.SIGKILL)
        kept = {name for lines in heard[1:] for name in lines.read().splitlines()[-1].split()}
    assert [os.waitstatus_to_exitcode(os.waitpid(writer, 0)[1]) for writer in writers] == [-signal.SIGKILL, 0, 0]
    flags = Flags(session.scene.traces[0], file)
    assert {flag.name for flag in flags.all if not flag.name.startswith("1-")} == kept
    assert sum(flag.name.startswith("1-") for flag in flags.all) >= 5
    assert file.read_text().startswith("a remark of mine\n[another-trace] title\n1 ms  theirs\n")
