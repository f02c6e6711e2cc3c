"""The links of one category in target-time order, with the running sums that make a cell's answer O(log N)."""

from __future__ import annotations

import numpy as np

from npu_tui.trace.model import Trace
from npu_tui.view.scene import LinkClasses, LinkShape
from npu_tui.view.spans import I64


class LinkIndex:
    """Links of one category of one trace.

    ``link`` are indices in ``Trace.links``; ``source``, ``target`` (ns), ``shape``, ``lost`` (ns) and ``starved``
    belong to them. ``sums`` (n + 1, 7) are prefix sums: near-vertical, shallow and negative ones, starved ones, those
    that are near-vertical or shallow besides, and the time that the starved ones lost.
    """

    def __init__(self, trace: Trace, marks: LinkClasses, category: str) -> None:
        self.link: I64 = trace.links_of(category).astype(np.int64)
        self.source: I64 = trace.links.source_time[self.link]
        self.target: I64 = trace.links.target_time[self.link]
        self.shape = marks.shape[self.link]
        self.lost: I64 = marks.lost[self.link]
        self.starved = marks.starved[self.link]
        near = self.shape == LinkShape.NEAR_VERTICAL
        shallow, starved = self.shape == LinkShape.SHALLOW, self.starved
        counted = (near, shallow, self.target < self.source, starved, starved & near, starved & shallow)
        self.sums = np.zeros((len(self.link) + 1, 7), np.int64)  # a cell asks for all of them at once
        for column, values in enumerate((*counted, np.where(starved, self.lost, 0))):
            np.cumsum(values, out=self.sums[1:, column])
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
