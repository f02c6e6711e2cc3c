"""Names of many calls as codes, so that ranks with the same names are joined by numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
import numpy.typing as npt

I32 = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Names(Sequence[str]):
    """Texts of which ``code`` (n,) indexes ``texts``; many ranks may share those, and a text may stand there twice."""

    texts: tuple[str, ...]
    code: I32

    @staticmethod
    def of(names: Sequence[str]) -> Names:
        """``names``, as they are where they have codes."""
        return names if isinstance(names, Names) else Names(tuple(names), np.arange(len(names), dtype=np.int32))

    def __len__(self) -> int:
        return len(self.code)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[str, ...]: ...
    def __getitem__(self, at: int | slice) -> str | tuple[str, ...]:
        if isinstance(at, slice):
            return tuple(self.texts[code] for code in self.code[at].tolist())
        return self.texts[int(self.code[at])]

    def __iter__(self) -> Iterator[str]:
        return map(self.texts.__getitem__, self.code.tolist())


class Codes:
    """Numbers from 0 on for texts, the same for all ``Names`` that are asked for."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._known: dict[int, tuple[tuple[str, ...], I32]] = {}  # with the texts, as an id is that of what is kept

    def __len__(self) -> int:
        return len(self._numbers)

    def of(self, names: Names) -> I32:
        """The number of every name, (n,)."""
        known = self._known.get(id(names.texts))
        if known is None:
            numbers = self._numbers
            own = np.array([numbers.setdefault(text, len(numbers)) for text in names.texts], np.int32)
            known = self._known[id(names.texts)] = names.texts, own
        return known[1][names.code]
