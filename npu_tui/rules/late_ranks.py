"""The finding about late ranks: who this rank waits for, and what each of them would save in its turn.

The waits of the plane tasks show which ranks are late. Ranks are those of the job where its groups are known, else
places in the group: ``peers_seen`` numbers both, and here they get their names.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from msgspec import Struct

from npu_tui.analysis.collectives import Collective, ranks_of_group
from npu_tui.analysis.communication import (
    HARDLY,
    TOGETHER_NS,
    UNKNOWN,
    fill_of,
    lane_and_place,
    lateness,
    peers_seen,
    unknown_waits,
)
from npu_tui.analysis.limits import HALF, NEARLY_ALL
from npu_tui.analysis.pipelines import pipeline_fills
from npu_tui.analysis.replay import Change
from npu_tui.rules import pages
from npu_tui.rules.facts import Facts, once_per_device
from npu_tui.rules.inputs import NOTHING, Span, common, length_of, without
from npu_tui.rules.model import Evidence
from npu_tui.rules.parallelism import is_for
from npu_tui.rules.rule import (
    LISTED,
    SEVERITY_HIGH,
    SEVERITY_MEDIUM,
    Draft,
    Rule,
    advise,
    runs_of,
    sentences,
    severity_of,
)
from npu_tui.trace.arrays import Bools, once_each
from npu_tui.trace.message import Message, Said, message
from npu_tui.trace.text import brief

# Ranks of equal speed wait for each other for about the share that is high: up to 5.3 % in simulated jobs of eight.
_OF_EQUALS = 1.5


class LateCase(Struct, frozen=True):
    """A collective at which only late ranks were missing once the others were ``there``, ns after its start.

    ``late`` are those that came after that and when, the last one first.
    """

    collective: Collective
    there: int
    late: tuple[tuple[int, int], ...]

    @property
    def peer(self) -> int:
        """The rank that came last."""
        return self.late[0][0]

    @property
    def last(self) -> int:
        """When the last one came, ns after the start."""
        return self.late[0][1]

    @property
    def excess(self) -> int:
        """How much later the last one came than all in time, ns."""
        return self.last - self.there

    @property
    def shown(self) -> int:
        """How long this rank waited for the last one, ns; for an unknown one after all that it sees."""
        return self.collective.unseen if self.peer == UNKNOWN else self.excess

    def until(self, in_time: Collection[int]) -> int:
        """When the last one comes with some of the late ranks ``in_time``, ns after the start."""
        return max((after for peer, after in self.late if peer not in in_time), default=self.there)


class LatePeers(Struct, frozen=True):
    """``peers`` that come late, the one that was waited for longest first, in ``cases``.

    The first few of them, those ``named``, explain nearly all waiting: with them in time the others hardly count.
    ``span`` is the exposed time in which no other rank was missing. With ``wandering`` none of them is late in most
    cases, with ``neighbours`` this rank sees only the ranks beside it, with ``stages`` they are those beside it in a
    pipeline: then, and with an UNKNOWN peer in front, it is open who is late. ``by_chance`` those named may come last
    as often as they do.
    """

    peers: tuple[int, ...]
    named: tuple[int, ...]
    cases: tuple[LateCase, ...]
    span: Span
    wandering: bool
    neighbours: bool
    stages: bool = False
    by_chance: bool = False

    @property
    def visible(self) -> tuple[int, ...]:
        """The late ranks with known numbers."""
        return tuple(peer for peer in self.named if peer != UNKNOWN)


@once_per_device
def late(facts: Facts) -> LatePeers | None:
    """The late ranks; None if no task names a peer or no rank is late."""
    collectives = facts.collectives
    fill = fill_of(fills(facts), collectives.item)
    waits = lateness(peers_seen(collectives), collectives.elapsed, fill)
    there = np.maximum(waits.others, fill)
    behind = waits.behind
    # The last one first, of several at one time the lowest rank.
    behind = behind.taken(np.lexsort((behind.rank, -behind.after, behind.owner)))
    behind = behind.taken((behind.latest() > there)[behind.owner])
    if not len(behind.owner):
        return None
    owner = once_each(behind.owner)
    last, in_time = behind.latest()[owner], there[owner]
    rows = behind.by_owner()
    cases = [
        LateCase(row, there_at, tuple(rows[at]))
        for row, there_at, at in zip(collectives.at(owner), in_time.tolist(), owner.tolist(), strict=True)
    ]
    waited, lateness_of = dict.fromkeys(waits.late, 0), dict.fromkeys(waits.late, 0)
    excess = last - in_time
    for case, more in zip(cases, excess.tolist(), strict=True):
        waited[case.peer] += more
    for peer, after in zip(behind.rank.tolist(), behind.after.tolist(), strict=True):
        lateness_of[peer] += after
    order = tuple(sorted(waits.late, key=lambda peer: (-waited[peer], -lateness_of[peer], peer)))
    total = sum(waited.values())

    def mostly(chosen: Bools) -> bool:
        return int(excess[chosen].sum()) > HALF * total

    def left(count: int) -> int:
        """How much later the last ones come with the first ``count`` ranks in time, ns."""
        others = behind.taken(~behind.of(frozenset(order[:count]))).longest()
        return int((others.after - there[others.owner]).sum())

    named = next(order[:count] for count in range(1, len(order) + 1) if left(count) <= HARDLY * total)
    return LatePeers(
        order,
        named,
        tuple(cases),
        common(_waiting(facts, cases), facts.exposed),
        waited[order[0]] < HALF * total,
        mostly(collectives.neighbours_only[owner]),
        mostly(np.isin(collectives.item[owner], [*fills(facts)])),
        not waits.beyond_chance(named),
    )


def _waiting(facts: Facts, cases: Sequence[LateCase], in_time: Collection[int] | None = None) -> Span:
    """The time in which this rank waits for late ranks: those ``in_time``, by default all."""
    start = facts.trace.slices.start[[case.collective.item for case in cases]]
    low = [case.there if in_time is None else case.until(in_time) for case in cases]
    return start + np.array(low, np.int64), start + np.array([case.last for case in cases], np.int64)


@once_per_device
def fills(facts: Facts) -> dict[int, int]:
    """How long receives and closing collectives wait while a pipeline fills and drains, ns by slice: nobody's fault."""
    return pipeline_fills(facts.trace, facts.collectives, len(facts.steps))


