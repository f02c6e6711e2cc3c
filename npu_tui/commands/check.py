"""``npu-tui check``: its options, and the order in which they are answered."""

from __future__ import annotations

import argparse
from difflib import get_close_matches
from pathlib import Path

from npu_tui.commands.parser import Parser
from npu_tui.commands.profile_options import add_profile, part_of
from npu_tui.commands.streams import drop_output, write
from npu_tui.strings import ENGLISH, say, speak, speaking

PASSED, FAILED = 0, 1


def run(words: list[str]) -> int:
    """Answer the check that ``words`` ask for; returns the exit code.

    Raises ``InputError``, ``SettingsError`` and ``OSError`` for a profile, settings or a baseline that cannot be read
    or written, ``SystemExit`` (2) for wrong usage.
    """
    parser = _parser()
    options = parser.parse_args(words)
    if options.format == "json":
        speak(ENGLISH)
    from npu_tui.gate.limits import LIMITS, SHARED, parse_limit

    limits = []
    for option in LIMITS:
        text = getattr(options, option)
        if text is None:
            continue
        limit = parse_limit(option, text)
        if limit is None:
            key = "gate.bad_share" if option in SHARED else "gate.bad_time"
            parser.error(say(key, option=f"--{option.replace('_', '-')}", text=text))
        limits.append(limit)
    tolerances = _tolerances(parser, options.tolerance)
    only, ignore = _ids(parser, options.only), _ids(parser, options.ignore)
    _refuse_useless(parser, options)
    if not (limits or options.fail_on or options.baseline or options.write_baseline):
        parser.error(say("gate.nothing"))

    from npu_tui.gate.answer import Answer, answer_object, answer_text
    from npu_tui.gate.baseline import baseline, read_baseline, write_baseline
    from npu_tui.gate.checks import baseline_checks, differences, finding_checks, limit_checks, trace_checks
    from npu_tui.gate.evidence import unread
    from npu_tui.gate.measures import measures
    from npu_tui.report.report import report

    base = read_baseline(Path(options.baseline)) if options.baseline else None
    part = part_of(parser, options)
    found, incomplete = report(part), unread(part.trace.health.skipped)
    measured = measures(found, incomplete)
    checks = trace_checks(found) + limit_checks(measured, limits)
    checks += finding_checks(found, options.fail_on, only, ignore, incomplete)
    notes = []
    if base is not None:
        checks += baseline_checks(measured, base, tolerances)
        notes += differences(found, base)
    rules = sum(each.id.isupper() for each in found.not_checked)
    if options.fail_on and rules and not only:
        notes.append(say("gate.not_checked", count=rules))
    answer = Answer(options.path, checks, notes, options.allow_unmeasured)
    if options.write_baseline:
        if answer.passed:
            with speaking(ENGLISH):
                write_baseline(Path(options.write_baseline), baseline(found, measured, tolerances))
        notes.append(say("gate.wrote" if answer.passed else "gate.kept", path=options.write_baseline))
    if options.format == "json":
        import orjson

        text = orjson.dumps(answer_object(answer), option=orjson.OPT_INDENT_2).decode() + "\n"
    else:
        text = answer_text(answer)
    try:
        write(text)
    except BrokenPipeError:  # the reader has seen enough; the answer stays the same
        drop_output()
    return PASSED if answer.passed else FAILED


def _parser() -> Parser:
    parser = Parser(prog="npu-tui check", description=say("gate.description"), epilog=say("gate.epilog"))
    add_profile(parser)
    parser.add_argument("--max-free", metavar="LIMIT", help=say("gate.max_free"))
    parser.add_argument("--max-host-late", metavar="LIMIT", help=say("gate.max_host_late"))
    parser.add_argument("--max-lost", metavar="LIMIT", help=say("gate.max_lost"))
    parser.add_argument("--max-exposed-communication", metavar="LIMIT", help=say("gate.max_exposed_communication"))
    parser.add_argument("--max-step", metavar="TIME", help=say("gate.max_step"))
    parser.add_argument("--fail-on", choices=("high", "medium", "low"), help=say("gate.fail_on"))
    parser.add_argument("--only", action="append", default=[], metavar="IDS", help=say("gate.only"))
    parser.add_argument("--ignore", action="append", default=[], metavar="IDS", help=say("gate.ignore"))
    parser.add_argument("--baseline", metavar="FILE", help=say("gate.baseline_option"))
    parser.add_argument("--write-baseline", metavar="FILE", help=say("gate.write_baseline"))
    parser.add_argument("--tolerance", action="append", default=[], metavar="SHARE", help=say("gate.tolerance"))
    parser.add_argument("--allow-unmeasured", action="store_true", help=say("gate.allow_unmeasured"))
    parser.add_argument("--format", choices=("text", "json"), default="text", help=say("gate.format"))
    return parser


def _refuse_useless(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """An option that changes nothing is a gate that does not do what its writer thinks."""
    for option in ("only", "ignore"):
        if getattr(options, option) and not options.fail_on:
            parser.error(say("gate.useless", option=f"--{option}", other="--fail-on"))
    if options.only and not set(_ids(parser, options.only)) - set(_ids(parser, options.ignore)):
        parser.error(say("gate.only_ignored"))
    if options.tolerance and not (options.baseline or options.write_baseline):
        parser.error(say("gate.useless", option="--tolerance", other="--baseline"))


def _tolerances(parser: argparse.ArgumentParser, texts: list[str]) -> dict[str, float]:
    """The tolerance of every measure that is given one; a later word counts, and one measure goes before all."""
    from npu_tui.gate.limits import parse_share
    from npu_tui.gate.measures import BASELINE_MEASURES

    every: dict[str, float] = {}
    single: dict[str, float] = {}
    for text in texts:
        name, sign, value = text.rpartition("=")
        share = parse_share(value)
        if share is None:
            parser.error(say("gate.bad_tolerance", text=text))
        if sign and name not in BASELINE_MEASURES:
            words = say("gate.bad_measure", name=name, names=", ".join(BASELINE_MEASURES))
            parser.error(words + _nearest(name, BASELINE_MEASURES))
        if sign:
            single[name] = share
        else:
            every = dict.fromkeys(BASELINE_MEASURES, share)
    return every | single


def _ids(parser: argparse.ArgumentParser, texts: list[str]) -> list[str]:
    """The ids of findings in ``texts``; a misspelt one would let the gate pass in silence."""
    if not texts:
        return []
    from npu_tui.analysis.findings.find import RULES

    known = tuple(rule.id for rule in RULES)
    found = [each.strip().upper() for text in texts for each in text.split(",") if each.strip()]
    for each in found:
        if each not in known:
            parser.error(say("gate.bad_finding", name=each) + _nearest(each, known))
    return found


def _nearest(name: str, names: tuple[str, ...]) -> str:
    near = get_close_matches(name, names, 1, 0.5)
    return say("settings.nearest", name=near[0]) if near else ""
