"""``npu-tui version``: which version this is."""

from __future__ import annotations

import argparse

from npu_tui import __version__
from npu_tui.cli.parser import Parser
from npu_tui.cli.streams import DONE, write
from npu_tui.strings import say


def version_line() -> str:
    """The name and version of the program, and what reads traces on this machine."""
    from npu_tui.native.library import library

    found = library()
    return say("cli.version", version=__version__, scanner=say("cli.no_scanner") if found is None else found.name)


def parser() -> Parser:
    """Its arguments and options."""
    return Parser(prog="npu-tui version", description=say("tree.version"))


def run(parser: Parser, options: argparse.Namespace) -> int:
    """Print the version; returns the exit code."""
    write(version_line() + "\n")
    return DONE
