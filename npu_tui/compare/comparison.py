"""Two profiles compared: what the step became, class by class, kernel by kernel, line by line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

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
from npu_tui.compare.operations import LineChange, OperationMatch, Operations, line_changes, match_operations, refined
from npu_tui.compare.owners import OwnerChange, Untold, owner_changes
from npu_tui.compare.steps import PARTS, Part, one_in_several, shared_work, without_kinds
from npu_tui.profile.profile import Profile
from npu_tui.trace.arrays import F64
from npu_tui.trace.kineto import is_kineto
from npu_tui.trace.once import once

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
        """By how much differences of groups exceed that of computing time, ns per step: kernels ran side by side."""
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
        """How the computing time of the step changed: one step a side is enough to tell. None without a device."""
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
        if not all(side.names_lines for side in self.sides) or is_kineto(self.base.trace) != is_kineto(self.new.trace):
            return []  # a line of Kineto is where a function begins, one of torch_npu is that of the call
        return line_changes(self.base.lines, self.new.lines)

    @once
    def owners(self) -> list[OwnerChange] | Untold:
        """Whose the steps are, by the critical paths; their differences sum to that of the step."""
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
