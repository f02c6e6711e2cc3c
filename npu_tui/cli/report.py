"""``npu-tui report``: its options, and the form of the answer."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from npu_tui.cli.options import REPORTING, add_profile, part_of
from npu_tui.cli.parser import Parser
from npu_tui.cli.ranks import FORMATS, write_job
from npu_tui.cli.streams import DONE, write
from npu_tui.strings import ENGLISH, say, speak
from npu_tui.trace.message import message

if TYPE_CHECKING:
    from npu_tui.output.report_schema import Report


def parser() -> Parser:
    """Its arguments and options."""
    options = Parser(prog="npu-tui report", description=say("cli.report"))
    add_profile(options)
    options.add_argument(
        "--format", choices=("text", "markdown", "html", "json"), default="text", help=say("cli.format")
    )
    options.add_argument("--fields", metavar="NAMES", help=say("cli.fields"))
    return options


def run(parser: Parser, options: argparse.Namespace) -> int:
    """Print the report that ``options`` ask for (JSON as bytes: it is UTF-8 everywhere); returns the exit code.

    Raises ``InputError`` for a trace that cannot be read, ``SettingsError``, ``OSError`` of stdout.
    """
    if options.fields is not None and options.format != "json":
        parser.error(say("cli.fields_of"))
    if options.format == "json":
        speak(ENGLISH)
    from npu_tui.jobs.opening import summaries_in
    from npu_tui.load.errors import InputError, SeveralError

    if summaries_in(Path(options.path)):
        return write_job(Path(options.path), options.format)
    try:
        part = part_of(parser, options, (*REPORTING, *_writers(options.format)))
    except SeveralError:
        of_one = options.range, options.step, options.fields
        if options.format not in FORMATS or any(each is not None for each in of_one):
            raise
        from npu_tui.nearby import are_runs  # few folders hold several profiles

        if are_runs(Path(options.path)):
            raise InputError(message("input.runs", path=options.path)) from None
        return write_job(Path(options.path), options.format)
    from npu_tui.output.report import report

    found = report(part)
    if options.fields is not None:
        write(_chosen(parser, found, options.fields))
    elif options.format == "json":
        from npu_tui.output.formats import json_report

        write(json_report(found))
    else:
        from npu_tui.output.formats import written
        from npu_tui.output.report_document import report_document

        write(written(report_document(found, part if options.format == "html" else None), options.format))
    return DONE


def _writers(form: str) -> tuple[str, ...]:
    """The modules that write the report, to be imported while the trace is read."""
    if form == "json":
        return ("npu_tui.output.formats",)
    return "npu_tui.output.report_document", f"npu_tui.output.{form}"


def _chosen(parser: Parser, found: Report, names: str) -> bytes:
    """The fields of ``found`` that ``names`` name, as JSON. Raises ``SystemExit`` (2) for one that is not there."""
    import orjson

    from npu_tui.output.schemas import NoFieldError, chosen_fields

    try:
        fields = chosen_fields(found, [name.strip() for name in names.split(",") if name.strip()])
    except NoFieldError as error:
        meant = say("cli.no_field_meant", nearest=error.nearest) if error.nearest else ""
        parser.error(say("cli.no_field", name=error.name) + meant)
    return orjson.dumps(fields, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
