"""Every text a user can see: one folder per language with one file per large subject, all with the same keys.

To add a language, copy ``en``, translate the right side of every line, and add the folder to ``LANGUAGES``.

Placeholders are in braces. In ``{lost:time}`` keep the name and the kind (after the colon: how the value is written),
and put it where your sentence needs it. ``{count:launch|launches}`` is a number with its noun, singular and plural.
``{press[zoom_in]}`` is the key of a command. A test compares the keys and placeholders of all languages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from npu_tui.trace.text import (
    about_text,
    change_text,
    count_text,
    duration_text,
    flops_text,
    limit_text,
    mean_count_text,
    memory_change_text,
    memory_text,
    moment_text,
    padded,
    percent_text,
    share_change_text,
    share_text,
    size_text,
    speed_text,
    wait_text,
)

if TYPE_CHECKING:
    from npu_tui.trace.message import Message

ENGLISH = "en"
"""The language of JSON and of files that programs read."""

LANGUAGES = (ENGLISH, "zh")
"""The languages with tables of their own."""

_FOLDER = Path(__file__).parent


@cache
def texts_of(language: str) -> dict[str, str]:
    """Every text of ``language`` by its key, of all its files; no key is in two of them."""
    # A line is TOML, ``"key" = "text"``. With one key a line it is JSON but for the sign in the middle, and JSON is
    # read in two milliseconds: ``--help`` would wait 60 for a parser of all of TOML.
    lines = [
        line.replace('" = "', '": "', 1)
        for file in sorted((_FOLDER / language).glob("*.toml"))
        for line in file.read_text(encoding="utf-8").splitlines()
        if line.startswith('"')
    ]
    texts: dict[str, str] = json.loads(f"{{{','.join(lines)}}}")
    return texts


@cache
def asked_phrases() -> dict[str, tuple[str, ...]]:
    """What people ask for, in every language, by the command that answers, or ``command.subject``."""
    found: dict[str, list[str]] = {}
    for language in LANGUAGES:
        for key, text in texts_of(language).items():
            if key.startswith("asked."):
                found.setdefault(key.removeprefix("asked."), []).extend(text.casefold().split("|"))
    return {command: tuple(phrases) for command, phrases in found.items()}


class _Press:
    """What ``{press[zoom_in]}`` in a text stands for: the key that runs the command at present."""

    def __init__(self) -> None:
        self.key_of: Callable[[str], str] = str

    def __getitem__(self, command: str) -> str:
        return self.key_of(command)


class _Spoken:
    """The language in use."""

    def __init__(self) -> None:
        self.language = ENGLISH


_PRESS = _Press()
_SPOKEN = _Spoken()


def language() -> str:
    """The language of the texts."""
    return _SPOKEN.language


def speak(language: str) -> None:
    """From now on texts are in ``language``, one of ``LANGUAGES``."""
    _SPOKEN.language = language


@contextmanager
def speaking(language: str) -> Iterator[None]:
    """Texts are in ``language`` inside: what programs read is English whatever the user reads."""
    before = _SPOKEN.language
    _SPOKEN.language = language
    try:
        yield
    finally:
        _SPOKEN.language = before


def knows(key: str) -> bool:
    """Whether there is a text for ``key``."""
    return key in texts_of(_SPOKEN.language)


def name_keys(key_of: Callable[[str], str]) -> None:
    """From now on texts name the key ``key_of(command)`` where they say what to press for a command."""
    _PRESS.key_of = key_of


class Ours(str):
    """A text that is ours, or whose names are labels already."""

    __slots__ = ()


_LABELS: ContextVar[Callable[[str], str] | None] = ContextVar("labels", default=None)
_MEASURE = re.compile(r"[-+−±–…\d\s.,:;<>%]*(?:ns|µs|us|ms|s|min|h|[kMG]?B|[KMG]iB|GB/s|[kMGTP]?FLOP)?")


@contextmanager
def labelling(label_of: Callable[[str], str]) -> Iterator[None]:
    """Inside, texts hold ``label_of(name)`` in place of each name that is not ours, such as that of a kernel.

    Who reads the texts as instructions, a model for example, then reads nothing that a trace says. Measures stay.
    """
    before = _LABELS.set(label_of)
    try:
        yield
    finally:
        _LABELS.reset(before)


def _as_named(text: str) -> str:
    """``text`` as it stands in a sentence."""
    label_of = _LABELS.get()
    return text if label_of is None or isinstance(text, Ours) or _MEASURE.fullmatch(text) else label_of(text)


def say(key: str, /, **values: object) -> str:
    """The text for ``key`` with ``values`` filled in, and the keys that it names.

    A placeholder may name the kind of its value, such as ``{lost:time}`` (``KINDS``). A value may be a ``Message``.
    """
    text = texts_of(_SPOKEN.language)[key]
    text = text.format(press=_PRESS, **{name: _Value(each) for name, each in values.items()})
    return text if _LABELS.get() is None else Ours(text)


def words(message: Message | str) -> str:
    """``message`` in words; a text that is not ours, such as a name of the trace, stays as it is."""
    return message if isinstance(message, str) else say(message.code, **message.args)


def _and(values: Iterable[object]) -> str:
    """``0, 1 and 2``."""
    *first, last = [str(_Value(each)) for each in values] or [""]
    return say("list.and", first=Ours(say("list.comma").join(first)), last=Ours(last)) if first else last


def _list(values: Iterable[object]) -> str:
    """``0, 1, 2``."""
    return say("list.comma").join(str(_Value(each)) for each in values)


def _sentences(values: Iterable[object]) -> str:
    """Sentences one after another; empty ones are left out."""
    return say("list.space").join(text for each in values if (text := str(_Value(each))))


KINDS: dict[str, Callable[..., str]] = {
    "time": duration_text,
    "about": about_text,
    "wait": wait_text,
    "limit": limit_text,
    "moment": moment_text,
    "share": share_text,
    "percent": percent_text,
    "count": count_text,
    "size": size_text,
    "memory": memory_text,
    "memory_change": memory_change_text,
    "speed": speed_text,
    "flops": flops_text,
    "change": change_text,
    "share_change": share_change_text,
    "mean_count": mean_count_text,
    "ratio": "{:.2f}".format,
    "and": _and,
    "list": _list,
    "sentences": _sentences,
}
"""How a value of each kind is written: times in ns, shares of 1, bytes, GB/s; lists of texts or messages.

