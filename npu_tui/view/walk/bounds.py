"""How far a scene can be looked at: from its first to its last slice or sample, wherever its traces are shifted."""

from __future__ import annotations

from npu_tui.trace.model import Trace
from npu_tui.view.scene import Scene


class Bounds:
    """All times are ns of the scene's clock, as its offsets are now."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._own = [_extent(trace, length) for trace, length in zip(scene.traces, scene.lengths, strict=True)]

    def _edges(self, which: int) -> list[int]:
        return [offset + own[which] for offset, own in zip(self._scene.offsets, self._own, strict=True)]

    @property
    def whole(self) -> tuple[int, int]:
        """From the start of the first trace to the end of the last one; a slice without duration lies in it, too."""
        start = self._scene.start
        return start, max(self._edges(1), default=start + 1)

    @property
    def low(self) -> int:
        """The earliest time that can be on screen: samples may lie before the first slice."""
        return min(self._edges(0), default=self._scene.start)

    @property
    def high(self) -> int:
        """The end of the latest time that can be on screen."""
        return max(self._edges(2), default=self._scene.start + 1)


def _extent(trace: Trace, length: int) -> tuple[int, int, int]:
    """First time of ``trace``, end of its slices, end of its slices and samples; ns of its own clock."""
    end = max(length, 1, int(trace.slices.start.max()) + 1 if len(trace.slices) else 1)
    if not len(trace.counters):
        return 0, end, end
    return min(int(trace.counters.time.min()), 0), end, max(int(trace.counters.time.max()), end)
