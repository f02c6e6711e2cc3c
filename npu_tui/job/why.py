"""Why a rank is slow: its work against that of the median rank with the same work, and what its own profile says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from statistics import median_low

import numpy as np
import numpy.typing as npt

from npu_tui.job.blame import Blame
from npu_tui.job.model import Line, RankProfile
from npu_tui.trace.message import Message, message

I64 = npt.NDArray[np.int64]

_TIMES = ("computing", "free")
"""Fields of a step in which ranks with the same work are alike."""

_WORTH_TELLING = 0.01
"""Share of its steps by which a rank must differ from its peers to be told."""

_SHARE = 0.1
"""Share of the work above the peers' that a cause must explain to be told."""

_SLOWER = 1.05
_MOST_LINES = 3
_MOST_TOLD = 2


def reasons(
    ranks: Sequence[RankProfile], peers: Sequence[Hashable], blame: Blame, slow: Sequence[bool]
) -> list[list[Message]]:
    """What tells each of ``ranks`` from those with the same ``peers``; ``slow`` ones are asked for their traces too.

    With traces the segments before the collectives that the rank was late for by its own work are compared: calls,
    their time, launches that came late with their code lines. Without, the times of whole steps are.
    """
    usual = _usual(ranks, peers)
    same: dict[Hashable, list[int]] = defaultdict(list)
    for place, key in enumerate(peers):
        same[key].append(place)
    found = []
    for place, profile in enumerate(ranks):
        said = _by_segments(place, ranks, same[peers[place]], blame) if slow[place] else []
        said = said or _by_steps(profile, usual.get(peers[place], {}))
        if slow[place]:
            said += [message("job.why.told", id=each.id, gain=each.gain) for each in profile.told[:_MOST_TOLD]]
        found.append(said)
    return found


def _usual(ranks: Sequence[RankProfile], peers: Sequence[Hashable]) -> dict[Hashable, dict[str, float]]:
    """Computing and free time of a step, ns, that is usual for ranks with the same work; of two the shorter one."""
    times: dict[Hashable, list[tuple[float, ...]]] = defaultdict(list)
    for profile, key in zip(ranks, peers, strict=True):
        if profile.steps:
            times[key].append(tuple(_mean(profile, name) for name in _TIMES))
    return {
        key: {name: median_low(own) for name, own in zip(_TIMES, zip(*rows, strict=True), strict=True)}
        for key, rows in times.items()
        if len(rows) > 1
    }


def _mean(profile: RankProfile, name: str) -> float:
    return float(sum([getattr(step, name) for step in profile.steps]) / len(profile.steps))


def _by_steps(profile: RankProfile, usual: dict[str, float]) -> list[Message]:
    if not usual or not profile.steps:
        return []
    least = _WORTH_TELLING * _mean(profile, "total")
    more = {name: _mean(profile, name) - time for name, time in usual.items()}
    return [message(f"job.why.{name}", more=time) for name, time in more.items() if time > least]


def _by_segments(place: int, ranks: Sequence[RankProfile], same: list[int], blame: Blame) -> list[Message]:
    """The work of the steps in which the rank came late to collectives by its own, against its median peer's."""
    work = ranks[place].work
    others = [other for other in same if other != place and ranks[other].work is not None]
    if work is None or not others:
        return []
    first, own_row = blame.met.table.first, blame.rank == place
    late = np.flatnonzero(own_row & (blame.own > 0) & (blame.call >= 0))
    excess = int(blame.own[late].sum())
    if not excess:
        return []
    # What peers did while they waited for this rank is work of the same step, not of the same segment.
    slow_steps = np.isin(blame.steps[blame.row], blame.steps[blame.row[late]])
    chosen = np.flatnonzero(own_row & (blame.call >= 0) & slow_steps)
    calls, rows = blame.call[chosen] - first[place], blame.row[chosen]

    def above(name: str) -> int:
        mine = getattr(work, name)[calls]
        peers = []
        for other in others:
            there = np.full(len(blame), -1)
            theirs = np.flatnonzero((blame.rank == other) & (blame.call >= 0))
            there[blame.row[theirs]] = blame.call[theirs] - first[other]
            at = there[rows]
            peers.append(np.where(at >= 0, getattr(ranks[other].work, name)[at], mine))
        return int((mine - np.median(np.stack(peers), axis=0)).sum())

    kernels, computing, lost = above("kernels"), above("computing"), above("lost")
    said = []
    if lost > _SHARE * excess:
        said.append(message("job.why.lost", more=lost))
        said += _lines(ranks[place].lines, [ranks[other].lines for other in others], excess)
    if computing > _SHARE * excess:
        usual = int(work.computing[calls].sum()) - computing
        each = (int(work.kernels[calls].sum()) - kernels) or 1
        slower = (int(work.computing[calls].sum()) / max(int(work.kernels[calls].sum()), 1)) / max(usual / each, 1e-9)
        code = "slower" if slower >= _SLOWER and kernels <= 0 else "more" if kernels > 0 else "computing"
        said.append(message(f"job.why.{code}", more=computing, kernels=kernels, times=slower))
    return said


def _lines(own: Sequence[Line], others: Sequence[Sequence[Line]], excess: int) -> list[Message]:
    """The lines of code that make the device wait longer than on the median peer."""
    tables = [{(line.file, line.line): line.lost for line in lines} for lines in others]
    rows = []
    for line in own:
        more = line.lost - median_low([table.get((line.file, line.line), 0) for table in tables])
        if more > _SHARE * excess:
            rows.append((more, line))
    rows.sort(key=lambda row: -row[0])
    return [message("job.why.line", file=line.file, line=line.line, more=more) for more, line in rows[:_MOST_LINES]]
