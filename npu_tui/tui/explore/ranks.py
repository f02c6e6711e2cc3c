"""The lanes of a job's ranks: to the next rank, and from a wait to whom it waited for."""

from __future__ import annotations

from collections.abc import Callable

from npu_tui.jobs.blame import Blamed
from npu_tui.jobs.timelines import Late, running_at
from npu_tui.strings import say
from npu_tui.trace.text import brief, printable
from npu_tui.tui.session import Session
from npu_tui.view.explorer import Explorer
from npu_tui.view.scene import Selected

_LONGEST_NAME = 40


class Ranks:
    """``session``, which ``explorer`` shows, as a part of its job.

    ``want`` shows the timelines of ranks, with what a late one did in a collective selected.
    """

    def __init__(
        self,
        session: Session,
        explorer: Explorer,
        want: Callable[[list[int], tuple[Blamed, int] | None], object],
    ) -> None:
        self._session = session
        self._explorer = explorer
        self._want = want

    @property
    def alone(self) -> bool:
        """Whether one rank of a job is on screen."""
        return self._session.job is not None and len(self._session.scene.traces) == 1

    def beside(self, direction: int) -> str | None:
        """The rank with the next (1) or previous (-1) number that has a trace."""
        lines = self._session.job
        assert lines is not None
        there = sorted(profile.rank for profile in lines.job.ranks if profile.kind != "companions")
        at = there.index(lines.ranks[0]) + direction if lines.ranks[0] in there else -1
        if not 0 <= at < len(there):
            return say("rank.last" if direction > 0 else "rank.first")
        self._want([there[at]], None)
        return None

    def late(self) -> Late | None:
        """Who came last to the selected collective; None where that is no other rank, or nothing of that is known."""
        lines, selected = self._session.job, self._explorer.state.selection
        if lines is None or selected is None or self._session.picture is not None:
            return None
        late = lines.late(selected.trace, selected.item)
        return None if late is None or late.rank == lines.ranks[selected.trace] else late

    def follow(self, late: Late) -> str | None:
        """From the selected collective to what the rank that came last did meanwhile."""
        lines, waiting = self._session.job, self._explorer.state.selection
        assert lines is not None
        assert waiting is not None
        if late.rank not in lines.ranks:
            kinds = {profile.rank: profile.kind for profile in lines.job.ranks}
            if kinds.get(late.rank, "companions") == "companions":
                return say("ranks.late.no_trace", rank=late.rank, cost=late.cost)
            self._want([*lines.ranks, late.rank], (late.blamed, late.rank))
            return None
        scene, to = self._session.scene, lines.ranks.index(late.rank)
        item = running_at(self._session.profiles[to], scene.to_trace(to, scene.times(waiting)[0]))
        if item is None:
            return say("ranks.late.nothing", rank=late.rank, cost=late.cost)
        self._explorer.select(Selected(to, item))
        name = brief(printable(scene.traces[to].name_of(item)), _LONGEST_NAME)
        return say("ranks.late", rank=late.rank, cost=late.cost, name=name)


def apart_words(session: Session) -> str:
    """Which ranks stand apart because nothing ties their clocks; nothing where all are tied."""
    apart = session.job.apart if session.job is not None and len(session.profiles) > 1 else []
    return say("ranks.apart.told", ranks=apart) if apart else ""
