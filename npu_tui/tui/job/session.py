"""Timelines of a job's ranks as a session to explore."""

from __future__ import annotations

from collections.abc import Sequence

from npu_tui.compare.comparison import Comparison
from npu_tui.compare.measured import Side
from npu_tui.jobs.blame import Blamed
from npu_tui.jobs.job import Job
from npu_tui.jobs.timelines import Timelines, running_at
from npu_tui.profile.profile import Profile
from npu_tui.tui.compared.opening import compared_session
from npu_tui.tui.session import Session, make_session
from npu_tui.view.scene import Selected


def ranks_session(
    job: Job, ranks: Sequence[int], shown: Blamed | None, followed: int | None, profiles: Sequence[Profile]
) -> Session:
    """The ``profiles`` of ``ranks`` on one clock, with the collective ``shown`` selected in the first of them.

    With ``followed`` it is what that rank did while the others waited in that collective.
    """
    session = make_session(profiles)
    lines = Timelines(job, ranks, profiles)
    session.scene.offsets, session.scene.stacked = lines.offsets(), True
    session.job = lines
    if shown is not None and followed is not None and followed in ranks:
        session.goal = late_operation(session, shown, followed)
    elif shown is not None:
        item = lines.item_of(0, shown)
        session.goal = None if item is None else Selected(0, item)
    return session


def late_operation(session: Session, blamed: Blamed, rank: int) -> Selected | None:
    """What ``rank`` did when the first of the ranks on screen had come to the collective; None if nothing is known."""
    lines = session.job
    if lines is None or rank not in lines.ranks:
        return None
    to = lines.ranks.index(rank)
    waiting = [
        session.scene.times(Selected(number, item))[0]
        for number in range(len(lines.ranks))
        if number != to and (item := lines.item_of(number, blamed)) is not None
    ]
    if not waiting:
        return None
    item = running_at(session.profiles[to], session.scene.to_trace(to, min(waiting)))
    return None if item is None else Selected(to, item)


def against(job: Job, ranks: Sequence[int], profiles: Sequence[Profile]) -> Session:
    """The second of two ranks held against the first."""
    session = compared_session(lambda both: Comparison(Side(both[0]), Side(both[1])), profiles)
    session.job = Timelines(job, ranks, profiles)
    return session
