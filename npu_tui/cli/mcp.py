"""``npu-tui mcp``: the tools for coding agents, on standard input and output."""

from __future__ import annotations

import argparse
import os
from importlib.util import find_spec
from pathlib import Path

from npu_tui.cli.options import thresholds_of
from npu_tui.cli.parser import Parser
from npu_tui.cli.streams import DONE, USAGE, end_process, refuse
from npu_tui.strings import ENGLISH, say, speak

_THREADS = 4


def mcp_options(parser: Parser) -> None:
    """Add the arguments and options of ``npu-tui mcp``."""
    parser.add_argument("--root", action="append", default=[], metavar="DIR", help=say("mcp.root"))
    parser.add_argument("--allow-record", action="store_true", help=say("mcp.allow_record"))
    parser.add_argument("--config", metavar="FILE", help=say("cli.config"))


def run_mcp(parser: Parser, options: argparse.Namespace) -> int:
    """Serve until the client is gone; returns the exit code. Raises ``SettingsError``."""
    roots = [Path(root) for root in options.root or ["."]]
    for root in roots:
        if not root.is_dir():
            parser.error(say("mcp.no_root", path=str(root)))
    if find_spec("mcp") is None:
        return refuse(say("mcp.not_installed"), USAGE)
    from npu_tui.mcp.server import serve
    from npu_tui.mcp.session import OpenProfiles

    speak(ENGLISH)  # as all JSON
    threads = min(os.cpu_count() or 1, _THREADS)
    serve(OpenProfiles(roots, thresholds_of(options.config), threads, options.allow_record))
    return end_process(DONE)  # what is not waited for any more may still be read
