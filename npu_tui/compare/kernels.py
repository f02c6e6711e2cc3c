"""Kernels and collectives of two profiles matched: which group of equal kernels became which, who waited for whom.

A group's difference splits without rest into "more calls" and "slower calls". Groups are matched by (type, shapes,
dtypes, formats, core) where both profiles have kernel_details.csv, else by type; kernels of matched operations show
which group turned into another one.

Collectives come with how long each waited for whom.

They are matched by type, communicator and place in the step, never by name: that holds a hash of the communicator,
which differs from run to run.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.analysis.collectives import Collective
from npu_tui.analysis.operators import collective_type
from npu_tui.analysis.overlap import Intervals
from npu_tui.analysis.statistics import FEWEST, discoveries, rank_sum_p
from npu_tui.compare.steps import StepWindow
from npu_tui.trace.arrays import F64, I64
from npu_tui.trace.intervals import covered_before
from npu_tui.trace.model import Trace

Change = Literal["new", "gone", "slower", "faster", "more", "fewer", "changed", "replaced", "same"]
Rung = Literal["operation", "attributes", "type"]

_DISCOVERY = 0.1
_NOTICEABLE = 0.01
"""Change of a kernel's mean time below which nothing is said of it."""
# The same for fewer calls than a rank test needs: single calls of one kernel spread by 0.89...1.13 (5th to 95th
# percentile) between equal runs.
_FEW_CALLS = 0.15
_LARGE_SAMPLE = 2_000  # calls per side that a rank test reads; more of them, evenly drawn, change no verdict


class Identity(NamedTuple):
    """What a kernel is; None where the profile does not say."""

    type: str
    shapes: str | None = None
    dtypes: str | None = None
    formats: str | None = None
    core: str | None = None

    @property
    def bare(self) -> Identity:
        """The type alone."""
        return Identity(self.type)


class ComparedKernels(Struct, frozen=True):
    """The compute kernels of the compared steps; (n,) each, by start.

    ``identity`` indexes ``identities``, ``step`` the compared steps, ``operation`` is the launching slice, -1 unknown.
    """

    item: I64
    duration: I64
    identities: list[Identity]
    identity: I64
    step: I64
    operation: I64
    steps: int

    @property
    def described(self) -> bool:
        """Whether more than the type is known of any kernel."""
        return any(identity != identity.bare for identity in self.identities)

    def by_operation(self, names: Sequence[str | None]) -> ComparedKernels:
        """The same kernels called by ``names`` (n,), what launched each; None: by its own type."""
        codes: dict[Identity, int] = {}
        launched = zip(names, self.identity.tolist(), strict=True)
        identities = [self.identities[code].bare if name is None else Identity(name) for name, code in launched]
        code = [codes.setdefault(identity, len(codes)) for identity in identities]
        return replace(self, identities=list(codes), identity=np.array(code, np.int64))

    def by_type(self) -> ComparedKernels:
        """The same kernels with nothing but their type known."""
        return self.called([identity.bare for identity in self.identities])

    def called(self, identities: Sequence[Identity]) -> ComparedKernels:
        """The same kernels under other ``identities``, one for each of the present ones; equal ones become one."""
        codes: dict[Identity, int] = {}
        of = np.array([codes.setdefault(identity, len(codes)) for identity in identities] or [0], np.int64)
        return replace(self, identities=list(codes), identity=of[self.identity])


class GroupSide(Struct, frozen=True):
    """The calls of one group, per step: mean count, mean total and the median of a call in ns."""

    count: float
    total: float
    median: float | None


class GroupChange(Struct, frozen=True):
    """One group on both sides, ns per step; ``by_count`` + ``by_duration`` = ``delta``.

    ``was`` is what the group was called in the base where it changed, ``replaces`` names all that it replaces.
    ``base_items`` and ``new_items`` are its slices in time order.
    """

    identity: Identity
    was: Identity | None
    change: Change
    rung: Rung
    base: GroupSide
    new: GroupSide
    by_count: float
    by_duration: float
    p: float | None
    q: float | None
    base_items: I64
    new_items: I64
    parts: tuple[str, ...] = ()

    @property
    def delta(self) -> float:
        """New minus base total, ns per step."""
        return self.new.total - self.base.total

    @property
    def ratio(self) -> float | None:
        """The new total over that of the base; None where a side has none."""
        return self.new.total / self.base.total if self.base.total and self.new.total else None

    @property
    def formerly(self) -> str | None:
        """The types of the group in the base, joined by plus signs; None where they are those of the new profile."""
        return " + ".join(self.parts) or (self.was.type if self.was else None)


