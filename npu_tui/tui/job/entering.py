"""From the overview of a job into the timelines of its ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from npu_tui.ingest.opening import Opening, opening_of
from npu_tui.jobs.blame import Blamed
from npu_tui.profile.profile import Profile
from npu_tui.strings import say
from npu_tui.tui.job.overview import Overview
from npu_tui.tui.job.session import against, ranks_session
from npu_tui.tui.keys.commands import BY_ID
from npu_tui.tui.session import Session

MOST_STACKED = 16
"""Timelines that are opened together at most."""

Make = Callable[[Sequence[Profile]], Session]
"""The session of the profiles of some ranks."""


class Entering:
    """Opens ranks of the overview that ``view`` gives: ``wanted`` is told what to open, and how to show it.

    ``mark`` opens a row of several ranks; with ``cached`` parsed copies are used.
    """

    def __init__(
        self,
        view: Callable[[], Overview],
        mark: Callable[[], str | None],
        wanted: Callable[[list[Opening], Make], object],
        cached: bool,
    ) -> None:
        self._view = view
        self._mark = mark
        self._wanted = wanted
        self._cached = cached

    def open_here(self) -> str | None:
        """Open the marked ranks, or the one under the cursor; a row of several opens itself."""
        view = self._view()
        row = view.rows[view.row] if view.rows else None
        if view.marked:
            return self.open(sorted(view.marked))
        if row is not None and row.kind == "alike":
            return self._mark()
        return self.open([view.rank])

    def compare(self) -> str | None:
        """Hold the first rank, or the marked one, against the one under the cursor."""
        view = self._view()
        pair = view.marked[:2] if len(view.marked) > 1 else [*view.marked[:1], view.rank]
        if len(pair) < 2:
            pair = [view.like(view.rank), view.rank]
        if pair[0] == pair[1]:
            return say("ranks.compare.same", mark=BY_ID["mark_rank"].press)
        return self.open(pair, compared=True)

    def open(self, ranks: list[int], compared: bool = False) -> str | None:
        """Ask for the timelines of ``ranks``, as far as they have any; returns why there are none."""
        profiles = {profile.rank: profile for profile in self._view().job.ranks}
        there = [rank for rank in ranks if rank in profiles and profiles[rank].kind != "companions"]
        if len(there) < len(ranks) and (compared or not there):
            away = [rank for rank in ranks if rank not in there]
            missing = all(rank not in profiles for rank in away)
            return say("ranks.no_files" if missing else "ranks.no_trace", ranks=away)
        gone = [rank for rank in there if not profiles[rank].path.exists()]
        if gone:  # a summary may lie on another machine than the profile it was made of
            return say("ranks.elsewhere", ranks=gone, path=str(profiles[gone[0]].path))
        if len(there) > MOST_STACKED:
            return say("ranks.too_many", count=len(there), most=MOST_STACKED)
        self.enter(there, compared)
        return None

    def enter(self, ranks: Sequence[int], compared: bool = False, follow: tuple[Blamed, int] | None = None) -> None:
        """Ask for the timelines of ``ranks``, which have traces; ``compared``: the second held against the first.

        ``follow`` is a collective and the rank that was waited for in it: what that did then is selected.
        """
        view = self._view()
        paths = {profile.rank: profile.path for profile in view.job.ranks}
        openings = [opening_of(paths[rank], self._cached) for rank in ranks]
        shown, late = follow or (view.job.blamed[view.collective] if view.collective >= 0 else None, None)
        make = partial(against, view.job, ranks) if compared else partial(ranks_session, view.job, ranks, shown, late)
        self._wanted(openings, make)
