"""Walks the path of a job backwards, from the end of its run through the ranks that it leads to.

The walk goes back along a rank until a collective that another rank came to last, and on from there at that rank. A
rank is read when the walk comes to it.

The run of a rank can be walked backwards from any of its collectives, on the common clock of its job.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.analysis.communication import UNKNOWN, lane_and_place
from npu_tui.analysis.limits import SHORT_NS
from npu_tui.analysis.owners import owners
from npu_tui.analysis.path import COMPUTE, LATE_RANK, NO_PEER, TRANSFER, Owners, Path, Paths, Reach
from npu_tui.analysis.replay import Replay
from npu_tui.analysis.replay_device import COLLECTIVE, DeviceTasks
from npu_tui.jobs.blame import Blame, common_times
from npu_tui.jobs.clock import RankClock
from npu_tui.jobs.columns import SAME_CALL
from npu_tui.jobs.job import Job
from npu_tui.jobs.model import RankCalls, RankProfile, is_send
from npu_tui.jobs.rank_files import call_name
from npu_tui.load.errors import InputError, SeveralError
from npu_tui.load.find import Source, find_source, find_sources
from npu_tui.load.format import Survey
from npu_tui.load.load import load
from npu_tui.profile.parts import select_step
from npu_tui.profile.profile import Profile
from npu_tui.rules.facts import Facts
from npu_tui.rules.judged_path import why_untrusted
from npu_tui.trace.arrays import I64
from npu_tui.trace.message import Message, message


class Section(Struct, frozen=True):
    """A part of the path on one rank: ``path`` from ``since`` to ``until``, ns by its host, on the common clock too.

    ``row`` is the collective that it ends with, to which this rank came last; -1: it ends otherwise.
    """

    place: int
    path: Path
    since: int
    until: int
    begin: int
    end: int
    row: int


def _leads_of(job: Job) -> tuple[I64, I64]:
    """The arrival that came last for certain at every collective, and how long after the second, ns (-1: no other).

    What the second computed meanwhile is no lead: it was not held up, and is as much ahead at the next collective.
    """
    blamed, table = job.blamed, job.blamed.met.table
    sure = np.flatnonzero(~blamed.at_most)
    at = np.searchsorted(blamed.row[sure], np.arange(len(blamed)), "right")
    last, second = (sure[np.maximum(at - back, 0)] if len(sure) else at for back in (1, 2))
    several = (blamed.row[second] == blamed.row[last]) & (second != last)
    lead = np.where(several, blamed.start[last] - blamed.start[second], -1)
    for place, profile in enumerate(job.ranks):
        if profile.busy is not None:
            rows = np.flatnonzero((blamed.rank[second] == place) & (lead > 0))
            since = table.start[blamed.call[second[rows]]]
            lead[rows] -= profile.busy.until(since + lead[rows]) - profile.busy.until(since)
    return last, lead


class JobWalk:
    """Walks the path backwards through the ranks; each is read when the path comes to it."""

    def __init__(self, job: Job, step: int | None) -> None:
        self.job, self._step = job, step
        self.blamed: Blame = job.blamed
        table = self.blamed.met.table
        self._first = table.first
        self._entry_of = np.full(len(table.rank), -1, np.int64)
        known = np.flatnonzero(self.blamed.call >= 0)
        self._entry_of[self.blamed.call[known]] = known
        self._last, self._leads = _leads_of(job)
        places = self.blamed.rank[self._last]
        self._last_at = {
            place: (rows, self.blamed.come[rows])
            for place in np.unique(places).tolist()
            for rows in (np.flatnonzero(places == place),)
        }
        self._sends = [is_send(kind) for _, kind, _ in table.kinds]
        self._walks: dict[int, RankWalk | Message] = {}
        self._stops: dict[int, I64] = {}
        self._sections: list[Section] = []
        told = job.layout is not None or any(profile.groups for profile in job.ranks)
        self._complete = told and not job.missing

    def rank(self, place: int) -> RankWalk | Message:
        """The rank at ``place``, or why its run cannot be walked."""
        if place not in self._walks:
            job = self.job
            self._walks[place] = rank_walk(place, job.ranks[place], job.clocks[place], self._step, job.survey)
            entries = self._entry_of[self._first[place] : self._first[place + 1]]
            self._stops[place] = np.flatnonzero(entries >= 0)
        return self._walks[place]

    def last_rank(self) -> RankWalk | Message:
        """The rank whose run ends last on the clock of the first; why none can be walked, where that is so."""
        job = self.job
        ends = []
        for place, (profile, clock) in enumerate(zip(job.ranks, job.clocks, strict=True)):
            if profile.ended is not None:
                ends.append((clock.is_tied or not place, clock.to_common(profile.ended), -place))
        reasons = []
        for _, _, at in sorted(ends, reverse=True):
            walk = self.rank(-at)
            if isinstance(walk, RankWalk):
                return walk
            reasons.append(walk)
        return reasons[0]

    def sections(self, last: RankWalk) -> list[Section]:
        """The sections of the path by time, which ends with the run of ``last``."""
        walk, node, top, row = last, None, None, -1
        seen: set[tuple[int, int | None]] = set()
        while True:
            seen.add((walk.place, node))
            reach = walk.reach(node, self._stops[walk.place])
            until = int(reach.path.end[-1]) if len(reach.path) else reach.done
            until = until if top is None else min(until, walk.own_time(top))
            top = walk.common_time(until) if top is None else top
            top = self._add(walk, reach.path, max(reach.done, walk.since), until, top, row)
            if reach.task < 0 or reach.done <= walk.since:
                break
            following = self._onwards(walk, reach, top, seen)
            if following is None:
                break
            walk, node, top, row = following
        return self._sections[::-1]

    def _add(self, walk: RankWalk, path: Path, since: int, until: int, top: int, row: int) -> int:
        """Add ``path`` from ``since`` to ``until``, which is ``top`` on the common clock; returns where it begins."""
        if since >= until:
            return top
        begin = min(walk.common_time(since), top)
        self._sections.append(Section(walk.place, path.within(since, until), since, until, begin, top, row))
        return begin

    def _onwards(
        self, walk: RankWalk, reach: Reach, top: int, seen: set[tuple[int, int | None]]
    ) -> tuple[RankWalk, int | None, int, int] | None:
        """Where the path goes on from the collective that ``reach`` has come to: rank, node, time, collective."""
        blamed, job, task = self.blamed, self.job, reach.task
        entry = int(self._entry_of[self._first[walk.place] + walk.call_of[task]])
        row = int(blamed.row[entry])
        own_begin = walk.begin_of(task)
        last = int(self._last[row])
        place, came = int(blamed.rank[last]), int(blamed.start[last])
        after = came - int(blamed.start[entry])
        outside = place >= len(job.ranks)
        message_sent = (
            not blamed.met.barrier[blamed.meeting[row]] and self._sends[blamed.met.table.kind[blamed.call[entry]]]
        )
        error = max(walk.error, 0.0 if outside else job.clocks[place].error)
        absent = None if message_sent else self._unseen(walk, reach, came, error)
        if absent is None and not message_sent and place != walk.place and after > 2 * error:
            other = None if outside else self.rank(place)
            if isinstance(other, RankWalk):
                node = self._node_in(other, int(blamed.call[last]))
                if node is not None and (other.place, node) not in seen:
                    arrived = other.common_time(other.time_of(node))
                    begin = self._transfer(walk, task, min(arrived, top), reach.done, top)
                    return None if begin is None else (other, node, begin, row)
            absent = blamed.ranks[place]
        if absent is not None:
            return self._absent(walk, reach, absent, came, top, seen)
        if (walk.place, own_begin) in seen:
            return None
        begin = self._transfer(walk, task, min(walk.common_time(walk.time_of(own_begin)), top), reach.done, top)
        return None if begin is None else (walk, own_begin, begin, row)

    def _unseen(self, walk: RankWalk, reach: Reach, came: int, error: float) -> int | None:
        """The rank without a profile that ``walk`` waited for after the last arrival of those here; None: for none."""
        late = np.flatnonzero(reach.rest.kind == LATE_RANK)
        if self._complete or not len(late):
            return None
        peer, until = int(reach.rest.peer[late[-1]]), walk.common_time(int(reach.rest.end[late[-1]]))
        lane, rank = lane_and_place(peer)
        here = lane < 0 and rank in {profile.rank for profile in self.job.ranks}
        return None if here or until - came <= 2 * error + SHORT_NS else rank_of(peer)

    def _absent(
        self, walk: RankWalk, reach: Reach, rank: int, came: int, top: int, seen: set[tuple[int, int | None]]
    ) -> tuple[RankWalk, int | None, int, int] | None:
        """Go on in ``walk`` before its wait for ``rank``, which cannot be walked and arrives at ``came``."""
        rest, task = reach.rest, reach.task
        node = reach.node
        if not (rest.kind == LATE_RANK).any():
            # The rank saw no wait: it came itself, and others show how long it waited.
            node = walk.begin_of(task)
            since, until = walk.time_of(node), reach.done
            middle = min(max(walk.own_time(came), since), until)
            rest = _waited(since, middle, until, int(walk.tasks.item[task]))
        if (walk.place, node) in seen or not len(rest):
            return None
        rest = replace(rest, peer=np.where(rest.kind == LATE_RANK, rank, rest.peer))
        begin = self._add(walk, rest, max(int(rest.start[0]), walk.since), reach.done, top, -1)
        if node == 0 or int(rest.start[0]) <= walk.since:
            return None
        return walk, node, begin, -1

    def _transfer(self, walk: RankWalk, task: int, begin: int, done: int, top: int) -> int | None:
        """Add what ``task`` took after the last arrival, ``begin`` on the common clock, where it returns.

        None where the run of ``walk`` begins later: the path ends there.
        """
        since = min(walk.own_time(begin), done)
        first = max(since, walk.since)
        begin = begin if first == since else min(walk.common_time(first), top)
        kind = TRANSFER if walk.tasks.kind[task] == COLLECTIVE else COMPUTE
        if first < done and begin < top:
            path = _one_stretch(first, done, kind, int(walk.tasks.item[task]))
            self._sections.append(Section(walk.place, path, first, done, begin, top, -1))
        return begin if first == since else None

    def lead(self, place: int, row: int, since: int) -> int:
        """How long the rank at ``place`` came after the second at collective ``row`` and at those after ``since``, ns.

        -1 where no other rank is known. Others leave a collective with it, so that its leads add up.
        """
        if self._leads[row] < 0:
            return -1
        until = int(self.blamed.come[row])
        own, come = self._last_at.get(place, (np.zeros(0, np.int64),) * 2)
        between = own[np.searchsorted(come, since, "right") : np.searchsorted(come, until, "right")]
        return int(np.maximum(self._leads[between], 0).sum())

    def _node_in(self, walk: RankWalk, call: int) -> int | None:
        """The node at which ``call`` (a row of the table) begins in its rank; None where its trace does not have it."""
        task = int(walk.task_of[call - int(self._first[walk.place])])
        return None if task < 0 else walk.begin_of(task)


def rank_of(peer: int) -> int:
    """The rank of the job that ``peer`` of a stretch is, UNKNOWN where only its place in a group is known."""
    lane, rank = lane_and_place(peer)
    return rank if lane < 0 else UNKNOWN


def _one_stretch(since: int, until: int, kind: int, item: int) -> Path:
    """One stretch."""
    start, end, low = (np.array([time], np.int64) for time in (since, until, since))
    none = np.full(1, -1, np.int64)
    return Path(start, end, np.array([kind], np.int8), np.array([item], np.int64), none, low, np.full(1, NO_PEER))


def _waited(since: int, middle: int, until: int, item: int) -> Path:
    """A wait until ``middle``, then the transfer."""
    both = [_one_stretch(since, middle, LATE_RANK, item), _one_stretch(middle, until, TRANSFER, item)]
    return concatenated([path for path in both if path.length > 0])


def concatenated(paths: Sequence[Path]) -> Path:
    """``paths`` one after the other."""
    names = Path.__struct_fields__
    return Path(*(np.concatenate([getattr(path, name) for path in paths]) for name in names))


class RankWalk:
    """A rank with a trusted model of its run; ``place`` is that among the ranks of the job.

    What is judged of the run begins at ``since``, ns: after a warm-up, or after the step before the one asked for.
    Times of its paths are on the clock of its host. ``call_of`` is the call among those of the rank that each task is,
    -1 for none, (tasks,); ``task_of`` the task of each call, (calls,).
    """

    def __init__(self, place: int, profile: RankProfile, clock: RankClock, facts: Facts, replay: Replay) -> None:
        self.place, self.rank, self.facts = place, profile.rank, facts
        self._clock, self._replay = clock, replay
        self._paths = Paths(replay)
        start = facts.window.start if facts.inputs.step is None else facts.since
        self.since = max(start - replay.model.floor, self._paths.start)
        self._base = facts.trace.start_ns + replay.model.floor
        self.tasks = replay.model.tasks
        self.task_of = _tasks_of(profile.calls, self.tasks, facts)
        self.call_of = np.full(len(self.tasks), -1, np.int64)
        known = np.flatnonzero(self.task_of >= 0)
        self.call_of[self.task_of[known]] = known

    @property
    def error(self) -> float:
        """The ± of its clock, ns."""
        return self._clock.error

    @property
    def until(self) -> int | None:
        """When the step that is asked for ends, ns; None where that is all of the run."""
        return None if self.facts.inputs.step is None else self.facts.window.end - self._replay.model.floor

    def reach(self, node: int | None, stops: I64) -> Reach:
        """The path to ``node`` (None: the end of the run), back to the first of the calls ``stops``."""
        stopping = np.zeros(len(self.tasks), np.bool_)
        tasks = self.task_of[stops]
        stopping[tasks[tasks >= 0]] = True
        return self._paths.reach(node, stopping)

    def begin_of(self, task: int) -> int:
        """The node at which ``task`` begins."""
        return int(self._replay.model.start_node[task])

    def time_of(self, node: int) -> int:
        """When ``node`` was passed, ns."""
        return int(self._replay.model.time[node])

    def common(self, times: I64) -> I64:
        """``times`` on the clock of the job, ns since 1970; (n,)."""
        return common_times(times + self._base, np.zeros(len(times), np.int64), [self._clock])

    def common_time(self, time: int) -> int:
        """``time`` on the clock of the job, ns since 1970."""
        return int(self.common(np.array([time], np.int64))[0])

    def own_time(self, common: int) -> int:
        """The time of this rank at ``common``, ns since 1970 on the clock of the job."""
        time = common + self._clock.offset - self._base
        for _ in range(3):  # a drift is tiny, so that this ends at once
            time += common - self.common_time(time)
        return time

    def owners(self, path: Path) -> Owners:
        """The owners of ``path``, which is a part of that of this rank."""
        return owners(self._replay, self.facts.inputs.types_of, path, self.facts.judged)


def rank_walk(
    place: int, profile: RankProfile, clock: RankClock, step: int | None = None, survey: Survey | None = None
) -> RankWalk | Message:
    """The rank ``profile``, or why its run cannot be walked; a ``step`` is the one that is asked for."""
    if not profile.has_trace:
        return message("job.path.no_trace", rank=profile.rank)
    try:
        source = _source_of(profile, survey or Survey())
        whole = Profile(load(source), source)
        if whole.clock_jump is not None:
            return whole.clock_jump
        chosen = None if step is None else select_step(whole.steps, step)
        measured = whole if chosen is None else whole.part(chosen)
        reasons = []
        for facts in measured.facts:
            if facts.has("overlap"):
                if facts.replay is not None:
                    return RankWalk(place, profile, clock, facts, facts.replay)
                reasons.append(why_untrusted(facts))
    except InputError as error:
        return error.message
    return reasons[0] if reasons else message("path.no_launches")


def _source_of(profile: RankProfile, survey: Survey) -> Source:
    """The trace of ``profile``; with several in one folder that of its rank. Raises ``InputError``."""
    try:
        return find_source(profile.path, survey=survey)
    except SeveralError:
        own = [source for source in find_sources(profile.path, survey) if source.rank == profile.rank]
        if len(own) != 1:
            raise
        return own[0]


def _tasks_of(calls: RankCalls, tasks: DeviceTasks, facts: Facts) -> I64:
    """The task that each of ``calls`` is, -1 for none: that of its type which starts at its time; (calls,)."""
    trace = facts.trace
    chosen = np.flatnonzero(tasks.kind == COLLECTIVE)
    chosen = chosen[np.argsort(tasks.start[chosen], kind="stable")]
    starts = (tasks.start[chosen] + trace.start_ns).tolist()
    types = [call_name(trace.name_of(item))[0].lower() for item in tasks.item[chosen].tolist()]
    found, used = np.full(len(calls), -1, np.int64), [False] * len(starts)
    for number, (kind, start) in enumerate(zip(calls.kind.tolist(), calls.start.tolist(), strict=True)):
        name = calls.kinds[kind][1].lower()
        near: list[tuple[bool, int, int]] = []
        for at in range(bisect_left(starts, start - SAME_CALL), len(starts)):
            if starts[at] > start + SAME_CALL:
                break
            if not used[at]:
                near.append((types[at] != name, abs(starts[at] - start), at))
        if near:
            _, _, at = min(near)
            used[at], found[number] = True, chosen[at]
    return found
