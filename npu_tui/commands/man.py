"""The page for man(1), made of the commands and their parsers."""

from __future__ import annotations

import argparse

import npu_tui
from npu_tui.commands.parser import parser_of
from npu_tui.commands.tree import COMMANDS, EXPLORE
from npu_tui.manual.pages import TOPICS, title
from npu_tui.strings import ENGLISH, say, speaking

_VARIABLES = {
    "NPU_TUI_CONFIG": "the settings file",
    "NPU_TUI_CACHE_MB": "how much the parsed copies may take (8192; 0: none are kept)",
    "NPU_TUI_SCANNER": "off: Python reads in place of the compiled scanner",
    "NPU_TUI_DEBUG": "anything: an internal error prints its whole traceback",
    "TMPDIR": "where the plain bytes of packed and piped traces go",
}


def man_page() -> str:
    """The page in roff, in English."""
    with speaking(ENGLISH):
        explore = parser_of(EXPLORE)
        lines = [
            f'.TH NPU-TUI 1 "" "npu-tui {npu_tui.__version__}" "User Commands"',
            ".SH NAME",
            "npu\\-tui \\- " + _text(say("cli.description").rstrip(".")),
            ".SH SYNOPSIS",
            f".B {_text(say('cli.usage'))}",
            ".SH DESCRIPTION",
            _text(say("cli.description")),
            _text(say("cli.epilog")),
            ".SH OPTIONS",
            *_options(explore),
            ".SH COMMANDS",
        ]
        for name, place in COMMANDS.items():
            parser = parser_of(place)
            named = [
                str(action.metavar or action.dest.upper()) for action in parser._actions if not action.option_strings
            ]
            lines += [f".SS {_text(' '.join((name, *named)))}", _text(say(f"tree.{name}")), *_options(parser)]
        lines += [".SH ENVIRONMENT"]
        for name, told in _VARIABLES.items():
            lines += [".TP", f".B {name}", _text(told)]
        lines += [".SH PAGES", "npu\\-tui help TOPIC prints one of:"]
        for topic in TOPICS:
            lines += [".TP", f".B {topic}", _text(title(topic, ENGLISH))]
    return "\n".join(lines) + "\n"


def _options(parser: argparse.ArgumentParser) -> list[str]:
    """The options of ``parser`` but those that every command has."""
    lines = []
    for action in parser._actions:
        if not action.option_strings or action.dest in ("help", "lang"):
            continue
        value = "" if action.nargs == 0 else " " + str(action.metavar or "|".join(map(str, action.choices or ())))
        lines += [".TP", f".B {_text(', '.join(action.option_strings) + value)}", _text(action.help or "")]
    return lines


def _text(text: str) -> str:
    """``text`` as roff takes it: no line of its own begins with a control character."""
    plain = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + plain if plain.startswith((".", "'")) else plain
