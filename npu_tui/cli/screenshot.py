"""``npu-tui screenshot``: the screen as a picture, without a terminal."""

from __future__ import annotations

import argparse
from pathlib import Path

from npu_tui.cli.explore import is_job
from npu_tui.cli.options import add_look, add_opening, add_place, look_of, place_of, read_settings, refuse_terminal
from npu_tui.cli.parser import Parser
from npu_tui.cli.streams import DONE, USAGE
from npu_tui.strings import say
from npu_tui.trace.text import whole_number


def parser() -> Parser:
    """Its arguments and options."""
    options = Parser(prog="npu-tui screenshot", description=say("cli.screenshot"))
    options.add_argument("paths", nargs="+", metavar="PATH", help=say("cli.traces"))
    options.add_argument("-o", "--output", required=True, metavar="OUT.svg", help=say("cli.output"))
    options.add_argument("--size", default="120x40", help=say("cli.size"))
    options.add_argument("--keys", default="", help=say("cli.keys"))
    add_look(options)
    add_place(options)
    add_opening(options)
    options.add_argument("--traces", action="store_true", default=None, help=say("job.traces"))
    return options


def run(parser: Parser, options: argparse.Namespace) -> int:
    """Draw what ``options`` name; returns the exit code."""
    columns, rows = (whole_number(side) or 0 for side in options.size.partition("x")[::2])
    if not (20 <= columns <= 1000 and 6 <= rows <= 500):
        parser.error(say("cli.bad_size"))
    if not options.output.endswith(".svg"):
        parser.error(say("cli.bad_output"))
    from npu_tui.analysis.thresholds import Thresholds
    from npu_tui.load.load import opening_of
    from npu_tui.profile.profile import Profile
    from npu_tui.tui.picture import job_picture, picture, unknown_keys
    from npu_tui.tui.terminal.terminal import Terminal, glyphs_named, palette_named
    from npu_tui.whole_file import write_file

    settings = read_settings()
    if settings is None:
        return USAGE
    theme, glyphs = look_of(options, settings)
    terminal = Terminal(palette=palette_named(theme), glyphs=glyphs_named(glyphs))
    keys, start = options.keys.split(), place_of(parser, options)
    if unknown := unknown_keys(keys):
        parser.error(say("cli.bad_keys", keys=" ".join(unknown)))
    for path in options.paths:
        refuse_terminal(parser, path)
    openings = [opening_of(path, not options.no_cache, options.source) for path in options.paths]
    if len(openings) == 1 and is_job(openings[0]):
        drawn = job_picture(openings[0].path, columns, rows, keys, terminal, options.traces)
        write_file(Path(options.output), drawn.encode())
        return DONE
    thresholds = Thresholds(**settings.thresholds)
    profiles = [Profile(opening.trace(), opening.source, thresholds) for opening in openings]
    notes = Path(options.notes) if options.notes else None
    drawn = picture(profiles, columns, rows, keys, terminal, start, notes)
    write_file(Path(options.output), drawn.encode())
    return DONE
