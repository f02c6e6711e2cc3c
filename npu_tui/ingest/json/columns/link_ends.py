"""Link ends of a range as columns."""

from __future__ import annotations

from array import array
from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from npu_tui.ingest.json.columns.codes import Codes
from npu_tui.ingest.json.columns.joint_codes import JointCodes
from npu_tui.ingest.json.decoding.events import Event
from npu_tui.ingest.times import Times
from npu_tui.trace.model import HOST_TO_DEVICE

_LOW_BITS = 62
_LOW = (1 << _LOW_BITS) - 1
_LONGEST = 37
"""An id of so many digits does not fit into two numbers."""
_DIGITS = b" 0123456789"


class LinkEnds:
    """The sources and targets of links in file order, with the category and the id that make them pairs.

    An id is two numbers: the low and the high bits of a decimal text, else 0 and -1 less its code among ``texts``.
    """

    def __init__(
        self,
        threads: Codes[tuple[int, int]],
        categories: Codes[str],
        texts: Codes[str],
        skipped: Counter[str],
    ) -> None:
        self._texts = texts
        self._skipped = skipped
        self._places = JointCodes(threads, categories)
        self._begin()

    def _begin(self) -> None:
        self._count = 0
        self._without: list[int] = []
        self._time = Times()
        self._low, self._high = array("q"), array("q")

    def add(self, ends: list[Event]) -> None:
        """Take in link ends; those without an id are counted as skipped."""
        ids, begun = [event.id for event in ends], self._count
        self._count += len(ends)
        if None in ids:
            self._without += [i for i, identity in enumerate(ids, begun) if identity is None]
            launches = sum(event.id is None and event.cat == HOST_TO_DEVICE for event in ends)
            self._skipped["skip.launch_id"] += launches
            self._skipped["skip.link_id"] += ids.count(None) - launches  # a version of MindSpore writes them so
            ends = [event for event in ends if event.id is not None]
            ids = [event.id for event in ends]
        self._places.add([event.pid for event in ends], [event.tid for event in ends], [event.cat for event in ends])
        self._time.extend([event.ts for event in ends])
        self._add_ids(ids)

    def _add_ids(self, ids: list[Any]) -> None:
        if _plain(ids):
            numbers = list(map(int, ids))
            if max(numbers) <= _LOW:
                self._low += array("q", numbers)
                self._high += array("q", bytes(8 * len(numbers)))
            else:
                self._low += array("q", [number & _LOW for number in numbers])
                self._high += array("q", [number >> _LOW_BITS for number in numbers])
            return
        for text in map(str, ids):
            low, high = self._split(text)
            self._low.append(low)
            self._high.append(high)

    def _split(self, text: str) -> tuple[int, int]:
        if text.isdecimal() and text.isascii() and len(text) < _LONGEST and str(number := int(text)) == text:
            return number & _LOW, number >> _LOW_BITS
        return 0, -1 - self._texts[text]

    def take(self, ordinals: npt.NDArray[np.int64]) -> dict[str, npt.NDArray[Any]]:
        """The columns since the last call; ``ordinals`` are those of all the ends that were added."""
        thread, category = self._places.take()
        columns: dict[str, npt.NDArray[Any]] = {
            "category": category,
            "thread": thread,
            "event": np.delete(ordinals, self._without) if self._without else ordinals,
            "time": self._time.take(),
            "id": np.frombuffer(self._low, np.int64),
            "high": np.frombuffer(self._high, np.int64),
        }
        self._begin()
        return columns


def _plain(ids: list[Any]) -> bool:
    """Whether all ``ids`` are of one type, whole, as a number is written, and of usual length."""
    kinds = set(map(type, ids))
    if kinds == {int}:
        return bool(min(ids) >= 0 and max(ids) >> _LOW_BITS <= _LOW)
    if kinds != {str} or "" in ids or max(map(len, ids)) >= _LONGEST:
        return False
    text = f" {' '.join(ids)}"
    if not text.isascii() or text.encode().translate(None, _DIGITS):
        return False
    return text.count(" ") == len(ids) and " 0" not in text
