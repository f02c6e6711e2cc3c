"""The args of events: a trace does not keep them but reads them again from its file, as columns.

``Trace.args`` is an ``ArgReader``; there is one for JSON, one for databases, and some for rows that are at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.trace.arrays import I32, I64, U8, Bools
from npu_tui.trace.text import on_one_line

Index = I64 | npt.NDArray[np.bool_] | slice

ABSENT, NUMBER, TEXT, OTHER = range(4)
_LARGEST = 1 << 62  # the sum of two numbers below it fits into 64 bits; larger ones stay as they are written


class ArgColumn(Struct, frozen=True):
    """The values of one arg: ``kind`` and ``value`` of each event; (n,).

    ``value`` is the number itself for a NUMBER (an integer), the index into ``texts`` for a TEXT, and the index into
    ``others`` for OTHER (a float, a list, an integer beyond 62 bits).
    """

    kind: U8
    value: I64
    texts: Sequence[str]
    others: Sequence[Any]

    def __len__(self) -> int:
        return len(self.kind)

    def __getitem__(self, index: Index) -> ArgColumn:
        """The column of some of the events."""
        return ArgColumn(self.kind[index], self.value[index], self.texts, self.others)

    @property
    def objects(self) -> list[Any]:
        """The value of each event, None where it is absent."""
        texts, others = self.texts, self.others
        return [
            value if kind == NUMBER else texts[value] if kind == TEXT else None if kind == ABSENT else others[value]
            for kind, value in zip(self.kind.tolist(), self.value.tolist(), strict=True)
        ]

    def numbers(self, least: int, below: int, otherwise: int = -1) -> I64:
        """The integers in ``[least, below)``, and ``otherwise`` in place of any other value; (n,)."""
        fits = (self.kind == NUMBER) & (self.value >= least) & (self.value < below)
        return np.where(fits, self.value, otherwise)

    @property
    def text_codes(self) -> I64:
        """The index into ``texts`` of each event, -1 where its value is not a text; (n,)."""
        return np.where(self.kind == TEXT, self.value, -1)


def column_of(values: Sequence[Any]) -> ArgColumn:
    """The column of ``values``; None stands for an event without the arg."""
    texts: dict[str, int] = {}
    others: list[Any] = []
    kinds, codes = [], []
    for value in values:
        if value is None:
            kinds.append(ABSENT)
            codes.append(0)
        elif type(value) is int and -_LARGEST < value < _LARGEST:
            kinds.append(NUMBER)
            codes.append(value)
        elif isinstance(value, str):
            kinds.append(TEXT)
            codes.append(texts.setdefault(value, len(texts)))
        else:
            kinds.append(OTHER)
            codes.append(len(others))
            others.append(value)
    return ArgColumn(np.array(kinds, np.uint8), np.array(codes, np.int64), list(texts), others)


def joined(columns: Sequence[ArgColumn]) -> ArgColumn:
    """The columns concatenated; equal texts share one entry of ``texts``."""
    texts: dict[str, int] = {}
    others: list[Any] = []
    values = []
    for column in columns:
        # The last entry keeps the lookup valid for a column without any text.
        places = np.array([texts.setdefault(text, len(texts)) for text in column.texts] + [0], np.int64)
        value = np.where(column.kind == OTHER, column.value + len(others), column.value)
        is_text = column.kind == TEXT
        value[is_text] = places[column.value[is_text]]
        values.append(value)
        others += column.others
    kinds = [column.kind for column in columns]
    return ArgColumn(
        np.concatenate([*kinds, np.zeros(0, np.uint8)]),
        np.concatenate([*values, np.zeros(0, np.int64)]),
        list(texts),
        others,
    )


def always() -> bool:
    """The ``go_on`` of a scan that nothing stops."""
    return True


class Arg(Struct, frozen=True):
    """An arg whose name contains ``key`` (any arg if empty) and whose value compares with ``text`` by ``sign``.

    ``~`` means "contains". Both texts are in lower case: the search ignores case.
    """

    key: str
    sign: Literal["~", "<", "<=", ">", ">=", "="]
    text: str

    def holds(self, key: str, value: str) -> bool:
        """Whether an arg ``key`` with ``value``, both in lower case, matches."""
        if self.key not in key:
            return False
        if self.sign == "~":
            return self.text in value
        number, bound = as_number(value), as_number(self.text)
        if number is None or bound is None:
            # "=" also compares texts such as ``HCCS``; an order of texts has no meaning here.
            return self.sign == "=" and value == self.text
        return {
            "=": number == bound,
            "<": number < bound,
            "<=": number <= bound,
            ">": number > bound,
            ">=": number >= bound,
        }[self.sign]


def as_number(text: str) -> float | None:
    """``text`` as a number; None if it is not one."""
    try:
        return float(text)
    except ValueError:
        return None


class ScanMatches(Struct, frozen=True):
    """Part of a scan: ``places`` index the ordinals of the events that match; ``share`` (0..1) is searched so far."""

    places: I64
    share: float


def args_match(args: Mapping[str, Any], wanted: Sequence[Arg]) -> bool:
    """Whether some of the ``args`` of an event match each of ``wanted``."""
    texts = [(str(key).lower(), on_one_line(str(value)).lower()) for key, value in args.items()]
    return all(any(arg.holds(key, value) for key, value in texts) for arg in wanted)


_SOME = 20_000  # events that are searched at once


class ArgReader(Struct, frozen=True, eq=False):
    """Reads the args of events again from the file of the trace; ordinals are those of ``Slices.event``. Here of none.

    ``one`` is all that a reader of rows at hand has to have. All but ``is_ready`` raise ``InputError`` if the file is
    gone or has changed since it was loaded.
    """

    @property
    def is_ready(self) -> bool:
        """Whether the other methods answer without delay; False until a compressed file is unpacked."""
        return True

    def one(self, ordinal: int) -> dict[str, Any]:
        """All args of an event; empty if it has none."""
        del ordinal
        return {}

    def many(self, ordinals: I64, keys: Sequence[str]) -> list[list[Any]]:
        """The args ``keys`` of many events: a list for each key with a value per ordinal, None where it is absent."""
        rows = [self.one(ordinal) for ordinal in ordinals.tolist()]
        return [[row.get(key) for row in rows] for key in keys]

    def columns(self, ordinals: I64, keys: Sequence[str]) -> list[ArgColumn]:
        """Like ``many``, as columns: no Python object per value where a reader knows better."""
        return [column_of(values) for values in self.many(ordinals, keys)]

    def scan(self, ordinals: I64, wanted: Sequence[Arg], go_on: Callable[[], bool] = always) -> Iterator[ScanMatches]:
        """Which of the events ``ordinals`` (ascending) have args that match all of ``wanted``, part by part.

        Stops when ``go_on`` returns False.
        """
        for begin in range(0, len(ordinals), _SOME):
            if not go_on():
                return
            some = ordinals[begin : begin + _SOME].tolist()
            hits = [begin + place for place, ordinal in enumerate(some) if args_match(self.one(ordinal), wanted)]
            yield ScanMatches(np.array(hits, np.int64), (begin + len(some)) / len(ordinals))


MOST_BYTES = 1 << 44
"""A larger size is damage; below it the sum over all tasks of a collective fits into 64 bits."""


class PlaneArgs(Struct, frozen=True):
    """Args of the plane tasks ``item`` (slices in ascending order); (n,) each.

    ``source_rank`` and ``target_rank`` are ranks of the group, -1 where the task has none; ``size`` is in bytes, -1
    where unknown; ``link`` indexes ``links``, texts such as ``HCCS`` or ``ON_CHIP``, empty where unknown.
    """

    item: I64
    source_rank: I32
    target_rank: I32
    size: I64
    link: I32
    links: list[str]

    def over(self, rule: Callable[[str], bool]) -> Bools:
        """Which tasks use a link whose type passes ``rule``; (n,)."""
        return np.array([rule(name) for name in self.links], np.bool_)[self.link]


class CollectiveArgs(Struct, frozen=True):
    """Args of the collectives ``item`` (slices in ascending order); (n,) each.

    ``algorithm`` indexes ``algorithms``, empty where unknown; ``size`` is in bytes, -1 where unknown.
    """

    item: I64
    algorithm: I32
    size: I64
    algorithms: list[str]


class CommunicationArgs(Struct, frozen=True):
    """Args of all slices of communication layers: of the tasks on plane lanes and of the collectives."""

    planes: PlaneArgs
    collectives: CollectiveArgs


class SizedCopies(Struct, frozen=True):
    """The copies ``item`` with a known size, ascending: ``size`` in bytes and the direction ``way``; (n,) each.

    ``way`` indexes ``ways``, the words of the profiler in lower case, such as ``host to device``.
    """

    item: npt.NDArray[np.int64]
    size: npt.NDArray[np.int64]
    way: npt.NDArray[np.int32]
    ways: list[str]