def fill_span(facts: Facts) -> Span:
    """The exposed time in which a pipeline fills and drains."""
    return _exposed(facts, fills(facts))


@once_per_device
def waits_for_late_ranks(facts: Facts) -> Span:
    """The exposed time in which this rank waits for late ranks.

    Where arrivals are recorded it is measured, and empty if no rank is late. Where none is, it is estimated by what
    equal collectives take, and empty may mean unknown: ``has_arrivals`` of the collectives says which it is.
    """
    if (lateness := late(facts)) is not None:
        return lateness.span
    known = facts.collectives.has_arrivals.any()
    return NOTHING if known else _exposed(facts, unseen_waits(facts))


@once_per_device
def waits_for_named(facts: Facts) -> Span:
    """The part of ``waits_for_late_ranks`` in which only ranks that are named were missing."""
    lateness = late(facts)
    if lateness is None:
        return NOTHING
    return common(_waiting(facts, lateness.cases, lateness.named), lateness.span)


@once_per_device
def unseen_waits(facts: Facts) -> dict[int, int]:
    """``unknown_waits`` by what equal collectives take anywhere: those of a range or a step have too few equals."""
    return unknown_waits(facts.trace, facts.inputs.collectives())


@once_per_device
def moving(facts: Facts) -> Span:
    """The exposed time apart from waits for a rank or for a pipeline that fills."""
    return without(without(facts.exposed, waits_for_late_ranks(facts)), fill_span(facts))


def _exposed(facts: Facts, waits: dict[int, int]) -> Span:
    """The exposed time of ``waits``: ns at the start of each slice."""
    start = facts.trace.slices.start[list(waits)].astype(np.int64)
    return common((start, start + np.array(list(waits.values()), np.int64)), facts.exposed)


