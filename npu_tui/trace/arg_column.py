"""The values of one arg of many events as columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]
Index = I64 | npt.NDArray[np.bool_] | slice

ABSENT, NUMBER, TEXT, OTHER = range(4)
_LARGEST = 1 << 62


class ArgColumn(Struct, frozen=True):
    """The values of one arg: ``kind`` and ``value`` of each event; (n,).

    The value of a whole NUMBER is the number itself, that of a TEXT its place in ``texts``, that of anything else (a
    float, a list, a number beyond 62 bits) its place in ``others``.
    """

    kind: U8
    value: I64
    texts: Sequence[str]
    others: Sequence[Any]

    def __len__(self) -> int:
        return len(self.kind)

    def __getitem__(self, index: Index) -> ArgColumn:
        """Some of the events."""
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
        """The whole numbers from ``least`` to below ``below``, ``otherwise`` in place of anything else; (n,)."""
        fits = (self.kind == NUMBER) & (self.value >= least) & (self.value < below)
        return np.where(fits, self.value, otherwise)

    @property
    def text_codes(self) -> I64:
        """The place in ``texts`` of each text, -1 in place of anything else; (n,)."""
        return np.where(self.kind == TEXT, self.value, -1)


def column_of(values: Sequence[Any]) -> ArgColumn:
    """The column of ``values``, None where there is none."""
    texts: dict[str, int] = {}
    others: list[Any] = []
    kinds, found = [], []
    for value in values:
        if value is None:
            kinds.append(ABSENT)
            found.append(0)
        elif type(value) is int and -_LARGEST < value < _LARGEST:
            kinds.append(NUMBER)
            found.append(value)
        elif isinstance(value, str):
            kinds.append(TEXT)
            found.append(texts.setdefault(value, len(texts)))
        else:
            kinds.append(OTHER)
            found.append(len(others))
            others.append(value)
    return ArgColumn(np.array(kinds, np.uint8), np.array(found, np.int64), list(texts), others)


def joined(columns: Sequence[ArgColumn]) -> ArgColumn:
    """One column after the other."""
    texts: dict[str, int] = {}
    others: list[Any] = []
    values = []
    for column in columns:
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
