"""Values numbered in the order of their first appearance."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import islice
from typing import TypeVar

K = TypeVar("K", bound=Hashable)


class Codes(dict[K, int]):
    """Numbers values in the order of their first appearance; the ``absent`` ones are -1."""

    def __init__(self, *absent: K) -> None:
        super().__init__(dict.fromkeys(absent, -1))
        self._absent = len(absent)

    def __missing__(self, key: K) -> int:
        code = self[key] = len(self) - self._absent
        return code

    @property
    def count(self) -> int:
        """How many values are numbered."""
        return len(self) - self._absent

    @property
    def values_in_order(self) -> list[K]:
        """The numbered values; code k is at index k."""
        return self.since(0)

    def since(self, count: int) -> list[K]:
        """The values with the codes ``count`` and up."""
        return list(islice(self, self._absent + count, None))
