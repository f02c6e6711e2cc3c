"""The hits of a search over all traces, by time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.view.scene import Scene, Selected

Bools = npt.NDArray[np.bool_]


class Hits(Struct, frozen=True, eq=False):
    """(trace, slice) pairs by start time (ns of the scene's clock); ``masks`` is one per trace over its slices.

    ``share`` 0..1 is how much has been searched so far.
    """

    text: str
    masks: list[Bools]
    traces: npt.NDArray[np.int64]
    items: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    share: float = 1.0

    def __len__(self) -> int:
        return len(self.starts)

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


def make_hits(text: str, scene: Scene, masks: list[Bools], share: float = 1.0) -> Hits:
    """The slices that ``masks``, one per trace of ``scene``, choose; by start."""
    empty = np.zeros(0, np.int64)
    found = [np.flatnonzero(mask) for mask in masks]
    items = np.concatenate([*found, empty])
    owner = np.concatenate([*[np.full(len(own), i, np.int64) for i, own in enumerate(found)], empty])
    own = zip(scene.traces, found, strict=False)
    starts = np.concatenate([*[scene.to_scene(i, trace.slices.start[n]) for i, (trace, n) in enumerate(own)], empty])
    order = np.argsort(starts, kind="stable")
    return Hits(text, masks, owner[order], items[order], starts[order], share)


NO_HITS = make_hits("", Scene([], []), [])
