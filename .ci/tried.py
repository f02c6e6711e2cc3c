"""Runs what a user runs first: ``tried.py PROGRAM [WORD...]``; ends with what is wrong.

The words may start npu-tui in another place, such as a container.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

SECONDS = 300
"""How long one command, or the screen, may take at most; all together take about 20."""


def tried(command: list[str], folder: Path, environment: dict[str, str]) -> str | None:
    """Run ``command`` as npu-tui in ``folder``; what is wrong, None if nothing is."""
    healthy = ""
    sorting = "SELECT name FROM slices ORDER BY start, name"
    for words, told in (
        (["demo", "healthy"], "Findings"),
        (["report", healthy], "Findings"),
        (["query", healthy, sorting, "--format", "csv"], "ProfilerStep#"),
        (["doctor"], "glibc"),
    ):
        words = [word or healthy for word in words]
        out = run(*command, *words, cwd=folder, env=environment)
        if told not in out:
            return f"npu-tui {words[0]} does not print {told!r}:\n{out}"
        healthy = healthy or out.split("\n")[0].partition(": ")[2]  # what the report says first, it is a report of
    return screen([*command, "demo"], folder, environment)


def run(*words: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """What a command prints; ends with all of it where the command fails."""
    words = tuple(map(str, words))
    out, nothing = subprocess.PIPE, subprocess.DEVNULL
    done = subprocess.run(
        words, cwd=cwd, env=env, stdin=nothing, stdout=out, stderr=subprocess.STDOUT, text=True, timeout=SECONDS
    )
    if done.returncode:
        sys.exit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def screen(command: list[str], folder: Path, environment: dict[str, str]) -> str | None:
    """Open the screen in a pseudo-terminal and quit it; what is wrong, None if nothing is."""
    pid, terminal = pty.fork()
    if not pid:
        os.chdir(folder)
        os.execve(command[0], command, environment)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    shown, asked, until = b"", False, time.monotonic() + SECONDS
    while time.monotonic() < until:
        if not select.select([terminal], [], [], 0.5)[0]:
            if not asked and b"ProfilerStep#" in shown:  # painted, and at rest
                os.write(terminal, b":q\r")
                asked = True
            continue
        try:
            data = os.read(terminal, 1 << 16)
        except OSError:  # the program has ended
            break
        if not data:
            break
        shown += data
        if b"\x1b[6n" in data:  # it asks where the cursor is, to know what has been shown
            os.write(terminal, b"\x1b[1;1R" * data.count(b"\x1b[6n"))
    else:
        os.kill(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(terminal)
    if asked and not code:
        return None
    return f"the screen ended with {code}{'' if asked else ' before it was painted'}:\n{shown[-2000:]!r}"


if __name__ == "__main__":
    sys.exit(tried(sys.argv[1:], Path.cwd(), dict(os.environ)))
