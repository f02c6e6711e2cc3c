"""Two profiles compared: what the step became, class by class, kernel by kernel, line by line, owner by owner.

The critical path explains each nanosecond of every compared step; what it does not reach is outside of it. So the
differences of all owners sum to that of the step.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import zip_longest

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.analysis.code_lines import CodeLine
from npu_tui.analysis.communication import lane_and_place
from npu_tui.analysis.operators import collective_type
from npu_tui.analysis.path import Doing, Owner, PathKind
from npu_tui.analysis.statistics import Judgement, Tolerance, Verdict, judge
from npu_tui.compare.kernels import (
    CollectiveChange,
    ComparedKernels,
    Exchanged,
    GroupChange,
    collective_changes,
    group_changes,
)
from npu_tui.compare.measured import Comparability, MeasuredSide, comparability
from npu_tui.compare.operations import (
    LineChange,
    OperationMatch,
    Operations,
    line_changes,
    match_operations,
    refined,
    shared_names,
)
from npu_tui.compare.steps import PARTS, Part, one_in_several, shared_work, without_kinds
from npu_tui.load.errors import InputError
from npu_tui.profile.profile import Profile
from npu_tui.rules.judged_path import owner_name, run_path, short_call
from npu_tui.trace.arrays import F64, summed
from npu_tui.trace.intervals import covered_within
from npu_tui.trace.message import Message, message
from npu_tui.trace.model import Trace
from npu_tui.trace.once import once
from npu_tui.trace.recorder import recorder_of
from npu_tui.trace.text import brief

_OTHER_CHIP, _SAME_PROGRAM = 0.2, 0.5
"""On another chip few kernels are of types that both sides have, but most are launched by operations of both."""
# Kernels below are stretched by a finer profiler level; they are not judged where the levels differ.
_SHORT_KERNEL_NS = 20_000


class PartChange(Struct, frozen=True):
    """One class of the wall time, mean ns per step; ``exact`` is the difference times both counts of steps."""

    part: Part
    base: float
    new: float
    exact: int

    @property
    def delta(self) -> float:
        """New minus base."""
        return self.new - self.base


class ProfileComparison:
    """``new`` held against ``base``; each part is computed once, when it is first asked for.

    ``renamed`` gives the new name of an operation or a type of kernel by that of the base, where the two differ.
    """

    def __init__(
        self,
        base: MeasuredSide,
        new: MeasuredSide,
        tolerance: Tolerance | None = None,
        renamed: Mapping[str, str] | None = None,
    ) -> None:
        self.tolerance = tolerance or Tolerance()
        if one_in_several(base.sample, new.sample, self.tolerance.step):
            base, new = base.with_outliers(), new.with_outliers()
        shared = shared_work(base.sample, new.sample)
        if shared is not None:
            base, new = base.with_shared(shared), new.with_shared(shared)
        self.base, self.new = base, new
        self._renamed = dict(renamed or {})

    @property
    def sides(self) -> tuple[MeasuredSide, MeasuredSide]:
        """Base and new."""
        return self.base, self.new

    @once
    def operations(self) -> OperationMatch:
        """The host operations of the two steps that are drawn."""
        return self.match(self.base.operations, self.new.operations)

    def match(self, base: Operations, new: Operations) -> OperationMatch:
        """The operations of a step of each side that are the same, by the names of the new side."""
        names = [self._renamed.get(name, name) for name in base.name] if self._renamed else base.name
        renamed = replace(base, name=names)
        match = match_operations(renamed, new)
        if len(match.base) == len(base) == len(new):
            return match  # shapes, which are decoded from the file one by one, could add nothing
        before, after = self.base.shapes_of(base), self.new.shapes_of(new)
        return match if before is None or after is None else refined(match, renamed, new, (before, after))

    @once
    def operations_matched(self) -> float | None:
        """Their share of all, 0...1."""
        return self.operations.share(self.base.operations, self.new.operations)

    @once
    def kernels_matched(self) -> float | None:
        """The share of kernels, per step, whose group both sides have, 0...1; None without a kernel."""
        total = sum(row.base.count + row.new.count for row in self.groups)
        shared = sum(2 * min(row.base.count, row.new.count) for row in self.groups if row.change != "replaced")
        return shared / total if total else None

    @once
    def time_matched(self) -> tuple[float, float] | None:
        """The shares, 0...1, of the time of the kernels of each side whose group both have; None without a kernel."""
        shares = []
        for side in ("base", "new"):
            total = sum(getattr(row, side).total for row in self.groups)
            shared = [row for row in self.groups if row.base.count and row.new.count and row.change != "replaced"]
            shares.append(sum(getattr(row, side).total for row in shared) / total if total else None)
        return None if shares[0] is None or shares[1] is None else (shares[0], shares[1])

    @once
    def rungs(self) -> dict[str, float]:
        """The share of the kernels of both sides that each way of matching paired."""
        total = sum(row.base.count + row.new.count for row in self.groups)
        shares: dict[str, float] = {}
        for row in self.groups:
            if row.base.count and row.new.count:
                shares[row.rung] = shares.get(row.rung, 0.0) + (row.base.count + row.new.count) / total
        return shares

    @once
    def comparability(self) -> Comparability:
        """What may be judged."""
        return comparability(
            self.base.circumstances, self.new.circumstances, self.operations_matched, self.kernels_matched,
            self.by_operation,
        )  # fmt: skip

    @once
    def by_operation(self) -> bool:
        """Whether kernels are compared by what launched them: the chips differ, so the kernels have other names."""
        sides = self._own_kernels
        types = [{identity.type for identity in side.identities} for side in sides]
        shared = [names & types[1 - k] for k, names in enumerate(types)]
        alike = sum(
            int(np.array([identity.type in known for identity in side.identities] + [False])[side.identity].sum())
            for side, known in zip(sides, shared, strict=True)
        )
        total = sum(len(side.item) for side in sides)
        if not total or alike >= _OTHER_CHIP * total:
            return False
        return all(
            sum(name is not None for name in launchers) >= _SAME_PROGRAM * len(launchers) > 0
            for launchers in self._launchers
        )

    @once
    def _launchers(self) -> tuple[list[str | None], list[str | None]]:
        """For each kernel of both sides the operation that launched it, by a name that both sides have."""
        of = {name: self._renamed.get(name, name) for name in self.base.operation_names}
        known = self.new.operation_names & set(of.values())
        base = self.base.launchers(frozenset(name for name, now in of.items() if now in known))
        return [None if name is None else of[name] for name in base], self.new.launchers(known)

    @once
    def _own_kernels(self) -> tuple[ComparedKernels, ComparedKernels]:
        """The kernels of both sides under the names of the new one."""
        base = self.base.kernels
        if self._renamed:
            names = [
                identity._replace(type=self._renamed.get(identity.type, identity.type)) for identity in base.identities
            ]
            base = base.called(names)
        return base, self.new.kernels

    @once
    def kernels(self) -> tuple[ComparedKernels, ComparedKernels]:
        """The kernels of both sides as they are compared."""
        base, new = self._own_kernels
        if not self.by_operation:
            return base, new
        names = self._launchers
        return base.by_operation(names[0]), new.by_operation(names[1])

    @once
    def groups(self) -> list[GroupChange]:
        """Every group of kernels, the largest difference first."""
        if self.by_operation:
            return group_changes(*self.kernels, rung="operation")
        match, operations = self.operations, (self.base.operations, self.new.operations)
        pairs = list(zip(operations[0].item[match.base].tolist(), operations[1].item[match.new].tolist(), strict=True))
        replaced = [
            (operations[0].item[_with_children(operations[0].parent, run.base)].tolist(),
             operations[1].item[_with_children(operations[1].parent, run.new)].tolist())
            for run in match.replaced
        ]  # fmt: skip
        # A finer level measures every kernel, which stretches short ones by more than programs differ.
        levels = [side.profile.profiler_level for side in self.sides]
        differ = None not in levels and levels[0] != levels[1]
        return group_changes(*self._own_kernels, pairs, replaced, _SHORT_KERNEL_NS if differ else 0)

    @once
    def stream_overlap(self) -> float:
        """How far the differences of groups exceed that of computing time, ns per step: kernels ran side by side."""
        computing = next((row.delta for row in self.parts if row.part == "computing"), 0.0)
        return sum(row.delta for row in self.groups) - computing

    @once
    def parts(self) -> list[PartChange]:
        """The classes of wall time in the order of a step's work; their differences sum to that of the step."""
        waits = self.base.waits is not None and self.new.waits is not None
        samples = [side.parts(waits) for side in self.sides]
        if not all(samples):
            return []
        base, new = samples
        if "exposed" in base and not any(side["exposed"].any() for side in samples):  # then nothing was waited for
            for side in samples:
                side["transfer"] = side.pop("exposed")
                side["wait"] = np.zeros_like(side["transfer"])
        steps = [len(side.windows) for side in self.sides]
        rows = []
        for name in PARTS:
            if name not in base:
                continue
            before, after = int(base[name].sum()), int(new[name].sum())
            exact = steps[0] * after - steps[1] * before
            rows.append(PartChange(name, before / steps[0], after / steps[1], exact))
        return rows

    @once
    def step(self) -> Judgement:
        """How the wall time of the step changed."""
        judged = self._judged(self.base.walls, self.new.walls, self.tolerance.step)
        if self.comparability.verdict == "incomparable":
            return replace(judged, verdict="incomparable")
        if not all(side.circumstances.steps for side in self.sides) and judged.verdict != "same":
            return replace(judged, verdict="unsure")
        return judged

    @once
    def computing(self) -> Judgement | None:
        """How the computing time of the step changed: one step a side is enough for that. None without a device."""
        parts = [side.parts(False) for side in self.sides]
        if not all(parts) or self.comparability.verdict == "incomparable":
            return None
        base, new = (parts_of_side["computing"].astype(np.float64) for parts_of_side in parts)
        return self._judged(base, new, self.tolerance.computing, few=None)

    def _judged(self, base: F64, new: F64, tolerance: float, few: Verdict | None = "unsure") -> Judgement:
        """How the times per step changed; steps of an engine are held against those of their kind."""
        samples = self.base.sample, self.new.sample
        counts = [Counter(window.work for window in side.compared) for side in samples]
        if None in counts[0] or counts[0] != counts[1]:
            return judge(base, new, tolerance, self.paired, few)
        judged = judge(*without_kinds(*samples, (base, new)), tolerance, self.paired, few)
        return replace(judged, base=base, new=new)

    @property
    def paired(self) -> bool:
        """Whether step n of one side is step n of the other: ranks of one job."""
        numbers = [[window.number for window in side.windows] for side in self.sides]
        return self.comparability.same_job and numbers[0] == numbers[1]

    @once
    def lines(self) -> list[LineChange]:
        """The code lines whose launches lost time, the largest difference first; none where a side has no launches."""
        if (
            not all(side.names_lines for side in self.sides)
            or len({recorder_of(side.trace).has_frames for side in self.sides}) > 1
        ):
            return []  # a line is where a function begins on one side, and that of the call on the other
        return line_changes(self.base.lines, self.new.lines)

    @once
    def owners(self) -> list[OwnerChange] | OwnersUnknown:
        """The owners of the steps, by the critical paths; their differences sum to that of the step."""
        return owner_changes(self.base, self.new, self._renamed, self.step.delta)

    @once
    def collectives(self) -> list[CollectiveChange]:
        """The collectives by their place in the step."""
        nothing = (np.zeros(0, np.int64), np.zeros(0, np.int64))
        base, new = (
            Exchanged(side.trace, side.collectives, side.windows, side.claims.exposed if side.claims else nothing)
            for side in self.sides
        )
        return collective_changes(base, new)


