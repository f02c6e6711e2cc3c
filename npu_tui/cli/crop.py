"""``npu-tui crop``: a smaller trace out of a larger one."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from npu_tui.cli.options import add_profile, part_of
from npu_tui.cli.parser import Parser
from npu_tui.cli.streams import DONE
from npu_tui.strings import say


def parser() -> Parser:
    """Its arguments and options."""
    options = Parser(prog="npu-tui crop", description=say("crop.description"), epilog=say("crop.epilog"))
    add_profile(options)
    options.add_argument("-o", "--output", required=True, metavar="OUT", help=say("crop.output"))
    options.add_argument("--lanes", action="append", default=[], metavar="NAME", help=say("crop.lanes"))
    options.add_argument("--slices", action="append", default=[], metavar="NAME", help=say("crop.slices"))
    options.add_argument("--clip", action="store_true", help=say("crop.clip"))
    return options


def run(parser: Parser, options: argparse.Namespace) -> int:
    """Write the crop that ``options`` ask for; returns the exit code.

    Raises ``InputError`` for a trace that cannot be read, ``SettingsError``, ``OSError`` of the file.
    """
    if not options.output.endswith((".json", ".json.gz")):
        parser.error(say("crop.bad_output"))
    return _crop(parser, options)


def _crop(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    from npu_tui.analysis.device import Window
    from npu_tui.crop import Wanted, chosen, frame_of, kept_events, lanes_named, write_events
    from npu_tui.load.args import JsonArgs
    from npu_tui.load.database_args import DatabaseArgs
    from npu_tui.trace.text import count_text

    part = part_of(parser, options)
    trace, window = part.trace, part.window
    if isinstance(trace.args, DatabaseArgs):
        parser.error(say("crop.database", path=options.path))
    if not isinstance(trace.args, JsonArgs) or not len(trace.slices):
        parser.error(say("crop.no_text", path=options.path))
    lanes = lanes_named(trace, options.lanes) if options.lanes else None
    if lanes is not None and not lanes:
        names = ", ".join(dict.fromkeys(layer.name for layer in trace.layers if layer.lanes))
        parser.error(say("crop.no_lane", name=", ".join(options.lanes), names=names))
    found = chosen(trace, Wanted(Window(window.start, window.end), lanes, tuple(options.slices), options.clip))
    slices, links = int(found.slices.sum()), int(found.links.sum())
    if not slices:
        parser.error(say("crop.nothing"))
    path = Path(options.output)
    events = write_events(path, kept_events(trace, trace.args, found), frame_of(trace))
    told = (slices, len(trace.slices), links, len(trace.links), events)
    kept, whole, kept_links, all_links, written = map(count_text, told)
    size = path.stat().st_size / 1e6
    print(
        say("crop.done", path=path, slices=kept, all=whole, links=kept_links, all_links=all_links, events=written,
            size=f"{size:.3f}"),
        file=sys.stderr,
    )  # fmt: skip
    return DONE
