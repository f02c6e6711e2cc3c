"""Questions in the user's own words, and the command that answers each: ``why is it idle`` leads to the bubbles."""

from __future__ import annotations

import re
from functools import cache

from npu_tui.strings import LANGUAGES, knows, say, speaking
from npu_tui.tui.commands import Where, commands_of

_WORD = re.compile(r"[a-z0-9_.]+")


def asked(text: str, where: Where) -> list[str]:
    """The commands of a screen that answer ``text``, the best first: those of which it has all words of a phrase.

    Phrases are known in every language, whichever is spoken. A longer phrase says more.
    """
    typed = text.casefold()
    words = set(_WORD.findall(typed))
    best: dict[str, int] = {}
    for command in commands_of(where):
        for phrase in _phrases(command.id):
            parts = phrase.split()
            # Chinese has no blanks between words: a phrase is anywhere in the text.
            if all(part in words if part.isascii() else part in typed for part in parts):
                best[command.id] = max(best.get(command.id, 0), sum(map(len, parts)) * (1 if phrase.isascii() else 3))
    return sorted(best, key=lambda command: -best[command])


@cache
def _phrases(command: str) -> tuple[str, ...]:
    """What a command answers, in all languages."""
    found: list[str] = []
    for language in LANGUAGES:
        with speaking(language):
            if knows(f"asked.{command}"):
                found += say(f"asked.{command}").casefold().split("|")
    return tuple(found)
