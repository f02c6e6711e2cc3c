"""Going from slice to slice: along a row, by name, to bubbles and starved launches."""

from __future__ import annotations

import numpy as np

from npu_tui.analysis.work.namesakes import namesakes
from npu_tui.strings import say
from npu_tui.trace.text import printable
from npu_tui.trace.units import duration_text
from npu_tui.tui.actions.base import Base
from npu_tui.tui.explore.contents import Contents
from npu_tui.tui.keys.commands import BY_ID, keys_label
from npu_tui.tui.session import Session
from npu_tui.view.scene import Selected
from npu_tui.view.walk.along import next_in_time
from npu_tui.view.walk.explorer import Explorer


class SliceActions(Base):
    """Commands of the group ``slices``; the findings are those that ``contents`` lists."""

    def __init__(self, session: Session, explorer: Explorer, contents: Contents) -> None:
        super().__init__(session, explorer)
        self._contents = contents

    def slice_previous(self) -> str | None:
        return None if self._explorer.move_slice(-1) else say("slice.last")

    def slice_next(self) -> str | None:
        return None if self._explorer.move_slice(1) else say("slice.last")

    def finding_next(self) -> str:
        return self._contents.go_to_finding(1)

    def finding_previous(self) -> str:
        return self._contents.go_to_finding(-1)

    def starved_next(self) -> str:
        return self._starved(1)

    def starved_previous(self) -> str:
        return self._starved(-1)

    def _starved(self, direction: int) -> str:
        index, state = self._explorer.trace, self._explorer.state
        launches = self._session.profiles[index].starved if self._session.profiles else []
        if not launches:
            return self._no_link("starved.none")
        # With nothing selected the first one in view is meant, wherever the cursor stands.
        here = state.cursor if state.selection is not None else state.viewport.start - 1
        starts = np.array([launch.start for launch in launches], np.int64)
        at = next_in_time(starts, self._session.scene.to_trace(index, here), direction)
        if at is None:
            at = 0 if direction > 0 else len(launches) - 1  # round the end
        launch = launches[at]
        self._go(Selected(index, launch.item))
        name = printable(self._trace(index).name_of(launch.item))
        key, lost = keys_label(BY_ID["range_gap"]), duration_text(launch.lost, 3)
        return say("starved.of", n=at + 1, count=len(launches), name=name, lost=lost, key=key)

    def _go(self, place: Selected) -> None:
        self._explorer.select(place)
        self._contents.leave_stretch()

    def same_next(self) -> str:
        return self._same(1)

    def same_previous(self) -> str:
        return self._same(-1)

    def _same(self, direction: int) -> str:
        selected = self._selected()
        if selected is None:
            return say("select.none")
        trace = self._trace(selected.trace)
        found = namesakes(trace, selected.item)
        at = found.at + direction
        name = printable(trace.name_of(selected.item))
        if not 0 <= at < len(found.items):
            return say("same.last", name=name, count=f"{len(found.items):,}")
        item = int(found.items[at])
        self._go(Selected(selected.trace, item))
        found = namesakes(trace, item)
        return say(
            "same.of",
            n=f"{found.at + 1:,}",
            count=f"{len(found.items):,}",
            name=name,
            length=duration_text(int(trace.slices.end[item] - trace.slices.start[item])),
            median=duration_text(found.median),
            percentile=f"{found.percentile:.0f}",
        )

    def bubble_next(self) -> str:
        return self._bubble(1)

    def bubble_previous(self) -> str:
        return self._bubble(-1)

    def _bubble(self, direction: int) -> str:
        walked = self._contents.walk_bubbles(direction)
        if walked is not None:
            return walked
        index = self._explorer.trace
        if index >= len(self._session.profiles):
            return say("bubble.none")
        trace, items = self._trace(index), self._session.profiles[index].free_slices
        if not len(items):
            return self._idle(index, direction)
        here = self._session.scene.to_trace(index, self._explorer.state.cursor)
        at = next_in_time(trace.slices.start[items], here, direction)
        if at is None:
            return say("bubble.last" if direction > 0 else "bubble.first")
        item = int(items[at])
        self._go(Selected(index, item))
        length = duration_text(int(trace.slices.end[item] - trace.slices.start[item]))
        return say("bubble.of", n=f"{at + 1:,}", count=f"{len(items):,}", length=length)

    def _idle(self, index: int, direction: int) -> str:
        """Go to a time without work of a device whose trace has no Free slices, and mark it as the range."""
        times = [(int(start), int(end)) for each in self._session.profiles[index].idles
                 for start, end in zip(each.start, each.end, strict=True)]  # fmt: skip
        times.sort()
        if not times:
            return say("bubble.none")
        scene = self._session.scene
        here = scene.to_trace(index, self._explorer.state.cursor)
        at = next_in_time(np.array([start for start, _ in times], np.int64), here, direction)
        if at is None:
            return say("bubble.last" if direction > 0 else "bubble.first")
        start, end = (scene.to_scene(index, when) for when in times[at])
        self._explorer.go_to(start)
        self._explorer.set_range(start, end)
        self._explorer.state.selection = None
        return say("bubble.of", n=f"{at + 1:,}", count=f"{len(times):,}", length=duration_text(end - start))
