"""``npu-tui index``: parsed copies made ahead."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from npu_tui.cli.parser import Parser
from npu_tui.cli.streams import refuse
from npu_tui.strings import say
from npu_tui.trace.message import message
from npu_tui.trace.text import printable


def parser() -> Parser:
    """Its arguments and options."""
    options = Parser(prog="npu-tui index", description=say("cli.index"))
    options.add_argument("path", nargs="+", metavar="PATH", help=say("cli.index_path"))
    return options


def run(parser: Parser, options: argparse.Namespace) -> int:
    """Make copies of traces; returns the exit code, 3 if one of them has none afterwards that should."""
    paths = options.path
    from npu_tui.load.errors import InputError

    code = 0
    for path in paths:
        try:
            print(_indexed(Path(path)), flush=True)
        except InputError as error:
            code = refuse(error)
    return code


def _indexed(path: Path) -> str:
    """Make the copy of the trace at ``path``; returns what to say.

    Raises ``InputError`` if it cannot be loaded, or its copy cannot be kept.
    """
    from npu_tui.load import copy as cache
    from npu_tui.load.errors import InputError
    from npu_tui.load.find import PIPED, find_source
    from npu_tui.load.load import load

    shown = printable(str(path))
    if path == PIPED:
        raise InputError(message("index.piped"))
    source = find_source(path)
    key = cache.key_of(source)
    if key is None:
        load(source)  # what is no trace is not small, but wrong
        return say("index.small", path=shown)
    if cache.find(source, key) is not None:
        return say("index.there", path=shown)
    begun = time.monotonic()
    trace = load(source)
    if len(trace.files) != len(source.files):
        raise InputError(message("index.failed", path=shown, why=trace.health.warnings[0]))
    if cache.key_of(source) != key:
        raise InputError(message("index.changed", path=shown))
    try:
        cache.keep(trace, key, lambda: True)
    except cache.TooLargeError as error:
        raise InputError(message("index.failed", path=shown, why=error.message)) from error
    except OSError as error:
        raise InputError(message("index.failed", path=shown, why=error.strerror or str(error))) from error
    seconds = f"{time.monotonic() - begun:.1f}"
    return say("index.kept", path=shown, events=f"{sum(trace.events.values()):,}", seconds=seconds)
