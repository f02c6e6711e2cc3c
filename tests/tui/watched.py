"""The explorer as it is, but that every command it would run is written into a pipe instead: PIPE [words of npu-tui].

The commands are taken where all keys, clicks and typed commands end. ``-`` is what F12 runs there: what is
written before it was run by the keys before it.
"""

from __future__ import annotations

import os
import sys

from textual.binding import Binding, BindingType

import npu_tui.tui.panel_screen
from npu_tui.cli.main import main
from npu_tui.tui.app import NpuTui
from npu_tui.tui.commands import Where
from npu_tui.tui.screen import MainScreen

READY, FENCE, FENCE_KEY = "ready", "-", "f12"


def watch(pipe: int) -> None:
    """Have every command written into ``pipe``, one a line."""
    mounted, bound = MainScreen.on_mount, npu_tui.tui.panel_screen.screen_bindings

    def write(word: str) -> None:
        os.write(pipe, f"{word}\n".encode())

    def run_command(self: MainScreen, command: str) -> None:
        self._prefix = ""
        write(command)

    def on_mount(self: MainScreen) -> None:
        mounted(self)
        self.call_after_refresh(write, READY)

    def bindings(where: Where) -> list[BindingType]:
        return [*bound(where), Binding(FENCE_KEY, f"run('{FENCE}')")]

    async def action_quit(self: NpuTui) -> None:
        write("quit")

    for name in ("run_command", "action_run", "action_lanes_run"):  # Textual looks the actions up by their names
        setattr(MainScreen, name, run_command)
    MainScreen.on_mount = on_mount
    npu_tui.tui.panel_screen.screen_bindings = bindings
    NpuTui.action_quit = action_quit


if __name__ == "__main__":
    watch(os.open(sys.argv[1], os.O_WRONLY))
    sys.exit(main(sys.argv[2:]))
