"""``npu-tui report``: its options, and the form of the answer."""

from __future__ import annotations

from pathlib import Path

from npu_tui.commands.parser import Parser
from npu_tui.commands.profile_options import add_profile, part_of
from npu_tui.commands.ranks import FORMATS, write_job
from npu_tui.commands.streams import DONE, write
from npu_tui.strings import ENGLISH, say, speak


def run(words: list[str]) -> int:
    """Print the report that ``words`` ask for (JSON as bytes: it is UTF-8 everywhere); returns the exit code.

    Raises ``InputError`` for a trace that cannot be read, ``SettingsError``, ``OSError`` of stdout.
    """
    parser = Parser(prog="npu-tui report", description=say("cli.report"))
    add_profile(parser)
    parser.add_argument(
        "--format", choices=("text", "markdown", "html", "json"), default="text", help=say("cli.format")
    )
    options = parser.parse_args(words)
    if options.format == "json":
        speak(ENGLISH)
    from npu_tui.ingest.errors import SeveralError
    from npu_tui.report.report import report

    try:
        part = part_of(parser, options)
    except SeveralError:
        if options.format not in FORMATS or options.range is not None or options.step is not None:
            raise
        write_job(Path(options.path), options.format)
        return DONE
    found = report(part)
    if options.format == "json":
        from npu_tui.report.pages.json_report import json_report

        write(json_report(found))
    elif options.format == "markdown":
        from npu_tui.report.pages.markdown_report import markdown_report

        write(markdown_report(found))
    elif options.format == "html":
        from npu_tui.report.pages.html_report import html_report

        write(html_report(found, part))
    else:
        from npu_tui.report.pages.text_report import text_report

        write(text_report(found))
    return DONE
