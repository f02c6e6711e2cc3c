"""``npu-tui PATH``: the explorer, or the report where stdout is no terminal; the bundled profiles; a picture of it."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from npu_tui.cli.options import (
    add_look,
    add_opening,
    add_place,
    look_of,
    read_settings,
    refuse_terminal,
    start_of,
    thresholds_of,
)
from npu_tui.cli.parser import Parser
from npu_tui.cli.report import opened_job
from npu_tui.cli.streams import DONE, USAGE, end_process, refuse, write, write_list
from npu_tui.strings import say
from npu_tui.subjects import subject_at
from npu_tui.trace.text import whole_number

if TYPE_CHECKING:
    from npu_tui.analysis.limits import Thresholds
    from npu_tui.compare.comparison import ProfileComparison
    from npu_tui.load.load import Opening
    from npu_tui.profile.profile import Profile
    from npu_tui.record.recording import Recorder
    from npu_tui.tui.job_screen import JobScreen
    from npu_tui.tui.loading import Loader
    from npu_tui.tui.session import Session
    from npu_tui.tui.terminal.terminal import Terminal

_PICTURE_SECONDS = 0.5
"""So long a first picture is waited for that should be there at once."""


def explore_options(parser: Parser) -> None:
    """Add the arguments and options of ``npu-tui PATH``."""
    parser.add_argument("paths", nargs="*", metavar="PATH", help=say("cli.paths"))
    parser.add_argument("-V", "--version", action=_Version, nargs=0, help=say("argparse.version"))
    add_opening(parser)
    add_look(parser)
    add_place(parser)
    parser.add_argument("--traces", action="store_true", default=None, help=say("job.traces"))


def run_explore(parser: Parser, options: argparse.Namespace) -> int:
    """Open what ``options`` name; returns the exit code."""
    for path in options.paths:
        refuse_terminal(parser, path)
    paths = [Path(path) for path in options.paths or ["."]]
    return explore(paths, parser, options, not options.no_cache, chosen=not options.paths)


class _Version(argparse.Action):
    """Prints the version and ends."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from npu_tui.cli.words import version_line

        write(version_line() + "\n")
        parser.exit()


def explore(
    paths: Sequence[Path],
    parser: argparse.ArgumentParser,
    options: argparse.Namespace,
    cached: bool = True,
    compare: Callable[[Sequence[Profile]], ProfileComparison] | None = None,
    chosen: bool = False,
    base: Path | None = None,
    recorder: Recorder | None = None,
) -> int:
    """The explorer on ``paths``, one below the other, or their reports where stdout is no terminal.

    ``options`` say how to draw and where. With ``compare`` the second of two is held against the first. Where several
    lie at the one path, they are listed if a profile is to be ``chosen`` or if they are no ranks of one job. The job at
    the one path is held against that at ``base``. ``recorder`` has recorded the last path, and can do so again.
    """
    if sys.stdout.isatty():
        gc.disable()  # until the trace is there: a collection during imports walks what stays
    from npu_tui.load.load import opening_of

    start = start_of(parser, options)
    openings = [opening_of(path, cached, getattr(options, "source", None)) for path in paths]
    if not on_terminal():  # from here on the keys are where something may have been piped
        gc.enable()
        from npu_tui.output.statement import job_statement, profile_statement
        from npu_tui.profile.profile import Profile

        thresholds = thresholds_of(None)
        for path, opening in zip(paths, openings, strict=True):
            if not subject_at(opening).of_several:
                write(profile_statement(Profile(opening.trace(), opening.source, thresholds)).written("text"))
            elif is_listed(opening, chosen):
                write_list(path)
            else:
                write(job_statement(opened_job(path)).written("text"))
        return DONE

    from npu_tui.analysis.limits import Thresholds
    from npu_tui.tui.terminal.terminal import Guard, TerminalQuery, in_browser

    with Guard() as guard:
        single = len(openings) == 1 and compare is None
        offers = single and _offers_raw(openings[0], chosen)
        chosen = offers or (single and is_listed(openings[0], chosen))
        job = chosen or (single and subject_at(openings[0]).of_several)
        if not job:
            openings[0].source  # noqa: B018 - what is not there is said before Textual is imported
        settings = read_settings()
        if settings is None:
            return USAGE
        if not in_browser() and (sys.__stderr__ is None or not sys.__stderr__.isatty()):
            sys.__stderr__ = sys.__stdout__  # type: ignore[misc]  # Textual draws on stderr
        asked = TerminalQuery(
            *look_of(options, settings)
        )  # the terminal answers while the trace is read and the rest imported
        thresholds = Thresholds(**settings.thresholds)
        loader = None if job else _started(openings, thresholds, compare, asked.terminal)
        from npu_tui.tui.app import NpuTui
        from npu_tui.tui.flags import default_notes

        terminal = asked.terminal()
        notes = Path(options.notes) if options.notes else default_notes()

        def overview(path: Path, base: Path | None) -> JobScreen:
            from npu_tui.tui.job_screen import JobScreen  # only who opens a job needs it

            return JobScreen(path, terminal, getattr(options, "traces", None), cached, base)

        picker = None
        if chosen:
            from npu_tui.tui.picker import PickerScreen

            picker = PickerScreen(paths[0], cached)

        app = NpuTui(
            terminal=terminal,
            thresholds=thresholds,
            start=start,
            notes=notes,
            seen=default_notes().with_name("seen"),
            job=overview(paths[0], base) if job and not chosen else None,
            picker=picker,
            make_job=overview,
            cached=cached,
            loader=loader,
            recorder=recorder,
        )
        guard.draws(app.leave)
        stopped = ""
        try:
            failure = app.run()
        finally:  # also where the terminal is gone
            stopped = app.recordings.stop()
        if stopped:
            print(f"npu-tui: {stopped}", file=sys.stderr)
    code = app.return_code or DONE if failure is None else refuse(failure)
    if app.beside.is_busy or app.is_loading:
        end_process(code)
    return code


