"""Which command every key runs, measured: ``.venv/bin/python tests/tui/key_table.py`` prints the table as Markdown.

Each key goes as bytes through Textual's parser, into the program in a pseudo-terminal, and into a terminal in which
tmux shows the program, without and with extended keys.
"""

from __future__ import annotations

import os
import select
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from driving import keys_of
from key_bytes import KeyBytes, cases
from terminals import PATIENCE, Terminal
from watched import FENCE, READY

from npu_tui.tui.commands import commands_of, delivered, key_label

ROOT = Path(__file__).resolve().parents[2]
WATCHED = Path(__file__).resolve().parent / "watched.py"
LOOK = ["--theme", "dark", "--glyphs", "blocks"]
"""Nothing is asked of the terminal then."""
FENCE_BYTES = "\x1b[24~"
ESCAPE_SECONDS = 2.0
"""Longer than both tmux and Textual wait for what may follow an Esc."""


def parsed(entry: KeyBytes) -> list[str]:
    """The command that is bound to what Textual's parser makes of the bytes."""
    pressed = [event.key for event in keys_of(entry.data)]
    return [command.id for command in commands_of("lanes") if any(_is(key.split(" "), pressed) for key in command.keys)]


def _is(parts: list[str], pressed: list[str]) -> bool:
    """Whether the ``parts`` of a key of the registry are what was ``pressed``."""
    return len(parts) == len(pressed) and all(key in delivered(part) for part, key in zip(parts, pressed, strict=True))


class Watched:
    """The program in a terminal, alone or inside of tmux, and the commands that keys run there."""

    def __init__(self, folder: Path, tmux: list[str] | None = None) -> None:
        """``tmux`` are lines of its settings; None runs the program without it."""
        self._pipe_path = folder / "commands"
        os.mkfifo(self._pipe_path)
        self._pipe = os.open(self._pipe_path, os.O_RDONLY | os.O_NONBLOCK)
        program = [sys.executable, str(WATCHED), str(self._pipe_path), str(ROOT / "fixtures" / "dispatch_bound"), *LOOK]
        self._tmux: list[str] = []
        if tmux is not None:
            settings = folder / "tmux.conf"
            settings.write_text("\n".join(["set -g status off", "set -g default-terminal tmux-256color", *tmux]) + "\n")
            self._tmux = ["tmux", "-S", str(folder / "socket"), "-f", str(settings)]
            program = [*self._tmux, "new-session", shlex.join(["env", f"PYTHONPATH={ROOT}", *program])]
        own = {"XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "NPU_TUI_CONFIG": ""}
        self._terminal = Terminal(program, TMUX="", PYTHONPATH=str(ROOT), **own)
        self._read = b""
        self._until(lambda lines: READY in lines, PATIENCE)
        self._until(lambda lines: FENCE in lines, PATIENCE, FENCE_BYTES)
        self._read = b""

    def ran(self, data: str) -> list[str]:
        """The commands that the bytes ``data`` ran."""
        self._read = b""
        if data == "\x1b":
            # Anything after it would make another key of it.
            self._terminal.send(data)
            self._until(bool, ESCAPE_SECONDS)
            data = ""
        return self._until(lambda lines: FENCE in lines, PATIENCE, data + FENCE_BYTES)[:-1]

    def _until(self, found: Callable[[list[str]], bool], seconds: float, data: str = "") -> list[str]:
        """Send ``data`` and read until ``found`` is content with the lines, or time is out."""
        if data:
            self._terminal.send(data)
        deadline = time.monotonic() + seconds
        while not found(lines := self._read.decode().split("\n")[:-1]) and time.monotonic() < deadline:
            for file in select.select([self._pipe, self._terminal.fd], [], [], 0.05)[0]:
                if file == self._pipe:
                    self._read += os.read(self._pipe, 1 << 12)
                else:
                    os.read(file, 1 << 16)
        return lines

    def close(self) -> None:
        if self._tmux:
            subprocess.run([*self._tmux, "kill-server"], capture_output=True, check=False, timeout=PATIENCE)
        self._terminal.close()
        os.close(self._pipe)


def measured(entries: list[KeyBytes], tmux: list[str] | None = None) -> dict[KeyBytes, list[str]]:
    """The commands that each of ``entries`` ran in one program in a terminal, with ``tmux`` between them if given."""
    with tempfile.TemporaryDirectory() as folder:
        watched = Watched(Path(folder), tmux)
        try:
            return {entry: watched.ran(entry.data) for entry in entries}
        finally:
            watched.close()


EXTENDED = ["set -s extended-keys always", "set -as terminal-features 'xterm*:extkeys'"]
"""What a tmux wants in its settings to pass on keys that have no bytes of old."""


def columns() -> dict[str, dict[KeyBytes, list[str]]]:
    """What each entry ran, by the way it took; a way that is not there or that it never takes has no entry for it."""
    entries = cases()
    found = {"parser": {entry: parsed(entry) for entry in entries}, "pty": measured(entries)}
    if shutil.which("tmux"):
        found["tmux"] = measured([entry for entry in entries if entry.through_tmux], [])
        through = [entry for entry in entries if entry.through_extended_tmux]
        found["tmux, extended keys"] = measured(through, EXTENDED)
    return found


def table(found: dict[str, dict[KeyBytes, list[str]]]) -> str:
    """The measured commands as Markdown; ``-`` where the bytes do not take the way."""
    lines = [["key", "bytes", "sent by", *found, "command"], ["---"] * (len(found) + 4)]
    for entry in cases():
        ran = [found[way].get(entry) for way in found]
        shown = [" ".join(commands) or "nothing" if commands is not None else "-" for commands in ran]
        data = repr(entry.data)[1:-1].replace("|", "\\|")
        lines.append([f"`{key_label(entry.key)}`", f"`{data}`", entry.protocol, *shown, entry.command])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    print(table(columns()), end="")
