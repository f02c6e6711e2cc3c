"""The commands: what each is called, where it is, what it is for in a line, and which one a word may mean."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

from npu_tui.manual.pages import TOPICS
from npu_tui.strings import LANGUAGES, say
from npu_tui.trace.text import padded, wrapped

EXPLORE = "explore"
"""What runs where the words name no command."""

AUTO = "auto"
"""The ``--lang`` that the settings file and the locale decide."""

_GROUPS = {
    "look": ("demo", "report", "compare", "ranks", "query", "whatif", "screenshot", "watch"),
    "gate": ("check",),
    "files": ("index", "cache", "crop", "summarize"),
    "words": ("explain", "keys", "settings", "schema", "doctor", "completion", "help", "version"),
}
COMMANDS = tuple(name for names in _GROUPS.values() for name in names)
"""All commands. Each is a module here: its ``parser()`` reads the words, its ``run(parser, options)`` does it."""

_FLAGS = ("--no-cache",)
_VALUED = ("--config", "--theme", "--glyphs", "--source", "--lang")
"""Options that may stand before a command, without a value and with one."""

_ALIKE = 0.7


class Given(NamedTuple):
    """What the words of a command line say before a parser reads them.

    The ``command`` is empty without one; ``words`` are all others in their order. ``lang`` is what ``--lang`` asks for:
    texts need a language before there is a parser. A ``--lang`` that is none stays, so that the parser says so.
    ``config`` is the settings file that may name the language.
    """

    command: str
    words: list[str]
    lang: str | None
    config: str | None


def given(words: list[str]) -> Given:
    """Look through ``words`` once; a command counts before the first word that is for one itself."""
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


def meant(word: str) -> str:
    """The command that ``word`` is nearly the name of, empty where it may be a path."""
    if word.startswith("-") or os.sep in word or "." in word or os.path.lexists(word):
        return ""
    return nearest_word(word, COMMANDS)


def nearest_word(word: str, words: Iterable[str]) -> str:
    """Which of ``words`` is nearly ``word``, empty where none is."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word.lower(), tuple(words), 1, _ALIKE)), "")


def told(width: int) -> str:
    """All commands with a line each, in groups, in lines of ``width`` columns."""
    room = max(map(len, COMMANDS)) + 4
    lines = []
    for group, names in _GROUPS.items():
        lines.append(say(f"tree.{group}"))
        for name in names:
            first, *rest = wrapped(say(f"tree.{name}"), max(width - room, 20))
            lines.append("  " + padded(name, room - 2) + first)
            lines += [" " * room + line for line in rest]
        lines.append("")
    lines += [say("tree.pages"), *("  " + line for line in wrapped(", ".join(TOPICS), max(width - 2, 20))), ""]
    return "\n".join(lines)
