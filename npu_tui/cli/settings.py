"""``npu-tui settings``: a settings file with every default, or the one in use checked."""

from __future__ import annotations

import argparse

from npu_tui.cli.options import THEMES, known_settings, threshold_rows
from npu_tui.cli.parser import Parser
from npu_tui.cli.streams import DONE, USAGE, refuse, write
from npu_tui.strings import say
from npu_tui.trace.text import printable


def parser() -> Parser:
    """Its arguments and options."""
    options = Parser(prog="npu-tui settings", description=say("cli.settings"))
    options.add_argument("--check", action="store_true", help=say("cli.settings.check"))
    options.add_argument("--config", metavar="FILE", help=say("cli.config"))
    return options


def run(parser: Parser, options: argparse.Namespace) -> int:
    """Print a settings file with every default, or check the one in use."""
    from npu_tui.settings import SettingsError, load_settings, settings_path, settings_text
    from npu_tui.tui.commands import COMMANDS

    if not options.check:
        from npu_tui.tui.commands import key_in_ascii

        rows = [(each.id, tuple(map(key_in_ascii, each.default_keys)), each.title) for each in COMMANDS]
        write(settings_text(rows, THEMES, threshold_rows()))
        return DONE
    from npu_tui.tui.keymap import use_settings

    try:
        found = load_settings(options.config, known_settings())
        remarks = use_settings(found)
    except SettingsError as error:
        return refuse(error, USAGE)
    write("".join(f"{remark}\n" for remark in remarks))
    key = "cli.settings.none" if found.path is None else "cli.settings.good"
    write(say(key, path=printable(str(found.path or settings_path()))) + "\n")
    return DONE