def number_of(facts: Facts, peer: int) -> int | Message:
    """The number of a rank: ``5``, ``3 of Group 1`` within a group of unknown ranks, ``12 (3 of Group 1)``."""
    lane, place = lane_and_place(peer)
    if lane >= 0:
        return message("finding.number.of_group", rank=place, group=_group(facts, lane))
    groups = facts.inputs.setup.groups
    if len(groups) > 1 and (lateness := late(facts)) is not None:
        for case in lateness.cases:
            name = facts.trace.lanes[int(facts.trace.slices.lane[case.collective.item])]
            ranks = ranks_of_group(name.name, groups)
            if case.peer == peer and place in ranks:
                words = {"place": ranks.index(place), "group": _group(facts, name.index)}
                return message("finding.number.of_job", rank=place, **words)
    return place


def numbers_of(facts: Facts, peers: Sequence[int]) -> list[str] | list[Message]:
    """The numbers of several ranks; those of consecutive ones as a range."""
    numbers = [number_of(facts, peer) for peer in peers]
    named = [number for number in numbers if isinstance(number, Message)]
    plain = [number for number in numbers if not isinstance(number, Message)]
    return [*(message("finding.number", rank=number) for number in runs_of(plain)), *named] if named else runs_of(plain)


def _group(facts: Facts, lane: int) -> str:
    return brief(facts.trace.lanes[lane].name.removesuffix(" Communication"), 40)


def straggler(facts: Facts) -> Draft | None:
    """Ranks that everybody waits for."""
    lateness = late(facts)
    if lateness is None:
        return None
    gain = length_of(lateness.span)
    share = facts.share(gain)
    named = length_of(waits_for_named(facts))
    least = _OF_EQUALS * facts.limits[SEVERITY_HIGH] if lateness.by_chance else facts.limits[SEVERITY_MEDIUM]
    if share < least:
        return None
    worst = max(lateness.cases, key=lambda case: case.excess)
    collectives = facts.collectives
    came = peers_seen(collectives)
    unseen = lateness.peers[0] == UNKNOWN
    if unseen:
        transfer = sum(case.collective.elapsed - case.excess for case in lateness.cases)
    else:
        transfer = int((collectives.elapsed - came.latest())[collectives.has_arrivals].sum())
    parts = [_longest_waited(facts, worst), *_again(facts, lateness, worst)]
    if len(lateness.visible) > 1 and not (lateness.wandering or lateness.neighbours or lateness.stages):
        parts += _lateness_in_order(facts, lateness)
    if filled := sum(fills(facts).values()):
        parts.append(message("finding.straggler.fill", time=filled))
    longer = transfer > gain
    parts.append(message(f"finding.straggler.transfers{'_longer' * longer}", time=transfer, speed=_speeds(facts)))
    if lateness.neighbours:
        parts.append(message("finding.straggler.ring"))
    kind = "wandering" if lateness.wandering else "many" if len(lateness.named) > 1 else "one"
    if is_uneven(facts, lateness):
        parts.append(message("finding.straggler.experts"))
        advice = [*advise("experts_tokens", "experts_balance", "experts_placement")]
    elif lateness.stages and not unseen:
        kind, advice = "stage", [*advise("balance_stages")]
        parts.append(message("finding.straggler.stage"))
    elif unseen or lateness.neighbours:  # in a ring the late rank may be any one up the ring
        kind, advice = "unseen" if unseen else "ring", [*advise("profile_ring")]
    elif lateness.wandering:
        advice = [*advise("uneven_work")]
    else:
        parts.append(_files_of(facts, worst.peer))
        advice = _advice(facts, lateness, facts.name_of(worst.collective.item))
    if not longer and not is_uneven(facts, lateness):
        advice += advise("no_tuning")
    words = {"ranks": numbers_of(facts, lateness.visible), "each": facts.per_unit(named), "share": facts.share(named)}
    return Draft(
        severity_of(facts.limits, share),
        message(f"finding.straggler.title.{kind}", **words),
        sentences(*parts),
        _late_waits(facts, lateness),
        tuple(advice),
        lateness.span,
        change=Change(in_time=frozenset(lateness.peers)),
        confidence="low" if unseen or lateness.neighbours else "medium" if lateness.stages else "high",
        verdict=message(f"finding.straggler.verdict.{kind}", transfer=transfer / facts.count, **words),
    )


