"""The roles of a job on one clock: when each works, which one waits for which, and what is wrong between them.

A tail is the rank of a role that ends long after the median one. Each finding is priced by replaying the roles.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from statistics import mean, median
from typing import Literal, TypeVar

import numpy as np
from msgspec import Struct

from npu_tui.analysis.graph import Graph
from npu_tui.analysis.limits import FAR_LONGER, LITTLE, LONG_NS, MAINLY, NOTABLE, OUTLYING, PLACES
from npu_tui.analysis.statistics import MAD_TO_SIGMA
from npu_tui.jobs.clock import RankClock
from npu_tui.jobs.finding import LEAST_SHARE, Held, priced
from npu_tui.jobs.model import RankProfile, Stint, step_order
from npu_tui.jobs.role_steps import generates
from npu_tui.load.roles import replica_of
from npu_tui.rules.model import Evidence, Finding
from npu_tui.rules.rule import SEVERITY_MEDIUM
from npu_tui.trace.arrays import I64
from npu_tui.trace.intervals import clipped, covered
from npu_tui.trace.message import message
from npu_tui.trace.once import once


class RoleSpan(Struct, frozen=True):
    """``rank`` of the profile's role ``place`` works as ``role`` in ``step`` on ``card``, ns since 1970 on one clock.

    A ``place`` is a replica of its role, or the role itself. ``ahead`` is what the rank's own clock is ahead;
    ``known_by`` is that of the ``Stint``.
    """

    role: str
    place: str
    rank: int
    step: str
    start: int
    end: int
    card: Hashable
    ahead: int = 0
    known_by: str = "range"

    @property
    def who(self) -> tuple[str, int]:
        """The place and the rank in it."""
        return self.place, self.rank


class Tail(Struct, frozen=True):
    """The ranks ``last`` end long after the ``median`` rank of their role in ``step``; ``end`` is that of the first.

    ``more`` is how long after it each of them ends, ns, by the length of its stint where clocks are not tied. ``idle``
    is how long each other rank's card stands still until then, ns.
    """

    role: str
    step: str
    median: int
    end: int
    last: tuple[RoleSpan, ...]
    more: tuple[int, ...]
    idle: tuple[int, ...]

    @property
    def after(self) -> int:
        """How long after the median it ends, ns."""
        return self.end - self.median


class RoleSum(Struct, frozen=True):
    """A role over all steps, means a step and rank in ns: how long it works and ``waits`` on an idle card.

    ``waits`` names how much of it each other role, or its own last rank, is waited for; None where no file says which
    roles share a card. ``after`` is how long its last rank ends after the median one.
    """

    role: str
    places: tuple[str, ...]
    ranks: int
    steps: int
    time: float
    waits: Mapping[str, float] | None
    after: float


Part = tuple[Sequence[RankProfile], Sequence[RankClock]]
"""The ranks of a role, and the clock of each of them."""


class Roles:
    """The roles of a job, one for each of its ``parts``; ``spans`` are there by start."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts
        self.clock: Literal["host", "collectives", "system"] = "host"
        """What puts ranks on one clock: one host, its collectives, or the system clocks of several hosts."""
        profiles = [profile for ranks, _ in parts for profile in ranks]
        ahead = self._ahead()
        devices = {(profile.role, self._host(profile), profile.device) for profile in profiles}
        self._by_device = len(devices) == len(profiles) and all(profile.device is not None for profile in profiles)
        self.spans: list[RoleSpan] = self._made(profiles, ahead)
        if self._by_device and _collide(self.spans):  # each process counts its visible devices from 0
            self._by_device = False
            self.spans = self._made(profiles, ahead)
        self.steps = sorted({span.step for span in self.spans}, key=step_order)

    def _made(self, profiles: Sequence[RankProfile], ahead: Mapping[Hashable, int]) -> list[RoleSpan]:
        """The stints of ``profiles`` on one clock, by start; ``ahead`` is how far each host's clock is ahead, ns."""
        by_process = all(profile.process for profile in profiles)
        spans = []
        for profile in profiles:
            host = self._host(profile)
            card: Hashable = (host, profile.device) if self._by_device else (profile.role, profile.rank)
            card = profile.process if by_process and not self._by_device else card
            off = ahead.get(host, 0)
            for stint in profile.stints or _stints_by_calls(profile):
                times = stint.start - off, stint.end - off
                who = replica_of(stint.role)[0], stint.role, profile.rank
                spans.append(RoleSpan(*who, stint.step, *times, card, off, stint.known_by))
        return sorted(spans, key=lambda span: (span.start, span.end, span.who))

    # --- clock and cards

    def _host(self, profile: RankProfile) -> Hashable:
        """What identifies a host; a rank without a known host is on one with those of its number."""
        return profile.host_name or profile.boot or profile.rank

    def _ahead(self) -> dict[Hashable, int]:
        """How far the clock of each host is ahead of the first one's, by collectives of any role."""
        islands: dict[tuple[int, int], dict[Hashable, list[int]]] = defaultdict(lambda: defaultdict(list))
        for number, part in enumerate(self._parts):
            for profile, clock in zip(*part, strict=True):
                islands[number, clock.reference][self._host(profile)].append(clock.offset)
        offsets = [{host: round(median(own)) for host, own in island.items()} for island in islands.values()]
        hosts = {host for island in offsets for host in island}
        offsets.sort(key=len, reverse=True)
        ahead = dict.fromkeys(list(offsets[0])[:1], 0) if offsets else {}
        for _ in hosts:
            for island in offsets:
                if known := [offset - ahead[host] for host, offset in island.items() if host in ahead]:
                    ahead |= {host: offset - known[0] for host, offset in island.items() if host not in ahead}
        if len(hosts) > 1:
            self.clock = "collectives" if hosts <= ahead.keys() else "system"
        return ahead

    # --- times

    @once
    def length(self) -> float:
        """The mean length of a step, ns, from the first stint in it to the last; steps may run into each other."""
        lengths = [max(span.end for span in own) - own[0].start for own in self.by_step.values()]
        return min(sum(lengths), self.recorded) / len(lengths)

    @once
    def by_step(self) -> dict[str, list[RoleSpan]]:
        """The spans of every step."""
        return _by(self.spans, lambda span: span.step)

    @once
    def by_role(self) -> dict[str, list[RoleSpan]]:
        """The spans of every role, in the order in which they begin."""
        return _by(self.spans, lambda span: span.role)

    @once
    def by_role_step(self) -> dict[tuple[str, str], list[RoleSpan]]:
        """The spans of every role in every step."""
        return _by(self.spans, lambda span: (span.role, span.step))

    @once
    def _graph(self) -> tuple[Graph, I64]:
        """The stints as edges, and the edge of each; one begins when all before it have ended.

        The time between the end of the last one before and its start stays: what it waits for then is unknown. For
        stint k, node 2k + 1 is when it may begin, and 2k + 2 its end.
        """
        ends = sorted(range(len(self.spans)), key=lambda k: self.spans[k].end)
        edges, own, passed, before = list[tuple[int, int, int]](), list[int](), 0, 0
        for number, span in enumerate(self.spans):
            edges.append((max(2 * number - 1, 0), 2 * number + 1, 0))
            while passed < len(ends) and self.spans[ends[passed]].end <= span.start + LONG_NS and ends[passed] < number:
                before = self.spans[ends[passed]].end
                edges.append((2 * ends[passed] + 2, 2 * number + 1, 0))
                passed += 1
            own.append(len(edges))
            edges.append((2 * number + 1, 2 * number + 2, span.end - before))
        source, target, lag = np.array(edges, np.int64).T
        return Graph.of(source, target, lag, 2 * len(self.spans) + 1), np.array(own)

    def gain(self, shorter: Mapping[RoleSpan, float]) -> int:
        """What the job would save if each stint were shorter by so many ns."""
        return self.recorded - self.replayed(shorter)

    @property
    def recorded(self) -> int:
        """How long all stints took together, ns."""
        return max(span.end for span in self.spans) - self.spans[0].start

    def replayed(self, shorter: Mapping[RoleSpan, float]) -> int:
        """How long they take together if they take so many ns less, ns."""
        graph, own = self._graph
        less = np.array([round(shorter.get(span, 0)) for span in self.spans], np.int64)
        return int(graph.times(graph.less(own, less)).max()) - self.spans[0].start

    # --- the tail

    @once
    def tails(self) -> list[Tail]:
        """Where ranks of a role end so long after the others that it is no usual spread, by role and step."""
        return [tail for role, own in self.by_role.items() for tail in self._tails_of(role, own)]

    def _tails_of(self, role: str, spans: Sequence[RoleSpan]) -> Iterable[Tail]:
        several = len({span.place for span in spans}) > 1
        steps = []
        for own in _by(spans, lambda span: span.step).values():
            # The ranks of a replica end together: it counts once, or two replicas would have no outlier.
            grouped = _by(last_of(own), lambda span: (span.place, 0) if several else span.who)
            if len(grouped) > 1:
                steps.append([max(unit, key=lambda span: span.end) for unit in grouped.values()])
        if not steps:
            return
        # A system clock that is off moves both ends of a stint, and leaves its length.
        at = {
            span: span.end - (span.start if self.clock == "system" else self.by_role_step[role, span.step][0].start)
            for span in spans
        }
        middles = [median(at[span] for span in units) for units in steps]
        # Responses, and with them times, differ by factors: the longest are further from the median than the shortest.
        # With less, simulated healthy roles have tails; the range of the other ends alone shows as many tails of
        # tests/jobs/role_simulations.py, and one healthy role in 60 more. No file confirms it.
        every = np.abs(np.log([max(at[span], 1) / max(middle, 1)
                               for units, middle in zip(steps, middles, strict=True) for span in units]))  # fmt: skip
        usual = median(span.end - span.start for span in spans)
        least = NOTABLE * usual
        if max(map(len, steps)) > 2:  # two ends are as far from their middle as each other
            least = max(least, usual * math.expm1(OUTLYING * MAD_TO_SIGMA * float(np.median(every))))
        others = max(float(np.ptp(sorted(at[span] for span in units)[:-1])) for units in steps)
        for units, middle in zip(steps, middles, strict=True):
            own = last_of(self.by_role_step[role, units[0].step])
            last = max(at[span] for span in units)
            is_clear = len(units) > 2 and last - middle >= max(NOTABLE * usual, FAR_LONGER * others)
            bound = min(middle + least, last) if is_clear else middle + least
            late = sorted((span for span in own if at[span] >= bound), key=lambda span: -at[span])
            if late:
                more = tuple(round(at[span] - middle) for span in late)
                waits = [(span, round(at[late[0]] - at[span])) for span in own if span not in late]
                idle = tuple(self._idle(span.card, span.end, span.end + time) for span, time in waits)
                yield Tail(role, late[0].step, late[0].end - more[0], late[0].end, tuple(late), more, idle)

    def _idle(self, card: Hashable, start: int, end: int) -> int:
        """How long no role works on ``card`` from ``start`` until ``end``, ns."""
        spans = [span for span in self._on_cards[card] if span.start < end and span.end > start]
        return end - start - covered(*clipped(*_edges(spans), start, end))

    @once
    def _on_cards(self) -> dict[Hashable, list[RoleSpan]]:
        return _by(self.spans, lambda span: span.card)

    # --- waiting

    @once
    def waits(self) -> dict[str, dict[str, float]]:
        """How long each role waits on an idle card for each other one, or for its last rank, mean a stint, ns.

        It waits for the role that ended last before it began. The first stint on a card waits for nothing known.
        """
        sums: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        counts: Counter[str] = Counter()
        order = sorted(self.spans, key=lambda span: span.end)
        ends = [span.end for span in order]
        for card, own in self._on_cards.items():
            done = own[0].end
            for span in own[1:]:
                counts[span.role] += 1
                at = bisect_right(ends, span.start + LONG_NS) - 1
                while at >= 0 and order[at].card == card:
                    at -= 1
                if at >= 0 and (waited := ends[at] - done) > 0:
                    sums[span.role][order[at].role] += min(waited, span.start - done)
                done = max(done, span.end)
        return {role: {of: time / counts[role] for of, time in own.items()} for role, own in sums.items()}

    def are_apart(self, one: str, other: str) -> bool:
        """Whether two roles are on different cards, as far as that can be known."""
        first, second = self.by_role[one], self.by_role[other]
        if {span.card for span in first} & {span.card for span in second}:
            return False
        if self._by_device:
            return True
        times = [covered(*_edges(own)) for own in (first, second)]
        return sum(times) - covered(*_edges([*first, *second])) > LITTLE * min(times)

    def _knows_cards(self, role: str) -> bool:
        """Whether it is known of all other roles if they share the cards of ``role``."""
        cards = {span.card for span in self.by_role[role]}
        others = (other for other in self.by_role if other != role)
        return self._by_device or all(
            not cards.isdisjoint(span.card for span in self.by_role[other]) or self.are_apart(role, other)
            for other in others
        )

    @once
    def sums(self) -> list[RoleSum]:
        """Every role, in the order in which they begin."""
        found = []
        for role, own in self.by_role.items():
            steps = _by(own, lambda span: span.step)
            lasts = [[span.end for span in last_of(spans)] for spans in steps.values()]
            count = len({(span.who, span.step) for span in own})
            found.append(
                RoleSum(
                    role,
                    tuple(sorted({span.place for span in own})),
                    len({span.who for span in own}),
                    len(steps),
                    sum(span.end - span.start for span in own) / count,
                    self.waits.get(role, {}) if self._knows_cards(role) else None,
                    mean(max(ends) - median(ends) for ends in lasts),
                )
            )
        return found


