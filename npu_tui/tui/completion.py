"""What may be meant behind ``:``: a time, a command, a flag, a lane or the name of a slice, best first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

_MOST_NAMES = 200_000
"""Names that are looked through while typing; more would take longer than a key may."""

_SHOWN = 50


@dataclass(frozen=True, slots=True)
class Candidate:
    """Something that can be gone to: its ``text`` is matched and taken over by Tab, ``kind`` says what it is."""

    kind: str
    text: str
    run: Callable[[], object]


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
         ) -> list[Candidate]:  # fmt: skip
    """The candidates of ``groups`` that fit, and the ``names`` of slices made into candidates by ``name``."""
    typed = typed.lower().strip()
    found = [(fit, -number, -len(one.text), one) for number, group in enumerate(groups) for one in group
             if (fit := score(typed, one.text.lower()))]  # fmt: skip
    found.sort(key=lambda entry: entry[:3], reverse=True)
    words = typed.split()
    fitting = [text for text in names[:_MOST_NAMES] if all(word in text.lower() for word in words)] if words else []
    fitting.sort(key=lambda text: (not text.lower().startswith(typed), len(text)))
    # A name of a slice comes before what only has the letters somewhere.
    sure = [one for fit, _, _, one in found if fit >= 1000]
    rest = [one for fit, _, _, one in found if fit < 1000]
    return [*sure, *(name(text) for text in fitting[:_SHOWN]), *rest][:_SHOWN]
