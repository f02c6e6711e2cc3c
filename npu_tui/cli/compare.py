"""``npu-tui compare``: its options, the two profiles, and the form of the answer."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from npu_tui.cli.options import (
    add_eager,
    add_look,
    add_opening,
    add_place,
    allowed_loss,
    borrow_from,
    lost_in,
    named_subject,
    opened_profile,
    refuse_options,
    refuse_terminal,
    thresholds_of,
)
from npu_tui.cli.parser import Parser
from npu_tui.cli.streams import DONE, FAILED, USAGE, add_format, format_of, hand_over, tell, write
from npu_tui.strings import say, words

if TYPE_CHECKING:
    from npu_tui.analysis.statistics import Tolerance
    from npu_tui.compare.comparison import ProfileComparison
    from npu_tui.compare.measured import MeasuredSide
    from npu_tui.profile.profile import Profile
    from npu_tui.subjects.declaration import Subject

_VERDICTS = ("slower", "faster", "unsure", "incomparable")
_SPAN = re.compile(r"(\d{1,18})(?:\.\.(\d{1,18}))?")
_RANKS = re.compile(r"(\d{1,9})(?::(\d{1,9}))?")
_SHARE = re.compile(r"(?:(step|computing)=)?(\d{1,6}(?:\.\d{1,6})?)%")


def run_compare(parser: Parser, options: argparse.Namespace) -> int:
    """Write the comparison that ``options`` ask for; returns the exit code, 1 where ``--fail-on`` holds.

    Raises ``InputError`` for a profile that cannot be read, ``SettingsError``, ``OSError`` of what is written.
    """
    if options.new is None:
        print(_one_path(options.base), file=sys.stderr)
        return USAGE
    form = format_of(parser, options)
    sides = [named_subject(path, options.source) for path in (options.base, options.new)]
    if any(side.unlike for side in sides):
        return _compare_alike(parser, options, form, sides)
    failing = _failing(parser, options.fail_on)
    allowed = allowed_loss(parser, options)
    if options.rank is None and all(side.of_several for side in sides):
        return _compare_jobs(parser, options, form, failing)
    tolerance = _tolerance(parser, options.tolerance)
    ignored = _ignored(parser, options.ignore)
    renamed = _renamed(parser, options.map)
    _choose_ranks(parser, options)
    from npu_tui.compare.comparison import ProfileComparison

    def compare(profiles: Sequence[Profile]) -> ProfileComparison:
        borrow_from(profiles, options)
        sides = [
            _side_of_path(parser, options, profile, path)
            for profile, path in zip(profiles, (options.base, options.new), strict=True)
        ]
        return ProfileComparison(sides[0], sides[1], tolerance, renamed)

    from npu_tui.cli.explore import explore, on_terminal

    paths = [options.base, options.new]
    for path in paths:
        refuse_terminal(parser, path)
    if (options.format, options.output, options.fail_on) == (None, None, None) and on_terminal():
        return explore([Path(path) for path in paths], parser, options, not options.no_cache, compare)
    thresholds = thresholds_of(options.config)
    cached, source = not options.no_cache, options.source
    from npu_tui.load.errors import InputError, SeveralError
    from npu_tui.trace.message import message

    try:
        profiles = [opened_profile(path, cached, thresholds, source) for path in paths]
        comparison = compare(profiles)
    except SeveralError as error:
        raise InputError(message("compare.several", text=error.message)) from error
    from npu_tui.output.statement import comparison_statement

    statement = comparison_statement(comparison, ignored, single=form != "text")
    if form != "text":
        tell(parser, options, statement, form)
    else:
        from npu_tui.compare.tables import PROFILE_FINDINGS
        from npu_tui.output.compare_report import known_table
        from npu_tui.output.text import text_lines

        content = str(statement.written(form))
        if options.output is None:  # the findings of the single profiles take long: a reader gets the rest first
            write(content)
            content = ""
        if (known := known_table(PROFILE_FINDINGS.records(comparison))).rows:
            content = "\n".join([content, *text_lines([known]), ""])
        hand_over(content, options.output)
    if failing and _is_damaged(profiles, allowed):
        return FAILED
    return _failed(comparison.step.verdict, failing, form, options)


def _is_damaged(sides: Sequence[Profile], allowed: float) -> bool:
    """Whether one of ``sides`` has lost more than the share ``allowed`` of its slices; stderr says so."""
    losses = [why for side in sides if (why := lost_in(side, allowed).get("slices")) is not None]
    for why in losses:
        print(say("compare.not_measured", why=words(why)), file=sys.stderr)
    return bool(losses)


def _failed(verdict: str, failing: frozenset[str], form: str, options: argparse.Namespace) -> int:
    """The exit code for ``verdict``; stderr says why unless the text is printed."""
    if verdict not in failing and not ("unsure" in failing and verdict == "incomparable"):
        return DONE
    if form != "text" or options.output is not None:
        print(say(f"compare.verdict.{verdict}"), file=sys.stderr)
    return FAILED


def _compare_alike(parser: Parser, options: argparse.Namespace, form: str, subjects: Sequence[Subject]) -> int:
    """Write the comparison of what is only compared with its like; returns the exit code, 1 where ``--fail-on`` holds.

    Raises ``InputError`` where the two are not alike, or cannot be read; ``OSError`` of what is written.
    """
    from npu_tui.output.service_compare import ComparedServices
    from npu_tui.output.statement import comparison_of, refuse_mixed

    refuse_mixed([*zip(subjects, (options.base, options.new), strict=True)])
    refuse_options(parser, options, subjects[0], "compare")
    failing, allowed = _failing(parser, options.fail_on), allowed_loss(parser, options)
    thresholds = thresholds_of(options.config)
    sides = [opened_profile(path, not options.no_cache, thresholds, None) for path in (options.base, options.new)]
    statement = comparison_of(sides[0], sides[1])
    tell(parser, options, statement, form)
    if not failing:
        return DONE
    compared = statement.data
    assert isinstance(compared, ComparedServices)  # no other takes verdicts that fail
    damaged = _is_damaged(sides, allowed)
    if compared.unlike:
        print(say("compare.service.not_alike"), file=sys.stderr)
    slower = failing.intersection(row.verdict for row in compared.figures)
    return FAILED if damaged or compared.unlike or slower else DONE


def _compare_jobs(parser: Parser, options: argparse.Namespace, form: str, failing: frozenset[str]) -> int:
    """Write the comparison of two jobs; returns the exit code.

    Raises ``InputError`` where one of them cannot be read, or holds several jobs; ``OSError`` of what is written.
    """
    from npu_tui.cli.explore import explore, on_terminal
    from npu_tui.jobs.against import JobComparison
    from npu_tui.jobs.opening import open_steps
    from npu_tui.nearby import refuse_several
    from npu_tui.output.statement import job_comparison_statement
    from npu_tui.subjects import subject

    refuse_options(parser, options, subject("job"), "compare")
    tolerance, paths = _tolerance(parser, options.tolerance), [Path(options.base), Path(options.new)]
    ignored = _ignored(parser, options.ignore)
    for path in paths:
        refuse_several(path)
    if (options.format, options.output, options.fail_on) == (None, None, None) and on_terminal():
        return explore(paths[1:], parser, options, not options.no_cache, base=paths[0])
    base, new = map(open_steps, paths)
    compared = JobComparison(base, new, tolerance, allowed_loss(parser, options))
    tell(parser, options, job_comparison_statement(compared, ignored), form)
    return _failed(compared.step.verdict, failing, form, options)


def compare_options(parser: Parser) -> None:
    """Add the arguments and options of ``npu-tui compare``."""
    parser.add_argument("base", metavar="BASE", nargs="?", help=say("compare.base")).required = True
    parser.add_argument("new", metavar="NEW", nargs="?", help=say("compare.new")).required = True
    add_format(parser, say("compare.format"))
    parser.add_argument("--step", metavar="N", help=say("compare.step"))
    parser.add_argument("--rank", metavar="R[:S]", help=say("compare.rank_option"))
    parser.add_argument("--map", action="append", default=[], metavar="A=B", help=say("compare.map"))
    parser.add_argument("--tolerance", metavar="SHARE", help=say("compare.tolerance"))
    parser.add_argument("--fail-on", metavar="VERDICTS", help=say("compare.fail_on"))
    parser.add_argument("--allow-damage", metavar="SHARE", help=say("gate.allow_damage"))
    parser.add_argument("--ignore", metavar="IDS", help=say("compare.ignore"))
    parser.add_argument("--config", metavar="FILE", help=say("cli.config"))
    add_opening(parser)
    add_eager(parser)
    add_look(parser)
    add_place(parser)


def _failing(parser: argparse.ArgumentParser, text: str | None) -> frozenset[str]:
    verdicts = [verdict.strip() for verdict in (text or "").split(",") if verdict.strip()]
    if any(verdict not in _VERDICTS for verdict in verdicts) or (text is not None and not verdicts):
        parser.error(say("compare.bad_fail_on", text=text))
    return frozenset(verdicts)


def _tolerance(parser: argparse.ArgumentParser, text: str | None) -> Tolerance:
    from npu_tui.analysis.statistics import Tolerance

    shares: dict[str, float] = {}
    for part in (text or "").split(",") if text is not None else []:
        match = _SHARE.fullmatch(part.strip())
        if match is None:
            parser.error(say("compare.bad_tolerance", text=text))
        for name in (match[1],) if match[1] else ("step", "computing"):
            shares[name] = float(match[2]) / 100
    return Tolerance(**shares)


def _renamed(parser: argparse.ArgumentParser, texts: Sequence[str]) -> dict[str, str]:
    """What operations and kernels of the base are called in the new profile."""
    found: dict[str, str] = {}
    for text in texts:
        before, sign, after = (part.strip() for part in text.partition("="))
        if not (before and sign and after):
            parser.error(say("compare.bad_map", text=text))
        found[before] = after
    return found


def _one_path(path: str | None) -> str:
    """What to say where the second profile is missing; for a job, how its ranks are compared.

    Raises ``InputError`` if there is no profile at ``path``.
    """
    if path is None:
        return say("compare.needs_two")
    from npu_tui.load.find import find_sources

    ranks = sorted({source.rank for source in find_sources(Path(path)) if source.rank is not None})
    if len(ranks) < 2:
        return say("compare.needs_new", path=path)
    return say("compare.needs_new_ranks", path=path, ranks=f"{ranks[0]}:{ranks[1]}")


def _choose_ranks(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """With ``--rank`` every path of a job becomes that of one of its ranks: the second number is for NEW."""
    if options.rank is None:
        return
    match = _RANKS.fullmatch(options.rank)
    if match is None:
        parser.error(say("compare.bad_rank", text=options.rank))
    base, new = int(match[1]), int(match[2] or match[1])
    options.base = _path_of_rank(parser, options.base, base)
    options.new = _path_of_rank(parser, options.new, new)


def _path_of_rank(parser: argparse.ArgumentParser, path: str, rank: int) -> str:
    """Where in the job at ``path`` the profile of ``rank`` lies. Raises ``InputError`` if nothing is there."""
    from npu_tui.load.find import find_sources

    sources = find_sources(Path(path))
    own = [source for source in sources if source.rank == rank]
    if not own:
        ranks = ", ".join(str(source.rank) for source in sources if source.rank is not None)
        key = "compare.no_rank" if ranks else "compare.no_ranks"
        parser.error(say(key, path=path, rank=rank, **({"ranks": ranks} if ranks else {})))
    return str(own[0].opened)


def _ignored(parser: argparse.ArgumentParser, text: str | None) -> frozenset[str]:
    from npu_tui.subjects import subjects

    known = [kind.id for subject in subjects() for kind in subject.differences()]
    names = [id_.strip() for id_ in (text or "").split(",") if id_.strip()]
    for id_ in names:
        if id_ not in known:
            parser.error(say("compare.bad_finding", name=id_, names=", ".join(known)))
    return frozenset(names)


def _side_of_path(
    parser: argparse.ArgumentParser, options: argparse.Namespace, profile: Profile, path: str
) -> MeasuredSide:
    from npu_tui.compare.measured import MeasuredSide

    side = MeasuredSide(profile)
    if options.step is None:
        return side
    numbers = [step.number for step in side.profile.steps if step.number is not None]
    if options.step != "all":
        match = _SPAN.fullmatch(options.step)
        if match is None:
            parser.error(say("compare.bad_step", text=options.step))
        low, high = int(match[1]), int(match[2] or match[1])
        numbers = [step for step in numbers if low <= step <= high]
    if not numbers:
        parser.error(say("compare.no_step", path=path, text=options.step))
    return MeasuredSide(side.profile, numbers)
