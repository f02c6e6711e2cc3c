"""Who the others wait for, whose own work makes it late, and what that costs the job."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median_low

from npu_tui.job.clock import Clock
from npu_tui.job.meetings import Meeting
from npu_tui.job.model import Call, Layout, RankProfile, Seen

_REPLAYED = 16
"""At most so many ranks are replayed, those with the most work above their peers."""

_WORTH_REPLAYING = 0.001
"""A rank whose work is above its peers' by less than this share of the job gains no more than that."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """One rank at one collective on the common clock, ns: when it came, how long it waited, when it left.

    ``late`` is how long it came after the median of the ranks, ``gap`` the time since its collective before (None for
    its first one), ``own`` what of its work was more than its peers with the same work needed (None without peers).
    A rank that is ``outside`` has no files here: it came when the others' waits for it ended, or, ``at_most``, before.
    """

    rank: int
    start: int
    end: int
    wait: int
    late: int
    gap: int | None
    own: int | None
    outside: bool = False
    at_most: bool = False


@dataclass(frozen=True, slots=True)
class Blamed:
    """A collective with its arrivals in their order. ``last`` made the others wait ``cost`` ns longer than the second.

    None and 0 where the difference lies within what the clocks tell. ``transfer`` is from the last arrival to the first
    end, ``spread`` between the ends.
    """

    meeting: Meeting
    arrivals: tuple[Arrival, ...]
    transfer: int
    spread: int
    last: int | None
    cost: int


@dataclass(slots=True)
class RankSum:
    """One rank over all collectives, ns. ``gain``: what the job would save if this rank worked as fast as its peers.

    ``inherited`` is the lateness that others caused; ``gain`` is None where many others would save more.
    """

    rank: int
    own: int = 0
    inherited: int = 0
    came_last: int = 0
    collectives: int = 0
    cost: int = 0
    gain: int | None = 0


def blame(
    ranks: Sequence[RankProfile], met: Sequence[Meeting], clocks: Iterable[Clock], layout: Layout | None
) -> list[Blamed]:
    """Every collective of ranks whose clocks are tied, by time. Ranks with the same work are those of ``layout``."""
    clock_of = {clock.rank: clock for clock in clocks if clock.is_tied}
    rows = []
    for meeting in met:
        times = {
            rank: (clock_of[rank].to_common(call.start), clock_of[rank].to_common(call.end))
            for rank, call in meeting.calls.items()
            if rank in clock_of
        }
        if len(times) > 1:
            rows.append((meeting, times))
    rows.sort(key=lambda row: max(start for start, _ in row[1].values()))
    own = excess([profile for profile in ranks if profile.rank in clock_of], layout)
    seen = _seen(ranks)
    left: dict[int, int] = {}
    found = []
    for meeting, times in rows:
        outside = _outside(meeting, times, seen)
        every = times | {rank: (start, max(end for _, end in times.values())) for rank, (start, _) in outside.items()}
        gaps = {rank: start - left[rank] for rank, (start, _) in every.items() if rank in left}
        left |= {rank: end for rank, (_, end) in every.items()}
        found.append(_blamed(meeting, every, gaps, own, outside, clock_of))
    return found


def _seen(ranks: Sequence[RankProfile]) -> dict[tuple[int, str], list[Seen]]:
    """What each rank saw of others in each call, by its rank and the name of the call."""
    found: dict[tuple[int, str], list[Seen]] = defaultdict(list)
    for profile in ranks:
        for each in profile.seen:
            found[profile.rank, each.name].append(each)
    return found


def _outside(
    meeting: Meeting, times: dict[int, tuple[int, int]], seen: dict[tuple[int, str], list[Seen]]
) -> dict[int, tuple[int, bool]]:
    """When ranks without files came on the common clock, and whether that is a bound; the surest view counts."""
    found: dict[int, tuple[int, bool]] = {}
    for rank, (start, _) in times.items():
        for each in seen.get((rank, meeting.calls[rank].name), ()):
            view = (start + each.after, each.at_most)
            if each.peer not in times and (each.peer not in found or (view[1], view[0]) < found[each.peer][::-1]):
                found[each.peer] = view
    return found


def _blamed(
    meeting: Meeting,
    times: dict[int, tuple[int, int]],
    gaps: dict[int, int],
    own: dict[tuple[int, int], int],
    outside: dict[int, tuple[int, bool]],
    clock_of: dict[int, Clock],
) -> Blamed:
    order = sorted(times, key=lambda rank: times[rank][0])
    sure = [rank for rank in order if rank not in outside or not outside[rank][1]]
    last, second = sure[-1], sure[-2]
    come = times[last][0]
    ahead = come - times[second][0]
    certain = ahead > 2 * max(clock_of[rank].error if rank in clock_of else 0.0 for rank in (last, second))
    middle = median_low([start for start, _ in times.values()])
    arrivals = []
    for rank in order:
        start, end = times[rank]
        call = meeting.calls.get(rank)
        more = own.get((rank, call.start)) if call is not None else None
        at_most = rank in outside and outside[rank][1]
        arrivals.append(
            Arrival(
                rank, start, end, max(come - start, 0), start - middle, gaps.get(rank), more, rank in outside, at_most
            )
        )
    ends = [end for rank, (_, end) in times.items() if rank not in outside]
    transfer, spread = max(min(ends) - come, 0), max(ends) - min(ends)
    return Blamed(meeting, tuple(arrivals), transfer, spread, last if certain else None, ahead if certain else 0)


def excess(ranks: Sequence[RankProfile], layout: Layout | None) -> dict[tuple[int, int], int]:
    """How much longer each rank worked before a call than its peers with the same work, ns, by (rank, call's start).

    Work is the time since the call before on the same rank, so it needs no common clock. The same work is the same
    place in the order of calls of a step, with the same type, on a rank of the same stage and tensor index; peers are
    compared with their median, two with the faster one.
    """
    key: Callable[[int], object] = layout.peers_key if layout is not None else (lambda rank: None)
    works: dict[object, list[tuple[int, int, int]]] = defaultdict(list)
    for profile in ranks:
        before: Call | None = None
        place: dict[str, int] = defaultdict(int)
        for call in sorted(profile.calls, key=lambda call: call.start):
            place[call.step] += 1
            if before is not None:
                work = call.start - before.end
                works[key(profile.rank), call.step, place[call.step], call.type].append(
                    (profile.rank, call.start, work)
                )
            if before is None or call.end > before.end:
                before = call
    found = {}
    for same in works.values():
        if len({rank for rank, _, _ in same}) < 2:
            continue
        usual = median_low([work for _, _, work in same])
        for rank, start, work in same:
            found[rank, start] = work - usual
    return found


def rank_sums(blamed: Sequence[Blamed], ranks: Iterable[int]) -> list[RankSum]:
    """What every rank did over all collectives: those of ``ranks`` in their order, then those without files."""
    sums = {rank: RankSum(rank) for rank in ranks}
    less: dict[int, dict[tuple[int, int], int]] = defaultdict(dict)
    for number, each in enumerate(blamed):
        for arrival in each.arrivals:
            own = sums.setdefault(arrival.rank, RankSum(arrival.rank))
            own.collectives += 1
            more = arrival.own or 0
            own.own += more
            own.inherited += max(arrival.late - max(more, 0), 0)
            saved = each.cost if arrival.outside and each.last == arrival.rank else more
            if saved > 0:
                less[arrival.rank][number, arrival.rank] = saved
        if each.last is not None:
            sums[each.last].came_last += 1
            sums[each.last].cost += each.cost
    length = replayed(blamed, {})
    above = {rank: sum(own.values()) for rank, own in less.items()}
    worth = [rank for rank, more in above.items() if more >= _WORTH_REPLAYING * length]
    worth.sort(key=lambda rank: -above[rank])
    for number, rank in enumerate(worth):
        sums[rank].gain = max(length - replayed(blamed, less[rank]), 0) if number < _REPLAYED else None
    return list(sums.values())


def replayed(blamed: Sequence[Blamed], less: dict[tuple[int, int], int]) -> int:
    """How long the collectives take together, ns, with ``less`` work before some: by (number of collective, rank).

    Max-plus: a collective begins with its last arrival, takes its transfer, and each rank leaves as much after that as
    it did; with nothing less the recorded times come out.
    """
    left: dict[int, int] = {}
    begun = min((arrival.start for each in blamed for arrival in each.arrivals if not arrival.outside), default=0)
    for number, each in enumerate(blamed):
        sure = [arrival for arrival in each.arrivals if not arrival.at_most]
        come = sure[-1].start
        arrived = 0
        for arrival in sure:
            start = arrival.start if arrival.gap is None else left[arrival.rank] + arrival.gap
            arrived = max(arrived, start - less.get((number, arrival.rank), 0))
        for arrival in each.arrivals:
            left[arrival.rank] = arrived + max(arrival.end - come, 0)
    return max(left.values(), default=begun) - begun


def own_by_step(blamed: Sequence[Blamed]) -> dict[tuple[int, str], tuple[int, int]]:
    """Own excess and greatest lateness of every rank in every step, ns."""
    own: dict[tuple[int, str], int] = defaultdict(int)
    late: dict[tuple[int, str], int] = defaultdict(int)
    for each in blamed:
        for arrival in (arrival for arrival in each.arrivals if not arrival.outside):
            key = arrival.rank, each.meeting.step
            own[key] += arrival.own or 0
            late[key] = max(late[key], arrival.late)
    return {key: (own[key], late[key]) for key in own}
