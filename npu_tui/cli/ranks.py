"""``npu-tui ranks``: a folder of profiles as one job."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from npu_tui.cli.options import refuse_terminal
from npu_tui.cli.parser import Parser
from npu_tui.cli.streams import DONE, USAGE, refuse, write
from npu_tui.strings import ENGLISH, say, speak

FORMATS = ("text", "markdown", "html", "json")
_LISTED = 16


def parser() -> Parser:
    """Its arguments and options."""
    options = Parser(prog="npu-tui ranks", description=say("job.description"), epilog=say("job.epilog"))
    options.add_argument("path", nargs="?", default=".", metavar="DIR", help=say("job.path"))
    options.add_argument("--format", choices=FORMATS, default="text", help=say("job.format"))
    options.add_argument("--traces", action="store_true", default=None, help=say("job.traces"))
    options.add_argument("--group", metavar="GROUP", help=say("job.only_group"))
    options.add_argument("--step", metavar="N", help=say("job.only_step"))
    return options


def run(parser: Parser, options: argparse.Namespace) -> int:
    """Print the report about the job that ``options`` name; returns the exit code.

    Raises ``InputError`` where there is no profile, ``OSError`` of stdout.
    """
    refuse_terminal(parser, options.path)
    if options.format == "json":
        speak(ENGLISH)
    return write_job(Path(options.path), options.format, options.traces, options.group, options.step)


def write_job(
    path: Path, form: str = "text", traces: bool | None = None, group: str | None = None, step: str | None = None
) -> int:
    """Print the report about the job at ``path`` in one of ``FORMATS``; returns the exit code. Raises as ``run`` does.

    Only that ``group`` (a name or kind) and ``step`` where they are given.
    """
    from npu_tui.jobs.opening import open_job
    from npu_tui.output.job_report import job_report

    job = open_job(path, traces, _told if sys.stderr.isatty() else None)
    if group is not None and not any(group in (each.name, each.kind) for each in job.groups):
        there = sorted({each.kind or each.name for each in job.groups})
        return refuse(say("job.no_group", group=group, there=there[:_LISTED]), USAGE)
    if step is not None and step not in job.steps:
        return refuse(say("job.no_step", step=step, there=job.steps[:_LISTED]), USAGE)
    if group is not None or step is not None:
        job = job.narrowed(group, step)
    found = job_report(job)
    if form == "json":
        import msgspec

        write(msgspec.json.encode(found) + b"\n")
    else:
        from npu_tui.output.formats import written
        from npu_tui.output.job_document import RANKS, job_document

        write(written(job_document(found, job if form == "html" else None), form, RANKS))
    return DONE


def _told(done: int, count: int) -> None:
    """The ranks read so far, on one line that goes away."""
    end = "\r" if done < count else "\r\x1b[K"
    print(say("job.reading", done=done, count=count), end=end, file=sys.stderr, flush=True)
