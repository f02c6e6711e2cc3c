"""The options of the command line that open at a place; nothing heavy is imported before they are used."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from npu_tui.strings import say

if TYPE_CHECKING:
    from npu_tui.view.start import Start


def add_place(parser: argparse.ArgumentParser) -> None:
    """The options that open at a place, as the explorer's Y copies them."""
    place = parser.add_argument_group(say("cli.place"))
    place.add_argument("--at", metavar="TIME", help=say("cli.place.at"))
    place.add_argument("--range", metavar="A..B", help=say("cli.place.range"))
    place.add_argument("--view", metavar="A..B", help=say("cli.place.view"))
    place.add_argument("--select", metavar="NAME", default="", help=say("cli.place.select"))
    place.add_argument("--search", metavar="TEXT", default="", help=say("cli.place.search"))
    place.add_argument("--finding", metavar="ID", default="", help=say("cli.place.finding"))
    place.add_argument("--links", choices=("off", "selection", "all"), help=say("cli.place.links"))
    place.add_argument("--tab", metavar="TAB", default="", help=say("cli.place.tab"))
    place.add_argument("--rows", metavar="ROWS", default="", help=say("cli.place.rows"))
    place.add_argument("--offsets", metavar="A,B...", help=say("cli.place.offsets"))
    place.add_argument("--notes", metavar="FILE", help=say("cli.place.notes"))


def place_of(parser: argparse.ArgumentParser, options: argparse.Namespace) -> Start | None:
    """Where the options say to open; None if they say nothing."""
    from npu_tui.trace.text import parse_duration
    from npu_tui.tui.keys.commands import TAB_KEYS
    from npu_tui.view.start import NO_TAB, Start, parse_offsets, parse_span

    spans = {"range": options.range, "view": options.view}
    found = {name: parse_span(text) for name, text in spans.items() if text is not None}
    for name, span in found.items():
        if span is None:
            parser.error(say("cli.bad_span", option=f"--{name}", text=spans[name]))
    at = None if options.at is None else parse_duration(options.at)
    if options.at is not None and at is None:
        parser.error(say("cli.bad_time", text=options.at))
    offsets = () if options.offsets is None else parse_offsets(options.offsets)
    if offsets is None:
        parser.error(say("cli.bad_offsets", text=options.offsets))
    tabs = [*(tab for tab, _ in TAB_KEYS), NO_TAB]
    if options.tab and options.tab not in tabs:
        parser.error(say("cli.bad_tab", text=options.tab, tabs=", ".join(tabs)))
    start = Start(
        found.get("view"),
        at,
        found.get("range"),
        options.select,
        options.rows,
        options.search,
        options.links,
        options.tab,
        _rule_id(parser, options.finding),
        offsets,
    )
    return start if start != Start() else None


def _rule_id(parser: argparse.ArgumentParser, wanted: str) -> str:
    """The id of the finding called ``wanted``; wrong usage if there is none."""
    if not wanted:
        return ""
    from npu_tui.report.explain import kind_of, unknown

    kind = kind_of(wanted)
    if kind is None or kind.scope != "profile":
        parser.error(unknown(wanted))
    return kind.id
