"""``npu-tui report``, ``ranks`` and ``whatif``: answers about a profile, a job, a run with something changed."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from npu_tui.cli.options import (
    REPORTING,
    add_eager,
    add_profile,
    borrow_from,
    named_subject,
    opened_profile,
    part_of,
    refuse_terminal,
    thresholds_of,
)
from npu_tui.cli.parser import Parser
from npu_tui.cli.streams import (
    DONE,
    UNREADABLE,
    USAGE,
    add_format,
    add_schema,
    format_of,
    hand_over,
    refuse,
    show_progress,
    write,
)
from npu_tui.strings import say, words
from npu_tui.trace.text import parse_duration

if TYPE_CHECKING:
    import msgspec

    from npu_tui.jobs.job import Job
    from npu_tui.load.survey import Survey
    from npu_tui.output.whatif import WhatIf


def report_options(parser: Parser) -> None:
    """Its arguments and options."""
    add_profile(parser)
    add_format(parser, say("cli.format"))
    parser.add_argument("--fields", metavar="NAMES", help=say("cli.fields"))
    add_eager(parser)
    parser.add_argument("--unprofiled", metavar="TIME", help=say("cli.unprofiled"))


def run_report(parser: Parser, options: argparse.Namespace) -> int:
    """Write the report that ``options`` ask for (JSON as bytes: it is UTF-8 everywhere); returns the exit code.

    Raises ``InputError`` for a trace that cannot be read, ``SettingsError``, ``OSError`` of what is written.
    """
    form = format_of(parser, options)
    if options.fields is not None and form != "json":
        parser.error(say("cli.fields_of"))
    unprofiled = None if options.unprofiled is None else parse_duration(options.unprofiled)
    if options.unprofiled is not None and (unprofiled is None or unprofiled <= 0):
        parser.error(say("cli.unprofiled_time", text=options.unprofiled))
    fields = None if options.fields is None else [name.strip() for name in options.fields.split(",") if name.strip()]
    from npu_tui.jobs.kept import is_kept
    from npu_tui.load.errors import SeveralError
    from npu_tui.load.survey import Survey

    survey = Survey()
    if is_kept(Path(options.path), survey):
        return write_job(Path(options.path), form, output=options.output, schema=options.schema, survey=survey)
    try:
        part = part_of(parser, options, (*REPORTING, *_writers(form)), "report", survey)
        borrow_from([part], options)
        part.whole.unprofiled = unprofiled
    except SeveralError:
        of_one = (options.range, options.step, options.eager, options.fields, unprofiled)
        if any(option is not None for option in of_one):
            raise
        return write_job(Path(options.path), form, output=options.output, schema=options.schema, survey=survey)
    from npu_tui.output.statement import profile_statement

    statement = profile_statement(part, None if fields is None else _asked_for(fields))
    chosen = None if fields is None else _chosen(parser, statement.laid_out(options.schema), fields)
    hand_over(chosen or statement.written(form, options.schema), options.output)
    return DONE


def _asked_for(fields: list[str]) -> list[str] | None:
    """The fields of a report that hold all of ``fields``; None for all."""
    names = [name.removeprefix("sections.").partition(".")[0] for name in fields]
    return None if "sections" in names else names


def _writers(form: str) -> tuple[str, ...]:
    """The modules that write the report, to be imported while the trace is read."""
    if form == "json":
        return ("npu_tui.output.json_document",)
    return "npu_tui.output.report_document", f"npu_tui.output.{form}"


def _chosen(parser: Parser, found: msgspec.Struct, names: list[str]) -> bytes:
    """The fields of ``found`` that ``names`` name, as JSON. Raises ``SystemExit`` (2) for one that is not there."""
    import orjson

    from npu_tui.output.schemas import NoFieldError, chosen_fields

    try:
        fields = chosen_fields(found, names)
    except NoFieldError as error:
        meant = say("cli.no_field_meant", nearest=error.nearest) if error.nearest else ""
        parser.error(say("cli.no_field", name=error.name) + meant)
    return orjson.dumps(fields, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


_LISTED = 16


def ranks_options(parser: Parser) -> None:
    """Its arguments and options."""
    parser.add_argument("path", nargs="?", default=".", metavar="DIR", help=say("job.path"))
    add_format(parser, say("job.format"))
    parser.add_argument("--traces", action="store_true", default=None, help=say("job.traces"))
    parser.add_argument("--group", metavar="GROUP", help=say("job.only_group"))
    parser.add_argument("--step", metavar="N", help=say("job.only_step"))


def run_ranks(parser: Parser, options: argparse.Namespace) -> int:
    """Write the report about the job that ``options`` name; returns the exit code.

    Raises ``InputError`` where there is no profile, ``OSError`` of what is written.
    """
    form = format_of(parser, options)
    refuse_terminal(parser, options.path)
    return write_job(
        Path(options.path), form, options.traces, options.group, options.step, options.output, options.schema
    )


def write_job(
    path: Path,
    form: str = "text",
    traces: bool | None = None,
    group: str | None = None,
    step: str | None = None,
    output: str | None = None,
    schema: str | None = None,
    survey: Survey | None = None,
) -> int:
    """Write the report about the job at ``path`` in one of ``FORMATS`` to ``output`` or stdout; returns the exit code.

    Only that ``group`` (a name or kind) and ``step`` where they are given. Raises as ``run_ranks`` does.
    """
    from npu_tui.jobs.opening import open_job
    from npu_tui.load.survey import Survey
    from npu_tui.nearby import refuse_several
    from npu_tui.output.statement import job_statement

    survey = survey or Survey()
    refuse_several(path, survey)
    job = open_job(path, traces, show_progress if sys.stderr.isatty() else None, survey=survey)
    groups = [group_of for part in job.parts for group_of in part.groups]
    if group is not None and not any(group in (group_of.name, group_of.kind) for group_of in groups):
        there = sorted({group_of.kind or group_of.name for group_of in groups})
        return refuse(say("job.no_group", group=group, there=there[:_LISTED]), USAGE)
    if step is not None and step not in job.steps:
        return refuse(say("job.no_step", step=step, there=job.steps[:_LISTED]), USAGE)
    if group is not None or step is not None:
        job = job.narrowed(group, step)
    hand_over(job_statement(job).written(form, schema), output)
    return DONE


def whatif_options(parser: Parser) -> None:
    """Its arguments and options."""
    parser.add_argument("path", metavar="PATH", help=say("cli.path"))
    parser.add_argument("changes", nargs="*", metavar="CHANGE", help=say("whatif.changes"))
    parser.add_argument("--format", choices=("text", "json"), default="text", help=say("whatif.format"))
    add_schema(parser)
    parser.add_argument("--config", metavar="FILE", help=say("cli.config"))
    parser.add_argument("--no-cache", action="store_true", help=say("cli.no_cache"))


def run_whatif(parser: Parser, options: argparse.Namespace) -> int:
    """Print what ``options`` ask for; returns the exit code, 3 for a run that cannot be replayed.

    Raises ``InputError`` for a profile that cannot be read, ``SettingsError``, ``OSError`` of stdout.
    """
    refuse_terminal(parser, options.path)
    from npu_tui.analysis.what_if import UnknownChangeError
    from npu_tui.output.job_whatif import job_remedies, job_whatif
    from npu_tui.output.statement import whatif_statement
    from npu_tui.output.text import ALL, text
    from npu_tui.output.whatif import NoReplayError, Remedies, remedies, remedies_document, whatif

    answer: Remedies | WhatIf

    job = _job_at(Path(options.path))
    listing = not options.changes and options.format == "text"
    try:
        if job is not None:
            answer = job_remedies(job) if listing else job_whatif(job, options.changes)
        else:
            profile = opened_profile(options.path, not options.no_cache, thresholds_of(options.config))
            answer = remedies(profile) if listing else whatif(profile, options.changes)
    except UnknownChangeError as error:
        parser.error(words(error.said))
    except NoReplayError as error:
        return refuse(words(error.said), UNREADABLE)
    if isinstance(answer, Remedies):
        write(text(remedies_document(answer), ALL))
    else:
        write(whatif_statement(answer).written(options.format, options.schema))
    return DONE


def _job_at(path: Path) -> Job | None:
    """The job at ``path`` if summaries lie there, or profiles that can be replayed together; None for one profile.

    Raises ``InputError`` for any other job.
    """
    from npu_tui.jobs.kept import is_kept
    from npu_tui.jobs.opening import open_job
    from npu_tui.load.find import find_source
    from npu_tui.output.job_whatif import is_replayed

    if not named_subject(str(path)).of_several:
        return None
    job = open_job(path)
    if not is_kept(path) and not is_replayed(job):
        find_source(path)  # says which profiles there are to choose from
    return job
