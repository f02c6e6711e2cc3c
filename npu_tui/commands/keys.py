"""``npu-tui keys``: the table of keys."""

from __future__ import annotations

from npu_tui.commands.parser import Parser
from npu_tui.commands.settings_file import read_settings
from npu_tui.commands.streams import DONE, USAGE, write
from npu_tui.strings import say


def run(words: list[str]) -> int:
    """Print the table of keys; returns the exit code."""
    Parser(prog="npu-tui keys", description=say("cli.key_table")).parse_args(words)
    from npu_tui.tui.keys.commands import text_table

    if read_settings() is None:
        return USAGE
    write(text_table())
    return DONE
