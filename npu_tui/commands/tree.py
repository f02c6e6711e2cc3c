"""The commands: what each is called, where it is, what it is for in a line, and which one a word may mean."""

from __future__ import annotations

import os
from collections.abc import Iterable

from npu_tui.manual.pages import TOPICS
from npu_tui.strings import say
from npu_tui.trace.text import padded, wrapped

EXPLORE = "explore:run"
"""What runs where the words name no command."""

_GROUPS = {
    "look": {
        "demo": "demo:run",
        "report": "report:run",
        "compare": "compare:run",
        "ranks": "ranks:run",
        "query": "query:run",
        "whatif": "whatif:run",
        "screenshot": "screenshot:run",
        "watch": "watch:run",
    },
    "gate": {"check": "check:run"},
    "files": {
        "index": "copies:run_index",
        "cache": "copies:run_cache",
        "crop": "crop:run",
        "summarize": "summarize:run",
    },
    "words": {
        "explain": "explain:run",
        "keys": "keys:run",
        "settings": "settings:run",
        "schema": "schema:run",
        "doctor": "doctor:run",
        "completion": "completion:run",
        "help": "help:run",
        "version": "version:run",
    },
}
COMMANDS = {name: place for group in _GROUPS.values() for name, place in group.items()}
"""Module of ``npu_tui.commands`` and function of every command."""

_FLAGS = ("--no-cache",)
_VALUED = ("--config", "--theme", "--glyphs", "--source")
"""Options that may stand before a command, without a value and with one; ``--lang`` is taken before."""

_ALIKE = 0.7


def command_first(words: list[str]) -> tuple[str, list[str]]:
    """The command that ``words`` name, empty without one, and the other words in their order."""
    at = 0
    while at < len(words):
        word = words[at]
        name = word.partition("=")[0]
        if word in COMMANDS:
            return word, words[:at] + words[at + 1 :]
        if word in _FLAGS or (name in _VALUED and "=" in word):
            at += 1
        elif name in _VALUED:
            at += 2
        else:
            break
    return "", words


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
