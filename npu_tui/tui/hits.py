"""The hits of a search over all traces, by time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from npu_tui.analysis.search import slices_named, wanted_names
from npu_tui.trace.model import Trace
from npu_tui.view.scene import Selected


@dataclass(frozen=True, slots=True, eq=False)
class Hits:
    """(trace, slice) pairs by start time (ns); ``names`` is one mask per trace over its names."""

    text: str
    names: list[npt.NDArray[np.bool_]]
    traces: npt.NDArray[np.int64]
    items: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]

    def at(self, index: int) -> Selected:
        """The slice of one hit."""
        return Selected(int(self.traces[index]), int(self.items[index]))

    def index(self, selected: Selected | None) -> int | None:
        """The hit that is the selected slice."""
        if selected is None:
            return None
        same = np.flatnonzero((self.traces == selected.trace) & (self.items == selected.item))
        return int(same[0]) if len(same) else None

    def next(self, selected: Selected | None, cursor: int, direction: int) -> int:
        """The hit after (direction 1) or before (-1) the selected one, else the cursor; round the end to the other."""
        count = len(self.starts)
        here = self.index(selected)
        if here is not None:
            return (here + direction) % count
        at = int(np.searchsorted(self.starts, cursor, "left")) - (direction < 0)
        return at % count


def search(traces: list[Trace], text: str) -> Hits:
    """The slices of ``traces`` whose name contains ``text``."""
    names = [wanted_names(trace, text) for trace in traces]
    found = [slices_named(trace, wanted) for trace, wanted in zip(traces, names, strict=True)]
    items = np.concatenate([*found, np.zeros(0, np.int64)])
    owner = np.concatenate([*[np.full(len(own), i, np.int64) for i, own in enumerate(found)], np.zeros(0, np.int64)])
    starts = np.concatenate(
        [*[trace.slices.start[own] for trace, own in zip(traces, found, strict=True)], np.zeros(0, np.int64)]
    )
    order = np.argsort(starts, kind="stable")
    return Hits(text, names, owner[order], items[order], starts[order])