None and NaN are said to be unknown. A kind such as ``launch|launches`` is a number with what is counted, one or many,
and ``>5 launch|launches`` has a width as well.
"""

_ALIGNED = re.compile(r"([<>])(\d+)")


class _Value:
    """What stands in for a value in a text."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __str__(self) -> str:
        if isinstance(self.value, str):
            return _as_named(self.value)
        if isinstance(self.value, (int, float)):
            return str(self.value)
        from npu_tui.trace.message import Message  # which costs more than all of --help

        return words(self.value) if isinstance(self.value, Message) else _as_named(str(self.value))

    def _counted(self, spec: str) -> str:
        """A number, already in words or not, with what is counted; as wide as a width ahead of that says."""
        number = str(self) if isinstance(self.value, str) else f"{self.value:,}"
        if aligned := _ALIGNED.match(spec):
            number, spec = format(_Value(number), aligned[0]), spec[aligned.end() :].lstrip()
        return f"{number} {spec.split('|')[number.strip() != '1']}"

    def __format__(self, spec: str) -> str:
        if not spec:
            return str(self)
        if spec == "count" and isinstance(self.value, str):  # one that is written already
            return str(self)
        kind = KINDS.get(spec)
        if kind is not None:
            return say("report.unknown") if self.value is None or self.value != self.value else kind(self.value)
        if "|" in spec:
            return self._counted(spec)
        aligned = _ALIGNED.fullmatch(spec)
        if aligned is not None:  # in cells of the terminal, not in characters
            return padded(str(self), int(aligned[2]), right=aligned[1] == ">")
        return format(self.value, spec)
