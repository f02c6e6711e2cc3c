"""Ctrl+C ends a command with exit code 130 and without a word, whenever it is pressed and however often."""

from __future__ import annotations

import subprocess
import sys

import pytest

_SCRIPT = """
import atexit, os, signal, sys, time
import npu_tui.cli.main
import npu_tui.cli.report

def press():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.01)  # a signal is answered between two instructions

def run(parser, options):
{body}
    return 0

{before}
npu_tui.cli.report.run_report = run
sys.argv = ["npu-tui", "report", "x"]
sys.exit(npu_tui.cli.main.main())
"""
_TIDY = """
    try:
        press()
    finally:
        print("tidied up", flush=True)
"""
_TWICE = """
    try:
        press()
    finally:
        press()
        print("tidied up", flush=True)
"""
_DISGUISED = """
    try:
        press()
    except KeyboardInterrupt:
        raise ImportError("numpy could not be imported")
"""
_IMPORTING = """
    class Finder:
        def find_spec(self, *_):
            press()
    sys.meta_path.insert(0, Finder())
    import colorsys
"""
_NOTHING = """
    print("done", flush=True)
"""
_EARLY = "npu_tui.cli.main.choose_language = lambda *given: press()"
_LATE = "atexit.register(press)"
_IGNORED = "signal.signal(signal.SIGINT, signal.SIG_IGN)"


@pytest.mark.parametrize(
    ("body", "before", "code", "said"),
    [
        pytest.param(_TIDY, "", 130, "tidied up\n", id="while it works"),
        pytest.param(_TWICE, "", 130, "", id="twice"),
        pytest.param(_DISGUISED, "", 130, "", id="made another error of"),
        pytest.param(_IMPORTING, "", 130, "", id="while it imports"),
        pytest.param(_NOTHING, _EARLY, 130, "", id="before the command"),
        pytest.param(_NOTHING, _LATE, 130, "done\n", id="after the command"),
        pytest.param(_TIDY, _IGNORED, 0, "tidied up\n", id="in the background of a shell"),
    ],
)
def test_the_key_ends_the_command(body: str, before: str, code: int, said: str) -> None:
    script = _SCRIPT.format(body=body, before=before)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (code, said, "")
