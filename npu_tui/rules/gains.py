"""What the step gets shorter by: the run replayed without a cause, or the time of the device the cause takes.

A ladder asks for what several causes remove together. Where the run can be replayed it is run again without them;
otherwise the intervals of the device that they name are put together.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import numpy as np

from npu_tui.analysis.replay import ANY_THREAD, NO_CHANGE, Change, HostCut, Replay
from npu_tui.rules.facts import Facts
from npu_tui.rules.inputs import I64, Span, both, length_of, together
from npu_tui.rules.rule import Draft


def without_calls(facts: Facts, items: I64, keep: float = 0.0) -> Change:
    """The host's slices ``items`` take ``keep`` of their time; everything on their threads meanwhile does."""
    slices = facts.trace.slices
    tid = np.array([lane.tid for lane in facts.trace.lanes])[slices.lane[items]]
    return Change(
        host=tuple(HostCut(int(own), facts.span_of(items[tid == own]), keep) for own in np.unique(tid).tolist())
    )


def without_work(facts: Facts, span: Span) -> Change:
    """The host does nothing in ``span`` of the device's time: what makes launches late there is gone."""
    if not len(span[0]):
        return NO_CHANGE
    return Change(host=(HostCut(ANY_THREAD, (span[0] - facts.floor, span[1] - facts.floor)),))


class Scale(Protocol):
    """Weighs drafts, ns over all steps."""

    def removed(self, *drafts: Draft) -> int:
        """What ``drafts`` remove together."""
        ...

    def each(self, rows: Sequence[Sequence[Draft]]) -> list[int]:
        """What each of ``rows`` removes together."""
        ...


class Intervals:
    """Weighs drafts by the time of the device they name."""

    def removed(self, *drafts: Draft) -> int:
        """The length of all their spans together."""
        spans = [each.removes for each in drafts if each.removes is not None]
        return length_of(together(*spans)) if spans else 0

    def each(self, rows: Sequence[Sequence[Draft]]) -> list[int]:
        """The length of each of ``rows``."""
        return [self.removed(*row) for row in rows]


class Replays:
    """Weighs drafts by running the job again without them; a draft that tells no change is one of late launches."""

    def __init__(self, facts: Facts, replay: Replay, threads: int = 1) -> None:
        """Of the device of ``facts``; so many ``threads`` run it."""
        self._facts = facts
        self._replay = replay
        self._threads = threads
        self._known: dict[frozenset[int], int] = {}
        self._changes: dict[int, Change] = {}
        self._kept: list[Draft] = []

    def removed(self, *drafts: Draft) -> int:
        """By how much the run is shorter without all of them."""
        key = frozenset(id(each) for each in drafts)
        if key not in self._known:
            self._kept += drafts  # an id stays one draft's own
            change = NO_CHANGE
            for each in drafts:
                change |= self.change_of(each)
            self._known[key] = max(self._replay.gain(change), 0)
        return self._known[key]

    def each(self, rows: Sequence[Sequence[Draft]]) -> list[int]:
        """By how much the run is shorter without each of ``rows``."""
        if self._threads > 1 and len(rows) > 1:
            with ThreadPoolExecutor(self._threads) as pool:
                return list(pool.map(lambda row: self.removed(*row), rows))
        return [self.removed(*row) for row in rows]

    def change_of(self, draft: Draft) -> Change:
        """What is changed in the run."""
        if id(draft) not in self._changes:
            self._changes[id(draft)] = self._change(draft)
        return self._changes[id(draft)]

    def _change(self, draft: Draft) -> Change:
        if draft.change is not None:
            return draft.change
        if draft.removes is None or not len(draft.removes[0]):
            return NO_CHANGE
        start, end = draft.removes
        within = np.array([start.min()]), np.array([end.max()])
        return without_work(self._facts, together(draft.removes, both(self._facts.late_behind_collectives, within)))


def scale_of(facts: Facts, threads: int = 1) -> Scale:
    """The replay of the run where it is close to what was recorded, else the intervals of the device."""
    return Intervals() if facts.replay is None else Replays(facts, facts.replay, threads)