def group_changes(
    base: ComparedKernels,
    new: ComparedKernels,
    operations: Sequence[tuple[int, int]] = (),
    replaced: Sequence[tuple[Sequence[int], Sequence[int]]] = (),
    judged_from: int = 0,
    rung: Rung | None = None,
) -> list[GroupChange]:
    """Every group of either side, the largest difference first.

    ``operations`` are pairs of matched slices, ``replaced`` runs of slices that stand in each other's place. Kernels
    whose median is below ``judged_from`` ns are never called slower or faster. ``rung`` says how the identities were
    made where they are not those of the kernels themselves.
    """
    described = base.described and new.described
    if not described:
        base, new = base.by_type(), new.by_type()
    sides = _Sides(base, new)
    way: Rung = rung or ("attributes" if described else "type")
    rows = [sides.row(identity, identity, way) for identity in sides.members[0] if identity in sides.members[1]]
    left, right = (sides.members[k].keys() - sides.members[1 - k].keys() for k in (0, 1))
    for (was,), (now,) in sides.changed(operations, left, right):
        rows.append(replace(sides.row(was, now, "operation"), change="changed", was=was))
        left.discard(was)
        right.discard(now)
    for olds, news in sides.replacements(replaced, left, right):
        rows.append(sides.merged(olds, news))
        left -= set(olds)
        right -= set(news)
    rows += [sides.row(identity, None, way) for identity in left]
    rows += [sides.row(None, identity, way) for identity in right]
    return sorted(
        _judged_rows(rows, judged_from), key=lambda row: (-abs(row.delta), row.identity.type, str(row.identity))
    )


def _judged_rows(rows: list[GroupChange], judged_from: int) -> list[GroupChange]:
    """The rows with their q, and the word for what changed where nothing else has said it."""
    q = discoveries(np.array([np.nan if row.p is None else row.p for row in rows]))
    judged = []
    for row, value in zip(rows, q.tolist(), strict=True):
        row = replace(row, q=None if np.isnan(value) else value)
        judged.append(row if row.change in ("changed", "replaced") else replace(row, change=_word(row, judged_from)))
    return judged


def _word(row: GroupChange, judged_from: int) -> Change:
    if not row.base.count:
        return "new"
    if not row.new.count:
        return "gone"
    slower: Change = "slower" if row.by_duration > 0 else "faster"
    more: Change = "more" if row.by_count > 0 else "fewer"
    is_discovery = row.q <= _DISCOVERY if row.q is not None else False
    # Held against the shorter one and the mean of both: the other way round the words are the opposite ones.
    times = [side.total / side.count for side in (row.base, row.new)]
    least = _NOTICEABLE if is_discovery else _FEW_CALLS
    apart = max(times) - min(times) >= least * min(times)
    long_enough = min(row.base.median or 0, row.new.median or 0) >= judged_from
    timed = apart and long_enough and (is_discovery or row.q is None)
    calls = abs(row.new.count - row.base.count)
    if calls and (not timed or calls * sum(times) >= abs(times[1] - times[0]) * (row.base.count + row.new.count)):
        return more
    return slower if timed else "same"


_Names = tuple[Identity, ...]
"""Groups that are one together."""