@once_per_device
def _exchanges(facts: Facts) -> dict[int, int]:
    """The exchanges of tokens between experts by slice, each with its place in the order of its group."""
    items = facts.collectives.item[is_for(facts, "experts")]
    lane = facts.trace.slices.lane[items]
    return {
        item: place for group in np.unique(lane).tolist() for place, item in enumerate(items[lane == group].tolist())
    }


def is_uneven(facts: Facts, lateness: LatePeers) -> bool:
    """Whether ranks are late with what their experts compute: at every second exchange of tokens, or in turns."""
    places = _exchanges(facts)
    waited = {0: 0, 1: 0}
    for case in lateness.cases:
        if case.collective.item in places:
            waited[places[case.collective.item] % 2] += case.excess
    least = NEARLY_ALL * sum(case.excess for case in lateness.cases)
    return sum(waited.values()) >= least and (lateness.wandering or max(waited.values()) >= least)


def _longest_waited(facts: Facts, worst: LateCase) -> Message:
    """The rank that others waited for longest, at which collective, and the ranks that were already there."""
    begin, name = int(facts.trace.slices.start[worst.collective.item]), facts.name_of(worst.collective.item)
    arrivals = worst.collective.arrivals or []
    if worst.peer == UNKNOWN:
        there = begin + max((after for _, after in arrivals), default=0)
        return message("finding.straggler.unseen", name=name, there=there, excess=worst.shown)
    places = {lane_and_place(peer)[1] for peer, _ in worst.late}
    in_time = [arrival for arrival in arrivals if arrival[0] not in places] or arrivals[:1]
    ranks = [rank for rank, _ in in_time]
    named = message("finding.ranks", ranks=runs_of(ranks)) if len(ranks) > 1 else message("finding.rank", rank=ranks[0])
    there = begin + max(after for _, after in in_time)
    words = {"rank": number_of(facts, worst.peer), "excess": worst.excess, "wait": worst.collective.longest_wait or 0}
    return message("finding.straggler.worst", name=name, others=named, there=there, **words)


def _files_of(facts: Facts, peer: int) -> Message:
    """Whether the profile of a late rank is here."""
    lane, place = lane_and_place(peer)
    if lane >= 0:
        return message("finding.straggler.in_group", group=_group(facts, lane))
    on_disk = place in facts.inputs.setup.ranks
    return message("finding.straggler.on_disk" if on_disk else "finding.straggler.not_on_disk", rank=place)


def _advice(facts: Facts, lateness: LatePeers, name: str) -> list[Message]:
    """Which ranks to profile: the first, or all of several that are nearly as late."""
    if len(lateness.visible) > 1:
        ranks = numbers_of(facts, lateness.visible)
        return [
            message("finding.advice.profile_ranks", ranks=ranks),
            message("finding.advice.compare_ranks", ranks=ranks, name=name),
        ]
    first = number_of(facts, lateness.peers[0])
    return [
        message("finding.advice.profile_rank", rank=first),
        message("finding.advice.compare_rank", rank=first, name=name),
    ]


def _again(facts: Facts, lateness: LatePeers, worst: LateCase) -> list[Message]:
    """Where else a rank was last: for one rank the collectives, for several how long each was waited for."""
    others = sorted((case for case in lateness.cases if case is not worst), key=lambda case: -case.excess)
    others = [case for case in others if case.excess > TOGETHER_NS] or others
    again = sorted(others[:5], key=lateness.cases.index)
    if not again:
        return []
    if len({case.peer for case in lateness.cases}) == 1:
        named = [
            message("finding.straggler.case", name=_sibling_name(facts, case.collective), excess=case.shown)
            for case in again
        ]
        return [message("finding.straggler.again", cases=named)]
    rows = []
    for peer in lateness.peers[:5]:
        excesses = [case.shown for case in lateness.cases if case.peer == peer]
        if excesses:
            words = {"count": len(excesses), "time": sum(excesses)}
            unseen = peer == UNKNOWN
            rows.append(
                message("finding.straggler.of_unseen", **words)
                if unseen
                else message("finding.straggler.of_rank", rank=number_of(facts, peer), **words)
            )
    return [message("finding.straggler.each", rows=rows)]


