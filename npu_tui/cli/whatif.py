"""``npu-tui whatif``: the run replayed with something changed."""

from __future__ import annotations

import argparse

from npu_tui.cli.options import opened_profile, refuse_terminal, thresholds_of
from npu_tui.cli.parser import Parser
from npu_tui.cli.streams import DONE, UNREADABLE, refuse, write
from npu_tui.strings import ENGLISH, say, speak, words


def parser() -> Parser:
    """Its arguments and options."""
    options = Parser(prog="npu-tui whatif", description=say("whatif.description"), epilog=say("whatif.epilog"))
    options.add_argument("path", metavar="PATH", help=say("cli.path"))
    options.add_argument("changes", nargs="*", metavar="CHANGE", help=say("whatif.changes"))
    options.add_argument("--format", choices=("text", "json"), default="text", help=say("whatif.format"))
    options.add_argument("--config", metavar="FILE", help=say("cli.config"))
    options.add_argument("--no-cache", action="store_true", help=say("cli.no_cache"))
    return options


def run(parser: Parser, options: argparse.Namespace) -> int:
    """Print what ``options`` ask for; returns the exit code, 3 for a run that cannot be replayed.

    Raises ``InputError`` for a profile that cannot be read, ``SettingsError``, ``OSError`` of stdout.
    """
    if options.format == "json":
        speak(ENGLISH)
    refuse_terminal(parser, options.path)
    from npu_tui.analysis.what_if import UnknownChangeError
    from npu_tui.output.text import ALL, text
    from npu_tui.output.whatif import NoReplayError, whatif

    profile = opened_profile(options.path, not options.no_cache, thresholds_of(options.config))
    if not options.changes and options.format == "text":
        from npu_tui.output.whatif import remedies, remedies_document

        try:
            write(text(remedies_document(remedies(profile)), ALL))
        except NoReplayError as error:
            return refuse(words(error.said), UNREADABLE)
        return DONE
    try:
        found = whatif(profile, options.changes)
    except UnknownChangeError as error:
        parser.error(words(error.said))
    except NoReplayError as error:
        return refuse(words(error.said), UNREADABLE)
    if options.format == "json":
        import msgspec

        write(msgspec.json.encode(found) + b"\n")
    else:
        from npu_tui.output.whatif import whatif_document

        write(text(whatif_document(found), ALL))
    return DONE
