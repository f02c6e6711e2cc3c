"""Parsers of commands, the list of commands, and the language they speak."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any, NamedTuple, NoReturn

from npu_tui.manual import PAGES, TOPICS, title
from npu_tui.settings import SettingsError, load_settings, settings_path
from npu_tui.strings import ENGLISH, LANGUAGES, language, say, texts_of
from npu_tui.trace.text import padded, printable, wrapped

AUTO = "auto"
"""The ``--lang`` that the settings file and the locale decide."""


class CliCommand(NamedTuple):
    """A command: its group in the help, its module here, and the keys of what its help says before and after options.

    ``NAME_options(parser)`` of the module adds its arguments and options, if it has any; ``run_NAME(parser, options)``
    does it and returns the exit code.
    """

    group: str
    module: str
    description: str
    epilog: str = ""


_COMMANDS = {
    "demo": CliCommand("look", "explore", "cli.demo"),
    "report": CliCommand("look", "report", "cli.report"),
    "compare": CliCommand("look", "compare", "compare.description", "compare.epilog"),
    "ranks": CliCommand("look", "report", "job.description", "job.epilog"),
    "query": CliCommand("look", "query", "query.description", "query.epilog"),
    "whatif": CliCommand("look", "report", "whatif.description", "whatif.epilog"),
    "screenshot": CliCommand("look", "explore", "cli.screenshot"),
    "watch": CliCommand("look", "watch", "watch.description", "watch.epilog"),
    "mcp": CliCommand("look", "query", "mcp.description", "mcp.epilog"),
    "record": CliCommand("make", "record", "record.description", "record.epilog"),
    "analyse": CliCommand("make", "record", "analyse.description"),
    "log": CliCommand("gate", "check", "log.description", "log.epilog"),
    "check": CliCommand("gate", "check", "gate.description", "gate.epilog"),
    "index": CliCommand("files", "files", "cli.index"),
    "cache": CliCommand("files", "files", "cache.help"),
    "crop": CliCommand("files", "files", "crop.description", "crop.epilog"),
    "summarize": CliCommand("files", "files", "summarize.description", "summarize.epilog"),
    "explain": CliCommand("words", "words", "cli.explain"),
    "keys": CliCommand("words", "words", "cli.key_table"),
    "settings": CliCommand("words", "words", "cli.settings"),
    "schema": CliCommand("words", "words", "tree.schema"),
    "doctor": CliCommand("words", "doctor", "tree.doctor"),
    "completion": CliCommand("words", "completion", "cli.completion", "cli.completion_epilog"),
    "help": CliCommand("words", "words", "tree.help"),
    "version": CliCommand("words", "words", "tree.version"),
}
COMMANDS = (*_COMMANDS,)
"""All commands in the order of the help."""

_EXPLORE = "explore"
"""What runs where the words name no command."""

_FLAGS = ("--no-cache",)
_VALUED = ("--config", "--theme", "--glyphs", "--source", "--lang")
"""Options that may stand before a command, without a value and with one."""

_MAX_STEP = "--max-step"
_KIND = re.compile(r"[^\s:]+:(p\d+|max)")

_ALIKE = 0.7  # of difflib: one letter of a short command may be wrong


class Given(NamedTuple):
    """What the words of a command line say before a parser reads them.

    The ``command`` is empty without one; ``words`` are all others in their order. ``lang`` is what ``--lang`` asks for:
    texts need a language before there is a parser. A ``--lang`` that names no language stays, so that the parser says
    so. ``config`` is the settings file that may name the language.
    """

    command: str
    words: list[str]
    lang: str | None
    config: str | None


def given(words: list[str]) -> Given:
    """Split ``words`` into command, language, settings and the rest; a command stands before any word meant for it."""
    command, lang, config, rest = "", None, None, []
    leads, at = True, 0
    while at < len(words):
        if words[at] == "--":
            rest += words[at:]
            break
        name, sign, value = words[at].partition("=")
        length = 2 if name in _VALUED and not sign else 1
        taken, at = words[at : at + length], at + length
        if length == 2:
            value = taken[-1]
        if name == "--lang" and value in (AUTO, *LANGUAGES):
            lang = lang or value
            continue
        if name == "--config":
            config = config or value
        if leads and taken[0] in COMMANDS:
            command, leads = taken[0], False
            continue
        leads = leads and (taken[0] in _FLAGS or name in _VALUED)
        rest += taken
    return Given(command, rest, lang, config)


def with_joined_limits(words: list[str]) -> list[str]:
    """``words`` with the time in ``--max-step decode:p99 9ms`` as a part of the word before it."""
    one: list[str] = []
    for word in words:
        option, sign, value = one[-1].partition("=") if one else ("", "", "")
        limit = value if sign and option == _MAX_STEP else one[-1] if one[-2:-1] == [_MAX_STEP] else ""
        if _KIND.fullmatch(limit):
            one[-1] += f":{word}"
        else:
            one.append(word)
    return one


def meant(word: str) -> str:
    """The command that ``word`` is nearly the name of, empty where it may be a path."""
    if word.startswith("-") or os.sep in word or "." in word or os.path.lexists(word):
        return ""
    return nearest_word(word, COMMANDS)


def nearest_word(word: str, words: Iterable[str]) -> str:
    """Which of ``words`` is nearly ``word``, empty where none is."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word.lower(), tuple(words), 1, _ALIKE)), "")


