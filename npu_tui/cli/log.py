"""``npu-tui log``: the history of a run, and a run more of it."""

from __future__ import annotations

import argparse
import os
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from npu_tui.cli.options import (
    add_opening,
    allowed_loss,
    lost_in,
    named_subject,
    opened_profile,
    refuse_terminal,
    thresholds_of,
)
from npu_tui.cli.parser import Parser
from npu_tui.cli.streams import DONE, FAILED, add_format, format_of, hand_over, refuse
from npu_tui.strings import say, words
from npu_tui.trace.text import printable

if TYPE_CHECKING:
    from npu_tui.jobs.history import LoggedRun
    from npu_tui.trace.message import Message

FOLDER = "npu-tui-log"
"""Where a log lies unless ``--log`` says otherwise."""


def add_log(parser: argparse.ArgumentParser) -> None:
    """The option that names a log."""
    parser.add_argument("--log", metavar="DIR", help=say("log.folder", folder=FOLDER))


def log_options(parser: Parser) -> None:
    """Its arguments and options."""
    parser.add_argument("what", nargs="?", choices=("show", "add"), default="show", help=say("log.what"))
    parser.add_argument("path", nargs="?", metavar="PATH", help=say("log.path"))
    parser.add_argument("--label", metavar="COMMIT", help=say("log.label"))
    parser.add_argument("--when", metavar="TIME", help=say("log.when"))
    add_log(parser)
    add_format(parser, say("cli.format"))
    parser.add_argument("--allow-damage", metavar="SHARE", help=say("gate.allow_damage"))
    parser.add_argument("--config", metavar="FILE", help=say("cli.config"))
    add_opening(parser)


def run_log(parser: Parser, options: argparse.Namespace) -> int:
    """Show the log that ``options`` name, or add a run to it; returns the exit code.

    Raises ``InputError`` for a log or a profile that cannot be read, ``SettingsError``, ``OSError`` of what is written.
    """
    folder = Path(options.log or FOLDER)
    if options.what == "add":
        return _add(parser, options, folder)
    for option in ("path", "label", "when", "allow_damage"):
        if getattr(options, option) is not None:
            name = options.path if option == "path" else f"--{option.replace('_', '-')}"
            parser.error(say("log.only_add", option=name))
    form = format_of(parser, options)
    from npu_tui.jobs.history import read_log
    from npu_tui.output.statement import log_statement

    hand_over(log_statement(read_log(folder)).written(form, options.schema), options.output)
    return DONE


def _add(parser: Parser, options: argparse.Namespace, folder: Path) -> int:
    if options.path is None or not (options.label or "").strip():
        parser.error(say("log.needs"))
    if options.format is not None or options.output is not None:
        parser.error(say("log.add_format"))
    now = datetime.now(timezone.utc)
    when = now if options.when is None else _moment(options.when)
    if when is None:
        parser.error(say("log.bad_when", text=options.when))
    refuse_terminal(parser, options.path)
    run, lost = measured_run(parser, options, options.label.strip(), when.isoformat())
    if lost is not None:
        return refuse(say("log.lost", why=words(lost)), FAILED)
    if not any(map(run.time, run.steps_of)):
        return refuse(say("log.no_times", path=printable(options.path)), FAILED)
    from npu_tui.jobs.history import file_name, read_log
    from npu_tui.output.json_document import indented
    from npu_tui.whole_file import write_file

    folder.mkdir(parents=True, exist_ok=True)
    log = read_log(folder)
    same = [other.label for other in log.runs if other.id == run.id]
    if run.label in same:
        print(say("log.there", label=run.label), file=sys.stderr)
        return DONE
    file = folder / file_name(run, os.urandom(4).hex())
    write_file(file, indented(run))
    print(say("log.added", label=run.label, path=printable(str(file)), count=len(log.runs) + 1))
    if same:
        print(say("log.same", label=same[-1]), file=sys.stderr)
    return DONE


def _moment(text: str) -> datetime | None:
    """The time in ``text``, that of this machine where it names no zone; None if it is none."""
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(timezone.utc)
    except (ValueError, OverflowError):
        return None


def measured_run(
    parser: argparse.ArgumentParser, options: argparse.Namespace, label: str, when: str
) -> tuple[LoggedRun, Message | None]:
    """The profile or job at ``options.path`` as a run of a log, and what it has lost where that is too much.

    Raises ``InputError`` where it cannot be read, ``SettingsError``.
    """
    from npu_tui.jobs.history import run_of, run_of_job
    from npu_tui.jobs.opening import open_job
    from npu_tui.load.errors import InputError
    from npu_tui.nearby import refuse_several
    from npu_tui.trace.message import message

    path, allowed, thresholds = Path(options.path), allowed_loss(parser, options), thresholds_of(options.config)
    if not (subject := named_subject(options.path, options.source)).of_several:
        if "log" in subject.refusals:
            raise InputError(message(subject.refusals["log"], path=options.path))
        profile = opened_profile(options.path, not options.no_cache, thresholds, options.source)
        lost = lost_in(profile, allowed)
        return run_of(profile, label, when, "links" not in lost), lost.get("slices")
    refuse_several(path)
    from npu_tui.jobs.losses import job_losses

    job = open_job(path)
    losses = [loss for loss in job_losses(job) if loss.share > allowed]
    return run_of_job(job, label, when), max(losses, key=lambda loss: loss.share).why if losses else None
