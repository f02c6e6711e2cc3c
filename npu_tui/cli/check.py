"""``npu-tui check``: its options, and the order in which they are answered."""

from __future__ import annotations

import argparse
import re
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from npu_tui.cli.log import FOLDER, add_log, measured_run
from npu_tui.cli.options import REPORTING, add_profile, allowed_loss, lost_in, opened_profile, part_of, thresholds_of
from npu_tui.cli.parser import Parser
from npu_tui.cli.streams import add_schema, drop_output, write
from npu_tui.strings import ENGLISH, say, speaking

if TYPE_CHECKING:
    from collections.abc import Mapping

    from npu_tui.analysis.evidence import Evidence
    from npu_tui.analysis.statistics import Tolerance
    from npu_tui.gate.answer import Answer
    from npu_tui.gate.checks import Check
    from npu_tui.jobs.history import Run
    from npu_tui.profile.profile import Profile
    from npu_tui.trace.message import Message

PASSED, FAILED = 0, 1
_LOG = "log:"
"""How the value of ``--against`` begins where it names runs of a log."""
_FEWEST_RUNS = 4


def run_check(parser: Parser, options: argparse.Namespace) -> int:
    """Answer the check that ``options`` ask for; returns the exit code.

    Raises ``InputError``, ``SettingsError`` and ``OSError`` for a profile, settings or a baseline that cannot be read
    or written, ``SystemExit`` (2) for wrong usage.
    """
    logged = _logged(parser, options)
    of_jobs = options.against is not None and logged is None and _are_jobs(options)
    if of_jobs or options.max_rank_wait is not None or options.max_own_excess is not None:
        return _check_job(parser, options, of_jobs)
    from npu_tui.gate.measures import LIMITS, OF_SERVICES, SHARED, parse_limit

    limits = []
    for option in LIMITS:
        given = getattr(options, option)
        for text in given if isinstance(given, list) else [given] if given is not None else []:
            limit = parse_limit(option, text)
            if limit is None:
                key = "gate.bad_share" if option in SHARED else "gate.bad_time"
                key = "gate.bad_latency" if option in OF_SERVICES else key
                parser.error(say(key, option=f"--{option.replace('_', '-')}", text=text))
            limits.append(limit)
    memory_limits = _memory_limits(parser, options)
    tolerances = _tolerances(parser, options.tolerance, options.against is not None)
    only, ignore = _ids(parser, options.only), _ids(parser, options.ignore)
    severity, verdicts = _failing(parser, options)
    _refuse_useless(parser, options, severity)
    if not (limits or memory_limits or severity or options.baseline or options.write_baseline or options.against):
        parser.error(say("gate.nothing"))

    from npu_tui.load.formats.memory import is_snapshot

    if is_snapshot(Path(options.path)):
        return _check_snapshot(parser, options, memory_limits, [limit.measure for limit in limits], severity)
    if logged is not None and not (limits or memory_limits or severity or options.baseline or options.write_baseline):
        return _check_log(parser, options, tolerances, logged)
    from npu_tui.gate.measures import baseline, latency_notes, read_baseline, write_baseline

    base = read_baseline(Path(options.baseline)) if options.baseline else None
    part = part_of(parser, options, REPORTING)
    if part.trace.service is not None:
        for option in ("against", "baseline", "write_baseline", "range", "step"):
            if getattr(options, option) is not None:
                parser.error(say("gate.service_alone", option=f"--{option.replace('_', '-')}"))
    from npu_tui.gate.answer import Answer
    from npu_tui.gate.checks import baseline_checks, differences, finding_checks, limit_checks, trace_checks
    from npu_tui.gate.measures import measures
    from npu_tui.gate.memory import unmeasured
    from npu_tui.output.report import sections_of

    allowed = allowed_loss(parser, options)
    found, lost = sections_of(part), lost_in(part, allowed)
    measured = measures(found, lost)
    checks = limit_checks(measured, limits) + finding_checks(found, severity, only, ignore, lost)
    checks += unmeasured(memory_limits, say("gate.memory.no_snapshot"))
    losses: list[Mapping[Evidence, Message]] = [lost]
    notes: list[str] = []
    if logged is not None:
        from npu_tui.jobs.history import run_of

        run = run_of(part.whole, "", "", "links" not in lost)
        compared, notes = _log_checks(options, run, tolerances, logged, lost.get("slices"), allowed)
        checks += compared
    elif options.against:
        compared, of_base = _against(part.whole, options, tolerances, verdicts, lost, allowed)
        checks += compared
        losses.append(of_base)
    checks = trace_checks(losses, options.write_baseline is not None) + checks
    if base is not None:
        checks += baseline_checks(measured, base, tolerances)
        notes += differences(found, base)
    notes += latency_notes(found, limits)
    rules = sum(reason.id.isupper() for reason in found.not_checked)
    if severity and rules and not only:
        notes.append(say("gate.not_checked", count=rules))
    answer = Answer(options.path, checks, notes, options.allow_unmeasured)
    if options.write_baseline:
        if answer.passed:
            with speaking(ENGLISH):
                write_baseline(Path(options.write_baseline), baseline(found, measured, tolerances), options.schema)
        notes.append(say("gate.wrote" if answer.passed else "gate.kept", path=options.write_baseline))
    return _told(answer, options)


