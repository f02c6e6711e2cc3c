"""``npu-tui check`` and ``log``: their options, the history of a run, and the order in which limits are answered."""

from __future__ import annotations

import argparse
import os
import re
import sys
from datetime import datetime, timezone
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from npu_tui.cli.options import (
    REPORTING,
    add_opening,
    add_profile,
    allowed_loss,
    lost_in,
    named_subject,
    opened_profile,
    part_of,
    refuse_options,
    refuse_terminal,
    thresholds_of,
)
from npu_tui.cli.parser import Parser
from npu_tui.cli.streams import DONE, FAILED, add_format, add_schema, drop_output, format_of, refuse, tell, write
from npu_tui.strings import ENGLISH, say, speaking, words
from npu_tui.subjects import SUBJECTS, subject_of, subjects
from npu_tui.trace.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from npu_tui.analysis.evidence import Evidence
    from npu_tui.analysis.statistics import Tolerance
    from npu_tui.gate.answer import GateAnswer
    from npu_tui.gate.checks import GateCheck
    from npu_tui.gate.measures import Limit
    from npu_tui.jobs.history import LoggedRun
    from npu_tui.profile.profile import Profile
    from npu_tui.trace.message import Message


FOLDER = "npu-tui-log"
"""Where a log lies unless ``--log`` says otherwise."""


def add_log(parser: argparse.ArgumentParser) -> None:
    """The option that names a log."""
    parser.add_argument("--log", metavar="DIR", help=say("log.folder", folder=FOLDER))


def log_options(parser: Parser) -> None:
    """Add the arguments and options of ``npu-tui log``."""
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
        return _add_to_log(parser, options, folder)
    for option in ("path", "label", "when", "allow_damage"):
        if getattr(options, option) is not None:
            name = options.path if option == "path" else f"--{option.replace('_', '-')}"
            parser.error(say("log.only_add", option=name))
    form = format_of(parser, options)
    from npu_tui.jobs.history import read_log
    from npu_tui.output.statement import log_statement

    tell(parser, options, log_statement(read_log(folder)), form)
    return DONE


def _add_to_log(parser: Parser, options: argparse.Namespace, folder: Path) -> int:
    if options.path is None or not (options.label or "").strip():
        parser.error(say("log.needs"))
    if any(option is not None for option in (options.format, options.output, options.fields)):
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
    from npu_tui.output.envelope import indented
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
    """The time in ``text``, that of this machine where it names no zone; None if it is no moment."""
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
    from npu_tui.jobs.step_times import job_losses

    job = open_job(path)
    losses = [loss for loss in job_losses(job) if loss.share > allowed]
    return run_of_job(job, label, when), max(losses, key=lambda loss: loss.share).why if losses else None


_LOG = "log:"
"""How the value of ``--against`` begins where it names runs of a log."""
_FEWEST_RUNS = 4


