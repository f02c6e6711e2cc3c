"""Commands and exit codes; nothing heavy is imported before it is needed."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from npu_tui import __version__
from npu_tui.strings import say
from npu_tui.trace.text import printable
from npu_tui.tui.place_options import add_place, place_of

if TYPE_CHECKING:
    from npu_tui.analysis.findings.thresholds import Thresholds
    from npu_tui.ingest.opening import Opening
    from npu_tui.settings import Known, Settings

DONE, USAGE, UNREADABLE, INTERRUPTED = 0, 2, 3, 130
_COMMANDS = ("demo", "report", "screenshot", "check", "settings", "explain", "keys", "cache", "index")
_THEMES = ("auto", "dark", "light", "colour-blind", "colour-blind-light")
_GLYPHS = ("auto", "blocks", "safe", "ascii")


def main(argv: list[str] | None = None) -> int:
    """Run ``npu-tui`` with ``argv`` (the process's own if None); returns the exit code."""
    words = sys.argv[1:] if argv is None else argv
    # NumPy starts a thread per core for matrices, of which there are none here.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        command = words[0] if words and words[0] in _COMMANDS else ""
        if command == "demo":
            return _demo(words[1:])
        if command == "report":
            return _report(words[1:])
        if command == "screenshot":
            return _screenshot(words[1:])
        if command == "check":
            return _check(words[1:])
        if command == "settings":
            return _settings(words[1:])
        if command == "keys":
            return _keys(words[1:])
        if command == "explain":
            return _explain(words[1:])
        if command in ("cache", "index"):
            from npu_tui.copies import cache_command, index_command

            return cache_command(words[1:]) if command == "cache" else index_command(words[1:])
        return _open(words)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE


def _open(words: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="npu-tui",
        description=say("cli.description"),
        epilog=say("cli.epilog"),
        usage="npu-tui [PATH] | npu-tui demo [NAME] | npu-tui report [PATH] | npu-tui check [PATH] LIMITS | "
        "npu-tui screenshot PATH -o OUT.svg | npu-tui settings | npu-tui explain [ID]",
    )
    parser.add_argument("path", nargs="?", default=".", metavar="PATH", help=say("cli.path"))
    parser.add_argument("--version", action="version", version=f"npu-tui {__version__}")
    parser.add_argument("--no-cache", action="store_true", help=say("cli.no_cache"))
    _add_look(parser)
    add_place(parser)
    options = parser.parse_args(words)
    if options.path == "-" and sys.stdin.isatty():
        parser.error(say("cli.piped_terminal"))
    return _explore(Path(options.path), parser, options, not options.no_cache)


def _add_look(parser: argparse.ArgumentParser) -> None:
    """The options that say how to draw; their values are those of ``npu_tui.tui.terminal``."""
    parser.add_argument("--theme", choices=_THEMES, help=say("cli.theme"))
    parser.add_argument("--glyphs", choices=_GLYPHS, help=say("cli.glyphs"))


def _demo(words: list[str]) -> int:
    from npu_tui.demo import DEFAULT, demos

    found = demos()
    parser = argparse.ArgumentParser(prog="npu-tui demo", description=say("cli.demo"))
    help_text = say("cli.demo_name", names=", ".join(found))
    parser.add_argument("name", nargs="?", default=DEFAULT, metavar="NAME", help=help_text)
    _add_look(parser)
    add_place(parser)
    options = parser.parse_args(words)
    name = options.name
    if name not in found:
        parser.error(say("cli.no_demo", name=name, names=", ".join(found)))
    return _explore(found[name], parser, options)


def _opening(path: str | Path, cached: bool) -> Opening:
    """``path`` to be opened; ``-`` is what comes through standard input."""
    from npu_tui.ingest.opening import PIPED, Opening

    piped = os.fdopen(os.dup(0), "rb") if Path(path) == PIPED else None
    return Opening(Path(path), cached, piped)


def _explore(path: Path, parser: argparse.ArgumentParser, options: argparse.Namespace, cached: bool = True) -> int:
    """The explorer on ``path``, or the report where stdout is no terminal; ``options`` say how to draw and where."""
    from npu_tui.ingest.errors import InputError

    start = place_of(parser, options)
    opening = _opening(path, cached)
    if not (sys.stdout.isatty() and _has_keys()):
        from npu_tui.report.json_report import report
        from npu_tui.report.text_report import text_report
        from npu_tui.settings import SettingsError

        try:
            thresholds = _thresholds_of(None)
            _write(text_report(report(opening.trace(), opened=path, thresholds=thresholds)))
        except SettingsError as error:
            return _refuse(error, USAGE)
        except InputError as error:
            return _refuse(error)
        except BrokenPipeError:
            raise
        except OSError as error:
            return _refuse(error)
        return DONE

    try:
        opening.start()  # before Textual is imported, which takes as long as they need
    except InputError as error:
        return _refuse(error)
    settings = _read_settings()
    if settings is None:
        opening.close()
        return USAGE
    if not sys.stderr.isatty():
        sys.__stderr__ = sys.__stdout__  # type: ignore[misc]  # Textual draws on stderr
    from concurrent.futures import ThreadPoolExecutor

    from npu_tui.tui.terminal import find_terminal, guarded

    with ThreadPoolExecutor(1) as beside:  # the terminal answers while the rest is imported
        theme, glyphs = options.theme or settings.theme or "auto", options.glyphs or settings.glyphs or "auto"
        asked = beside.submit(find_terminal, theme, glyphs)
        from npu_tui.tui.app import NpuTui
        from npu_tui.tui.flags import default_notes

        terminal = asked.result()
    from npu_tui.analysis.findings.thresholds import Thresholds

    thresholds = Thresholds(**settings.thresholds)  # type: ignore[arg-type]
    notes = Path(options.notes) if options.notes else default_notes()
    seen = default_notes().with_name("seen")
    app = NpuTui(opening, terminal=terminal, thresholds=thresholds, start=start, notes=notes, seen=seen)
    try:
        with guarded(app.leave):
            failure = app.run()
    finally:
        opening.close()
    if failure is not None:
        return _refuse(failure)
    return app.return_code or DONE


def _write(text: str) -> None:
    """Write to stdout, whatever characters its encoding has."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
    sys.stdout.flush()


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


def _report(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="npu-tui report", description=say("cli.report"))
    parser.add_argument("path", nargs="?", default=".", metavar="PATH", help=say("cli.path"))
    parser.add_argument(
        "--format", choices=("text", "markdown", "html", "json"), default="text", help=say("cli.format")
    )
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--range", metavar="A..B", help=say("cli.range"))
    part.add_argument("--step", type=int, metavar="N", help=say("cli.step"))
    parser.add_argument("--config", metavar="FILE", help=say("cli.config"))
    parser.add_argument("--no-cache", action="store_true", help=say("cli.no_cache"))
    options = parser.parse_args(words)
    from npu_tui.ingest.errors import InputError
    from npu_tui.report.json_report import json_report, report
    from npu_tui.report.selection import WHOLE_TRACE, parse_range, select_step
    from npu_tui.report.text_report import text_report
    from npu_tui.settings import SettingsError
    from npu_tui.trace.units import exact_text

    selection = WHOLE_TRACE if options.range is None else parse_range(options.range)
    if selection is None:
        parser.error(say("cli.bad_range"))
    try:
        thresholds = _thresholds_of(options.config)
        trace = _opening(options.path, not options.no_cache).trace()
        if selection.window.start > trace.end or selection.window.end < 0:
            parser.error(say("cli.outside", end=exact_text(trace.end)))
        if options.step is not None:
            selection = select_step(trace, options.step)
            if selection is None:
                parser.error(say("cli.no_step", step=options.step))
        if options.format == "json":
            sys.stdout.buffer.write(json_report(trace, selection, options.path, thresholds) + b"\n")
            sys.stdout.flush()
            return DONE
        found = report(trace, selection, options.path, thresholds)
        if options.format == "markdown":
            from npu_tui.report.markdown_report import markdown_report

            _write(markdown_report(found))
        elif options.format == "html":
            from npu_tui.report.html_report import html_report

            _write(html_report(found, trace, selection))
        else:
            _write(text_report(found))
    except SettingsError as error:
        return _refuse(error, USAGE)
    except InputError as error:
        return _refuse(error)
    return DONE


def _explain(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="npu-tui explain", description=say("cli.explain"))
    parser.add_argument("id", nargs="?", metavar="ID", help=say("cli.explain_id"))
    parser.add_argument("--config", metavar="FILE", help=say("cli.config"))
    options = parser.parse_args(words)
    wanted = options.id
    from npu_tui.report.explain import explain, list_findings, rule_of, unknown
    from npu_tui.settings import SettingsError

    if wanted is None:
        _write(list_findings())
        return DONE
    rule = rule_of(wanted)
    if rule is None:
        parser.error(unknown(wanted))
    try:
        _write(explain(rule, _thresholds_of(options.config)))
    except SettingsError as error:
        return _refuse(error, USAGE)
    return DONE


def _screenshot(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="npu-tui screenshot", description=say("cli.screenshot"))
    parser.add_argument("path", metavar="PATH", help=say("cli.trace"))
    parser.add_argument("-o", "--output", required=True, metavar="OUT.svg", help=say("cli.output"))
    parser.add_argument("--size", default="120x40", help=say("cli.size"))
    parser.add_argument("--keys", default="", help=say("cli.keys"))
    _add_look(parser)
    add_place(parser)
    parser.add_argument("--no-cache", action="store_true", help=say("cli.no_cache"))
    options = parser.parse_args(words)
    columns, _, rows = options.size.partition("x")
    if not (columns.isdecimal() and rows.isdecimal() and 20 <= int(columns) <= 1000 and 6 <= int(rows) <= 500):
        parser.error(say("cli.bad_size"))
    if not options.output.endswith(".svg"):
        parser.error(say("cli.bad_output"))
    from npu_tui.ingest.errors import InputError
    from npu_tui.tui.picture import picture, unknown_keys
    from npu_tui.tui.terminal import Terminal, glyphs_named, palette_named

    settings = _read_settings()
    if settings is None:
        return USAGE
    theme, glyphs = options.theme or settings.theme or "auto", options.glyphs or settings.glyphs or "auto"
    terminal = Terminal(palette=palette_named(theme), glyphs=glyphs_named(glyphs))
    keys, start = options.keys.split(), place_of(parser, options)
    if unknown := unknown_keys(keys):
        parser.error(say("cli.bad_keys", keys=" ".join(unknown)))
    try:
        trace = _opening(options.path, not options.no_cache).trace()
    except InputError as error:
        return _refuse(error)
    notes = Path(options.notes) if options.notes else None
    drawn = picture(trace, int(columns), int(rows), keys, terminal, start, notes)
    try:
        Path(options.output).write_text(drawn, encoding="utf-8")
    except OSError as error:
        print(f"npu-tui: {printable(options.output)}: {error.strerror}", file=sys.stderr)
        return USAGE
    return DONE


def _keys(words: list[str]) -> int:
    """Print the table of keys."""
    argparse.ArgumentParser(prog="npu-tui keys", description=say("cli.key_table")).parse_args(words)
    from npu_tui.tui.commands import text_table

    if _read_settings() is None:
        return USAGE
    _write(text_table())
    return DONE


def _check(words: list[str]) -> int:
    from npu_tui.gate.command import check
    from npu_tui.ingest.errors import InputError
    from npu_tui.settings import SettingsError

    try:
        return check(words, _write, _thresholds_of)
    except SettingsError as error:
        return _refuse(error, USAGE)
    except InputError as error:
        return _refuse(error)
    except BrokenPipeError:
        raise
    except OSError as error:
        print(f"npu-tui: {printable(str(error.filename))}: {error.strerror}", file=sys.stderr)
        return USAGE


def _settings(words: list[str]) -> int:
    """Print a settings file with every default, or check the one in use."""
    from npu_tui.settings import SettingsError, load_settings, settings_path, settings_text

    parser = argparse.ArgumentParser(prog="npu-tui settings", description=say("cli.settings"))
    parser.add_argument("--check", action="store_true", help=say("cli.settings.check"))
    parser.add_argument("--config", metavar="FILE", help=say("cli.config"))
    options = parser.parse_args(words)
    from npu_tui.tui.commands import COMMANDS

    if not options.check:
        rows = [(command.id, command.default_keys, command.title) for command in COMMANDS]
        _write(settings_text(rows, _THEMES, _thresholds()))
        return DONE
    from npu_tui.tui.keymap import KeymapError, use_keys

    try:
        found = load_settings(options.config, known_settings())
        use_keys(found.keys)
    except (SettingsError, KeymapError) as error:
        return _refuse(error, USAGE)
    key = "cli.settings.none" if found.path is None else "cli.settings.good"
    _write(say(key, path=printable(str(found.path or settings_path()))) + "\n")
    return DONE


def known_settings() -> Known:
    """Every name that a settings file may use, from the rooms that own them."""
    from npu_tui.settings import Known
    from npu_tui.tui.commands import BY_ID

    return Known(commands=BY_ID, themes=_THEMES, thresholds={name: default for name, default, _ in _thresholds()})


def _read_settings() -> Settings | None:
    """The user's settings, None after saying what is wrong with them."""
    from npu_tui.settings import SettingsError, load_settings, settings_path
    from npu_tui.tui.keymap import KeymapError, use_keys

    try:
        # What the names may be takes imports that only a file is worth.
        settings = load_settings(known=known_settings() if settings_path().exists() else None)
        use_keys(settings.keys)
        return settings
    except KeymapError as error:
        print(f"npu-tui: {printable(str(settings.path))}: {printable(str(error))}", file=sys.stderr)
        return None
    except SettingsError as error:
        print(f"npu-tui: {error}", file=sys.stderr)
        return None


def _thresholds() -> list[tuple[str, bool | int | float, str]]:
    """Name, default and meaning of every threshold of a finding."""
    from dataclasses import asdict

    from npu_tui.analysis.findings.thresholds import Thresholds

    defaults = asdict(Thresholds()).items()
    return [(name, value, say(f"threshold.{name}")) for name, value in defaults]


def _thresholds_of(option: str | None) -> Thresholds:
    """The thresholds of the settings in use, those of the file ``option`` if there is one. Raises ``SettingsError``."""
    from npu_tui.analysis.findings.thresholds import Thresholds
    from npu_tui.settings import load_settings

    return Thresholds(**load_settings(option, known_settings()).thresholds)  # type: ignore[arg-type]  # each is checked


def _refuse(error: Exception, code: int = UNREADABLE) -> int:
    print(f"npu-tui: {printable(str(error))}", file=sys.stderr)
    return code
