"""The links of one category in target-time order, with the running sums that make a cell's answer O(log N)."""

from __future__ import annotations

import numpy as np

from npu_tui.trace.model import Trace
from npu_tui.view.scene import LinkClasses, LinkShape
from npu_tui.view.spans import I64


class LinkIndex:
    """Links of one category of one trace.

    ``link`` are indices in ``Trace.links``; ``source``, ``target`` (ns), ``shape``, ``lost`` (ns) and ``starved``
    belong to them. The ``*_sum`` arrays are prefix sums with one entry more.
    """

    def __init__(self, trace: Trace, marks: LinkClasses, category: str) -> None:
        self.link: I64 = trace.links_of(category).astype(np.int64)
        self.source: I64 = trace.links.source_time[self.link]
        self.target: I64 = trace.links.target_time[self.link]
        self.shape = marks.shape[self.link]
        self.lost: I64 = marks.lost[self.link]
        self.starved = marks.starved[self.link]
        near = self.shape == LinkShape.NEAR_VERTICAL
        self.near_sum = _prefix(near)
        self.shallow_sum = _prefix(self.shape == LinkShape.SHALLOW)
        self.negative_sum = _prefix(self.target < self.source)
        self.starved_sum = _prefix(self.starved)
        self.starved_near_sum = _prefix(self.starved & near)
        self.starved_shallow_sum = _prefix(self.starved & (self.shape == LinkShape.SHALLOW))
        self.lost_sum = _prefix(np.where(self.starved, self.lost, 0))
        self.emphasised: I64 = np.flatnonzero(near | self.starved)
        # The running maximum and minimum ascend, so a search in them bounds the links that touch a window.
        self._latest = np.maximum.accumulate(np.maximum(self.source, self.target))
        self._earliest = np.minimum.accumulate(np.minimum(self.source, self.target)[::-1])[::-1]

    def __len__(self) -> int:
        return len(self.link)

    def touching(self, start: int, end: int) -> tuple[int, int]:
        """Bounds of a run of links that holds every one with some time in ``[start, end)`` ns, and few others."""
        low = int(np.searchsorted(self._latest, start))
        high = int(np.searchsorted(self._earliest, end))
        return low, max(low, high)


def _prefix(values: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> I64:
    result = np.zeros(len(values) + 1, np.int64)
    np.cumsum(values, out=result[1:])
    return result