def run_check(parser: Parser, options: argparse.Namespace) -> int:
    """Answer the check that ``options`` ask for; returns the exit code.

    Raises ``InputError``, ``SettingsError`` and ``OSError`` for a profile, settings or a baseline that cannot be read
    or written, ``SystemExit`` (2) for wrong usage.
    """
    logged = _logged(parser, options)
    of_jobs = options.against is not None and logged is None
    of_jobs = of_jobs and all(named_subject(path).of_several for path in (options.path, options.against))
    asked = {name: list(_limits(parser, options, name)) for name in SUBJECTS}
    if of_jobs or asked["job"]:
        return _check_job(parser, options, asked, of_jobs)
    limits = [limit for of_subject in asked.values() for limit in of_subject]
    tolerances = _tolerances(parser, options.tolerance, options.against is not None)
    only, ignore = _ids(parser, options.only), _ids(parser, options.ignore)
    severity, verdicts = _failing(parser, options)
    _refuse_useless(parser, options, severity)
    if not (limits or severity or options.baseline or options.write_baseline or options.against):
        parser.error(say("gate.nothing"))
    if logged is not None and not (limits or severity or options.baseline or options.write_baseline):
        return _check_log(parser, options, tolerances, logged)
    from npu_tui.gate.measures import baseline, latency_notes, read_baseline, write_baseline

    base = read_baseline(Path(options.baseline)) if options.baseline else None
    part = part_of(parser, options, REPORTING, "check")
    from npu_tui.gate.answer import GateAnswer
    from npu_tui.gate.checks import (
        baseline_checks,
        differences,
        finding_checks,
        foreign_checks,
        limit_checks,
        measure_checks,
        trace_checks,
    )
    from npu_tui.gate.measures import measures
    from npu_tui.output.statement import figures_of

    subject, allowed = subject_of(part.trace), allowed_loss(parser, options)
    found, lost = figures_of(part), lost_in(part, allowed)
    measured = measures(found, lost, subject.no_times)
    mine = [limit for limit in limits if limit.measure in subject.measures]
    checks, notes = measure_checks(part, subject, mine, lost.get("slices"))
    foreign = foreign_checks(limits, subject)
    answered = {limit.measure for limit in mine} | {check.id for check in foreign}
    checks += limit_checks(measured, [limit for limit in limits if limit.measure not in answered])
    checks += finding_checks(found, subject, severity, only, ignore, lost) + foreign
    losses: list[Mapping[Evidence, Message]] = [lost]
    if logged is not None:
        from npu_tui.jobs.history import run_of

        run = run_of(part.whole, "", "", "links" not in lost)
        compared, told = _log_checks(options, run, tolerances, logged, lost.get("slices"), allowed)
        checks, notes = checks + compared, notes + told
    elif options.against:
        compared, of_base = _against(part.whole, options, tolerances, verdicts, lost, allowed)
        checks += compared
        losses.append(of_base)
    checks = trace_checks(losses, options.write_baseline is not None) + checks
    if base is not None:
        checks += baseline_checks(measured, base, tolerances)
        notes += differences(found, base)
    notes += latency_notes(found, [limit for limit in limits if limit.measure in measured.times])
    rules = sum(reason.id.isupper() for reason in found.not_checked)
    if severity and rules and not only:
        notes.append(say("gate.not_checked", count=rules))
    answer = GateAnswer(options.path, checks, notes, options.allow_unmeasured)
    if options.write_baseline:
        if answer.passed:
            with speaking(ENGLISH):
                write_baseline(Path(options.write_baseline), baseline(found, measured, tolerances), options.schema)
        notes.append(say("gate.wrote" if answer.passed else "gate.kept", path=options.write_baseline))
    return _print_answer(answer, options)


def _print_answer(answer: GateAnswer, options: argparse.Namespace) -> int:
    """Print ``answer`` as text or JSON as ``options`` ask for; the exit code."""
    from npu_tui.gate.answer import answer_statement

    try:
        write(answer_statement(answer).written(options.format, options.schema))
    except BrokenPipeError:  # the reader has seen enough; the answer stays the same
        drop_output()
    return DONE if answer.passed else FAILED


def _limits(parser: argparse.ArgumentParser, options: argparse.Namespace, subject: str) -> Iterator[Limit]:
    """The limits that ``options`` give on what is measured of ``subject``."""
    from npu_tui.gate.measures import parse_limit

    for name, unit in SUBJECTS[subject].items():
        given = getattr(options, f"max_{name}")
        for text in given if isinstance(given, list) else [given] if given is not None else []:
            limit = parse_limit(name, unit, text)
            if limit is None:
                parser.error(say(f"gate.bad_limit.{unit}", option=_option(name), text=text))
            yield limit


def _option(measure: str) -> str:
    return f"--max-{measure.replace('_', '-')}"


def _check_job(
    parser: argparse.ArgumentParser, options: argparse.Namespace, asked: Mapping[str, list[Limit]], against: bool
) -> int:
    """Answer the limits ``asked`` of a job, and hold it ``against`` another; those on something else do not go."""
    from npu_tui.gate.answer import GateAnswer
    from npu_tui.gate.checks import against_job_checks, job_checks, job_notes
    from npu_tui.jobs.against import JobComparison
    from npu_tui.jobs.opening import open_job, open_steps
    from npu_tui.subjects import subject

    severity, verdicts = _failing(parser, options)
    refuse_options(parser, options, subject("job"), "check")
    others = [name for other, measures in SUBJECTS.items() if other != "job" for name in measures]
    for option in (*(f"max_{name}" for name in others), *(() if against else ("fail_on", "against"))):
        if getattr(options, option) is not None:
            parser.error(say("gate.job.alone", option=f"--{option.replace('_', '-')}"))
    if severity:
        parser.error(say("gate.job.alone", option=f"--fail-on {severity}"))
    tolerances, allowed = _tolerances(parser, options.tolerance, against), allowed_loss(parser, options)
    checks, notes = [], []
    if limits := asked["job"]:
        job = open_job(Path(options.path))
        checks = job_checks(job, limits, allowed)
        measured = [check for check in checks if check.status != "not_measured"]
        notes = [say("gate.job.most", what=say(f"gate.measure.{check.id}"), rank=check.text) for check in measured]
        notes += job_notes(job)
    if against:
        base, new = (open_steps(Path(path)) for path in (options.against, options.path))
        compared = JobComparison(base, new, _tolerance_of(tolerances), allowed)
        checks += against_job_checks(compared, verdicts)
    return _print_answer(GateAnswer(options.path, checks, notes, options.allow_unmeasured), options)