def _lateness_in_order(facts: Facts, lateness: LatePeers) -> list[Message]:
    """How much later the last rank comes than the one before, and what the first few save, one after the other."""
    first, second = lateness.visible[:2]
    parts = []
    ahead = [
        case.last - case.late[1][1] for case in lateness.cases if [peer for peer, _ in case.late[:2]] == [first, second]
    ]
    if ahead:
        numbers = {"rank": number_of(facts, first), "other": number_of(facts, second)}
        parts.append(message("finding.straggler.lead", time=float(np.median(ahead)), **numbers))
    rows = []
    for count in range(1, min(len(lateness.visible), LISTED) + 1):
        some = lateness.visible[:count]
        gain = _gain_in_time(facts, lateness, frozenset(some)) / facts.count
        words = {"rank": number_of(facts, some[-1]), "gain": gain}
        rows.append(
            message("finding.straggler.alone", unit=facts.unit, **words)
            if count == 1
            else message("finding.straggler.too", **words)
        )
    return [*parts, message("finding.straggler.in_order", rows=rows)]


def _gain_in_time(facts: Facts, lateness: LatePeers, some: frozenset[int]) -> int:
    """How much shorter the run is once ``some`` of the late ranks are in time, ns."""
    if facts.replay is not None:
        return facts.replay.gain(facts.judged(Change(in_time=some)))
    return length_of(common(_waiting(facts, lateness.cases, some), facts.exposed))


def _sibling_name(facts: Facts, collective: Collective) -> str:
    """The part of the name that differs between siblings: ``_1`` of ``hcom_allReduce__586_1_1``."""
    words = facts.trace.name_of(collective.item).split("_")
    return brief(f"_{words[-2]}") if len(words) > 3 and words[-1].isdecimal() else facts.name_of(collective.item)


def _speeds(facts: Facts) -> Said:
    """The bandwidth of the collectives, the slowest and the fastest."""
    size, time = facts.collectives.moved.sums(len(facts.collectives))
    moved = (size != 0) & (time != 0)
    if not moved.any():
        return ""
    speeds = size[moved] / time[moved]
    low, high = float(speeds.min()), float(speeds.max())
    return message("finding.speed", speed=low) if low == high else message("finding.speeds", low=low, high=high)


def _late_waits(facts: Facts, lateness: LatePeers) -> tuple[Evidence, ...]:
    """The waits for late ranks, the longest ten, each from the last arrival in time to the last of all."""
    slices = facts.trace.slices
    rows = []
    for case in sorted(lateness.cases, key=lambda case: -case.excess)[:10]:
        collective = case.collective
        last = int(slices.start[collective.item]) + case.last
        order = sorted(collective.arrivals or [], key=lambda row: row[1])
        ranks = [message("finding.straggler.arrival", rank=rank, after=after) for rank, after in order]
        name = facts.name_of(collective.item)
        words = {"excess": case.shown, "arrivals": ranks}
        if case.peer == UNKNOWN:
            note = message("finding.straggler.place_unseen", **words)
        else:
            missing = [number_of(facts, peer) for peer, _ in case.late if peer in lateness.visible]
            missing = missing or [number_of(facts, case.peer)]
            note = message("finding.straggler.place", ranks=missing, **words)
        rows.append(Evidence(last - case.shown, last, int(slices.lane[collective.item]), name, note, collective.item))
    return tuple(sorted(rows, key=lambda row: row.start))


RULES: tuple[Rule, ...] = (
    Rule(
        "COMM.STRAGGLER",
        cls="communication",
        inputs=("device", "overlap", "planes"),
        check=straggler,
        thresholds=(SEVERITY_MEDIUM, SEVERITY_HIGH),
        advice=("check_peer", "uneven_work", "no_tuning", "experts_tokens", "experts_balance", "experts_placement"),
        pages=(pages.SLOW_RANK, pages.SLOW_RANK_CASE, pages.ANALYZE),
        sources=("msprof-analyze slow rank", "MindStudio Insight walk-through 1-59", "operator tuning guide 0-31"),
        reach="cause",
        replayed=True,
        words=("wait", "late_rank"),
    ),
)
