"""What a command line asks about: the trace at PATH, from its parsed copy where there is one, and the part of it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from threading import Thread
from typing import TYPE_CHECKING

from npu_tui.commands.settings_file import thresholds_of
from npu_tui.strings import say

if TYPE_CHECKING:
    from npu_tui.analysis.thresholds import Thresholds
    from npu_tui.ingest.source.find import Form
    from npu_tui.profile.profile import Profile

REPORTING = ("numpy.ma", "npu_tui.rules.find", "npu_tui.report.report")
"""What a report needs and reading a trace does not; ``numpy.unique`` imports the first."""

_PIPE = "-"
_THREADS = 4


def add_profile(parser: argparse.ArgumentParser) -> None:
    """The options that every command has that answers about a trace."""
    parser.add_argument("path", nargs="?", default=".", metavar="PATH", help=say("cli.path"))
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--range", metavar="A..B", help=say("cli.range"))
    part.add_argument("--step", type=int, metavar="N", help=say("cli.step"))
    parser.add_argument("--config", metavar="FILE", help=say("cli.config"))
    add_opening(parser)


def add_opening(parser: argparse.ArgumentParser) -> None:
    """The options that say from where a trace is read."""
    parser.add_argument("--source", choices=("text", "db"), help=say("cli.source"))
    parser.add_argument("--no-cache", action="store_true", help=say("cli.no_cache"))


def refuse_terminal(parser: argparse.ArgumentParser, path: str) -> None:
    """Nobody types a trace: ``-`` needs a pipe or a file on standard input."""
    if path == _PIPE and sys.stdin is not None and sys.stdin.isatty():
        parser.error(say("cli.piped_terminal"))


def opened_profile(
    path: str, cached: bool, thresholds: Thresholds, form: Form | None = None, ahead: Sequence[str] = ()
) -> Profile:
    """The profile at ``path``, in ``form`` where both forms are there; modules ``ahead`` are imported meanwhile.

    Raises ``InputError`` if it cannot be read.
    """
    from npu_tui.ingest.opening import opening_of
    from npu_tui.profile.profile import Profile

    opening = opening_of(path, cached, form)
    _import_ahead(ahead)
    return Profile(opening.trace(), opening.source, thresholds, threads=min(os.cpu_count() or 1, _THREADS))


def _import_ahead(modules: Sequence[str]) -> None:
    """Import ``modules`` in a thread: while it reads a trace, this program leaves the interpreter alone."""

    def run() -> None:
        with suppress(Exception):  # what cannot be imported is told where it is needed
            for module in modules:
                import_module(module)

    if modules:
        Thread(target=run, name="imports", daemon=True).start()


def part_of(parser: argparse.ArgumentParser, options: argparse.Namespace, ahead: Sequence[str] = ()) -> Profile:
    """The part of a profile that ``options`` name, with the thresholds of the settings in use.

    Modules ``ahead`` are imported while the trace is read. Memory that reading leaves serves what is computed after it:
    a command ends soon.

    Raises ``InputError`` if the profile cannot be read, ``SettingsError`` if the settings cannot, ``SystemExit`` (2)
    for a part that the profile does not have.
    """
    thresholds = thresholds_of(options.config)
    from npu_tui.profile.selection import WHOLE_TRACE, parse_range, select_step
    from npu_tui.trace.text import exact_text

    selection = WHOLE_TRACE if options.range is None else parse_range(options.range)
    if selection is None:
        parser.error(say("cli.bad_range"))
    refuse_terminal(parser, options.path)
    profile = opened_profile(options.path, not options.no_cache, thresholds, options.source, ahead)
    trace = profile.trace
    if selection.window.start > trace.end or selection.window.end < 0:
        parser.error(say("cli.outside", end=exact_text(trace.end)))
    if options.step is not None:
        selection = select_step(profile.steps, options.step)
        if selection is None:
            parser.error(say("cli.no_step", step=options.step))
    return profile.part(selection)