_TAKES = {"size": "SIZE", "share": "SHARE", "time": "LIMIT", "step": "TIME", "latency": "LIMIT"}
"""What an option takes, by the unit of its limit."""


def check_options(parser: Parser) -> None:
    """Add the arguments and options of ``npu-tui check``."""
    add_profile(parser)
    for name, unit in (limit for limits in SUBJECTS.values() for limit in limits.items()):
        repeated = {"action": "append"} if unit in ("step", "latency") else {}
        parser.add_argument(_option(name), metavar=_TAKES[unit], help=say(f"gate.max_{name}"), **repeated)  # type: ignore[arg-type]
    parser.add_argument("--fail-on", metavar="WHAT", help=say("gate.fail_on"))
    parser.add_argument("--against", metavar="BASE", help=say("gate.against"))
    add_log(parser)
    parser.add_argument("--only", action="append", default=[], metavar="IDS", help=say("gate.only"))
    parser.add_argument("--ignore", action="append", default=[], metavar="IDS", help=say("gate.ignore"))
    parser.add_argument("--baseline", metavar="FILE", help=say("gate.baseline_option"))
    parser.add_argument("--write-baseline", metavar="FILE", help=say("gate.write_baseline"))
    parser.add_argument("--tolerance", action="append", default=[], metavar="SHARE", help=say("gate.tolerance"))
    parser.add_argument("--allow-unmeasured", action="store_true", help=say("gate.allow_unmeasured"))
    parser.add_argument("--allow-damage", metavar="SHARE", help=say("gate.allow_damage"))
    parser.add_argument("--format", choices=("text", "json"), default="text", help=say("gate.format"))
    add_schema(parser)


def _failing(parser: argparse.ArgumentParser, options: argparse.Namespace) -> tuple[str | None, list[str]]:
    """The least severity of findings and the verdicts of a comparison that fail."""
    from npu_tui.gate.checks import VERDICTS
    from npu_tui.rules.model import SEVERITIES

    named = [word.strip() for word in (options.fail_on or "").split(",") if word.strip()]
    graves = [word for word in named if word in SEVERITIES[:-1]]  # what only informs fails nothing
    verdicts = [word for word in named if word in VERDICTS]
    if options.fail_on is not None and (len(graves) + len(verdicts) != len(named) or not named or len(graves) > 1):
        parser.error(say("gate.bad_fail_on", text=options.fail_on))
    if verdicts and options.against is None:
        parser.error(say("gate.useless", option=f"--fail-on {verdicts[0]}", other="--against"))
    return graves[0] if graves else None, verdicts or list(VERDICTS)


def _tolerance_of(tolerances: dict[str, float]) -> Tolerance:
    """What of ``tolerances`` a comparison judges by."""
    from npu_tui.analysis.statistics import Tolerance
    from npu_tui.gate.checks import JUDGED

    return Tolerance(**{name: tolerances[name] for name in JUDGED if name in tolerances})


def _against(
    profile: Profile,
    options: argparse.Namespace,
    tolerances: dict[str, float],
    verdicts: list[str],
    lost: Mapping[Evidence, Message],
    allowed: float,
) -> tuple[list[GateCheck], Mapping[Evidence, Message]]:
    """The checks of ``profile``, which has ``lost`` that, against the one ``options`` name; what that one has lost."""
    from npu_tui.compare.comparison import ProfileComparison
    from npu_tui.compare.measured import MeasuredSide
    from npu_tui.gate.checks import against_checks

    thresholds = thresholds_of(options.config)
    base = opened_profile(options.against, not options.no_cache, thresholds, options.source)
    of_base = lost_in(base, allowed)
    comparison = ProfileComparison(MeasuredSide(base), MeasuredSide(profile), _tolerance_of(tolerances))
    return against_checks(comparison, tolerances, verdicts, (lost, of_base)), of_base


