"""What a search asks for, read from one line of text.

Plain words are one part of a name; ``/words/`` is a regular expression; fields such as ``dur>1ms`` or ``layer:cann``
stand between blanks. Everything must hold at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Literal

from msgspec import Struct

from npu_tui.strings import say
from npu_tui.trace.args import Arg, as_number
from npu_tui.trace.classes import OpClass
from npu_tui.trace.text import parse_duration, whole_number

Compare = Literal["<", "<=", ">", ">=", "="]
Launch = Literal["starved", "near-vertical", "shallow", "queued"]

FIELDS = ("name", "dur", "start", "end", "layer", "lane", "class", "line", "step", "arg")
LAUNCHES: tuple[Launch, ...] = ("starved", "near-vertical", "shallow", "queued")
CLASSES = {op_class.name.lower(): op_class for op_class in OpClass}

_TIMES = ("dur", "start", "end")
_FIELD = re.compile(rf"(?:^|(?<=\s))(?P<field>{'|'.join(FIELDS)})(?P<sign><=|>=|[:<>=])", re.IGNORECASE)
_LIKE_A_FIELD = re.compile(r"(?:^|(?<=\s))(?P<word>\w+)(?:[<>=~]|:(?!:))")
_ARG = re.compile(r'(?P<key>[^~<>=:"]*?)\s*(?P<sign><=|>=|[~<>=])\s*')
_QUOTED = re.compile(r'"(?P<text>[^"]*)"?')
_PATTERN = re.compile(r"/(?P<pattern>(?:\\/|[^/])+(?:/(?!\s|$)(?:\\/|[^/])*)*)/(?=\s|$)")
_ESCAPE = re.compile(r"\\.")
_LINE = re.compile(r"(?P<file>.*?):?(?P<line>\d{1,9})?")


class SearchError(ValueError):
    """The text asks for nothing that can be looked for; the message says in one line what is allowed."""


class Text(Struct, frozen=True):
    """A part of a name (``whole``: all of it), or a regular expression that must be found in it.

    Without a capital in the text the case does not count.
    """

    text: str
    pattern: bool = False
    whole: bool = False

    @property
    def any_case(self) -> bool:
        """Whether upper and lower case are the same."""
        plain = _ESCAPE.sub("", self.text) if self.pattern else self.text
        return plain == plain.lower()


class Time(Struct, frozen=True):
    """``field`` of a slice (its duration, start or end) compared with ``value`` ns."""

    field: str
    sign: Compare
    value: int


class Place(Struct, frozen=True):
    """A part of the name (``whole``: all of it, whatever case) of the lane or layer that a slice is in."""

    field: str
    text: str
    whole: bool


class LaunchClass(Struct, frozen=True):
    """Kernels whose launch is of one class."""

    launch: Launch


class SliceClass(Struct, frozen=True):
    """Slices of one operator class."""

    op_class: OpClass


class Line(Struct, frozen=True):
    """A frame of the call stack: the end of the file's path, and the line unless that is None."""

    file: str
    line: int | None


class StepNumber(Struct, frozen=True):
    """The slices of ``ProfilerStep#number``."""

    number: int


Term = Text | Time | Place | LaunchClass | SliceClass | Line | StepNumber | Arg


class Search(Struct, frozen=True):
    """All ``terms`` must hold; ``args`` are those of them that only the file knows."""

    text: str
    terms: tuple[Term, ...]

    @property
    def args(self) -> tuple[Arg, ...]:
        """The terms about args."""
        return tuple(term for term in self.terms if isinstance(term, Arg))


def parse_search(text: str, places: Iterable[str] = ()) -> Search:
    """The search of ``text``; ``places`` are the names of lanes and layers, which may have blanks in them.

    Raises ``SearchError`` for a field without a value that it can be compared with.
    """
    known = [place.lower() for place in places]
    terms: list[Term] = []
    at = 0
    while at < len(text):
        match = _FIELD.search(text, at)
        stop = len(text) if match is None else match.start()
        terms += _plain(text[at:stop])
        if match is None:
            break
        found, at = _field(match["field"].lower(), match["sign"], text, match.end(), known)
        terms.append(found)
    return Search(text, tuple(terms))


def _plain(text: str) -> list[Term]:
    """Regular expressions, and what stands between them."""
    terms: list[Term] = []
    at, text = 0, text.strip()
    while at < len(text):
        start = next((i for i in range(at, len(text)) if _begins(text, i) and _PATTERN.match(text, i)), len(text))
        if words := text[at:start].strip():
            terms.append(Text(words))
        match = _PATTERN.match(text, start)
        if match is None:
            break
        terms.append(_pattern(match["pattern"]))
        at = match.end()
    return terms


