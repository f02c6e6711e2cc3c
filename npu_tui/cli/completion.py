"""``npu-tui completion``: what makes a shell complete commands, options, paths, findings and tables."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from argcomplete.completers import SuppressCompleter
from argcomplete.finders import CompletionFinder
from argcomplete.shell_integration import shellcode

from npu_tui.cli.parser import COMMANDS, Parser, given, parser_of
from npu_tui.cli.streams import DONE, write
from npu_tui.manual import TOPICS
from npu_tui.strings import say

_SHELLS = ("bash", "zsh", "fish")
_PATHS = frozenset(("PATH", "BASE", "NEW", "FILE", "DIR", "OUT", "OUT.svg"))
_LISTS = frozenset(("IDS", "WHAT"))
"""What takes several words with commas between them."""


def completion_options(parser: Parser) -> None:
    """Add the arguments and options of ``npu-tui completion``."""
    parser.add_argument("shell", choices=_SHELLS, help=say("cli.shell", names=", ".join(_SHELLS)))


def run_completion(parser: Parser, options: argparse.Namespace) -> int:
    """Print the script for a shell."""
    write(shellcode(["npu-tui"], shell=options.shell) + "\n")
    return DONE


def complete() -> None:
    """Answer the script of the shell with the words that the last one typed may become; the process ends."""
    WordCompleter()(Parser(prog="npu-tui", description=""), always_complete_options=False)


class WordCompleter(CompletionFinder):
    """Completes with the parser of the command that is typed, which is known only once the line is read."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named | {"validator": _fits, "default_completer": SuppressCompleter()})

    def _get_completions(
        self, comp_words: list[str], cword_prefix: str, cword_prequote: str, last_wordbreak_pos: int | None
    ) -> list[str]:
        program, *words = comp_words
        command, rest, _, _ = given(words)
        self._parser = parser_of(command)
        for action in self._parser._actions:
            if action.choices is None and action.nargs != 0:
                action.completer = _completer(action, commands=not command)  # type: ignore[attr-defined]
        found: list[str] = super()._get_completions(  # type: ignore[no-untyped-call]
            [program, *rest], cword_prefix, cword_prequote, last_wordbreak_pos
        )
        return found


def _fits(word: str, typed: str) -> bool:
    return word.lower().startswith(typed.lower())


def _completer(action: argparse.Action, commands: bool) -> Callable[..., Mapping[str, str] | Iterable[str]]:
    """What gives the values of ``action``; where no command is named yet the first path may be one."""
    name, first = str(action.metavar), commands and not action.option_strings

    def values(prefix: str, parsed_args: argparse.Namespace, **_: object) -> Mapping[str, str] | Iterable[str]:
        if name not in _PATHS:
            return _value_words(name, action.dest, prefix)
        known = {command: say(f"tree.{command}") for command in COMMANDS} if first and not parsed_args.paths else {}
        return known | dict.fromkeys(_matching_paths(prefix), "")

    return values


def _matching_paths(prefix: str) -> list[str]:
    """The paths that begin with ``prefix``; hidden ones where it begins so. A folder ends with a slash."""
    start = prefix.rpartition("/")[2]
    ahead = prefix.removesuffix(start)
    try:
        with os.scandir(os.path.expanduser(ahead) or ".") as entries:
            return sorted(
                ahead + entry.name + "/" * entry.is_dir()
                for entry in entries
                if entry.name.startswith(start) and (start or not entry.name.startswith("."))
            )
    except OSError:
        return []


def _value_words(name: str, dest: str, prefix: str) -> list[str]:
    """The words that a value called ``name`` may be; in a list the last one is completed."""
    first, comma, _ = prefix.rpartition(",") if name in _LISTS else ("", "", "")
    return [first + comma + word for word in _option_words(name, dest)]


def _option_words(name: str, dest: str) -> Iterable[str]:
    if name in ("ID", "IDS"):
        from npu_tui.output.explain import finding_ids

        return finding_ids()
    if name == "TOPIC":
        return dict.fromkeys((*TOPICS, *COMMANDS))
    if name == "WHAT":
        return ("high", "medium", "low", "slower", "unsure")
    if name == "TAB":
        from npu_tui.tui.commands import COMPARED_KEYS, TAB_KEYS

        return TAB_KEYS | COMPARED_KEYS
    if name == "SQL":
        from npu_tui.query.frames import TABLES

        return TABLES
    if name == "NAME" and dest == "name":
        from npu_tui.cli.explore import demos

        return demos()
    return ()