def _started(
    openings: Sequence[Opening],
    thresholds: Thresholds,
    compare: Callable[[Sequence[Profile]], ProfileComparison] | None,
    terminal: Callable[[], Terminal],
) -> Loader:
    """Begin to load ``openings`` and to draw the first picture, which is awaited where it comes sooner than Textual.

    Importing Textual at the same time would delay the picture.
    """
    from npu_tui.tui.loading import FirstPicture, Loader
    from npu_tui.tui.terminal.terminal import Guard

    picture = FirstPicture(terminal)
    Guard.picture = picture.end
    loader = Loader(openings, thresholds, None if compare is None else _opens_compared(compare), picture.draw)
    loader.start()
    if len(openings) == 1 and openings[0].is_quick:
        picture.done.wait(_PICTURE_SECONDS)
    return loader


def _opens_compared(
    compare: Callable[[Sequence[Profile]], ProfileComparison],
) -> Callable[[Sequence[Profile]], Session]:
    def make(profiles: Sequence[Profile]) -> Session:
        from npu_tui.tui.ranks import compared_session

        return compared_session(compare, profiles)

    return make


def is_listed(opening: Opening, chosen: bool) -> bool:
    """Whether several profiles lie where ``opening`` looks, and one is to be ``chosen`` or they are not one job."""
    from npu_tui.jobs.kept import is_kept
    from npu_tui.nearby import holds_several

    path, survey, subject = opening.path, opening.survey, subject_at(opening)
    if subject.lies_among and opening.source.path != path and path.is_dir():
        return holds_several(path, survey)
    return subject.of_several and (holds_several(path, survey) or (chosen and not is_kept(path, survey)))


def _offers_raw(opening: Opening, chosen: bool) -> bool:
    """Whether raw profiles lie where ``opening`` looks that can be analysed, beside a profile if one is ``chosen``."""
    from npu_tui.load.errors import InputError
    from npu_tui.record.outputs import raw_rows

    if not opening.path.is_dir():
        return False
    try:
        if subject_at(opening).of_several:
            return False
        sources = [opening.source]
    except InputError:
        sources = []
    return (chosen or not sources) and bool(raw_rows(opening.path, sources))


def on_terminal() -> bool:
    """Whether there is a terminal to explore in, or a browser that draws in its place."""
    from npu_tui.tui.terminal.terminal import in_browser

    return in_browser() or (sys.stdout.isatty() and _has_keys())


