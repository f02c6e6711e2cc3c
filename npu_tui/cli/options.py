"""Options that several commands share: the profile, the place to open at, the look, the settings file."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from npu_tui.cli.streams import refuse
from npu_tui.settings import GLYPHS, Known, Settings, SettingsError, load_settings, settings_path
from npu_tui.strings import say, words
from npu_tui.trace.text import decimal_number, parse_duration, printable

if TYPE_CHECKING:
    from npu_tui.analysis.evidence import Evidence
    from npu_tui.analysis.limits import Thresholds
    from npu_tui.load.format import Form, Survey
    from npu_tui.profile.profile import Profile
    from npu_tui.subjects.declaration import Command, Subject
    from npu_tui.trace.message import Message
    from npu_tui.view.start import Start


THEMES = ("auto", "dark", "light", "colour-blind", "colour-blind-light")


def add_look(parser: argparse.ArgumentParser) -> None:
    """The options that say how to draw; their values are those of ``npu_tui.tui.terminal.terminal``."""
    parser.add_argument("--theme", choices=THEMES, help=say("cli.theme"))
    parser.add_argument("--glyphs", choices=GLYPHS, help=say("cli.glyphs"))


def look_of(options: argparse.Namespace, settings: Settings) -> tuple[str, str]:
    """The theme and the glyphs that ``options`` ask for, else the user's ``settings``."""
    return options.theme or settings.theme or THEMES[0], options.glyphs or settings.glyphs or GLYPHS[0]


def add_place(parser: argparse.ArgumentParser) -> None:
    """The options that open at a place, as the explorer's Y copies them."""
    place = parser.add_argument_group(say("cli.place"))
    place.add_argument("--at", metavar="TIME", help=say("cli.place.at"))
    place.add_argument("--range", metavar="A..B", help=say("cli.place.range"))
    place.add_argument("--view", metavar="A..B", help=say("cli.place.view"))
    place.add_argument("--select", metavar="NAME", default="", help=say("cli.place.select"))
    place.add_argument("--search", metavar="TEXT", default="", help=say("cli.place.search"))
    place.add_argument("--finding", metavar="ID", default="", help=say("cli.place.finding"))
    place.add_argument("--links", choices=("off", "selection", "all"), help=say("cli.place.links"))
    place.add_argument("--tab", metavar="TAB", default="", help=say("cli.place.tab"))
    place.add_argument("--rows", metavar="ROWS", default="", help=say("cli.place.rows"))
    place.add_argument("--offsets", metavar="A,B...", help=say("cli.place.offsets"))
    place.add_argument("--code", metavar="DIR", action="append", default=[], help=say("cli.place.code"))
    place.add_argument("--notes", metavar="FILE", help=say("cli.place.notes"))


def start_of(parser: argparse.ArgumentParser, options: argparse.Namespace) -> Start | None:
    """Where the options say to open; None if they say nothing."""
    from npu_tui.tui.commands import COMPARED_KEYS, TAB_KEYS
    from npu_tui.view.start import NO_TAB, Start, parse_offsets, parse_span

    for folder in reversed(options.code):
        from npu_tui.load.source import look_below

        if not os.path.isdir(folder):
            parser.error(say("source.no_folder", path=folder))
        look_below(Path(folder))
    spans = {"range": options.range, "view": options.view}
    if any(text is not None for text in (options.at, *spans.values())):
        from npu_tui.load.formats.memory import is_untimed
        from npu_tui.tui.session import read_events

        paths = getattr(options, "paths", [])  # comparisons and examples have none: they have times
        read_events(bool(paths) and all(is_untimed(Path(path)) for path in paths))
    found = {name: parse_span(text) for name, text in spans.items() if text is not None}
    for name, span in found.items():
        if span is None:
            parser.error(say("cli.bad_span", option=f"--{name}", text=spans[name]))
    at = None if options.at is None else parse_duration(options.at)
    if options.at is not None and at is None:
        parser.error(say("cli.bad_time", text=options.at))
    offsets = () if options.offsets is None else parse_offsets(options.offsets)
    if offsets is None:
        parser.error(say("cli.bad_offsets", text=options.offsets))
    tabs = [*TAB_KEYS, *COMPARED_KEYS, NO_TAB]
    if options.tab and options.tab not in tabs:
        parser.error(say("cli.bad_tab", text=options.tab, tabs=", ".join(tabs)))
    start = Start(
        found.get("view"),
        at,
        found.get("range"),
        options.select,
        options.rows,
        options.search,
        options.links,
        options.tab,
        _rule_id(parser, options.finding),
        offsets,
    )
    return start if start != Start() else None


