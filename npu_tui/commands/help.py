"""``npu-tui help``: all commands, or the options of one."""

from __future__ import annotations

import importlib

from npu_tui.commands.parser import Parser
from npu_tui.commands.tree import COMMANDS, EXPLORE, meant
from npu_tui.strings import say


def run(words: list[str]) -> int:
    """Print the help of the command that ``words`` name, without one that of the program; returns the exit code."""
    parser = Parser(prog="npu-tui help", description=say("tree.help"))
    parser.add_argument("topic", nargs="?", default="", metavar="COMMAND", help=say("cli.topic"))
    topic = parser.parse_args(words).topic
    if topic and topic not in COMMANDS:
        nearest = meant(topic)
        parser.error(say("cli.no_topic", word=topic) + (say("cli.meant", nearest=nearest) if nearest else ""))
    module, _, function = COMMANDS.get(topic, EXPLORE).partition(":")
    return int(getattr(importlib.import_module(f"npu_tui.commands.{module}"), function)(["--help"]))
