"""Finds the slices of a trace that match a search, by its columns; terms about args are left to ``ArgReader.scan``.

A search is one line of text, parsed into terms that must all hold.

Plain words are part of a name, ``/words/`` is a regular expression, and fields such as ``dur>1ms`` or ``layer:cann``
are separated by blanks. As an example, ``matmul dur>1ms layer:"Ascend Hardware"`` finds long MatMul kernels.
"""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.analysis.code_lines import stack_of
from npu_tui.analysis.launches import Dispatch, operation_of
from npu_tui.analysis.steps import Step
from npu_tui.strings import say
from npu_tui.trace.args import Arg, as_number
from npu_tui.trace.arrays import I64, Bools
from npu_tui.trace.classes import OpClass
from npu_tui.trace.model import Trace
from npu_tui.trace.once import once
from npu_tui.trace.recorder import launch_links
from npu_tui.trace.text import parse_duration, whole_number

_FRAME = re.compile(r"(?P<file>.*)\((?P<line>\d{1,9})\)")
_DEVICE = ("hardware", "communication", "overlap")

# How long Python's engine searches for a pattern before polars, which releases the interpreter's lock, takes over.
_HERE_SECONDS = 0.05
_HERE_TRIES = 1e7  # steps that Python's engine may need for one name in the worst case: a tenth of a second
_PART = re.compile(r"\\(?P<escaped>.)|\[\^?\]?(?:\\.|[^\]])*\]|(?P<sign>.)", re.DOTALL)
_NAMED_OR_PLAIN_GROUP = re.compile(r"\(\?(?::|P<\w+>)")
_FIXED_GROUP = re.compile(r"\([^()|*+?{]*\)")
_LAZY = re.compile(r"(?<=[*+?}])\?")


class Searchable:
    """A trace with its launches, ready to be searched; the data of a field is computed at its first use."""

    def __init__(self, trace: Trace, dispatches: Sequence[Dispatch], steps: Callable[[], Sequence[Step]]) -> None:
        """``steps`` gives all steps of the trace."""
        self.trace = trace
        self._dispatches = dispatches
        self._steps = steps

    def prepare(self) -> None:
        """Compute the data of ``line:`` and ``step:``, which takes longer than a search should."""
        _ = self._stack, self._steps()

    def find(self, search: Search) -> Bools:
        """Which slices match all terms but those about args; (n,). Raises ``SearchError`` for an unusable pattern."""
        mask: Bools | None = None
        for term in search.terms:
            matches = self._matches(term)
            if matches is not None:
                mask = matches if mask is None else mask & matches
        if mask is None:
            return np.full(len(self.trace.slices), bool(search.terms))
        return mask

    def _matches(self, term: Term) -> Bools | None:
        slices = self.trace.slices
        if isinstance(term, Text):
            return self._names(term)[slices.name]
        if isinstance(term, Time):
            value = {"start": slices.start, "end": slices.end}.get(term.field)
            return _fulfils(slices.end - slices.start if value is None else value, term.sign, term.value)
        if isinstance(term, Place):
            return self._lanes(term)[slices.lane]
        if isinstance(term, LaunchClass):
            return self._launched(term.launch)
        if isinstance(term, SliceClass):
            return np.asarray((slices.op_class == term.op_class) & self._worked[slices.lane])
        if isinstance(term, FrameTerm):
            return self._line(term)
        if isinstance(term, StepNumber):
            return self._step(term.number)
        return None

    @once
    def _lowered(self) -> list[str]:
        return [name.lower() for name in self.trace.names]

    def _names(self, term: Text) -> Bools:
        names = self._lowered if term.any_case and not term.pattern else self.trace.names
        if term.pattern:
            mask = _search(names, term)
        elif term.whole:
            mask = np.array([term.text == name for name in names], np.bool_)
        else:
            mask = np.array([term.text in name for name in names], np.bool_)
        return mask if len(mask) else np.zeros(1, np.bool_)

    def _lanes(self, term: Place) -> Bools:
        trace = self.trace
        names = [lane.name if term.field == "lane" else trace.layers[lane.layer].name for lane in trace.lanes]
        wanted = [name.lower() == term.text if term.whole else term.text in name.lower() for name in names]
        return np.array([*wanted, False], np.bool_)

    @once
    def _worked(self) -> Bools:
        """Which lanes hold work; those of the Overlap Analysis only repeat the time of others."""
        trace = self.trace
        return np.array([trace.layers[lane.layer].kind != "overlap" for lane in trace.lanes] + [False], np.bool_)

    def _launched(self, launch: Launch) -> Bools:
        matches = np.zeros(len(self.trace.slices), np.bool_)
        for device in self._dispatches:
            of_class = {
                "starved": device.starved,
                "near-vertical": device.near_vertical,
                "shallow": device.shallow,
                "queued": device.queued,
            }[launch]
            matches[self.trace.links.target_slice[device.link[of_class]]] = True
        return matches

    @once
    def _stack(self) -> npt.NDArray[np.int32]:
        """The call stack of every slice, that of its operation where it has none, -1 without; (n,)."""
        trace = self.trace
        python = np.array([trace.layers[lane.layer].kind == "python" for lane in trace.lanes] + [False])
        stacks = np.full(len(trace.slices), -1, np.int32)
        host = np.flatnonzero(python[trace.slices.lane])
        stacks[host] = stack_of(trace, host)
        device = np.flatnonzero(~python[trace.slices.lane])
        operation = operation_of(trace, device)
        # Nearly all operations are on the host, where the stacks are known now.
        stacks[device] = np.where(operation >= 0, stacks[operation], -1)
        other = device[(operation >= 0) & ~python[trace.slices.lane[operation]]]
        stacks[other] = stack_of(trace, operation_of(trace, other))
        launch = launch_links(trace)
        source, target = trace.links.source_slice[launch], trace.links.target_slice[launch]
        bound = (source >= 0) & (target >= 0)
        source, target = source[bound], target[bound]
        without_stack = stacks[source] < 0
        stacks[source[without_stack]] = stacks[target[without_stack]]
        return stacks

    def _line(self, term: FrameTerm) -> Bools:
        wanted = np.array([*(_has_frame(stack, term) for stack in self.trace.stacks), False], np.bool_)
        return np.asarray(wanted[self._stack])

    def _step(self, number: int) -> Bools:
        trace, start = self.trace, self.trace.slices.start
        step = next((step for step in self._steps() if step.number == number), None)
        if step is None:
            return np.zeros(len(trace.slices), np.bool_)
        device = np.array([trace.layers[lane.layer].kind in _DEVICE for lane in trace.lanes] + [False])
        slices = trace.slices
        host = (start >= slices.start[step.item]) & (start < slices.end[step.item])
        on_device = step.window.holds(start) if step.window is not None else np.zeros(len(start), np.bool_)
        return np.where(device[trace.slices.lane], on_device, host)


