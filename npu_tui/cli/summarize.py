"""``npu-tui summarize``: every rank of a job to a small file, on one machine or many."""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from npu_tui.cli.parser import Parser
from npu_tui.cli.streams import DONE, UNREADABLE, USAGE, refuse, write
from npu_tui.strings import say, words

if TYPE_CHECKING:
    from npu_tui.jobs.summarize import Outcome

_SHARD = re.compile(r"(\d{1,7})/(\d{1,7})")
FOLDER = "npu-tui-summaries"


def parser() -> Parser:
    """Its arguments and options."""
    options = Parser(prog="npu-tui summarize", description=say("summarize.description"), epilog=say("summarize.epilog"))
    options.add_argument("path", nargs="+", metavar="PATH", help=say("summarize.path"))
    options.add_argument("-o", "--output", default=FOLDER, metavar="DIR", help=say("summarize.output", name=FOLDER))
    options.add_argument("--traces", action="store_true", help=say("summarize.traces"))
    how = options.add_mutually_exclusive_group()
    how.add_argument("--jobs", type=int, default=1, metavar="N", help=say("summarize.jobs"))
    how.add_argument("--dask", metavar="ADDRESS", help=say("summarize.dask"))
    options.add_argument("--shard", metavar="I/N", help=say("summarize.shard"))
    return options


def run(parser: Parser, options: argparse.Namespace) -> int:
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
    from npu_tui.jobs.summarize import by_dask, in_process, in_processes, sources_of

    folder = Path(options.output)
    sources = sources_of([Path(path) for path in options.path], shard)
    folder.mkdir(parents=True, exist_ok=True)
    if options.dask is not None:
        if find_spec("distributed") is None:
            return refuse(say("summarize.no_dask"), USAGE)
        outcomes = by_dask(sources, folder, options.traces, options.dask)
    elif options.jobs > 1:
        outcomes = in_processes(sources, folder, options.traces, options.jobs)
    else:
        outcomes = in_process(sources, folder, options.traces)
    return _told(outcomes, len(sources), folder)


def _told(outcomes: Iterator[Outcome], count: int, folder: Path) -> int:
    """Say what became of every rank; returns the exit code."""
    states: Counter[str] = Counter()
    size, shown = 0, sys.stderr.isatty()
    for number, each in enumerate(outcomes, 1):
        states[each.state] += 1
        size += each.bytes
        if shown:
            end = "\r" if number < count else "\r\x1b[K"
            print(say("job.reading", done=number, count=count), end=end, file=sys.stderr, flush=True)
        if each.why is not None:
            refuse(say("job.broken", path=each.opened, why=words(each.why)))
    args = {"count": count, "new": states["new"], "there": states["there"], "broken": states["broken"]}
    write(say("summarize.done", folder=str(folder), size=size, **args) + "\n")
    return UNREADABLE if states["broken"] else DONE
