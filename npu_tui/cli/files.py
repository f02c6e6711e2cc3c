"""Files that are made of profiles: parsed copies, smaller traces, summaries of ranks."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from npu_tui.cli.options import add_profile, part_of
from npu_tui.cli.parser import Parser
from npu_tui.cli.streams import DONE, UNREADABLE, USAGE, refuse, show_progress, write
from npu_tui.strings import say, words
from npu_tui.trace.message import message
from npu_tui.trace.text import printable

if TYPE_CHECKING:
    from npu_tui.jobs.summarize import RankOutcome


def index_options(parser: Parser) -> None:
    """Add the arguments and options of ``npu-tui index``."""
    parser.add_argument("path", nargs="+", metavar="PATH", help=say("cli.index_path"))


def run_index(parser: Parser, options: argparse.Namespace) -> int:
    """Make copies of traces; returns the exit code, 3 if one of them has none afterwards that should."""
    from npu_tui.load.errors import InputError

    code = 0
    for path in options.path:
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


def cache_options(parser: Parser) -> None:
    """Add the arguments and options of ``npu-tui cache``."""
    parser.add_argument("what", nargs="?", choices=("list", "clear"), default="list", help=say("cache.what"))


def run_cache(parser: Parser, options: argparse.Namespace) -> int:
    """List or clear the copies; returns the exit code."""
    from npu_tui.load import copy as cache

    where = printable(str(cache.directory()))
    if options.what == "clear":
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


def crop_options(parser: Parser) -> None:
    """Add the arguments and options of ``npu-tui crop``."""
    add_profile(parser)
    parser.add_argument("-o", "--output", required=True, metavar="OUT", help=say("crop.output"))
    parser.add_argument("--lanes", action="append", default=[], metavar="NAME", help=say("crop.lanes"))
    parser.add_argument("--slices", action="append", default=[], metavar="NAME", help=say("crop.slices"))
    parser.add_argument("--clip", action="store_true", help=say("crop.clip"))


def run_crop(parser: Parser, options: argparse.Namespace) -> int:
    """Write the crop that ``options`` ask for; returns the exit code.

    Raises ``InputError`` for a trace that cannot be read, ``SettingsError``, ``OSError`` of the file.
    """
    if not options.output.endswith((".json", ".json.gz")):  # known before the trace is read
        parser.error(say("crop.bad_output"))
    from msgspec.structs import asdict

    from npu_tui.crop import NoCropError, crop

    try:
        made = crop(part_of(parser, options), Path(options.output), options.lanes, options.slices, options.clip)
    except NoCropError as error:
        parser.error(words(error.message))
    print(say("crop.done", **asdict(made)), file=sys.stderr)
    return DONE


_SHARD = re.compile(r"(\d{1,7})/(\d{1,7})")
FOLDER = "npu-tui-summaries"


def summarize_options(parser: Parser) -> None:
    """Add the arguments and options of ``npu-tui summarize``."""
    parser.add_argument("path", nargs="+", metavar="PATH", help=say("summarize.path"))
    parser.add_argument("-o", "--output", default=FOLDER, metavar="DIR", help=say("summarize.output", name=FOLDER))
    parser.add_argument("--traces", action="store_true", help=say("summarize.traces"))
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--jobs", type=int, default=1, metavar="N", help=say("summarize.jobs"))
    how.add_argument("--dask", metavar="ADDRESS", help=say("summarize.dask"))
    parser.add_argument("--shard", metavar="I/N", help=say("summarize.shard"))


def run_summarize(parser: Parser, options: argparse.Namespace) -> int:
    """Write the summaries of the ranks that ``options`` names; returns the exit code, 3 if a rank could not be read.

    Raises ``InputError`` where there is no profile, ``OSError`` of what cannot be written.
    """
    if options.jobs < 1:
        parser.error(say("summarize.bad_jobs"))
    shard = (0, 1)
    if options.shard is not None:
        match = _SHARD.fullmatch(options.shard)
        shard = (int(match[1]), int(match[2])) if match else (1, 0)
        if shard[0] >= shard[1]:
            parser.error(say("summarize.bad_shard"))
    from npu_tui.jobs.summarize import sources_of, summarize_by_dask, summarize_in_process, summarize_in_processes

    folder = Path(options.output)
    sources = sources_of([Path(path) for path in options.path], shard)
    folder.mkdir(parents=True, exist_ok=True)
    if options.dask is not None:
        if find_spec("distributed") is None:
            return refuse(say("summarize.no_dask"), USAGE)
        outcomes = summarize_by_dask(sources, folder, options.traces, options.dask)
    elif options.jobs > 1:
        outcomes = summarize_in_processes(sources, folder, options.traces, options.jobs)
    else:
        outcomes = summarize_in_process(sources, folder, options.traces)
    return _summarized(outcomes, len(sources), folder)


def _summarized(outcomes: Iterator[RankOutcome], count: int, folder: Path) -> int:
    """Say what became of every rank; returns the exit code."""
    states: Counter[str] = Counter()
    size, shown = 0, sys.stderr.isatty()
    for number, outcome in enumerate(outcomes, 1):
        states[outcome.state] += 1
        size += outcome.bytes
        if shown:
            show_progress(number, count)
        if outcome.why is not None:
            refuse(say("job.broken", path=outcome.opened, why=words(outcome.why)))
    told = {state: states[state] for state in ("new", "there", "broken")}
    write(say("summarize.done", folder=str(folder), size=size, count=count, **told) + "\n")
    return UNREADABLE if states["broken"] else DONE