def _has_keys() -> bool:
    """Whether keys can be read: where stdin is no terminal it is made to be the one the program runs in."""
    if sys.stdin is not None and sys.stdin.isatty():
        return True
    try:
        terminal = os.open("/dev/tty", os.O_RDWR)
    except OSError:
        return False
    os.dup2(terminal, 0)
    if terminal:
        os.close(terminal)
    sys.stdin = sys.__stdin__ = open(0, closefd=False)  # type: ignore[misc]  # noqa: SIM115 - open as long as the program
    return True


_DEMO = "dispatch_bound"
_DEMO_TRACE = Path("ASCEND_PROFILER_OUTPUT") / "trace_view.json"


def demos() -> dict[str, Path]:
    """The bundled profile directories by name: those of the wheel, or of the checkout in an editable install."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "fixtures", package.parent / "fixtures"):
        found = {path.parent.parent.name: path.parent.parent for path in sorted(folder.glob(f"*/{_DEMO_TRACE}"))}
        if found:
            return found
    return {}


def demo_options(parser: Parser) -> None:
    """Add the arguments and options of ``npu-tui demo``."""
    help_text = say("cli.demo_name", names=", ".join(demos()))
    parser.add_argument("name", nargs="?", default=_DEMO, metavar="NAME", help=help_text)
    add_look(parser)
    add_place(parser)


def run_demo(parser: Parser, options: argparse.Namespace) -> int:
    """Open the profile that ``options`` name; returns the exit code."""
    name, found = options.name, demos()
    if name not in found:
        parser.error(say("cli.no_demo", name=name, names=", ".join(found)))
    return explore([found[name]], parser, options)


def screenshot_options(parser: Parser) -> None:
    """Add the arguments and options of ``npu-tui screenshot``."""
    parser.add_argument("paths", nargs="+", metavar="PATH", help=say("cli.traces"))
    parser.add_argument("-o", "--output", required=True, metavar="OUT.svg", help=say("cli.output"))
    parser.add_argument("--size", default="120x40", help=say("cli.size"))
    parser.add_argument("--keys", default="", help=say("cli.keys"))
    add_look(parser)
    add_place(parser)
    add_opening(parser)
    parser.add_argument("--traces", action="store_true", default=None, help=say("job.traces"))


def run_screenshot(parser: Parser, options: argparse.Namespace) -> int:
    """Draw what ``options`` name; returns the exit code."""
    columns, rows = (whole_number(side) or 0 for side in options.size.partition("x")[::2])
    if not (20 <= columns <= 1000 and 6 <= rows <= 500):
        parser.error(say("cli.bad_size"))
    if not options.output.endswith(".svg"):
        parser.error(say("cli.bad_output"))
    from npu_tui.analysis.limits import Thresholds
    from npu_tui.load.errors import InputError
    from npu_tui.load.load import opening_of
    from npu_tui.nearby import with_profile_beside
    from npu_tui.profile.profile import Profile
    from npu_tui.tui.picture import job_picture, picture, unknown_keys
    from npu_tui.tui.ranks import met
    from npu_tui.tui.terminal.terminal import Terminal, glyphs_named, palette_named
    from npu_tui.whole_file import write_file

    settings = read_settings()
    if settings is None:
        return USAGE
    theme, glyphs = look_of(options, settings)
    terminal = Terminal(palette=palette_named(theme), glyphs=glyphs_named(glyphs))
    keys, start = options.keys.split(), start_of(parser, options)
    if unknown := unknown_keys(keys):
        parser.error(say("cli.bad_keys", keys=" ".join(unknown)))
    for path in options.paths:
        refuse_terminal(parser, path)
    openings = [opening_of(path, not options.no_cache, options.source) for path in options.paths]
    if len(openings) == 1 and subject_at(openings[0]).of_several:
        drawn = job_picture(openings[0].path, columns, rows, keys, terminal, options.traces)
        write_file(Path(options.output), drawn.encode())
        return DONE
    thresholds = Thresholds(**settings.thresholds)
    profiles, found = list[Profile](), list[bool]()
    for opening in with_profile_beside(openings):
        try:
            profiles.append(Profile(opening.trace(), opening.source, thresholds))
            found.append(opening.optional)
        except InputError:
            if not opening.optional:
                raise
    notes = Path(options.notes) if options.notes else None
    drawn = picture(met(profiles, found), columns, rows, keys, terminal, start, notes)
    write_file(Path(options.output), drawn.encode())
    return DONE
