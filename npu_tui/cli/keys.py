"""``npu-tui keys``: the table of keys."""

from __future__ import annotations

import argparse

from npu_tui.cli.options import read_settings
from npu_tui.cli.parser import Parser
from npu_tui.cli.streams import DONE, USAGE, write
from npu_tui.strings import say


def parser() -> Parser:
    """Its arguments and options."""
    return Parser(prog="npu-tui keys", description=say("cli.key_table"))


def run(parser: Parser, options: argparse.Namespace) -> int:
    """Print the table of keys; returns the exit code."""
    from npu_tui.tui.commands import text_table

    if read_settings() is None:
        return USAGE
    write(text_table())
    return DONE
