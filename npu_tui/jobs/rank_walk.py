"""The run of one rank, to be walked backwards from any of its collectives, on the common clock of its job."""

from __future__ import annotations

from bisect import bisect_left
from functools import partial

import numpy as np

from npu_tui.analysis.owner import Owners
from npu_tui.analysis.owners import owners
from npu_tui.analysis.path import Path, Paths, Reach
from npu_tui.analysis.replay import Replay
from npu_tui.analysis.replay_device import COLLECTIVE, DeviceTasks
from npu_tui.jobs.blame import common_times
from npu_tui.jobs.clock import RankClock
from npu_tui.jobs.columns import I64
from npu_tui.jobs.model import RankCalls, RankProfile
from npu_tui.jobs.rank_files import call_name
from npu_tui.load.errors import InputError, SeveralError
from npu_tui.load.find import Source, find_source, find_sources
from npu_tui.load.load import load
from npu_tui.load.survey import Survey
from npu_tui.profile.parts import select_step
from npu_tui.profile.profile import Profile
from npu_tui.rules.facts import Facts
from npu_tui.rules.judged import within
from npu_tui.rules.told_path import untold
from npu_tui.trace.message import Message, message

_SAME_CALL = 2_000
"""ns within which a collective of a trace and one of communication.json start, that are the same."""


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
        return owners(self._replay, self.facts.inputs.types_of, path, partial(within, self.facts))


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
                reasons.append(untold(facts))
    except InputError as error:
        return error.message
    return reasons[0] if reasons else message("path.no_launches")


def _source_of(profile: RankProfile, survey: Survey) -> Source:
    """The trace of ``profile``; of several in one folder that of its rank. Raises ``InputError``."""
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
        for at in range(bisect_left(starts, start - _SAME_CALL), len(starts)):
            if starts[at] > start + _SAME_CALL:
                break
            if not used[at]:
                near.append((types[at] != name, abs(starts[at] - start), at))
        if near:
            _, _, at = min(near)
            used[at], found[number] = True, chosen[at]
    return found
