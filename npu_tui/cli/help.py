"""``npu-tui help``: all commands, the options of one, or a page of the manual."""

from __future__ import annotations

import argparse
import shutil
import sys
from typing import TYPE_CHECKING

from npu_tui.cli.options import read_settings
from npu_tui.cli.parser import COMMANDS, Parser, nearest_word, parser_of
from npu_tui.cli.streams import DONE, USAGE, write
from npu_tui.manual.pages import TOPICS, drawn, page
from npu_tui.strings import language, say

if TYPE_CHECKING:
    from npu_tui.tui.commands import Where

_KEYS: tuple[tuple[str, Where], ...] = (("{keys}", "lanes"), ("{job_keys}", "job"), ("{list_keys}", "picker"))
"""What stands for a table of keys in a page, and of which screen."""


def parser() -> Parser:
    """Its arguments and options."""
    options = Parser(prog="npu-tui help", description=say("tree.help"))
    options.add_argument(
        "topic", nargs="?", default="", metavar="TOPIC", help=say("cli.topic", topics=", ".join(TOPICS))
    )
    return options


def run(parser: Parser, options: argparse.Namespace) -> int:
    """Print the page that ``options`` name, the help of the command, or both; without a word that of the program.

    Returns the exit code.
    """
    topic = options.topic
    if topic in TOPICS and not _print_page(topic):
        return USAGE
    if topic in TOPICS and topic not in COMMANDS:
        return DONE
    if topic and topic not in (*COMMANDS, *TOPICS):
        nearest = nearest_word(topic, (*COMMANDS, *TOPICS))
        parser.error(say("cli.no_topic", word=topic) + (say("cli.meant", nearest=f"help {nearest}") if nearest else ""))
    write(parser_of(topic if topic in COMMANDS else "").format_help())
    return DONE


def _print_page(topic: str) -> bool:
    """Whether the page could be printed: the keys in it are those of the settings."""
    text = page(topic, language())
    if any(mark in text for mark, _ in _KEYS):
        from npu_tui.tui.commands import markdown_table

        if read_settings() is None:
            return False
        for mark, screen in _KEYS:
            text = text.replace(mark, markdown_table(screen))
    if topic in COMMANDS:
        text += "\n"
    write(drawn(text, shutil.get_terminal_size().columns) if sys.stdout.isatty() else text)
    return True