def _told(answer: Answer, options: argparse.Namespace) -> int:
    """Print ``answer`` as text or JSON as ``options`` ask for; the exit code."""
    from npu_tui.gate.answer import answer_statement

    try:
        write(answer_statement(answer).written(options.format, options.schema))
    except BrokenPipeError:  # the reader has seen enough; the answer stays the same
        drop_output()
    return PASSED if answer.passed else FAILED


def _memory_limits(parser: argparse.ArgumentParser, options: argparse.Namespace) -> dict[str, float]:
    """The limits on memory that ``options`` give, by measure."""
    from npu_tui.gate.memory import MEMORY_LIMITS

    limits = {}
    for option, (measure, parsed) in MEMORY_LIMITS.items():
        text = getattr(options, option)
        limit = None if text is None else parsed(text)
        if limit is not None:
            limits[measure] = limit
        elif text is not None:
            parser.error(say(f"gate.memory.bad_{option}", text=text))
    return limits


def _check_snapshot(
    parser: Parser, options: argparse.Namespace, limits: dict[str, float], times: list[str], severity: str | None
) -> int:
    """Answer ``limits`` on a memory snapshot and findings of ``severity``; limits on ``times`` are not measured."""
    from npu_tui.gate.answer import Answer
    from npu_tui.gate.checks import finding_checks
    from npu_tui.gate.memory import memory_checks, memory_notes, snapshot_loss, unmeasured
    from npu_tui.load.snapshot import load_snapshot
    from npu_tui.output.memory_report import memory_report

    for option in ("against", "baseline", "write_baseline", "range", "step"):
        if getattr(options, option) is not None:
            parser.error(say("gate.memory.alone", option=f"--{option.replace('_', '-')}"))
    only, ignore = _ids(parser, options.only), _ids(parser, options.ignore)
    snapshot, allowed = load_snapshot(Path(options.path)), allowed_loss(parser, options)
    lost = snapshot_loss(snapshot, allowed)
    checks = [
        *memory_checks(snapshot, limits, allowed),
        *unmeasured(times, say("gate.memory.no_times")),
        *finding_checks(memory_report(snapshot), severity, only, ignore, {"slices": lost} if lost else {}),
    ]
    return _told(Answer(options.path, checks, memory_notes(snapshot, limits), options.allow_unmeasured), options)


def _are_jobs(options: argparse.Namespace) -> bool:
    """Whether the path and that to hold it against are jobs. Raises ``InputError`` where nothing is at one of them."""
    from npu_tui.cli.explore import is_job_at

    return all(map(is_job_at, (options.path, options.against)))


