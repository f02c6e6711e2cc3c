"""What the lanes of a job's ranks can do besides: back, the next rank, from a wait to whom it waited for."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from npu_tui.job.blame import Blamed
from npu_tui.job.timelines import running_at
from npu_tui.strings import say
from npu_tui.trace.text import brief, printable
from npu_tui.tui.session import Session
from npu_tui.view.scene import Selected
from npu_tui.view.walk.explorer import Explorer

Act = Callable[[], "str | None"]

_LONGEST_NAME = 40


class InJob:
    """The commands of ``session`` that lead through a job; ``own`` is what they do without one.

    ``back`` shows the overview, ``want`` the timelines of ranks, with what a late one did in a collective selected.
    """

    def __init__(
        self,
        session: Session,
        explorer: Explorer,
        own: Mapping[str, Act],
        back: Callable[[], object],
        want: Callable[[list[int], tuple[Blamed, int] | None], object],
    ) -> None:
        self._session = session
        self._explorer = explorer
        self._own = own
        self._back = back
        self._want = want

    @property
    def acts(self) -> dict[str, Act]:
        """The commands, by their ids."""
        if self._session.job is None:
            return {"ranks": lambda: say("ranks.no_job")}
        found: dict[str, Act] = {"ranks": self.ranks, "link_forward": self.follow, "undo": self.undo}
        if len(self._session.scene.traces) == 1:
            found |= {"step_next": lambda: self.beside(1), "step_previous": lambda: self.beside(-1)}
        return found

    def ranks(self) -> None:
        """Back to the overview."""
        self._back()

    def undo(self) -> str | None:
        """One step back; from where there is none, to the overview."""
        if not self._explorer.history.past:
            self._back()
            return None
        return self._own["undo"]()

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

    def follow(self) -> str | None:
        """From a collective to what the rank that came last did meanwhile, else along the link."""
        lines, selected = self._session.job, self._explorer.state.selection
        if lines is None or selected is None or self._session.picture is not None:
            return self._own["link_forward"]()
        late = lines.late(selected.trace, selected.item)
        if late is None or late.rank == lines.ranks[selected.trace]:
            return self._own["link_forward"]()
        if late.rank in lines.ranks:
            return self._go(late.rank, selected, late.cost)
        kinds = {profile.rank: profile.kind for profile in lines.job.ranks}
        if kinds.get(late.rank, "companions") == "companions":
            return say("ranks.late.no_trace", rank=late.rank, cost=late.cost)
        self._want([*lines.ranks, late.rank], (late.blamed, late.rank))
        return None

    def _go(self, rank: int, waiting: Selected, cost: int) -> str:
        """Select what ``rank``, which is on screen, did when the wait began."""
        lines, scene = self._session.job, self._session.scene
        assert lines is not None
        to = lines.ranks.index(rank)
        item = running_at(self._session.profiles[to], scene.to_trace(to, scene.times(waiting)[0]))
        if item is None:
            return say("ranks.late.nothing", rank=rank, cost=cost)
        self._explorer.select(Selected(to, item))
        name = brief(printable(scene.traces[to].name_of(item)), _LONGEST_NAME)
        return say("ranks.late", rank=rank, cost=cost, name=name)


def apart_words(session: Session) -> str:
    """Which ranks stand apart because nothing ties their clocks; nothing where all are tied."""
    apart = session.job.apart if session.job is not None and len(session.profiles) > 1 else []
    return say("ranks.apart.told", ranks=apart) if apart else ""
