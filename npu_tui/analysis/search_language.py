"""The language of searches: one line of text, parsed into terms that must all hold.

Plain words are part of a name, ``/words/`` is a regular expression, and fields such as ``dur>1ms`` or ``layer:cann``
are separated by blanks. As an example, ``matmul dur>1ms layer:"Ascend Hardware"`` finds long MatMul kernels.
"""

from __future__ import annotations

import re
import warnings
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
_PATTERN = re.compile(r"/(?P<pattern>(?:\\.|[^/\\])(?:\\.|[^/\\]|/(?!\s|$))*)/(?=\s|$)")
_ESCAPE = re.compile(r"\\.")
_CLOSING = re.compile(r"(?<!\\)/(?=\s|$)")
_LINE = re.compile(r"(?P<file>.*?):?(?P<line>\d{1,9})?")


class SearchError(ValueError):
    """The text is not a search; the message says in one line what is allowed."""


class Text(Struct, frozen=True):
    """A part of a name (``whole``: the complete name), or a regular expression that matches somewhere in it.

    A text without capitals ignores the case.
    """

    text: str
    pattern: bool = False
    whole: bool = False

    @property
    def any_case(self) -> bool:
        """Whether the case is ignored."""
        plain = _ESCAPE.sub("", self.text) if self.pattern else self.text
        return plain == plain.lower()


class Time(Struct, frozen=True):
    """``field`` of a slice (its duration, start or end) compared with ``value`` ns."""

    field: str
    sign: Compare
    value: int


class Place(Struct, frozen=True):
    """A part of the name (``whole``: the complete name) of the slice's lane or layer; the case is ignored."""

    field: str
    text: str
    whole: bool


class LaunchClass(Struct, frozen=True):
    """Kernels whose launch is of one class."""

    launch: Launch


class SliceClass(Struct, frozen=True):
    """Slices of one operator class."""

    op_class: OpClass


class FrameTerm(Struct, frozen=True):
    """A frame of the call stack, by the end of the file's path and the line (None: any)."""

    file: str
    line: int | None


class StepNumber(Struct, frozen=True):
    """The slices of ``ProfilerStep#number``."""

    number: int


Term = Text | Time | Place | LaunchClass | SliceClass | FrameTerm | StepNumber | Arg


class Search(Struct, frozen=True):
    """A search: all ``terms`` must hold."""

    text: str
    terms: tuple[Term, ...]

    @property
    def args(self) -> tuple[Arg, ...]:
        """The terms about args, which only the file of the trace can answer."""
        return tuple(term for term in self.terms if isinstance(term, Arg))


def parse_search(text: str, places: Iterable[str] = ()) -> Search:
    """The search of ``text``; ``places`` are the names of lanes and layers, which may contain blanks.

    Raises ``SearchError`` for a field with a missing or unusable value.
    """
    # Names of lanes contain blanks (``Ascend Hardware``): with them known, they need no quotes.
    known = [place.lower() for place in places]
    terms: list[Term] = []
    at = 0
    while at < len(text):
        match = _FIELD.search(text, at)
        stop = len(text) if match is None else match.start()
        terms += _terms_without_fields(text[at:stop])
        if match is None:
            break
        term, at = _field(match["field"].lower(), match["sign"], text, match.end(), known)
        terms.append(term)
    return Search(text, tuple(terms))


def _terms_without_fields(text: str) -> list[Term]:
    """The terms of a text without fields: regular expressions, and the words between them."""
    terms: list[Term] = []
    at, text = 0, text.strip()
    last = max((closing.start() for closing in _CLOSING.finditer(text)), default=0)
    while at < len(text):
        starts = (i for i in range(at, last) if _begins(text, i) and _PATTERN.match(text, i))
        start = next(starts, len(text))
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
        with warnings.catch_warnings():  # Python would write what it advises over the screen
            warnings.simplefilter("ignore")
            re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise SearchError(say("query.pattern", why=error)) from None
    return Text(text, pattern=True)


def _field(field: str, sign: str, text: str, at: int, known: Sequence[str]) -> tuple[Term, int]:
    """The term of ``field``, and the position after its value."""
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
    return FrameTerm(file, None if line is None else int(line)), after


_EXAMPLES = {
    "name": "name:MatMul",
    "layer": "layer:cann",
    "lane": 'lane:"Stream 3"',
    "class": "class:starved",
    "line": "line:main.py:354",
    "step": "step:50",
}


def _value(text: str, at: int, known: Sequence[str]) -> tuple[str, int]:
    """The value at ``at`` and the position after it: a quoted text, words that occur in a ``known`` name, or one word.

    As many words count as still occur in a known name: ``lane:Stream 3 matmul`` means the lane ``Stream 3``.
    """
    quoted = _QUOTED.match(text, at)
    if quoted is not None:
        return quoted["text"], quoted.end()
    match = _FIELD.search(text, at)
    rest = text[at : len(text) if match is None else match.start()]
    ends = [word.end() for word in re.finditer(r"\S+", rest)]
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
    # ``near_vertical`` and ``near-vertical`` are the same.
    wanted = value.lower().replace("_", "-")
    for launch in LAUNCHES:
        if launch == wanted:
            return LaunchClass(launch)
    if wanted in CLASSES:
        return SliceClass(CLASSES[wanted])
    names = *LAUNCHES, *CLASSES
    raise SearchError(say("query.class", value=value, near=_near(wanted, names), names=" ".join(names)))


def _near(value: str, names: Sequence[str]) -> str:
    """A question that suggests the closest of ``names``; empty if none is close."""
    nearest = get_close_matches(value.lower(), names, 1)
    return say("query.nearest", name=nearest[0]) if nearest else ""


def unknown_field(text: str) -> str | None:
    """The first word of ``text`` that looks like a field (``foo>1``) but is not one; None without any."""
    for match in _LIKE_A_FIELD.finditer(text):
        if match["word"].lower() == "arg":
            return None  # what follows is the name of an arg, with a sign of its own
        if match["word"].lower() not in FIELDS:
            return match["word"].lower()
    return None


def _arg(sign: str, text: str, at: int) -> tuple[Arg, int]:
    """The term of ``arg:KEY~TEXT``, ``arg:KEY>8`` or ``arg:TEXT``, and the position after it; a key may have blanks."""
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
