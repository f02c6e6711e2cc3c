"""The clipboard of the terminal, which takes only so much (OSC 52), and the way through tmux."""

from __future__ import annotations

import os
import subprocess

MOST_BYTES = 74_994
"""hterm and others drop an OSC 52 sequence of more than 100,000 characters, which is this many bytes in base64."""

_TMUX_SECONDS = 2.0


def to_tmux(text: str) -> bool:
    """Give ``text`` to the tmux that the program runs in, and through it to the terminal; False if that did not work.

    As tmux comes, it drops OSC 52 from the programs in it (``set-clipboard external``) but sends its own.
    """
    if not os.environ.get("TMUX"):
        return False
    command = ["tmux", "load-buffer", "-w", "-"]
    try:
        done = subprocess.run(command, input=text.encode(), capture_output=True, timeout=_TMUX_SECONDS, check=False)
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0  # before tmux 3.2 there is no -w


def cut(lines: list[str]) -> tuple[str, int]:
    """As many whole lines as terminals take, and how many those are."""
    size = kept = 0
    for line in lines:
        size += len(line.encode()) + 1
        if size > MOST_BYTES:
            break
        kept += 1
    return "".join(f"{line}\n" for line in lines[:kept]), kept