def _rule_id(parser: argparse.ArgumentParser, wanted: str) -> str:
    """The id of the finding called ``wanted``; wrong usage if there is none."""
    if not wanted:
        return ""
    from npu_tui.output.explain import kind_of, unknown

    kind = kind_of(wanted)
    if kind is None or kind.scope in ("compare", "job"):
        parser.error(unknown(wanted))
    return kind.id


_KEYMAP = "npu_tui.tui.keymap"


class _Defaults(Mapping[str, "bool | int | float"]):
    """The default of every threshold by name; the rules are imported when a file names one."""

    @cached_property
    def _by_name(self) -> dict[str, bool | int | float]:
        from npu_tui.rules.find import THRESHOLDS

        return {threshold.name: threshold.default for threshold in THRESHOLDS}

    def __getitem__(self, name: str) -> bool | int | float:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)


def known_settings() -> Known:
    """Every name that a settings file may use, from the rooms that own them."""
    from npu_tui.tui.commands import BY_ID

    return Known(commands=BY_ID, themes=THEMES, thresholds=_Defaults())


def read_settings() -> Settings | None:
    """The user's settings, None after saying what is wrong with them."""
    try:
        # What the names may be takes imports that only a file is worth.
        settings = load_settings(known=known_settings() if settings_path().exists() else None)
        if settings.keys or _KEYMAP in sys.modules:  # else the keys are as they come, and are read after the lanes
            from npu_tui.tui.keymap import use_settings

            use_settings(settings)
        return settings
    except SettingsError as error:
        refuse(error)
        return None


def threshold_rows() -> list[tuple[str, bool | int | float, str]]:
    """Name, default and meaning of every threshold of a finding."""
    from npu_tui.rules.find import THRESHOLDS

    return [(limit.name, limit.default, say(f"threshold.{limit.name}")) for limit in THRESHOLDS]


def thresholds_of(option: str | None) -> Thresholds:
    """The thresholds of the settings in use, those of the file ``option`` if there is one. Raises ``SettingsError``."""
    from npu_tui.analysis.limits import Thresholds

    return Thresholds(**load_settings(option, known_settings()).thresholds)


REPORTING = ("numpy.ma", "npu_tui.rules.find", "npu_tui.output.report")
"""What a report needs and reading a trace does not; ``numpy.unique`` imports the first."""

_PIPE = "-"
_THREADS = 4


def _step_of_text(text: str) -> int | str:
    """The number of a step, or the kind of steps of an inference engine, such as ``decode``."""
    number = decimal_number(text)
    return text if number is None else number


def add_profile(parser: argparse.ArgumentParser) -> None:
    """The options that every command has that answers about a trace."""
    parser.add_argument("path", nargs="?", default=".", metavar="PATH", help=say("cli.path"))
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--range", metavar="A..B", help=say("cli.range"))
    part.add_argument("--step", type=_step_of_text, metavar="N", help=say("cli.step"))
    parser.add_argument("--config", metavar="FILE", help=say("cli.config"))
    add_opening(parser)


def add_opening(parser: argparse.ArgumentParser) -> None:
    """The options that say from where a trace is read."""
    parser.add_argument("--source", choices=("text", "db"), help=say("cli.source"))
    parser.add_argument("--no-cache", action="store_true", help=say("cli.no_cache"))


def add_eager(parser: argparse.ArgumentParser) -> None:
    """The option that names the profile from which replayed kernels get their code."""
    parser.add_argument("--eager", metavar="PATH", help=say("borrow.option"))


def borrow_from(profiles: Sequence[Profile], options: argparse.Namespace) -> None:
    """Give the replayed kernels of ``profiles`` the code of those that ``--eager`` names, if it does.

    Raises ``InputError`` where that cannot be read or has none.
    """
    if options.eager is None:
        return
    from npu_tui.profile.module_tables import borrow

    for profile in profiles:
        borrow(profile, opened_profile(options.eager, not options.no_cache, profile.thresholds))


