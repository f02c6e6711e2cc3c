"""The args of events, which a trace does not keep: what can be asked of them, and who answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.trace.arg_column import ArgColumn

I64 = npt.NDArray[np.int64]


def always() -> bool:
    """Nothing stops a scan."""
    return True


class Arg(Struct, frozen=True):
    """An arg whose name contains ``key`` (any arg if empty) and whose value compares with ``text`` by ``sign``.

    ``~`` is "contains". Both texts are in lower case, as case does not count.
    """

    key: str
    sign: Literal["~", "<", "<=", ">", ">=", "="]
    text: str

    def holds(self, key: str, value: str) -> bool:
        """Whether the arg ``key`` with ``value``, both in lower case, is one that is asked for."""
        if self.key not in key:
            return False
        if self.sign == "~":
            return self.text in value
        number, bound = as_number(value), as_number(self.text)
        if number is None or bound is None:
            return self.sign == "=" and value == self.text
        return {
            "=": number == bound,
            "<": number < bound,
            "<=": number <= bound,
            ">": number > bound,
            ">=": number >= bound,
        }[self.sign]


def as_number(text: str) -> float | None:
    """The number that ``text`` is, or None."""
    try:
        return float(text)
    except ValueError:
        return None


class Matches(Struct, frozen=True):
    """Part of a scan: ``places`` of events that match, in the ordinals given, and the share 0..1 searched so far."""

    places: I64
    share: float


class ArgReader(Protocol):
    """Reads args of events again from where the trace lies; ordinals are those of ``Slices.event``.

    All but ``is_ready`` raise ``InputError`` if that place is gone or is not the one that was loaded.
    """

    @property
    def is_ready(self) -> bool:
        """Whether the others answer at once; False while a packed file has yet to be unpacked."""

    def one(self, ordinal: int) -> dict[str, Any]:
        """All args of an event; empty if it has none."""

    def many(self, ordinals: I64, keys: Sequence[str]) -> list[list[Any]]:
        """The args ``keys`` of many events: a list for each key with a value per ordinal, None where it is absent."""

    def columns(self, ordinals: I64, keys: Sequence[str]) -> list[ArgColumn]:
        """The same as columns: without an object per value where there are very many."""

    def scan(self, ordinals: I64, wanted: Sequence[Arg], go_on: Callable[[], bool] = always) -> Iterator[Matches]:
        """Which of the events ``ordinals`` (ascending) have args that match all of ``wanted``, part by part.

        Stops when ``go_on`` says so.
        """
