"""``npu-tui schema``: the JSON Schema of what is written as JSON, and of a settings file."""

from __future__ import annotations

import argparse
from typing import Any

from npu_tui.cli.parser import Parser
from npu_tui.cli.streams import DONE, write
from npu_tui.output.schemas import REPORTS, report_schema, settings_schema
from npu_tui.strings import ENGLISH, say, speak

_SETTINGS = "settings"


def parser() -> Parser:
    """Its arguments and options."""
    options = Parser(prog="npu-tui schema", description=say("tree.schema"))
    options.add_argument("name", choices=(*REPORTS, _SETTINGS), metavar="NAME", help=say("cli.schema", names=_names()))
    return options


def run(parser: Parser, options: argparse.Namespace) -> int:
    """Print one schema; returns the exit code."""
    name = options.name
    speak(ENGLISH)
    import orjson

    found = _of_settings() if name == _SETTINGS else report_schema(name)
    write(orjson.dumps(found, option=orjson.OPT_INDENT_2) + b"\n")
    return DONE


def _names() -> str:
    return ", ".join((*REPORTS, _SETTINGS))


def _of_settings() -> dict[str, Any]:
    from npu_tui.cli.options import THEMES, threshold_rows
    from npu_tui.settings import GLYPHS, LANGUAGE_NAMES
    from npu_tui.tui.commands import COMMANDS

    return settings_schema(
        {each.id: each.title for each in COMMANDS},
        {"language": LANGUAGE_NAMES, "glyphs": GLYPHS, "theme": THEMES},
        {name: (default, text) for name, default, text in threshold_rows()},
    )
