"""``npu-tui report``: its options, and the form of the answer."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from npu_tui.report.asked import add_asked, asked
from npu_tui.strings import say

if TYPE_CHECKING:
    from npu_tui.analysis.findings.thresholds import Thresholds


def print_report(
    words: list[str], write: Callable[[str | bytes], None], thresholds_of: Callable[[str | None], Thresholds]
) -> None:
    """Run ``report`` with the arguments ``words``, its answer to ``write`` (JSON as bytes: it is UTF-8 everywhere).

    ``thresholds_of`` gives the thresholds of a settings file (None: the one in use). Raises what it raises,
    ``InputError`` for a trace that cannot be read, ``OSError`` of ``write``, ``SystemExit`` (2) for wrong usage.
    """
    parser = argparse.ArgumentParser(prog="npu-tui report", description=say("cli.report"))
    add_asked(parser)
    parser.add_argument(
        "--format", choices=("text", "markdown", "html", "json"), default="text", help=say("cli.format")
    )
    options = parser.parse_args(words)
    from npu_tui.report.json_report import json_report, report

    thresholds = thresholds_of(options.config)
    trace, selection = asked(parser, options)
    if options.format == "json":
        write(json_report(trace, selection, options.path, thresholds))
        return
    found = report(trace, selection, options.path, thresholds)
    if options.format == "markdown":
        from npu_tui.report.markdown_report import markdown_report

        write(markdown_report(found))
    elif options.format == "html":
        from npu_tui.report.html_report import html_report

        write(html_report(found, trace, selection))
    else:
        from npu_tui.report.text_report import text_report

        write(text_report(found))