class _Sides:
    """Both sides; ``members`` are the positions of the calls of each group, ascending."""

    def __init__(self, base: ComparedKernels, new: ComparedKernels) -> None:
        self.kernels = (base, new)
        self.members = _members(base), _members(new)

    def row(self, was: Identity | None, now: Identity | None, rung: Rung) -> GroupChange:
        """The group called ``was`` in the base and ``now`` in the new profile."""
        nothing = np.zeros(0, np.int64)
        at = [nothing if name is None else of[name] for of, name in zip(self.members, (was, now), strict=True)]
        return self._row(now or was or Identity(""), (at[0], at[1]), rung)

    def merged(self, olds: _Names, news: _Names) -> GroupChange:
        """All calls of ``olds`` against all of ``news``, compared by their time alone."""
        at = [
            np.sort(np.concatenate([of[name] for name in names]))
            for of, names in zip(self.members, (olds, news), strict=True)
        ]
        row = self._row(news[0], (at[0], at[1]), "operation")
        return replace(
            row,
            change="replaced",
            was=olds[0],
            by_count=0.0,
            by_duration=row.delta,
            p=None,
            parts=tuple(dict.fromkeys(identity.type for identity in olds)),
        )

    def _row(self, identity: Identity, at: tuple[I64, I64], rung: Rung) -> GroupChange:
        times = [side.duration[calls] for side, calls in zip(self.kernels, at, strict=True)]
        base, new = (
            GroupSide(
                len(time) / side.steps, float(time.sum()) / side.steps, float(np.median(time)) if len(time) else None
            )
            for side, time in zip(self.kernels, times, strict=True)
        )
        if base.count and new.count:
            before, after = base.total / base.count, new.total / new.count
            by_count, by_duration = (new.count - base.count) * before, new.count * (after - before)
        else:
            by_count, by_duration = new.total - base.total, 0.0
        p = None
        if min(len(time) for time in times) >= FEWEST:
            p = rank_sum_p(_drawn(times[0]), _drawn(times[1]))
        items = [side.item[calls] for side, calls in zip(self.kernels, at, strict=True)]
        items = [known[known >= 0] for known in items]  # kernels of a table alone are nowhere on a timeline
        return GroupChange(identity, None, "same", rung, base, new, by_count, by_duration, p, None, items[0], items[1])

    def changed(
        self, operations: Sequence[tuple[int, int]], left: set[Identity], right: set[Identity]
    ) -> list[tuple[_Names, _Names]]:
        """Groups of one side only that matched operations launched in each other's place, of one type."""
        votes: Counter[tuple[_Names, _Names]] = Counter()
        pairs = np.array(operations, np.int64).reshape(-1, 2)
        of = [_launched_identities(side, pairs[:, k]) for k, side in enumerate(self.kernels)]
        for before, after in operations:
            for old, now in zip(of[0].get(before, ()), of[1].get(after, ()), strict=False):
                was, is_now = self.kernels[0].identities[old], self.kernels[1].identities[now]
                if was in left and is_now in right and was.type == is_now.type:
                    votes[(was,), (is_now,)] += 1
        return _one_to_one(votes)

    def replacements(
        self, replaced: Sequence[tuple[Sequence[int], Sequence[int]]], left: set[Identity], right: set[Identity]
    ) -> list[tuple[_Names, _Names]]:
        """Groups of one side only whose operations stand in each other's place."""
        of = [
            _launched_identities(
                side, np.array([run_operation for runs in replaced for run_operation in runs[k]], np.int64)
            )
            for k, side in enumerate(self.kernels)
        ]
        votes: Counter[tuple[_Names, _Names]] = Counter()
        for runs in replaced:
            names = [
                tuple(
                    dict.fromkeys(
                        side.identities[code]
                        for operation in run
                        for code in by.get(operation, ())
                        if side.identities[code] in alone
                    )
                )
                for side, run, by, alone in zip(self.kernels, runs, of, (left, right), strict=True)
            ]
            if names[0] and names[1]:
                votes[names[0], names[1]] += 1
        return _one_to_one(votes)


def _members(side: ComparedKernels) -> dict[Identity, I64]:
    few = len(side.identities) < 1 << 16  # NumPy sorts numbers of 16 bits by their digits, several times as fast
    order = np.argsort(side.identity.astype(np.uint16) if few else side.identity, kind="stable")
    of = np.split(order, np.cumsum(np.bincount(side.identity, minlength=len(side.identities)))[:-1])
    return {name: members for name, members in zip(side.identities, of, strict=False) if len(members)}


def _launched_identities(side: ComparedKernels, wanted: I64) -> dict[int, list[int]]:
    """The identities that each of the launching slices ``wanted`` launched, in order."""
    launched: dict[int, list[int]] = {}
    known = np.flatnonzero(np.isin(side.operation, wanted))
    for operation, code in zip(side.operation[known].tolist(), side.identity[known].tolist(), strict=True):
        launched.setdefault(operation, []).append(code)
    return launched


def _one_to_one(votes: Counter[tuple[_Names, _Names]]) -> list[tuple[_Names, _Names]]:
    """The pairs of most votes, each group in one of them."""
    taken: tuple[set[Identity], set[Identity]] = set(), set()
    pairs = []
    for pair, _ in votes.most_common():
        if all(known.isdisjoint(names) for known, names in zip(taken, pair, strict=True)):
            pairs.append(pair)
            for known, names in zip(taken, pair, strict=True):
                known.update(names)
    return pairs


