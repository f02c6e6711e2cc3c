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
    refuse_options,
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
    fields_of,
    format_of,
    refuse,
    show_progress,
    tell,
    write,
)
from npu_tui.strings import say, words
from npu_tui.trace.text import parse_duration

if TYPE_CHECKING:
    from npu_tui.jobs.job import Job
    from npu_tui.load.format import Survey
    from npu_tui.output.whatif import WhatIf


def report_options(parser: Parser) -> None:
    """Add the arguments and options of ``npu-tui report``."""
    add_profile(parser)
    add_format(parser, say("cli.format"))
    add_eager(parser)
    parser.add_argument("--unprofiled", metavar="TIME", help=say("cli.unprofiled"))


def run_report(parser: Parser, options: argparse.Namespace) -> int:
    """Write the report that ``options`` ask for (JSON as bytes: it is UTF-8 everywhere); returns the exit code.

    Raises ``InputError`` for a trace that cannot be read, ``SettingsError``, ``OSError`` of what is written.
    """
    form, fields = format_of(parser, options), fields_of(options)
    unprofiled = None if options.unprofiled is None else parse_duration(options.unprofiled)
    if options.unprofiled is not None and (unprofiled is None or unprofiled <= 0):
        parser.error(say("cli.unprofiled_time", text=options.unprofiled))
    from npu_tui.jobs.kept import is_kept, is_log
    from npu_tui.load.errors import SeveralError
    from npu_tui.load.format import Survey
    from npu_tui.output.statement import job_statement, log_statement, profile_statement
    from npu_tui.subjects import subject

    path, survey = Path(options.path), Survey()
    if is_log(path, survey):
        from npu_tui.jobs.history import read_log

        refuse_options(parser, options, subject("history"), "report")
        tell(parser, options, log_statement(read_log(path)), form)
        return DONE
    part = None
    if not is_kept(path, survey):
        try:
            part = part_of(parser, options, (*REPORTING, *_writers(form)), "report", survey)
            borrow_from([part], options)
            part.whole.unprofiled = unprofiled
        except SeveralError:
            of_one = (options.range, options.step, options.eager, unprofiled)
            if any(option is not None for option in of_one):
                raise
    if part is None:
        statement = job_statement(opened_job(path, survey=survey))
    else:
        statement = profile_statement(part, None if fields is None else _asked_for(fields))
    tell(parser, options, statement, form)
    return DONE


def _asked_for(fields: list[str]) -> list[str] | None:
    """The fields of a report that hold all of ``fields``; None for all."""
    names = [name.removeprefix("sections.").partition(".")[0] for name in fields]
    return None if "sections" in names else names


def _writers(form: str) -> tuple[str, ...]:
    """The modules that write the report, to be imported while the trace is read."""
    if form == "json":
        return ("npu_tui.output.envelope",)
    return "npu_tui.output.report_document", f"npu_tui.output.{'html' if form == 'html' else 'text'}"


_LISTED = 16


def ranks_options(parser: Parser) -> None:
    """Add the arguments and options of ``npu-tui ranks``."""
    parser.add_argument("path", nargs="?", default=".", metavar="DIR", help=say("job.path"))
    add_format(parser, say("job.format"))
    parser.add_argument("--traces", action="store_true", default=None, help=say("job.traces"))
    parser.add_argument("--group", metavar="GROUP", help=say("job.only_group"))
    parser.add_argument("--step", metavar="N", help=say("job.only_step"))


def run_ranks(parser: Parser, options: argparse.Namespace) -> int:
    """Write the report about the job that ``options`` name, or a group or step of it; returns the exit code.

    Raises ``InputError`` where there is no profile, ``OSError`` of what is written.
    """
    form, group, step = format_of(parser, options), options.group, options.step
    refuse_terminal(parser, options.path)
    job = opened_job(Path(options.path), options.traces)
    groups = [group_of for part in job.parts for group_of in part.groups]
    if group is not None and not any(group in (group_of.name, group_of.kind) for group_of in groups):
        there = sorted({group_of.kind or group_of.name for group_of in groups})
        return refuse(say("job.no_group", group=group, there=there[:_LISTED]), USAGE)
    if step is not None and step not in job.steps:
        return refuse(say("job.no_step", step=step, there=job.steps[:_LISTED]), USAGE)
    if group is not None or step is not None:
        job = job.narrowed(group, step)
    from npu_tui.output.statement import job_statement

    tell(parser, options, job_statement(job), form)
    return DONE


def opened_job(path: Path, traces: bool | None = None, survey: Survey | None = None) -> Job:
    """The job at ``path``; a terminal shows how far it is read. Raises ``InputError`` where it is none, or several."""
    from npu_tui.jobs.opening import open_job
    from npu_tui.load.format import Survey
    from npu_tui.nearby import refuse_several

    survey = survey or Survey()
    refuse_several(path, survey)
    return open_job(path, traces, show_progress if sys.stderr.isatty() else None, survey=survey)


def whatif_options(parser: Parser) -> None:
    """Add the arguments and options of ``npu-tui whatif``."""
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
    from npu_tui.analysis.questions import UnknownChangeError
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
        parser.error(words(error.message))
    except NoReplayError as error:
        return refuse(words(error.message), UNREADABLE)
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