def _begins(text: str, at: int) -> bool:
    return text[at] == "/" and (at == 0 or text[at - 1].isspace())


def _pattern(text: str) -> Text:
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise SearchError(say("query.pattern", why=error)) from None
    return Text(text, pattern=True)


def _field(field: str, sign: str, text: str, at: int, known: Sequence[str]) -> tuple[Term, int]:
    """The term of ``field``, and where the text goes on after its value."""
    if field == "arg":
        return _arg(sign, text, at)
    if field == "name" and sign in ":=" and (match := _PATTERN.match(text, at)):
        return _pattern(match["pattern"]), match.end()
    value, after = _value(text, at, known if field in ("lane", "layer") else ())
    if field in _TIMES:
        return _time(field, sign, value), after
    if sign not in ":=":
        raise SearchError(say("query.sign", field=field, example=_EXAMPLES[field]))
    if not value:
        raise SearchError(say("query.value", field=field, example=_EXAMPLES[field]))
    if field == "name":
        return Text(value, whole=sign == "="), after
    if field in ("lane", "layer"):
        if known and not any(value.lower() in place for place in known):
            raise SearchError(say("query.place", field=field, value=value, near=_near(value, known)))
        return Place(field, value.lower(), sign == "="), after
    if field == "class":
        return _class(value), after
    if field == "step":
        number = whole_number(value.lstrip("#"))
        if number is None or number < 0:
            raise SearchError(say("query.value", field=field, example=_EXAMPLES[field]))
        return StepNumber(number), after
    match = _LINE.fullmatch(value)
    file, line = (match["file"], match["line"]) if match is not None else (value, None)
    return Line(file, None if line is None else int(line)), after


_EXAMPLES = {
    "name": "name:MatMul",
    "layer": "layer:cann",
    "lane": 'lane:"Stream 3"',
    "class": "class:starved",
    "line": "line:main.py:354",
    "step": "step:50",
}


def _value(text: str, at: int, known: Sequence[str]) -> tuple[str, int]:
    """The value from ``at`` on: a quoted text, the most words that are part of a ``known`` name, or one word."""
    quoted = _QUOTED.match(text, at)
    if quoted is not None:
        return quoted["text"], quoted.end()
    match = _FIELD.search(text, at)
    rest = text[at : len(text) if match is None else match.start()]
    ends = [found.end() for found in re.finditer(r"\S+", rest)]
    if not ends or rest[:1].isspace():
        return "", at
    longest = next((end for end in reversed(ends) if any(rest[:end].lower() in name for name in known)), ends[0])
    return rest[:longest], at + longest


def _time(field: str, sign: str, value: str) -> Time:
    when = parse_duration(value)
    if sign == ":" or when is None or not value:
        raise SearchError(say("query.time", field=field))
    compare: Compare = sign  # type: ignore[assignment]  # the pattern allows no other
    return Time(field, compare, when)


def _class(value: str) -> LaunchClass | SliceClass:
    wanted = value.lower().replace("_", "-")
    for launch in LAUNCHES:
        if launch == wanted:
            return LaunchClass(launch)
    if wanted in CLASSES:
        return SliceClass(CLASSES[wanted])
    names = *LAUNCHES, *CLASSES
    raise SearchError(say("query.class", value=value, near=_near(wanted, names), names=" ".join(names)))


def _near(value: str, names: Sequence[str]) -> str:
    """The one of ``names`` that is meant, as a question; empty if none is near."""
    found = get_close_matches(value.lower(), names, 1)
    return say("query.nearest", name=found[0]) if found else ""


def unknown_field(text: str) -> str | None:
    """What stands like a field in ``text`` but is none."""
    for match in _LIKE_A_FIELD.finditer(text):
        if match["word"].lower() == "arg":
            return None  # what follows is the name of an arg, with a sign of its own
        if match["word"].lower() not in FIELDS:
            return match["word"].lower()
    return None


def _arg(sign: str, text: str, at: int) -> tuple[Arg, int]:
    """``arg:KEY~TEXT``, ``arg:KEY>8`` or ``arg:TEXT``; the key may have blanks in it."""
    if sign != ":":
        raise SearchError(say("query.arg"))
    following = _FIELD.search(text, at)
    match = _ARG.match(text, at, len(text) if following is None else following.start())
    key, compare, start = ("", "~", at) if match is None else (match["key"].strip(), match["sign"], match.end())
    value, after = _value(text, start, ())
    if not value and not key:
        raise SearchError(say("query.arg"))
    if compare not in "~=" and as_number(value) is None:
        raise SearchError(say("query.arg"))
    return Arg(key.lower(), compare, value.lower()), after  # type: ignore[arg-type]  # as the pattern allows
