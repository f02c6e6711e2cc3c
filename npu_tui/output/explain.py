"""What a finding means, as a document."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from itertools import chain
from typing import ClassVar, Literal, get_args

from msgspec import Struct

from npu_tui.analysis.limits import Thresholds
from npu_tui.output.document import Block, Cell, Code, Document, Heading, Items, Paragraph, Table
from npu_tui.output.envelope import Old, Root
from npu_tui.rules.explanation import (
    WORDS,
    Explanation,
    Word,
    commands_asked,
    explanation,
    first_sentence,
    plain,
    words_called,
)
from npu_tui.rules.find import RULES
from npu_tui.rules.model import FindingClass, Kind
from npu_tui.strings import Ours, say
from npu_tui.subjects import subjects
from npu_tui.trace.text import printable

_ALIKE = 0.75  # of difflib: one or two letters of an id may be wrong

_DIFFERENCES: tuple[Kind, ...] = tuple(kind for subject in subjects() for kind in subject.differences())
_OF_OTHERS = {subject.id: tuple(subject.findings()) for subject in subjects() if subject.id != "profile"}
KINDS: tuple[Kind, ...] = (*RULES, *_DIFFERENCES, *chain.from_iterable(_OF_OTHERS.values()))
"""Everything that can be explained."""


def kind_of(wanted: str) -> Kind | None:
    """The finding with the id ``wanted``, in any case; None if there is none."""
    return next((kind for kind in KINDS if kind.id.lower() == wanted.strip().lower()), None)


def finding_ids() -> list[str]:
    """The ids of all findings: of one profile, of a comparison, and of a job."""
    return [kind.id for kind in KINDS]


def about(word: Word) -> tuple[str, ...]:
    """The ids of the findings about ``word``."""
    return tuple(kind.id for kind in KINDS if word.id in kind.words)


class Meant(Struct, frozen=True):
    """What a text may mean: words of the glossary, findings whose ids or texts have it, commands that answer it.

    ``commands`` is empty where the text names a word; else the words are those that lead to the commands.
    """

    words: list[Word]
    kinds: list[Kind]
    commands: tuple[str, ...] = ()


def meant(wanted: str) -> Meant:
    """What ``wanted`` may mean where it is no id: the words called so, with their findings, and findings about it."""
    words, text = words_called(wanted), plain(wanted)
    commands = () if words else tuple(commands_asked(wanted))
    ids = {id for word in words for id in about(word)}
    if len(text) > _SHORTEST or (text and not text.isascii()):
        ids |= {kind.id for kind in KINDS if any(text in plain(each) for each in _searched_texts(kind))}
    words = words or [word for word in WORDS if not set(commands).isdisjoint(word.commands)]
    return Meant(words, [kind for kind in KINDS if kind.id in ids], commands)


def _searched_texts(kind: Kind) -> tuple[str, ...]:
    """What is said about ``kind`` and may hold the words of a search."""
    about = explanation(kind)
    return about.id, about.meaning, *about.advice, *about.change


_SHORTEST = 2  # a text of as many ASCII letters is in too many others


def nearest(wanted: str) -> str | None:
    """The id or word that ``wanted`` may mean: an id that contains it, else the most similar one; None without any."""
    word = wanted.strip().upper()
    ids = finding_ids()
    parts = [part for id in ids for part in id.split(".")]
    begun = [id for id in ids if word and any(part.startswith(word) for part in id.split("."))]
    inside = begun or [id for id in ids if word and word in id]
    titles = [entry.title for entry in WORDS]
    close = difflib.get_close_matches(word, [*ids, *parts], n=1, cutoff=_ALIKE)
    near = [id for id in ids if close and close[0] in (id, *id.split("."))]
    near += difflib.get_close_matches(wanted.strip().lower(), titles, n=1, cutoff=_ALIKE)
    return next(iter(inside or near), None)


def unknown(wanted: str) -> str:
    """What to say where no finding is called ``wanted``: the one that may be meant, else all."""
    near = nearest(wanted)
    if near is not None:
        return say("explain.unknown", id=printable(wanted), near=near)
    return say("explain.unknown_all", id=printable(wanted), ids=Ours(" ".join(finding_ids())))


WIDTH = 100
"""Cells of a line: an explanation is read, not scanned."""


def findings_document() -> Document:
    """All ids by class with the first sentence of each, then the words of the glossary."""
    groups: list[tuple[str, list[Kind]]] = [
        (say(f"finding.class.{cls}"), [rule for rule in RULES if rule.cls == cls])
        for cls in get_args(FindingClass)[:-1]
    ]
    groups.append((say("explain.compare"), [*_DIFFERENCES]))
    groups += [(say(f"explain.{name}"), [*kinds]) for name, kinds in _OF_OTHERS.items() if kinds]
    blocks: list[Block] = [_kinds_table(title, kinds) for title, kinds in groups]
    return Document(say("explain.list"), [*blocks, _glossary(WORDS)])


def meant_document(found: Meant, wanted: str, keys_of: Callable[[Sequence[str]], list[tuple[str, str]]]) -> Document:
    """The words, in full if few are named, else as a list, then the findings; ``keys_of`` gives keys of commands."""
    blocks: list[Block] = []
    if keys := keys_of(found.commands):
        blocks.append(_keys_table(keys))
        if topics := list(dict.fromkeys(topic for word in found.words for topic in word.topics)):
            blocks += [Heading(say("explain.manual")), Items(tuple(f"npu-tui help {topic}" for topic in topics))]
    in_full = len(found.words) <= _IN_FULL and not found.commands
    if found.words and not in_full:
        blocks.append(_glossary(found.words))
    single = len(found.words) == 1 and in_full
    for word in found.words if in_full else ():
        blocks += [Paragraph((word.meaning,))] if single else [Heading(word.title), Paragraph((word.meaning,))]
        if keys := keys_of(word.commands):
            blocks.append(_keys_table(keys))
        if word.topics:
            told = tuple(f"npu-tui help {topic}" for topic in word.topics)
            blocks += [Heading(say("explain.manual")), Items(told)]
        if word.pages:
            told = tuple(say("explain.page", title=title, address=address) for title, address in word.pages)
            blocks += [Heading(say("explain.pages")), Items(told)]
    if found.kinds:
        blocks.append(_kinds_table(say("explain.findings"), found.kinds))
    return Document(found.words[0].title if single else printable(wanted), blocks)


_IN_FULL = 2  # so many words are explained in full


def _keys_table(keys: Sequence[tuple[str, str]]) -> Table:
    return _meanings_table(say("explain.keys"), [[Cell(key, name=True), Cell(title)] for key, title in keys])


def _kinds_table(title: str, kinds: Sequence[Kind]) -> Table:
    return _meanings_table(title, [[Cell(kind.id, name=True), Cell(explanation(kind).summary)] for kind in kinds])


def _glossary(words: Sequence[Word]) -> Table:
    return _meanings_table(
        say("explain.words"), [[Cell(word.title), Cell(first_sentence(word.meaning))] for word in words]
    )


def explain_document(kind: Kind, thresholds: Thresholds | None = None) -> Document:
    """Everything about ``kind``, with the values of ``thresholds``."""
    about = explanation(kind, thresholds)
    blocks: list[Block] = [Paragraph((about.meaning,)), Paragraph((about.needs,))]
    if about.thresholds:
        rows = [
            [Cell(name, name=True), Cell(f"= {value:g}", value), Cell(text)] for name, value, text in about.thresholds
        ]
        blocks.append(_meanings_table(say("explain.thresholds"), rows))
    blocks += [Heading(say("explain.advice")), Items(about.advice)]
    if about.gpu:
        blocks += [Heading(say("explain.gpu")), Items(about.gpu)]
    if about.whatif:
        blocks.append(Paragraph((say("explain.whatif", change=about.whatif),)))
    if about.change:
        blocks += [Heading(say("explain.change")), Code(about.change)]
    if about.pages:
        pages = tuple(say("explain.page", title=title, address=address) for title, address in about.pages)
        blocks += [Heading(say("explain.pages")), Items(pages)]
    if about.documents:
        blocks += [Heading(say("explain.documents")), Items(about.documents)]
    return Document(say("explain.head", id=about.id, cls=about.subject), blocks)


class WordRow(Struct, frozen=True):
    """A word of the glossary with its meaning, what leads on from it, and public pages as title and address."""

    id: str
    word: str
    meaning: str
    findings: tuple[str, ...]
    topics: tuple[str, ...]
    pages: tuple[tuple[str, str], ...]


class Explained(Root, frozen=True):
    """What ``npu-tui explain --format json`` writes."""

    OLD: ClassVar = {"explanations": Old("findings")}

    explanations: list[Explanation]
    words: list[WordRow]
    schema_version: Literal[2] = 2
    kind: Literal["explain"] = "explain"


def explained(kinds: Sequence[Kind] | None, words: Sequence[Word], thresholds: Thresholds | None = None) -> Explained:
    """``kinds`` and ``words`` with all that is said about them; None: all there are."""
    return Explained(
        [explanation(kind, thresholds) for kind in (KINDS if kinds is None else kinds)],
        [
            WordRow(word.id, word.title, word.meaning, about(word), word.topics, word.pages)
            for word in (WORDS if kinds is None else words)
        ],
    )


def _meanings_table(title: str, rows: list[list[Cell]]) -> Table:
    """Names and what they mean: a table without a head."""
    columns = len(rows[0])
    return Table("meanings", title, ("",) * columns, (False,) * columns, rows)
