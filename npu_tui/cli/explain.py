"""``npu-tui explain``: what a finding means."""

from __future__ import annotations

import argparse

from npu_tui.cli.options import thresholds_of
from npu_tui.cli.parser import Parser
from npu_tui.cli.streams import DONE, write
from npu_tui.strings import say


def parser() -> Parser:
    """Its arguments and options."""
    options = Parser(prog="npu-tui explain", description=say("cli.explain"))
    options.add_argument("id", nargs="?", metavar="ID", help=say("cli.explain_id"))
    options.add_argument("--config", metavar="FILE", help=say("cli.config"))
    return options


def run(parser: Parser, options: argparse.Namespace) -> int:
    """Explain the finding that ``options`` name, or list all; returns the exit code."""
    from npu_tui.output.explain import WIDTH, explain_document, findings_document, kind_of, unknown
    from npu_tui.output.text import ALL, text

    if options.id is None:
        write(text(findings_document(), ALL))
        return DONE
    kind = kind_of(options.id)
    if kind is None:
        parser.error(unknown(options.id))
    write(text(explain_document(kind, thresholds_of(options.config)), ALL, WIDTH))
    return DONE