def refuse_terminal(parser: argparse.ArgumentParser, path: str) -> None:
    """A trace is never typed: ``-`` needs a pipe or a file on standard input."""
    if path == _PIPE and sys.stdin is not None and sys.stdin.isatty():
        parser.error(say("cli.piped_terminal"))


def opened_profile(
    path: str,
    cached: bool,
    thresholds: Thresholds,
    form: Form | None = None,
    ahead: Sequence[str] = (),
    survey: Survey | None = None,
) -> Profile:
    """The profile at ``path``, in ``form`` where both forms are there; modules ``ahead`` are imported meanwhile.

    Raises ``InputError`` if it cannot be read.
    """
    from npu_tui.load.errors import walled
    from npu_tui.load.load import opening_of
    from npu_tui.profile.profile import Profile

    with walled(path):
        opening = opening_of(path, cached, form, survey)
        _import_ahead(ahead)
        return Profile(opening.trace(), opening.source, thresholds, threads=min(os.cpu_count() or 1, _THREADS))


def named_subject(path: str, form: Form | None = None) -> Subject:
    """What lies at ``path``; what is piped is a profile. Raises ``InputError`` where nothing does."""
    from npu_tui.load.load import opening_of
    from npu_tui.subjects import subject, subject_at

    return subject("profile") if path == "-" else subject_at(opening_of(path, False, form))


def _import_ahead(modules: Sequence[str]) -> None:
    """Import ``modules`` in a thread: while it reads a trace, this program leaves the interpreter alone."""

    def run() -> None:
        with suppress(Exception):  # what cannot be imported is reported where it is needed
            for module in modules:
                import_module(module)

    if modules:
        Thread(target=run, name="imports", daemon=True).start()


def part_of(
    parser: argparse.ArgumentParser,
    options: argparse.Namespace,
    ahead: Sequence[str] = (),
    command: Command | None = None,
    survey: Survey | None = None,
) -> Profile:
    """The part of a profile that ``options`` of ``command`` name, with the thresholds of the settings in use.

    Modules ``ahead`` are imported while the trace is read. Memory that reading leaves serves what is computed after it:
    a command ends soon.

    Raises ``InputError`` if the profile cannot be read, ``SettingsError`` if the settings cannot, ``SystemExit`` (2)
    for a part that the profile does not have, and for options that do not go with what it is.
    """
    thresholds = thresholds_of(options.config)
    from npu_tui.profile import selection
    from npu_tui.profile.parts import parse_range
    from npu_tui.subjects import subject_of

    if options.range is not None and parse_range(options.range) is None:  # known before the trace is read
        parser.error(say("cli.bad_range"))
    refuse_terminal(parser, options.path)
    profile = opened_profile(options.path, not options.no_cache, thresholds, options.source, ahead, survey)
    if command is not None:
        refuse_options(parser, options, subject_of(profile.trace), command)
    try:
        return selection.part_of(profile, options.range, options.step)
    except selection.NoPartError as error:
        parser.error(words(error.message))


def refuse_options(
    parser: argparse.ArgumentParser, options: argparse.Namespace, subject: Subject, command: Command
) -> None:
    """Refuse the first of ``options`` of ``command`` that does not go with ``subject``."""
    names, text = subject.without.get(command, ((), ""))
    for name in names:
        if getattr(options, name) not in (None, [], False):
            parser.error(say(text, option=f"--{name.replace('_', '-')}"))


def allowed_loss(parser: argparse.ArgumentParser, options: argparse.Namespace) -> float:
    """The share of events that ``--allow-damage`` lets a profile have lost; 0 without it."""
    text: str | None = options.allow_damage
    if text is None:
        return 0.0
    from npu_tui.gate.measures import parse_share

    share = parse_share(text)
    if share is None:
        parser.error(say("gate.bad_damage", text=text))
    return share


def lost_in(profile: Profile, allowed: float) -> dict[Evidence, Message]:
    """The kinds of evidence that ``profile`` has lost more than ``allowed`` of, with the reason."""
    from npu_tui.subjects import subject_of

    if (loss := subject_of(profile.trace).loss) is not None:
        return {} if (why := loss(profile, allowed)) is None else {"slices": why}
    from npu_tui.analysis.evidence import incomplete, losses_of

    problems = [problem for file in profile.tables.files for problem in file.problems]
    return incomplete(losses_of(printable(profile.trace.path), profile.health, problems), allowed)