def _with_children(parent: npt.NDArray[np.int64], chosen: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Positions of ``chosen`` and of all operations inside them, ascending."""
    inside = np.zeros(len(parent) + 1, np.bool_)
    inside[chosen] = True
    above = parent.copy()
    while (known := above >= 0).any():
        inside[:-1] |= known & inside[above]
        above = np.where(known, parent[above], -1)
    return np.flatnonzero(inside[:-1])


def held_against(both: Sequence[Profile]) -> ProfileComparison:
    """The second of ``both`` profiles against the first."""
    return ProfileComparison(MeasuredSide(both[0]), MeasuredSide(both[1]))


_GROUP = " ("  # between the type of a collective and its group
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


class OwnerSide(Struct, frozen=True):
    """What one side spends on an owner, ns in all compared steps; ``item`` is a slice of it, -1 without one."""

    kind: PathKind
    doing: Doing
    name: Message | str
    where: CodeLine | None
    time: int
    item: int = -1


class OwnerChange(Struct, frozen=True):
    """One owner on both sides, None where a side has it not; ``base_ns`` and ``new_ns`` are of one step, whole ns.

    They add up to the mean step of each side, rounded. ``exact`` is the difference times both counts of steps.
    """

    base: OwnerSide | None
    new: OwnerSide | None
    base_ns: int
    new_ns: int
    exact: int

    @property
    def known(self) -> OwnerSide:
        """The owner as the new side has it, else as the base."""
        side = self.new or self.base
        assert side is not None  # one of both has it
        return side

    @property
    def delta(self) -> int:
        """New minus base, ns per step."""
        return self.new_ns - self.base_ns


class OwnersUnknown(Struct, frozen=True):
    """Why the owners of two sides are not compared."""

    side: str
    reason: Message


def owner_changes(
    base: MeasuredSide, new: MeasuredSide, renamed: Mapping[str, str], delta: float
) -> list[OwnerChange] | OwnersUnknown:
    """The owners of both sides, the largest difference first; ``delta`` is that of the mean step, ns."""
    owned = []
    for name, side, names in (("base", base, renamed), ("new", new, {})):
        found = _owned(side, names)
        if isinstance(found, Message):
            return OwnersUnknown(name, found)
        owned.append(found)
    pairs = _pairs(*owned)
    counts = len(base.windows), len(new.windows)
    before, after = ([0 if row is None else row.time for row in side] for side in zip(*pairs, strict=True))
    total = round(sum(before) / counts[0])
    shares = _rounded(before, counts[0], total), _rounded(after, counts[1], total + round(delta))
    rows = [
        OwnerChange(*pair, was, now, counts[0] * last - counts[1] * first)
        for pair, was, now, first, last in zip(pairs, *shares, before, after, strict=True)
    ]
    return sorted(rows, key=lambda row: (-abs(row.delta), -row.new_ns))


def _rounded(times: Sequence[int], count: int, total: int) -> list[int]:
    """``times`` over ``count`` in whole numbers that sum to ``total``: those next to the following one are raised."""
    whole = [time // count for time in times]
    left = total - sum(whole)
    order = sorted(range(len(times)), key=lambda k: -(times[k] % count))
    for k in order[: max(left, 0)]:
        whole[k] += 1
    if left < 0 or left > len(times):  # the sums differ by a rounding: the largest takes it
        largest = max(range(len(times)), key=lambda k: times[k], default=0)
        whole[largest] += total - sum(whole)
    return whole


_Key = tuple[Hashable, ...]
"""What says that two owners are the same; the last of it, a line, thread, group or stream, may differ."""


def _owned(side: MeasuredSide, renamed: Mapping[str, str]) -> dict[_Key, OwnerSide] | Message:
    """The owners of the compared steps of ``side``, or why they are unknown."""
    profile = side.profile.whole
    if profile.clock_jump is not None:
        return profile.clock_jump
    device = next((part.device for part in profile.devices if part.lanes is not None), None)
    facts = next((facts for facts in profile.facts if facts.part.device == device and facts.has("overlap")), None)
    if facts is None:
        return message("path.no_launches" if side.of_tables else "path.no_device")
    try:
        told = run_path(facts)
    except InputError as error:
        return error.message
    if told.owners is None:
        return told.reason or message("path.no_launches")
    path, owners = told.owners.path, told.owners.owners
    start = np.array([window.start for window in side.windows], np.int64)
    end = np.array([window.end for window in side.windows], np.int64)
    within = covered_within(start, end, path.start, path.end)
    rows: list[tuple[_Key, OwnerSide]] = []
    for owner, time in zip(owners, summed(told.owners.owner, within, len(owners)).tolist(), strict=True):
        if time:
            item = int(owner.items[0]) if len(owner.items) else -1
            row = OwnerSide(owner.kind, owner.doing, _owner_name(side.trace, owner), owner.where, time, item)
            rows.append((_owner_key(side.trace, owner, renamed), row))
    outside = int((end - start).sum()) - int(within.sum())
    if outside:
        row = OwnerSide("unexplained", "device", message("path.owner.outside"), None, outside)
        rows.append((("outside", None), row))
    return _merged_owners(rows)


def _owner_key(trace: Trace, owner: Owner, renamed: Mapping[str, str]) -> _Key:
    if owner.kind == "late_rank":
        lane, place = lane_and_place(owner.peer)
        return owner.kind, place, None if lane < 0 else trace.lanes[lane].name
    name = renamed.get(owner.name, owner.name)
    if owner.kind in ("device_gap", "unexplained"):
        return owner.kind, None, name
    if owner.kind == "transfer":
        kind, _, group = name.partition(_GROUP)
        return owner.kind, collective_type(kind), group
    if owner.doing == "device":
        return owner.kind, name, None
    called = "" if owner.doing == "launch" else _ADDRESS.sub("", short_call(name))
    if owner.where is None:
        return owner.doing, called, None, owner.thread if owner.doing == "launch" else None
    return owner.doing, called, (owner.where.file, owner.where.function), owner.where.line


def _owner_name(trace: Trace, owner: Owner) -> Message | str:
    """What the owner is called on both sides."""
    if owner.kind != "transfer":
        return owner_name(trace, owner)
    kind, bracket, group = owner.name.partition(_GROUP)  # a collective has a number of its own in every run
    return brief(f"{collective_type(kind).rstrip('_')}{bracket}{group}")


_Pair = tuple[OwnerSide | None, OwnerSide | None]


def _pairs(base: dict[_Key, OwnerSide], new: dict[_Key, OwnerSide]) -> list[_Pair]:
    """The owners of both sides that are the same: by line or thread, else in the order of these, or of times."""
    places = {row.where.file for side in (base, new) for row in side.values() if row.where is not None}
    names = shared_names(sorted(places))
    sides = [_merged_owners((_in_any_folder(key, names), row) for key, row in side.items()) for side in (base, new)]
    pairs: list[_Pair] = [(row, sides[1][key]) for key, row in sides[0].items() if key in sides[1]]
    left: dict[_Key, tuple[list[_Key], list[_Key]]] = defaultdict(lambda: ([], []))
    for k in (0, 1):
        for key in sides[k]:
            if key not in sides[1 - k]:
                left[key[:-1]][k].append(key)
    for keys in left.values():
        ordered = (sorted(side, key=lambda key: key[-1] if isinstance(key[-1], int) else 0) for side in keys)
        for was, now in zip_longest(*ordered):
            pairs.append((None if was is None else sides[0][was], None if now is None else sides[1][now]))
    return pairs


def _merged_owners(rows: Iterable[tuple[_Key, OwnerSide]]) -> dict[_Key, OwnerSide]:
    """``rows`` with the times of equal keys added up."""
    merged: dict[_Key, OwnerSide] = {}
    for key, row in rows:
        merged[key] = replace(merged[key], time=merged[key].time + row.time) if key in merged else row
    return merged


def _in_any_folder(key: _Key, names: Mapping[str, str]) -> _Key:
    """``key`` with the name of its file that it has in any folder."""
    return tuple((names[part[0]], part[1]) if isinstance(part, tuple) else part for part in key)
