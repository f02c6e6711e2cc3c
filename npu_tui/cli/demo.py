"""``npu-tui demo``: the explorer on a bundled profile."""

from __future__ import annotations

import argparse

from npu_tui.cli.explore import explore
from npu_tui.cli.options import add_look, add_place
from npu_tui.cli.parser import Parser
from npu_tui.strings import say


def parser() -> Parser:
    """Its arguments and options."""
    from npu_tui.demo import DEFAULT, demos

    options = Parser(prog="npu-tui demo", description=say("cli.demo"))
    help_text = say("cli.demo_name", names=", ".join(demos()))
    options.add_argument("name", nargs="?", default=DEFAULT, metavar="NAME", help=help_text)
    add_look(options)
    add_place(options)
    return options


def run(parser: Parser, options: argparse.Namespace) -> int:
    """Open the profile that ``options`` name; returns the exit code."""
    from npu_tui.demo import demos

    name, found = options.name, demos()
    if name not in found:
        parser.error(say("cli.no_demo", name=name, names=", ".join(found)))
    return explore([found[name]], parser, options)