def _logged(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int | None:
    """How many runs of a log ``--against`` names; None where it names none."""
    if not (options.against or "").startswith(_LOG):
        if options.log is not None:
            parser.error(say("gate.useless", option="--log", other=f"--against {_LOG}last-10"))
        return None
    match = re.fullmatch(rf"{_LOG}last-(\d{{1,6}})", options.against)
    if match is None or int(match[1]) < _FEWEST_RUNS:
        parser.error(say("gate.log.bad", text=options.against, fewest=_FEWEST_RUNS))
    return int(match[1])


def _check_log(
    parser: argparse.ArgumentParser, options: argparse.Namespace, tolerances: dict[str, float], last: int
) -> int:
    """Hold a profile or a job against a log, and nothing else."""
    from npu_tui.gate.answer import GateAnswer

    run, lost = measured_run(parser, options, "", "")
    checks, notes = _log_checks(options, run, tolerances, last, lost, allowed_loss(parser, options))
    return _print_answer(GateAnswer(options.path, checks, notes, options.allow_unmeasured), options)


def _log_checks(
    options: argparse.Namespace,
    run: LoggedRun,
    tolerances: dict[str, float],
    last: int,
    lost: Message | None,
    allowed: float,
) -> tuple[list[GateCheck], list[str]]:
    """The checks of ``run`` against the log that ``options`` name. Raises ``InputError`` where there is none."""
    from npu_tui.gate.checks import log_checks
    from npu_tui.jobs.history import read_log

    return log_checks(read_log(Path(options.log or FOLDER)), run, last, tolerances, lost, allowed)


def _refuse_useless(parser: argparse.ArgumentParser, options: argparse.Namespace, severity: str | None) -> None:
    """An option that changes nothing is a gate that does not do what its writer thinks."""
    for option in ("only", "ignore"):
        if getattr(options, option) and not severity:
            parser.error(say("gate.useless", option=f"--{option}", other="--fail-on"))
    if options.only and not set(_ids(parser, options.only)) - set(_ids(parser, options.ignore)):
        parser.error(say("gate.only_ignored"))
    if options.against and (options.range or options.step is not None):
        parser.error(say("gate.against_part"))
    if options.tolerance and not (options.baseline or options.write_baseline or options.against):
        parser.error(say("gate.useless", option="--tolerance", other="--baseline"))


def _tolerances(parser: argparse.ArgumentParser, texts: list[str], against: bool) -> dict[str, float]:
    """The tolerance of every measure that is given one; a later word counts, and one measure goes before all.

    With ``against`` the parts of a step are measures too; a tolerance for all is one of the step and its computing.
    """
    from npu_tui.gate.checks import AGAINST_MEASURES, JUDGED
    from npu_tui.gate.measures import BASELINE_MEASURES, parse_share

    names = tuple(dict.fromkeys((*BASELINE_MEASURES, *(AGAINST_MEASURES if against else ()))))
    every: dict[str, float] = {}
    single: dict[str, float] = {}
    for text in texts:
        name, sign, value = text.rpartition("=")
        share = parse_share(value)
        if share is None:
            parser.error(say("gate.bad_tolerance", text=text))
        if sign and name not in names:
            words = say("gate.bad_measure", name=name, names=", ".join(names))
            parser.error(words + _nearest_name(name, names))
        if sign:
            single[name] = share
        else:
            every = dict.fromkeys((*BASELINE_MEASURES, *(JUDGED if against else ())), share)
    return every | single


def _ids(parser: argparse.ArgumentParser, texts: list[str]) -> list[str]:
    """The ids of findings in ``texts``; a misspelt one would let the gate pass in silence."""
    if not texts:
        return []
    known = tuple(kind.id for subject in subjects() if not subject.of_several for kind in subject.findings())
    found = [id_.strip().upper() for text in texts for id_ in text.split(",") if id_.strip()]
    for id_ in found:
        if id_ not in known:
            parser.error(say("gate.bad_finding", name=id_) + _nearest_name(id_, known))
    return found


def _nearest_name(name: str, names: tuple[str, ...]) -> str:
    near = get_close_matches(name, names, 1, 0.5)
    return say("settings.nearest", name=near[0]) if near else ""