def _has_frame(stack: str, wanted: FrameTerm) -> bool:
    for frame in stack.split(";"):
        match = _FRAME.match(frame.lstrip())
        if match is None or (wanted.line is not None and int(match["line"]) != wanted.line):
            continue
        file = match["file"]
        if not wanted.file or file == wanted.file or file.endswith(("/" + wanted.file, "\\" + wanted.file)):
            return True
    return False


def _fulfils(values: I64, sign: Compare, value: int) -> Bools:
    if sign == "<":
        return np.asarray(values < value)
    if sign == "<=":
        return np.asarray(values <= value)
    if sign == ">":
        return np.asarray(values > value)
    return np.asarray(values >= value if sign == ">=" else values == value)


def _search(names: list[str], term: Text) -> Bools:
    """Which of ``names`` the pattern of ``term`` matches; (names,)."""
    tries = _tries(term.text)
    if tries is None:
        return _search_beside(names, term)
    mask = np.zeros(len(names), np.bool_)
    pattern = re.compile(term.text, re.IGNORECASE if term.any_case else 0)
    until, slow = time.monotonic() + _HERE_SECONDS, []
    for at, name in enumerate(names):
        if tries(len(name)) > _HERE_TRIES or time.monotonic() > until:
            slow.append(at)
        else:
            mask[at] = pattern.search(name) is not None
    if slow:
        mask[slow] = _search_beside([names[at] for at in slow], term)
    return mask


def _tries(pattern: str) -> Callable[[int], int] | None:
    """The steps of Python's engine in the worst case, as a function of the length of a name.

    Each repetition multiplies them by the length, each choice by two: ``a.*b|c`` takes up to 2 · length². None for
    patterns that may be exponential (a repeated group) and for those that only Python supports (look-around,
    references), which ``_search_beside`` reports.
    """
    parts = list(_PART.finditer(pattern))
    plain = "".join(part["sign"] or "x" for part in parts)
    plain = _FIXED_GROUP.sub("x", _LAZY.sub("", _NAMED_OR_PLAIN_GROUP.sub("(", plain)))
    refers = any((part["escaped"] or "") in tuple("123456789") for part in parts)
    if refers or "(?" in plain or any(f"){sign}" in plain for sign in "*+?{"):
        return None
    power, choices = 1 + sum(plain.count(sign) for sign in "*+?{"), plain.count("|")
    return lambda length: length**power << choices


def _search_beside(names: list[str], term: Text) -> Bools:
    # A pattern that backtracks would stop the whole program: this engine takes linear time and runs beside it, but
    # its import takes longer than a search may.
    import polars

    flags = "(?i)" if term.any_case else ""
    try:
        mask = polars.Series(names, dtype=polars.String).str.contains(flags + term.text)
    except polars.exceptions.ComputeError:
        raise SearchError(say("query.pattern_kind")) from None
    return mask.to_numpy().astype(np.bool_)


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
    """Kernels with launches of one class."""

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
