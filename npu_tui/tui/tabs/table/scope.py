"""What the numbers of a tab are about: a trace, and in it everything or the range."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import overload

import numpy as np
import numpy.typing as npt

from npu_tui.strings import say
from npu_tui.trace.text import exact_text
from npu_tui.tui.tabs.table.tab import GAP, Content, Context, Place, Tab
from npu_tui.view.scene import Selected


class ComputedTab(Tab):
    """A tab whose numbers take a while: made in a thread, kept until another range or trace is asked for."""

    def __init__(self) -> None:
        self._made: tuple[object, Content] | None = None

    @abstractmethod
    def compute(self, now: Context) -> Content:
        """The contents, made anew."""

    def depends_on(self, now: Context) -> object:
        """The trace, where it is shifted to, and the range."""
        return now.trace, now.session.scene.offsets[now.trace : now.trace + 1], now.marked

    def ready(self, now: Context) -> bool:
        """Whether these numbers were the last that were asked for."""
        return self._made is not None and self._made[0] == self.depends_on(now)

    def content(self, now: Context) -> Content:
        """What ``compute`` gives, made once for each range."""
        made = self._made
        if made is None or made[0] != self.depends_on(now):
            made = self._made = self.depends_on(now), self.compute(now)
        return made[1]


def scope_note(now: Context) -> str:
    """The range in words, or that it is everything."""
    if now.marked is None:
        return say("panel.everything")
    return say("panel.range", start=exact_text(now.marked[0]), end=exact_text(now.marked[1]))


def nothing(now: Context, words: str) -> str:
    """``words`` that there is nothing, and where a range is marked which one and how to leave it."""
    return words if now.marked is None else GAP.join([words, say("panel.in_range", range=scope_note(now))])


class Ranked(Sequence[Place]):
    """Slices of one trace in the order of their worth, found when the first of them is asked for."""

    def __init__(self, trace: int, count: int, find: Callable[[], npt.NDArray[np.int64]]) -> None:
        self._trace, self._count, self._find = trace, count, find
        self._items: npt.NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Place: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Place]: ...
    def __getitem__(self, index: int | slice) -> Place | Sequence[Place]:
        if self._items is None:
            self._items = self._find()
        if isinstance(index, slice):
            return [Selected(self._trace, item) for item in self._items[index].tolist()]
        return Selected(self._trace, int(self._items[index]))