def _check_job(parser: argparse.ArgumentParser, options: argparse.Namespace, against: bool) -> int:
    """Answer the limits on a job, and hold it ``against`` another; limits on one profile do not go with them."""
    from npu_tui.gate.answer import Answer
    from npu_tui.gate.checks import JOB_LIMITS, against_job_checks, job_checks, job_notes
    from npu_tui.gate.measures import parse_most
    from npu_tui.jobs.against import JobComparison
    from npu_tui.jobs.opening import open_job, open_steps

    others = ("max_free", "max_host_late", "max_lost", "max_exposed_communication", "max_step", "max_ttft", "max_tpot",
              "max_peak", "max_fragmentation", "baseline", "write_baseline", "range", "step")  # fmt: skip
    severity, verdicts = _failing(parser, options)
    for option in (*others, *(() if against else ("fail_on", "against"))):
        if getattr(options, option) is not None:
            parser.error(say("gate.job.alone", option=f"--{option.replace('_', '-')}"))
    limits = {}
    for option, measure in JOB_LIMITS.items():
        text = getattr(options, option)
        most = None if text is None else parse_most(text)
        if text is not None and most is None:
            parser.error(say("gate.bad_share", option=f"--{option.replace('_', '-')}", text=text))
        if most is not None:
            limits[measure] = most
    if severity:
        parser.error(say("gate.job.alone", option=f"--fail-on {severity}"))
    tolerances, allowed = _tolerances(parser, options.tolerance, against), allowed_loss(parser, options)
    checks, notes = [], []
    if limits:
        job = open_job(Path(options.path))
        checks = job_checks(job, limits, allowed)
        measured = [check for check in checks if check.status != "not_measured"]
        notes = [say("gate.job.most", what=say(f"gate.measure.{check.id}"), rank=check.text) for check in measured]
        notes += job_notes(job)
    if against:
        base, new = (open_steps(Path(path)) for path in (options.against, options.path))
        compared = JobComparison(base, new, _tolerance_of(tolerances), allowed)
        checks += against_job_checks(compared, verdicts)
    return _told(Answer(options.path, checks, notes, options.allow_unmeasured), options)


_TAKES = {
    "max-free": "LIMIT", "max-host-late": "LIMIT", "max-lost": "LIMIT", "max-exposed-communication": "LIMIT",
    "max-step": "TIME", "max-ttft": "LIMIT", "max-tpot": "LIMIT", "max-rank-wait": "LIMIT", "max-own-excess": "LIMIT",
    "max-peak": "SIZE", "max-fragmentation": "SHARE", "fail-on": "WHAT", "against": "BASE",
}  # fmt: skip
"""Limits and what else may fail, by what each takes."""


def check_options(parser: Parser) -> None:
    """Its arguments and options."""
    add_profile(parser)
    for option, metavar in _TAKES.items():
        repeated = {"action": "append"} if option in ("max-step", "max-ttft", "max-tpot") else {}
        text = say(f"gate.{option.replace('-', '_')}")
        parser.add_argument(f"--{option}", metavar=metavar, help=text, **repeated)  # type: ignore[arg-type]
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
) -> tuple[list[Check], Mapping[Evidence, Message]]:
    """The checks of ``profile``, which has ``lost`` that, against the one ``options`` name; what that one has lost."""
    from npu_tui.compare.comparison import Comparison
    from npu_tui.compare.measured import Side
    from npu_tui.gate.checks import against_checks

    thresholds = thresholds_of(options.config)
    base = opened_profile(options.against, not options.no_cache, thresholds, options.source)
    of_base = lost_in(base, allowed)
    comparison = Comparison(Side(base), Side(profile), _tolerance_of(tolerances))
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
    from npu_tui.gate.answer import Answer

    run, lost = measured_run(parser, options, "", "")
    checks, notes = _log_checks(options, run, tolerances, last, lost, allowed_loss(parser, options))
    return _told(Answer(options.path, checks, notes, options.allow_unmeasured), options)


def _log_checks(
    options: argparse.Namespace, run: Run, tolerances: dict[str, float], last: int, lost: Message | None, allowed: float
) -> tuple[list[Check], list[str]]:
    """The checks of ``run`` against the log that ``options`` name. Raises ``InputError`` where there is none."""
    from npu_tui.gate.history import log_checks
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
            parser.error(words + _nearest(name, names))
        if sign:
            single[name] = share
        else:
            every = dict.fromkeys((*BASELINE_MEASURES, *(JUDGED if against else ())), share)
    return every | single


def _ids(parser: argparse.ArgumentParser, texts: list[str]) -> list[str]:
    """The ids of findings in ``texts``; a misspelt one would let the gate pass in silence."""
    if not texts:
        return []
    from npu_tui.rules.find import RULES
    from npu_tui.rules.service import SERVICE_RULES
    from npu_tui.rules.snapshot import SNAPSHOT_FINDINGS

    known = tuple(kind.id for kind in (*RULES, *SNAPSHOT_FINDINGS, *SERVICE_RULES))
    found = [id_.strip().upper() for text in texts for id_ in text.split(",") if id_.strip()]
    for id_ in found:
        if id_ not in known:
            parser.error(say("gate.bad_finding", name=id_) + _nearest(id_, known))
    return found


def _nearest(name: str, names: tuple[str, ...]) -> str:
    near = get_close_matches(name, names, 1, 0.5)
    return say("settings.nearest", name=near[0]) if near else ""