def _collide(spans: Sequence[RoleSpan]) -> bool:
    """Whether two roles work on one card at the same time for more than moments."""
    for own in _by(spans, lambda span: span.card).values():
        times = [covered(*_edges(role)) for role in _by(own, lambda span: span.role).values()]
        if sum(times) - covered(*_edges(own)) > LITTLE * min(times):
            return True
    return False


def last_of(spans: Iterable[RoleSpan]) -> list[RoleSpan]:
    """The last stint of every rank."""
    return [max(own, key=lambda span: span.end) for own in _by(spans, lambda span: span.who).values()]


def roles_of(parts: Sequence[Part]) -> Roles | None:
    """The roles of a job; None if it has none."""
    roles = Roles(parts)
    return roles if roles.spans else None


def _stints_by_calls(profile: RankProfile) -> tuple[Stint, ...]:
    """The stints of a rank whose trace was not read: from its first collective of each step to the last."""
    if not profile.role:
        return ()
    steps = _by(profile.calls, lambda call: call.step)
    return tuple(
        Stint(profile.role, step, min(call.start for call in own), max(call.end for call in own), "calls")
        for step, own in steps.items()
    )


Key = TypeVar("Key", bound=Hashable)
Row = TypeVar("Row")


def _by(rows: Iterable[Row], key: Callable[[Row], Key]) -> dict[Key, list[Row]]:
    groups: dict[Key, list[Row]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return dict(groups)


def _edges(spans: Sequence[RoleSpan]) -> tuple[I64, I64]:
    """The starts and the ends of ``spans``; (n,) each."""
    return np.array([span.start for span in spans], np.int64), np.array([span.end for span in spans], np.int64)


_SAME_WORK = frozenset(
    ("actor_compute_log_prob", "compute_log_prob", "ref_compute_log_prob", "reference_compute_log_prob",
     "compute_ref_log_prob")
)  # fmt: skip
"""Roles that pass the same tokens forward once each."""


def role_findings(roles: Roles | None) -> list[Finding]:
    """The findings about roles, those about tails first; none for a job without roles."""
    tails: dict[str, list[Tail]] = defaultdict(list)
    if roles is None:
        return []
    for tail in roles.tails:
        tails[tail.role].append(tail)
    found = {role: _tail(roles, role, own) for role, own in tails.items()}
    known = {role: tail for role, tail in found.items() if tail is not None}
    return [*known.values(), *_slow(roles, {role: tail.gain_ns or 0 for role, tail in known.items()})]


def shortened_tails(tails: Sequence[Tail]) -> dict[RoleSpan, float]:
    """By how many ns the last stints of ``tails`` are shorter if they end with the median one."""
    return {span: float(more) for tail in tails for span, more in zip(tail.last, tail.more, strict=True)}


def _tail(roles: Roles, role: str, tails: Sequence[Tail]) -> Finding | None:
    """The tail of ``role``: one rank's, that of one step, or one that another rank has each time."""
    gain, steps = roles.gain(shortened_tails(tails)), len({span.step for span in roles.by_role[role]})
    total = roles.length * len(roles.steps)
    waiting = [[idle for idle in tail.idle if 2 * idle >= tail.after] for tail in tails]
    idle = sum(map(sum, waiting))
    if max(gain, idle / max(len({span.card for span in roles.spans}), 1)) < LEAST_SHARE * total:
        return None
    several = len({span.place for span in roles.by_role[role]}) > 1  # then a replica is one, whichever of its ranks
    (who, count), *_ = Counter(_unit(tail.last[0], several) for tail in tails).most_common(1)
    is_one = count >= MAINLY * len(tails)
    of = [tail for tail in tails if _unit(tail.last[0], several) == who] if is_one else tails
    longest = max(of, key=lambda tail: tail.after)
    args: dict[str, object] = {
        "role": who[0] if is_one else role,
        "rank": longest.last[0].rank,
        "after": round(mean(tail.after for tail in of)),
        "share": (idle / max(sum(map(len, waiting)), 1)) / roles.length,
        "count": max(map(len, waiting)),
        "tails": len(tails),
        "steps": steps,
        "step": longest.step,
        "idle": idle,
        "cost": gain / total,
    }
    form = "moving" if not is_one else "step" if len(tails) == 1 and steps > 1 else "rank"
    waits = "idle" if args["count"] else "busy"
    why = message("job.tail.generates" if generates(role) else "job.tail.works", **args)
    codes = f"job.tail.{form}.{waits}", "job.tail.detail" if gain >= LEAST_SHARE * total else "job.tail.hidden"
    named = {span.rank for tail in of for span in tail.last if not is_one or _unit(span, several) == who}
    spans = [tail.last[0] for tail in sorted(of, key=lambda tail: -tail.after)]
    of_role = who[0] if is_one else role
    return priced(
        "ROLE.TAIL",
        codes,
        (*sorted(named),),
        gain,
        Held(total, max(len(roles.steps), 1), "step"),
        _span_places(spans),
        of_role,
        why=why,
        **args,
    )


def _span_places(spans: Sequence[RoleSpan]) -> tuple[Evidence, ...]:
    """The first of ``spans`` on the clocks of their ranks."""
    return tuple(Evidence(span.start + span.ahead, span.end + span.ahead, rank=span.rank) for span in spans[:PLACES])


def _unit(span: RoleSpan, several: bool) -> tuple[str, int]:
    """The rank, or the replica where there are several."""
    return (span.place, -1) if several else span.who


def _slow(roles: Roles, told: dict[str, int]) -> list[Finding]:
    """Roles that keep others on other cards waiting, beyond what a tail costs, which is ``told`` already, ns."""
    found, count = [], len(roles.steps)
    for role, own in roles.by_role.items():
        held = []
        for other in roles.by_role:
            if other != role and roles.are_apart(role, other):
                waits = roles.waits.get(other, {}).get(role, 0.0) - told.get(role, 0) / count
                back = roles.waits.get(role, {}).get(other, 0.0)
                # Where it waits about as long itself they take turns.
                if waits >= max(NOTABLE * roles.length, MAINLY * (waits + back)):
                    held.append((waits - back, waits, other))
        if held:
            more, waits, other = max(held)
            gain = roles.gain(_faster(own, more))
            ranks = len({span.who for span in roles.by_role[other]})
            args: dict[str, object] = {
                "other": other,
                "waits": round(waits),
                "share": waits / roles.length,
                "ranks": ranks,
            }
            found.append(_slow_cause(roles, role, "apart", gain, args))
    times = {row.role: row.time for row in roles.sums if row.role in _SAME_WORK}
    if len(times) > 1:
        role, other = max(times, key=times.__getitem__), min(times, key=times.__getitem__)
        gain = roles.gain(_faster(roles.by_role[role], times[role] - times[other]))
        if gain >= SEVERITY_MEDIUM.default * roles.length * count:
            args = {"other": other, "times": times[role] / times[other], "time": round(times[role])}
            args["less"] = round(times[other])
            found.append(_slow_cause(roles, role, "work", gain, args))
    return found


def _slow_cause(roles: Roles, role: str, form: str, gain: int, args: dict[str, object]) -> Finding:
    length = roles.length * len(roles.steps)
    spans = sorted(roles.by_role[role], key=lambda span: span.start - span.end)
    ranks = tuple(sorted({span.rank for span in spans}))
    codes, places = (f"job.role.{form}.title", f"job.role.{form}.detail"), _span_places(spans[:1])
    held = Held(length, max(len(roles.steps), 1), "step")
    return priced("ROLE.SLOW", codes, ranks, gain, held, places, role, **args | {"role": role, "cost": gain / length})


def _faster(spans: Sequence[RoleSpan], less: float) -> dict[RoleSpan, float]:
    """``spans`` shorter by one factor, so that the mean one takes ``less`` ns less."""
    share = less / mean(span.end - span.start for span in spans)
    return {span: share * (span.end - span.start) for span in spans}