def _drawn(times: I64) -> F64:
    """At most a few thousand of ``times``, evenly over them."""
    if len(times) > _LARGE_SAMPLE:
        times = times[np.linspace(0, len(times) - 1, _LARGE_SAMPLE).astype(np.int64)]
    return times.astype(np.float64)


_NUMBERED = re.compile(r"Group \d+ Communication")


class CollectiveSide(Struct, frozen=True):
    """One collective of the step, mean over the steps that have it, ns; None is what the profile does not say.

    It lasts ``elapsed``: ``wait`` until all ranks had come, then ``transfer``; of these ``exposed_wait`` and
    ``exposed_transfer`` were not hidden by computing. ``peer`` is the rank it waited for longest, in most steps;
    ``items`` are its slices.
    """

    elapsed: float
    wait: float | None
    transfer: float | None
    exposed_wait: float
    exposed_transfer: float
    peer: int | None
    items: tuple[int, ...]


class CollectiveChange(Struct, frozen=True):
    """The ``ordinal``-th collective of ``type`` in ``group`` on both sides, None where a side has none."""

    type: str
    group: str
    ordinal: int
    base: CollectiveSide | None
    new: CollectiveSide | None


class Exchanged(Struct, frozen=True):
    """The collectives of one side in the steps ``windows``, and when communication was ``exposed``."""

    trace: Trace
    collectives: Sequence[Collective]
    windows: list[StepWindow]
    exposed: Intervals


def collective_changes(base: Exchanged, new: Exchanged) -> list[CollectiveChange]:
    """The collectives of the compared steps in the order of the base, then those that only the new side has."""
    sides = [_by_place(side) for side in (base, new)]
    names = [list(dict.fromkeys(group for _, group, _ in side)) for side in sides]
    if set(names[0]) != set(names[1]) or any(_NUMBERED.fullmatch(name) for side in names for name in side):
        # Communicators are numbered as they come; their order of first use is the program's.
        of = dict(zip(names[1], names[0], strict=False))
        sides[1] = {
            (kind, of.get(group, group), at): collectives for (kind, group, at), collectives in sides[1].items()
        }
    keys = list(dict.fromkeys([*sides[0], *sides[1]]))
    return [
        CollectiveChange(*key, _mean_side(base, sides[0].get(key)), _mean_side(new, sides[1].get(key))) for key in keys
    ]


def _by_place(side: Exchanged) -> dict[tuple[str, str, int], list[Collective]]:
    by_place: dict[tuple[str, str, int], list[Collective]] = defaultdict(list)
    trace = side.trace
    starts = trace.slices.start[np.array([collective.item for collective in side.collectives], np.int64)]
    for window in side.windows:
        ordinals: dict[tuple[str, str], int] = defaultdict(int)
        low, high = np.searchsorted(starts, (window.start, window.end)).tolist()
        for collective in side.collectives[low:high]:
            kind = collective_type(trace.name_of(collective.item)).removeprefix("hcom_").rstrip("_")
            group = trace.lanes[int(trace.slices.lane[collective.item])].name
            by_place[kind, group, ordinals[kind, group]].append(collective)
            ordinals[kind, group] += 1
    return by_place


def _mean_side(side: Exchanged, collectives: list[Collective] | None) -> CollectiveSide | None:
    if not collectives:
        return None
    waits = [collective.waited for collective in collectives if collective.waited is not None]
    peers = [collective.peer for collective in collectives if collective.peer is not None]
    elapsed = sum(collective.elapsed for collective in collectives) / len(collectives)
    wait = sum(waits) / len(waits) if len(waits) == len(collectives) else None
    start = side.trace.slices.start[np.array([collective.item for collective in collectives], np.int64)].astype(
        np.float64
    )
    turn = start + np.array([collective.waited or 0 for collective in collectives])
    end = start + np.array([collective.elapsed for collective in collectives])
    exposed = [float(covered_before(*side.exposed, time).sum()) for time in (start, turn, end)]
    return CollectiveSide(
        elapsed,
        wait,
        None if wait is None else elapsed - wait,
        float(exposed[1] - exposed[0]) / len(collectives),
        float(exposed[2] - exposed[1]) / len(collectives),
        max(peers, key=peers.count) if peers else None,
        tuple(collective.item for collective in collectives),
    )
