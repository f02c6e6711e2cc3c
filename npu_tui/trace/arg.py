"""A question about the args of a slice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Arg:
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
