"""``npu-tui cache``: the parsed copies that are kept."""

from __future__ import annotations

import argparse
import sys
from datetime import datetime

from npu_tui.cli.parser import Parser
from npu_tui.strings import say
from npu_tui.trace.text import printable


def parser() -> Parser:
    """Its arguments and options."""
    options = Parser(prog="npu-tui cache", description=say("cache.help"))
    options.add_argument("what", nargs="?", choices=("list", "clear"), default="list", help=say("cache.what"))
    return options


def run(parser: Parser, options: argparse.Namespace) -> int:
    """List or clear the copies; returns the exit code."""
    what = options.what
    from npu_tui.load import copy as cache

    where = printable(str(cache.directory()))
    if what == "clear":
        count, size, left = cache.clear()
        print(say("cache.cleared" if count != 1 else "cache.cleared.one", count=count, size=_megabytes(size)))
        for why in left:
            print(f"npu-tui: {printable(why)}", file=sys.stderr)
        return 3 if left else 0
    copies = cache.copies()
    for copy in copies:
        used = datetime.fromtimestamp(copy.used).strftime("%Y-%m-%d %H:%M")
        name = copy.opened() or say("cache.damaged", name=copy.path.name)
        print(say("cache.row", size=_megabytes(copy.size), used=used, name=printable(name)))
    if not copies:
        print(say("cache.none", path=where))
        return 0
    total, most = (_megabytes(size) for size in (sum(copy.size for copy in copies), cache.limit()))
    key = "cache.sum" if len(copies) != 1 else "cache.sum.one"
    print(say(key, count=len(copies), size=total, most=most, path=where))
    return 0


def _megabytes(size: int) -> str:
    return f"{size >> 20:,}" if size >= 1 << 20 or not size else "<1"
