"""``npu-tui cache`` and ``npu-tui index``: the parsed copies of large traces."""

from __future__ import annotations

import sys
import time
from datetime import datetime
from pathlib import Path

from npu_tui.commands.parser import Parser
from npu_tui.commands.streams import refuse
from npu_tui.strings import say
from npu_tui.trace.message import message
from npu_tui.trace.text import printable


def run_cache(words: list[str]) -> int:
    """List or clear the copies; returns the exit code."""
    parser = Parser(prog="npu-tui cache", description=say("cache.help"))
    parser.add_argument("what", nargs="?", choices=("list", "clear"), default="list", help=say("cache.what"))
    what = parser.parse_args(words).what
    from npu_tui.ingest.copy import cache

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


def run_index(words: list[str]) -> int:
    """Make copies of traces; returns the exit code, 3 if one of them has none afterwards that should."""
    parser = Parser(prog="npu-tui index", description=say("cli.index"))
    parser.add_argument("path", nargs="+", metavar="PATH", help=say("cli.index_path"))
    paths = parser.parse_args(words).path
    from npu_tui.ingest.errors import InputError

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
    from npu_tui.ingest.copy import cache
    from npu_tui.ingest.errors import InputError
    from npu_tui.ingest.load import load
    from npu_tui.ingest.source.find import PIPED, find_source

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
