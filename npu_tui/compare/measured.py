"""What a comparison reads of one profile: its circumstances, its steps as samples, and everything of them by step."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.analysis.code_lines import launches_by_line
from npu_tui.analysis.collectives import Collectives
from npu_tui.analysis.kernels import KernelTable
from npu_tui.analysis.launches import Around, operation_of
from npu_tui.analysis.overlap import Intervals
from npu_tui.compare.kernels import ComparedKernels, Identity
from npu_tui.compare.operations import LineCost, Operations, operations
from npu_tui.compare.steps import (
    Claims,
    Part,
    Sample,
    StepWindow,
    Works,
    alike,
    claims,
    partitions,
    sample,
    step_windows,
    table_windows,
)
from npu_tui.load.errors import InputError
from npu_tui.profile.module_tables import borrowed_lines
from npu_tui.profile.profile import Profile
from npu_tui.trace.arrays import F64, I64, distinct
from npu_tui.trace.intervals import covered, difference, inside, intersection, union
from npu_tui.trace.message import Message, message
from npu_tui.trace.once import once

Comparable = Literal["same_job", "comparable", "partly", "incomparable"]

_PARTLY_BELOW = 0.8
_INCOMPARABLE_BELOW = 0.2
_NOT_OF_THE_RUN = ("schedule", "start_info", "end_info", "_export_type")
"""Settings that say when was recorded, not what."""


class Circumstances(Struct, frozen=True):
    """How a profile was recorded; None where it does not say."""

    rank: int | None
    level: int | None
    stacks: bool
    device: bool
    steps: bool
    traced: bool
    settings: Mapping[str, object]
    versions: Mapping[str, str]
    environment: Mapping[str, str] | None
    collectives: frozenset[str]
    start_ns: int
    end_ns: int
    clock_jump: Message | None = None


class Setting(Struct, frozen=True):
    """One setting, version or environment variable that differs; None where a side does not have it."""

    key: str
    base: str | None
    new: str | None


class Comparability(Struct, frozen=True):
    """What the circumstances allow; ``notes`` say why, ``not_judged`` what is left out for it."""

    verdict: Comparable
    notes: list[Message]
    not_judged: list[Message]
    config: list[Setting]
    operations: float | None
    kernels: float | None

    @property
    def same_job(self) -> bool:
        """Whether both are ranks of one run."""
        return self.verdict == "same_job"


def comparability(
    base: Circumstances, new: Circumstances, operations: float | None, kernels: float | None, by_operation: bool = False
) -> Comparability:
    """``operations`` and ``kernels`` are the shares that were matched, None where neither side has any.

    ``by_operation``: the kernels have other names, so that they were matched by what launched them.
    """
    notes: list[Message] = []
    skipped: list[Message] = []
    config = _settings(base, new)
    overlapping = base.start_ns < new.end_ns and new.start_ns < base.end_ns
    same_job = bool(base.collectives) and base.collectives == new.collectives and overlapping and base.rank != new.rank
    if base.level is not None and new.level is not None and base.level != new.level:
        notes.append(message("compare.note.level", base=base.level, new=new.level))
        skipped.append(message("compare.skipped.short_kernels"))
    if base.stacks != new.stacks:
        notes.append(message("compare.note.stacks", base=base.stacks, new=new.stacks))
        skipped.append(message("compare.skipped.host_times"))
    if by_operation:
        notes.append(message("compare.note.by_operation"))
    if same_job:
        notes.append(message("compare.note.ranks", base=base.rank, new=new.rank))
    for setting in config:
        if setting.key in base.versions or setting.key in new.versions:
            notes.append(message("compare.note.version", key=setting.key, base=setting.base, new=setting.new))
    if base.traced and new.traced and not (base.steps and new.steps):
        notes.append(message("compare.note.no_steps", side=_lacking_sides(base.steps, new.steps)))
    if not (base.device and new.device):
        code = "compare.note.no_device" if base.traced and new.traced else "compare.note.no_trace"
        lacking = (
            _lacking_sides(base.device, new.device)
            if base.traced and new.traced
            else _lacking_sides(base.traced, new.traced)
        )
        notes.append(message(code, side=lacking))
        return Comparability("incomparable", notes, skipped, config, operations, kernels)
    for side, jump in (("base", base.clock_jump), ("new", new.clock_jump)):
        if jump is not None:
            notes.append(message("compare.note.clock_jump", side=side, why=jump))
            return Comparability("incomparable", notes, skipped, config, operations, kernels)
    if not (base.traced and new.traced):
        notes.append(message("compare.note.tables", side=_lacking_sides(base.traced, new.traced)))
    shares = [share for share in (operations, kernels) if share is not None]
    best = max(shares, default=0.0)
    if best < _INCOMPARABLE_BELOW:
        notes.append(message("compare.note.unlike", share=best))
        return Comparability("incomparable", notes, skipped, config, operations, kernels)
    if same_job:
        return Comparability("same_job", notes, skipped, config, operations, kernels)
    if min(shares) < _PARTLY_BELOW:
        notes.append(message("compare.note.partly", share=min(shares)))
        return Comparability("partly", notes, skipped, config, operations, kernels)
    return Comparability("comparable", notes, skipped, config, operations, kernels)


def _lacking_sides(base: bool, new: bool) -> str:
    """Which side lacks what neither or one of both has."""
    return "both" if not base and not new else "base" if not base else "new"


def _settings(base: Circumstances, new: Circumstances) -> list[Setting]:
    differing = []
    for before, after in (
        (base.settings, new.settings),
        (base.versions, new.versions),
        (base.environment, new.environment),
    ):
        if not before or not after:  # a side that records no settings has no other ones
            continue
        for key in dict.fromkeys([*before, *after]):
            was, now = before.get(key), after.get(key)
            if was != now and key not in _NOT_OF_THE_RUN:
                differing.append(Setting(key, None if was is None else str(was), None if now is None else str(now)))
    return differing


_OPERATION = "cpu_op"
_OF_LIBRARY = re.compile(r"(?!autograd::)\w+::\w+")
_RARELY = 0.05
"""Share of the most frequent operation of a line below which another one is chance, not what the line is for."""
_MOST_SHAPES = 20_000  # operations of a step whose shapes are looked up: each is decoded from the file
_VERSIONS = ("torch_npu_version", "cann_version", "mindspore_version")


class MeasuredSide:
    """One profile of a comparison; ``steps`` are those the user chose, None for all but the first and outliers.

    With ``outliers`` these are compared as well; for engine steps only as many of each kind as ``shared`` says.
    """

    def __init__(
        self, profile: Profile, steps: Sequence[int] | None = None, outliers: bool = False, shared: Works | None = None
    ) -> None:
        self.profile = profile
        self.trace = profile.trace
        self._chosen = None if steps is None else frozenset(steps)
        self._outliers = outliers
        self._shared = shared
        self._operations: dict[StepWindow, Operations] = {}

    @once
    def of_tables(self) -> bool:
        """Whether there is no trace, but a table of its kernels."""
        return not len(self.trace.slices) and len(self.profile.kernel_table) > 0

    @once
    def sample(self) -> Sample:
        """The steps that are compared."""
        if self.of_tables:
            windows = table_windows(self.profile.kernel_table)
        else:
            windows = step_windows(self.trace, self.profile.steps, self.profile.engine.steps)
        if self._chosen is not None:
            return sample([window for window in windows if window.number in self._chosen] or windows, everything=True)
        steps = sample(windows, outliers=self._outliers)
        return steps if self._shared is None else alike(steps, self._shared)

    def with_outliers(self) -> MeasuredSide:
        """This side with the steps that are far longer than the others."""
        return self if self._chosen is not None else MeasuredSide(self.profile, outliers=True)

    def with_shared(self, shared: Works) -> MeasuredSide:
        """This side with as many steps of each kind as ``shared`` says."""
        return self if self._chosen is not None else MeasuredSide(self.profile, outliers=self._outliers, shared=shared)

    @property
    def windows(self) -> list[StepWindow]:
        """The windows of the compared steps, by start."""
        return self.sample.compared

    @property
    def walls(self) -> F64:
        """How long each compared step took, ns."""
        return np.array([window.wall for window in self.windows], np.float64)

    @property
    def collectives(self) -> Collectives:
        """The collectives of the trace. Raises ``InputError`` if the file is gone or has changed."""
        return self.profile.whole.collectives

    @once
    def waits(self) -> Intervals | None:
        """From the start of each collective until all ranks had come; None where that is known of none."""
        collectives = self.collectives
        known = collectives.waited >= 0
        if not known.any():
            return None
        start = self.trace.slices.start[collectives.item[known]]
        return start, start + collectives.waited[known]

    @once
    def claims(self) -> Claims | None:
        """What the device did, None without one."""
        if self.of_tables:
            start, end, _, moves = self.profile.tables.work
            computing, moving = (union(start[of], end[of]) for of in (~moves, moves))
            none = np.zeros(0, np.int64)
            return Claims(computing, None, difference(*moving, *computing), (none, none), (none, none))
        device = next((part for part in self.profile.devices if part.lanes is not None), None)
        if device is None or device.lanes is None:
            return None
        return claims(device.lanes, device.split, self.waits)

    @once
    def floor(self) -> int:
        """What takes a time of the host to the device, ns."""
        parts = [part for part in self.profile.devices if part.launches is not None]
        return min((self.profile.floor_of(part) for part in parts), default=0)

    def idle_in(self, start: I64, end: I64) -> float:
        """How long the device neither computes nor communicates in ``[start, end)`` of its own time, ns per step."""
        claims = self.claims
        if claims is None:
            return 0.0
        free = difference(*difference(start, end, *claims.computing), *claims.exposed)
        return covered(*intersection(*free, self._begins, self._ends)) / len(self.windows)

    def parts(self, waits: bool) -> dict[Part, I64]:
        """The partition of every compared step, ns, (steps,); empty without a device.

        With ``waits`` exposed communication is cut in two.
        """
        claims = self.claims
        if claims is None:
            return {}
        if not waits:
            claims = Claims(claims.computing, None, claims.exposed, claims.host_late, claims.device_side)
        return partitions(claims, self._begins, self._ends)

    @property
    def _begins(self) -> I64:
        return np.array([window.start for window in self.windows], np.int64)

    @property
    def _ends(self) -> I64:
        return np.array([window.end for window in self.windows], np.int64)

    @once
    def operations(self) -> Operations:
        """The host operations of the step nearest to the median."""
        return self.operations_in(self.sample.medoid)

    def operations_in(self, step: StepWindow) -> Operations:
        """The host operations of ``step``."""
        if step not in self._operations:
            self._operations[step] = operations(self.trace, step.host_start, step.end if step.name else 2**62)
        return self._operations[step]

    def shapes_of(self, operations: Operations) -> list[str] | None:
        """The shapes of the inputs of the operations ``operations``; None where none are recorded, or for too many."""
        if not 0 < len(operations) <= _MOST_SHAPES:
            return None
        try:
            (dims,) = self.trace.args.many(self.trace.slices.event[operations.item], ("Input Dims",))
        except InputError:
            return None
        return None if all(dim is None for dim in dims) else [str(dim) for dim in dims]

    @once
    def kernels(self) -> ComparedKernels:
        """The compute kernels that start in a compared step."""
        table, begins, ends = self.profile.kernel_table, self._begins, self._ends
        if self.windows[-1].name is None:
            ends = ends + 1  # without steps the window ends with the trace, where its last kernel may begin
        chosen = inside(begins, ends, table.start)
        if not self.of_tables:
            chosen &= np.isin(table.item, self.profile.kernels)
        rows = np.flatnonzero(chosen)
        rows = rows[np.argsort(table.start[rows], kind="stable")]
        item = table.item[rows]
        return ComparedKernels(
            item,
            table.duration[rows],
            *_identities(table, rows),
            np.searchsorted(begins, table.start[rows], "right") - 1,
            np.full(len(rows), -1, np.int64) if self.of_tables else operation_of(self.trace, item),
            len(self.windows),
        )

    @once
    def operation_names(self) -> frozenset[str]:
        """The names of all operations of the framework."""
        trace = self.trace
        codes = np.unique(trace.slices.name[self._all_operations])
        return frozenset(trace.names[code] for code in codes.tolist())

    @property
    def _all_operations(self) -> npt.NDArray[np.bool_]:
        if _OPERATION not in self.trace.categories:
            return np.zeros(len(self.trace.slices), np.bool_)
        is_operation: npt.NDArray[np.bool_] = self.trace.slices.category == self.trace.categories.index(_OPERATION)
        return is_operation

    def launchers(self, known: frozenset[str]) -> list[str | None]:
        """For each kernel the operation around its launch with a name of ``known``, else None; (n,).

        That is the outermost one of a library (``aten::linear``), as what it calls differs from device to device, else
        the innermost one (``MmBackward0``).
        """
        trace = self.trace
        around = Around(trace, self._all_operations)
        if not len(around.items):
            return [None] * len(self.kernels.item)
        parent = around.parents()
        wanted = np.array([name in known for name in trace.names] + [False])
        place = np.full(len(trace.slices) + 1, -1, np.int64)
        place[around.items] = np.arange(len(around.items))
        operation = self.kernels.operation
        at = np.where(operation >= 0, place[operation], -1)
        outside = np.flatnonzero((operation >= 0) & (at < 0))
        if len(outside):  # launched by what is no operation itself
            slices, source = trace.slices, operation[outside]
            holds = around.find(slices.lane[source], slices.start[source], slices.end[source])
            at[outside] = np.where(holds >= 0, place[holds], -1)
        library = wanted & np.array([_OF_LIBRARY.match(name) is not None for name in trace.names] + [False])
        found, outer = np.full(len(at), -1), np.full(len(at), -1)
        while (open_ := np.flatnonzero(at >= 0)).size:
            name = trace.slices.name[around.items[at[open_]]]
            first = wanted[name] & (found[open_] < 0)
            found[open_[first]] = at[open_[first]]
            outer[open_[library[name]]] = at[open_[library[name]]]
            at[open_] = parent[at[open_]]
        chosen = np.where(outer >= 0, outer, found)
        return [None if k < 0 else trace.name_of(int(around.items[k])) for k in chosen.tolist()]

    @property
    def names_lines(self) -> bool:
        """Whether launches are known, which have code lines; those of Kineto are where a function begins."""
        return bool(self.profile.dispatch)

    @once
    def lines(self) -> list[LineCost]:
        """What launching from each code line cost per compared step, also where it cost nothing."""
        if not self.names_lines:
            return []
        trace, launches = self.trace, self.profile.dispatch[0]
        start = trace.links.target_time[launches.link]
        chosen = inside(self._begins, self._ends + 1, start)
        target = trace.links.target_slice[launches.link].astype(np.int64)
        operation = operation_of(trace, target)
        name = np.where(operation >= 0, trace.slices.name[operation], -1)
        costs = []
        rows = [
            (code, launched[at])
            for known, launched in launches_by_line(trace, launches, np.flatnonzero(chosen))
            for code, at in borrowed_lines(self.profile, known, target[launched])
        ]
        for code, launched in rows:
            lost = launches.lost[launched]
            names, count = np.unique(name[launched], return_counts=True)
            names = names[count >= _RARELY * count.max()] if len(names) else names
            costs.append(
                LineCost(
                    code,
                    float(lost.sum()) / len(self.windows),
                    int(np.count_nonzero(lost)) / len(self.windows),
                    tuple(sorted(trace.names[name_code] for name_code in names.tolist() if name_code >= 0)),
                    target[launched[lost > 0]],
                )
            )
        return costs

    @once
    def circumstances(self) -> Circumstances:
        """What the profile says of itself."""
        profile, trace = self.profile, self.trace
        info = {} if profile.companions is None else profile.companions.profiler_info
        versions = {key: str(info[key]) for key in _VERSIONS if info.get(key)}
        environment = profile.setup.environment
        names = {trace.names[code] for code in np.unique(trace.slices.name[self.collectives.item]).tolist()}
        return Circumstances(
            trace.rank,
            profile.profiler_level,
            bool(trace.stacks),
            self.claims is not None,
            self.windows[-1].name is not None,
            len(trace.slices) > 0,
            profile.setup.settings,
            versions,
            None if environment is None else {key: value for key, value in environment.items() if value},
            frozenset(names),
            trace.start_ns,
            trace.start_ns + trace.end,
            profile.clock_jump,
        )


def _identities(table: KernelTable, row: I64) -> tuple[list[Identity], I64]:
    """What the kernels at ``row`` of ``table`` are, with the columns of kernel_details.csv where they have them."""
    columns = [column.taken(row) for column in (table.type, table.shapes, table.dtypes, table.formats, table.core)]
    # One number for what the columns say together: a column more splits the kinds found so far.
    code = np.zeros(len(row), np.int64)
    for column in columns:
        if column.is_known:
            _, code = distinct(code * (len(column.values) + 1) + column.code + 1)
    first = np.empty(int(code.max(initial=-1)) + 1, np.int64)
    first[code[::-1]] = np.arange(len(code))[::-1]
    identities = [Identity(columns[0].at(k) or "", *(column.at(k) for column in columns[1:])) for k in first.tolist()]
    return identities, code