def command_lines(width: int) -> str:
    """All commands with a line each, in groups, in lines of ``width`` columns."""
    room = max(map(len, COMMANDS)) + 4
    lines = []
    for group in dict.fromkeys(command.group for command in _COMMANDS.values()):
        lines.append(say(f"tree.{group}"))
        for name in (name for name, command in _COMMANDS.items() if command.group == group):
            first, *rest = wrapped(say(f"tree.{name}"), max(width - room, 20))
            lines.append("  " + padded(name, room - 2) + first)
            lines += [" " * room + line for line in rest]
        lines.append("")
    lines.append(say("tree.pages"))
    room = max(map(len, TOPICS)) + 6
    for group, topics in PAGES.items():
        lines.append("  " + say(f"pages.{group}"))
        for topic in topics:
            first, *rest = wrapped(title(topic, language()), max(width - room, 20))
            lines += ["    " + padded(topic, room - 4) + first, *(" " * room + line for line in rest)]
    return "\n".join([*lines, ""])


def _declared_command(command: str) -> CliCommand:
    return _COMMANDS[command] if command else CliCommand("", _EXPLORE, "cli.description", "cli.epilog")


def parser_of(command: str) -> Parser:
    """The parser of ``command``, that of the explorer where it is empty."""
    declared = _declared_command(command)
    parser = Parser(
        prog=f"npu-tui {command}".rstrip(),
        description=say(declared.description),
        epilog=say(declared.epilog) if declared.epilog else None,
        usage=None if command else say("cli.usage"),
        commands=not command,
    )
    add = getattr(import_module(f"npu_tui.cli.{declared.module}"), f"{command or _EXPLORE}_options", None)
    if add is not None:
        add(parser)
    return parser


def runner_of(command: str) -> Callable[[Parser, argparse.Namespace], int]:
    """What runs ``command``, the explorer where it is empty."""
    module = import_module(f"npu_tui.cli.{_declared_command(command).module}")
    run: Callable[[Parser, argparse.Namespace], int] = getattr(module, f"run_{command or _EXPLORE}")
    return run


class Parser(argparse.ArgumentParser):
    """A parser that speaks the language of the user; ``--lang`` itself is taken before it (``tree.given``).

    With ``commands`` its help lists all commands.
    """

    def __init__(
        self, prog: str, description: str, epilog: str | None = None, usage: str | None = None, commands: bool = False
    ) -> None:
        # What argparse says itself it asks gettext for, by its English text.
        english, spoken = texts_of(ENGLISH), texts_of(language())
        said = {text: spoken[key] for key, text in english.items() if key.startswith("argparse.")}
        argparse._ = lambda text: said.get(text, text)  # type: ignore[attr-defined]
        super().__init__(
            prog=prog, description=description, epilog=epilog, usage=usage, formatter_class=_Help, allow_abbrev=False
        )
        self._commands = commands
        self.add_argument("--lang", choices=(AUTO, *LANGUAGES), help=say("cli.lang"))

    def error(self, message: str) -> NoReturn:
        """What argparse does; the words of the user in ``message`` are as untrusted as a trace."""
        with suppress(OSError):  # Python 3.10 does not bear a standard error that is full
            super().error(printable(message))
        self.exit(2)

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        # Up to Python 3.12 argparse drops the value of ``--option=--`` and gives an empty list.
        if action.option_strings and action.nargs is None and arg_strings == ["--"]:
            value = self._get_value(action, arg_strings[0])
            self._check_value(action, value)
            return value
        return super()._get_values(action, arg_strings)

    def format_help(self) -> str:
        """The help; where all commands belong to it, they come after what the program is."""
        text = super().format_help()
        if not self._commands:
            return text
        head, _, rest = text.partition("\n\n")
        description, _, rest = rest.partition("\n\n")
        return f"{head}\n\n{description}\n\n{command_lines(_help_columns())}\n{rest}"


def _help_columns() -> int:
    """Columns that argparse itself fills."""
    return shutil.get_terminal_size().columns - 2


class _Help(argparse.HelpFormatter):
    """Help whose lines are as wide as the terminal, whatever the width of its characters."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return wrapped(" ".join(text.split()), width)

    def _format_args(self, action: argparse.Action, default_metavar: str) -> str:
        """What is needed stands without brackets, also where the command itself says that it is missing."""
        text = super()._format_args(action, default_metavar)
        needed = action.required and action.nargs == argparse.OPTIONAL and not action.option_strings
        return text[1:-1] if needed else text

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines = [wrapped(" ".join(line.split()), width - len(indent)) for line in text.splitlines()]
        return "\n".join(indent + line for each in lines for line in each)


_LOCALE = ("LC_ALL", "LC_MESSAGES", "LANG")
"""The variables of POSIX that name the language of texts; the first one that is set counts."""


def choose_language(lang: str | None, config: str | None) -> str:
    """The language that ``--lang`` asks for, else the settings file (``--config`` may name it), else the locale."""
    wanted = lang or _from_settings(config)
    if wanted in LANGUAGES:
        return wanted
    # The fonts of the Linux console have no Han characters.
    console = os.environ.get("TERM") == "linux" and sys.stdout is not None and sys.stdout.isatty()
    return ENGLISH if console else language_of_locale(os.environ)


def language_of_locale(variables: Mapping[str, str]) -> str:
    """The language of the locale that ``variables`` name, English where there are no texts in it."""
    locale = next((variables[name] for name in _LOCALE if variables.get(name)), "")
    found = locale.replace("-", "_").partition("_")[0].partition(".")[0].lower()
    return found if found in LANGUAGES else ENGLISH


def _from_settings(config: str | None) -> str | None:
    """What the settings file says; the command itself reports what is wrong with it."""
    if not os.path.isfile(settings_path(config)):  # reading one takes imports that only a file is worth
        return None
    try:
        return load_settings(config).language
    except SettingsError:
        return None
