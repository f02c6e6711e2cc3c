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
    command = words[0] if words and words[0] in _COMMANDS else ""
    if sys.stdout is None:  # the shell has closed it
        return _refuse(say("cli.no_stdout"))
    try:
        return _run(command, words[1:] if command else words)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader has seen enough
        _drop_output()
        return DONE
    except OSError as error:
        if error.filename is None:
            _drop_output()
        return _refuse(error)
    except MemoryError:
        return _refuse(say("cli.no_memory"))
    except Exception as error:
        code = _refusal(error)
        if code is None:
            raise
        return _refuse(error, code)


def _refusal(error: Exception) -> int | None:
    """The exit code of an input or settings file that is refused with a line of its own; None for anything else."""
    from npu_tui.ingest.errors import InputError
    from npu_tui.settings import SettingsError

    return UNREADABLE if isinstance(error, InputError) else USAGE if isinstance(error, SettingsError) else None


def _run(command: str, words: list[str]) -> int:
    if command == "demo":
        return _demo(words)
    if command == "report":
        return _report(words)
    if command == "screenshot":
        return _screenshot(words)
    if command == "check":
        return _check(words)
    if command == "settings":
        return _settings(words)
    if command == "keys":
        return _keys(words)
    if command == "explain":
        return _explain(words)
    if command in ("cache", "index"):
        from npu_tui.copies import cache_command, index_command

        return cache_command(words) if command == "cache" else index_command(words)
    return _open(words)


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
    from npu_tui.report.asked import refuse_terminal

    refuse_terminal(parser, options.path)
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


def _explore(path: Path, parser: argparse.ArgumentParser, options: argparse.Namespace, cached: bool = True) -> int:
    """The explorer on ``path``, or the report where stdout is no terminal; ``options`` say how to draw and where."""
    from npu_tui.ingest.opening import opening_of

    start = place_of(parser, options)
    opening = opening_of(path, cached)
    if not (sys.stdout.isatty() and _has_keys()):
        from npu_tui.report.json_report import report
        from npu_tui.report.text_report import text_report

        thresholds = _thresholds_of(None)
        _write(text_report(report(opening.trace(), opened=path, thresholds=thresholds)))
        return DONE

    opening.start()  # before Textual is imported, which takes as long as they need
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


def _write(text: str | bytes) -> None:
    """Write to stdout, whatever characters its encoding has; bytes as they are."""
    if isinstance(text, bytes):
        sys.stdout.buffer.write(text)
    else:
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
    from npu_tui.report.command import print_report

    print_report(words, _write, _thresholds_of)
    return DONE


def _explain(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="npu-tui explain", description=say("cli.explain"))
    parser.add_argument("id", nargs="?", metavar="ID", help=say("cli.explain_id"))
    parser.add_argument("--config", metavar="FILE", help=say("cli.config"))
    options = parser.parse_args(words)
    wanted = options.id
    from npu_tui.report.explain import explain, list_findings, rule_of, unknown

    if wanted is None:
        _write(list_findings())
        return DONE
    rule = rule_of(wanted)
    if rule is None:
        parser.error(unknown(wanted))
    _write(explain(rule, _thresholds_of(options.config)))
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
    from npu_tui.ingest.opening import opening_of
    from npu_tui.report.asked import refuse_terminal
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
    refuse_terminal(parser, options.path)
    trace = opening_of(options.path, not options.no_cache).trace()
    notes = Path(options.notes) if options.notes else None
    drawn = picture(trace, int(columns), int(rows), keys, terminal, start, notes)
    Path(options.output).write_text(drawn, encoding="utf-8")
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

    return check(words, _write, _thresholds_of)


def _settings(words: list[str]) -> int:
    """Print a settings file with every default, or check the one in use."""
    from npu_tui.settings import SettingsError, load_settings, settings_path, settings_text

    parser = argparse.ArgumentParser(prog="npu-tui settings", description=say("cli.settings"))
    parser.add_argument("--check", action="store_true", help=say("cli.settings.check"))
    parser.add_argument("--config", metavar="FILE", help=say("cli.config"))
    options = parser.parse_args(words)
    from npu_tui.tui.commands import COMMANDS

    if not options.check:
        from npu_tui.tui.key_names import key_in_ascii

        rows = [(each.id, tuple(map(key_in_ascii, each.default_keys)), each.title) for each in COMMANDS]
        _write(settings_text(rows, _THEMES, _thresholds()))
        return DONE
    from npu_tui.tui.keymap import use_settings

    try:
        found = load_settings(options.config, known_settings())
        remarks = use_settings(found)
    except SettingsError as error:
        return _refuse(error, USAGE)
    _write("".join(f"{remark}\n" for remark in remarks))
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
    from npu_tui.tui.keymap import use_settings

    try:
        # What the names may be takes imports that only a file is worth.
        settings = load_settings(known=known_settings() if settings_path().exists() else None)
        use_settings(settings)
        return settings
    except SettingsError as error:
        _refuse(error)
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


def _drop_output() -> None:
    """What still waits to be written to stdout is not tried again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refuse(error: Exception | str, code: int = UNREADABLE) -> int:
    words = str(error)
    if isinstance(error, OSError):
        words = f"{error.filename or say('cli.stdout')}: {error.strerror or error}"
    print(f"npu-tui: {printable(words)}", file=sys.stderr)
    return code
