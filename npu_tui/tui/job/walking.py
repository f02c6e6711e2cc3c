"""Moving through the overview of a job: ranks, columns, collectives, and what is shown of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from npu_tui.strings import say
from npu_tui.tui.actions.acts import Act
from npu_tui.tui.job.overview import Overview
from npu_tui.tui.keys.commands import BY_ID

_TO_THE_LAST = 1 << 30


class Walking:
    """The moves in the overview that ``view`` gives; ``arrange`` is called when rows come or go."""

    def __init__(self, view: Callable[[], Overview], arrange: Callable[[], None]) -> None:
        self._view = view
        self._arrange = arrange

    def acts(self) -> dict[str, Act]:
        """What every command does."""
        return {
            "row_up": partial(self._move, -1),
            "row_down": partial(self._move, 1),
            "row_last": partial(self._move, _TO_THE_LAST),
            "rank_previous": partial(self._next_rank, -1),
            "rank_next": partial(self._next_rank, 1),
            "column_previous": partial(self._move_column, -1),
            "column_next": partial(self._move_column, 1),
            "collective_previous": partial(self._next_collective, -1),
            "collective_next": partial(self._next_collective, 1),
            "collective_worst": self._worst_collective,
            "mark_rank": self.mark,
            "metric": self._next_metric,
            "axis": self._next_axis,
            "job_group": self._next_scope,
        }

    def _move(self, rows: int) -> None:
        self._view().move(rows)

    def _next_rank(self, direction: int) -> str | None:
        found = self._view().next_rank(direction)
        return None if found else say("rank.last" if direction > 0 else "rank.first")

    def _move_column(self, direction: int) -> None:
        self._view().move_column(direction)

    def _next_collective(self, direction: int) -> str | None:
        found = self._view().next_collective(direction)
        return None if found else say("ranks.collective.last" if direction > 0 else "ranks.collective.first")

    def _worst_collective(self) -> str | None:
        return None if self._view().worst_collective() else say("ranks.collective.none")

    def mark(self) -> str | None:
        """Mark the rank under the cursor, or open a row of several."""
        view = self._view()
        marked = view.toggle()
        if marked is None:
            self._arrange()
            return None
        key = BY_ID["open_rank"].press
        return say("ranks.marked", ranks=sorted(view.marked), key=key) if view.marked else say("ranks.unmarked")

    def _next_metric(self) -> str:
        metric = self._view().next_metric()
        self._arrange()
        return say(f"ranks.metric.told.{metric}")

    def _next_axis(self) -> str:
        axis = self._view().next_axis()
        self._arrange()
        return say(f"ranks.axis.told.{axis}")

    def _next_scope(self) -> str:
        scope = self._view().next_scope()
        self._arrange()
        return say("ranks.scope.told", scope=scope.name)
