"""What may be meant after ``:``: a time, a command, a flag, a lane or the name of a slice, best first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches

from msgspec import Struct

QUIT_WORDS = ("q", "q!", "qa", "wq", "quit", "exit")
"""What people type to leave a program."""

_MOST_NAMES = 200_000
"""Names that are looked through while typing; more would take longer than a key may."""

_SHOWN = 50


class Candidate(Struct, frozen=True):
    """Something that can be gone to: its ``text`` is matched and taken over by Tab, ``kind`` says what it is.

    ``also`` are other names that are matched; ``beside`` is shown beside it in a list.
    """

    kind: str
    text: str
    run: Callable[[], object]
    also: tuple[str, ...] = ()
    beside: str = ""


def score(typed: str, text: str) -> int:
    """How well ``text`` fits what was typed, both in lower case; 0 if it does not.

    Every word typed must be in the text; the earlier and the nearer to the beginning of a word, the better. Letters
    in their order but apart count least, and only where most of them are neighbours.
    """
    total = 0
    for word in typed.split():
        at = text.find(word)
        if at < 0:
            total += _scattered(word, text)
            if not total or not _scattered(word, text):
                return 0
            continue
        begins = at == 0 or not text[at - 1].isalnum()
        total += 1000 + 200 * begins + 100 * (at == 0) - min(at, 99)
    return total + (500 if typed == text else 0)


def _scattered(word: str, text: str) -> int:
    """A small score for the letters of ``word`` in their order, in runs of two or more on average; else 0."""
    at, runs, last = 0, 0, -2
    for letter in word:
        at = text.find(letter, at)
        if at < 0:
            return 0
        runs += at != last + 1
        last, at = at, at + 1
    return max(100 - 10 * runs, 1) if len(word) >= 2 * runs else 0


def best(typed: str, groups: Iterable[Sequence[Candidate]], names: Sequence[str], name: Callable[[str], Candidate]
         ) -> tuple[list[Candidate], list[Candidate]]:  # fmt: skip
    """The candidates of ``groups`` that fit, and the ``names`` of slices made into candidates by ``name``.

    First those that are called what was typed, then guesses: they only have its letters, or a command has its words
    inside of others.
    """
    typed = typed.lower().strip()
    found = [(fit, -number, -len(one.text), one) for number, group in enumerate(groups) for one in group
             if (fit := max(score(typed, text.lower()) for text in (one.text, *one.also)))]  # fmt: skip
    found.sort(key=lambda entry: entry[:3], reverse=True)
    words = typed.split()
    fitting = [text for text in names[:_MOST_NAMES] if all(word in text.lower() for word in words)] if words else []
    fitting.sort(key=lambda text: (not text.lower().startswith(typed), len(text)))
    sure: list[Candidate] = []
    guesses: list[Candidate] = []
    for fit, _, _, one in found:
        (sure if fit >= 1000 and _begins(words, one) else guesses).append(one)
    return [*sure, *(name(text) for text in fitting[:_SHOWN])][:_SHOWN], guesses[:_SHOWN]


def _begins(words: Sequence[str], one: Candidate) -> bool:
    """Whether what was typed names ``one``: its words begin words of a command, or are any parts of another name."""
    if one.kind != "command":
        return True
    texts = [text.lower() for text in (one.text, *one.also)]
    parts = [(text, *re.split(r"[\s_]+", text)) for text in texts]
    return any(all(any(part.startswith(word) for part in each) for word in words) for each in parts)


def nearest_command(typed: str, ids: Iterable[str]) -> str | None:
    """Which of ``ids`` is written most like ``typed``; None where none is near."""
    near = get_close_matches(typed.lower().replace(" ", "_"), list(ids), 1, 0.3)
    return near[0] if near else None
