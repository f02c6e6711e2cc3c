"""How the ranks differ over the steps, the collectives or the time of a job: one value per rank and column.

A cell holds the worst value that falls into it. Ranks without a shaded cell look the same and share a row, so that a
thousand ranks fit a screen.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Sequence
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from msgspec import Struct

from npu_tui.jobs.against import JobComparison
from npu_tui.jobs.expert_loads import excess_of
from npu_tui.jobs.job import Job, members
from npu_tui.trace.arrays import F64

Metric = Literal["own", "cost", "late", "waits", "computing", "exposed", "free", "experts", "change"]
METRICS: tuple[Metric, ...] = get_args(Metric)
Axis = Literal["step", "collective", "time", "pipeline", "role", "layer"]
AXES: tuple[Axis, ...] = ("step", "collective", "time", "pipeline", "role")
"""The axes that a user chooses from: only experts are over layers. Pipelines have no heat, but passes; roles stints."""

SHADES = (0.003, 0.01, 0.03, 0.10)
"""Shares of a step from which a cell has the next darker shade."""


def metric_of_finding(finding: str, ranks: Iterable[int], known: Container[int]) -> Metric:
    """The metric that shows what a ``finding`` ("" without one) about ``ranks`` says; ``known`` ranks have files."""
    if finding == "RANK.STAGE":
        return "computing"
    if finding.startswith("EXPERT."):
        return "experts"
    return "own" if not finding or any(rank in known for rank in ranks) else "cost"


ALL_SHOWN = 8
"""Ranks up to which every one has a row of its own."""

_BINS = 96  # columns of a job without steps, by time
_DUMPED = 5.0
"""Times the mean tokens that count as a step is: the darkest cells are half above the mean."""
_OF_STEPS: tuple[Metric, ...] = ("computing", "exposed", "free")  # what step_trace_time has, which knows steps only
# Metrics whose values in a step are added up; of the others the greatest counts.
_SUMMED: tuple[Metric, ...] = ("own", "cost", "waits")


class HeatColumn(Struct, frozen=True):
    """A step, a collective or a stretch of time: ``label`` names it, ``collectives`` are numbers in ``Job.blamed``."""

    label: str
    step: str
    collectives: tuple[int, ...]


class Heat(Struct, frozen=True):
    """``values`` (ranks, columns) of ``metric`` in ns over ``axis``; NaN where a rank took no part or has no value.

    ``step`` is the mean length of a step in ns, the measure of what is much.
    """

    metric: Metric
    axis: Axis
    ranks: tuple[int, ...]
    columns: tuple[HeatColumn, ...]
    values: F64
    step: float

    @property
    def shares(self) -> F64:
        """The values as shares of a step."""
        shares: F64 = self.values / max(self.step, 1.0)
        return shares


class HeatRow(Struct, frozen=True):
    """One rank, or several that look ``alike``; ``values`` are shares of a step, those of the worst of its ranks."""

    ranks: tuple[int, ...]
    values: F64
    kind: Literal["rank", "alike", "missing"]


class HeatSource:
    """All arrivals of ``job`` in columns, from which heat maps are made; ``compared`` holds it against another job."""

    def __init__(self, job: Job, compared: JobComparison | None = None) -> None:
        self._job = job
        self._compared = compared
        blamed = job.blamed
        self.ranks = blamed.ranks if len(blamed) else tuple(profile.rank for profile in job.ranks)
        """The ranks on disk, then those that only the others saw."""
        self._collective, self._rank = blamed.row, blamed.rank
        first = blamed.start[blamed.first[:-1]] if len(blamed) else blamed.start
        more = np.where(blamed.has_own, blamed.own, np.nan)
        sure = np.where(blamed.at_most, np.nan, 0.0)
        cost = np.where(blamed.last[blamed.row] == blamed.rank, blamed.cost[blamed.row], 0) if len(blamed) else more
        late = blamed.start - first[blamed.row] + sure if len(blamed) else more
        parts = {"own": more, "cost": cost, "late": late, "waits": blamed.wait + sure}
        self._values = {metric: np.asarray(part, np.float64) for metric, part in parts.items()}
        kinds = blamed.met.kind[blamed.meeting] if len(blamed) else blamed.meeting
        self._groups: list[str] = [blamed.met.table.kinds[kind][0] for kind in kinds.tolist()]
        self._steps: list[str] = [blamed.met.table.kinds[kind][2] for kind in kinds.tolist()]
        self._come = blamed.come
        reference = np.array([clock.reference for clock in job.clocks], np.int64)
        home = blamed.rank[blamed.first[:-1]] if len(blamed) else blamed.rank
        self._main = [bool(is_main) for is_main in (reference[np.minimum(home, len(reference) - 1)] == reference[:1])]
        """Which collectives lie on the clock of the lowest rank."""

    @cached_property
    def step_length(self) -> float:
        """The mean length of a step, ns."""
        return self._job.length / max(len(self._job.steps), 1)

    def group_of(self, collective: int) -> str:
        """The group of a collective."""
        return self._groups[collective]

    def ranks_of(self, collective: int) -> list[int]:
        """The ranks of a collective."""
        blamed = self._job.blamed
        return [
            blamed.ranks[rank] for rank in blamed.rank[blamed.first[collective] : blamed.first[collective + 1]].tolist()
        ]

    def heat(self, metric: Metric, axis: Axis, group: str | None = None, step: str | None = None) -> Heat:
        """``metric`` over ``axis``, of the collectives of one ``group`` or one ``step`` where they are named.

        What only steps have is always over steps, experts are over layers.
        """
        if metric == "experts":
            return self._by_layers()
        if metric == "change":
            return self._changed()
        if metric in _OF_STEPS:
            return self._excess_by_step(metric)
        chosen = [
            number
            for number in range(len(self._groups))
            if group in (None, self._groups[number]) and step in (None, self._steps[number])
        ]
        columns, column_of = self._columns(axis, chosen)
        place = np.full(len(self._groups), -1, np.int64)
        for number, at in column_of.items():
            place[number] = at
        column = place[self._collective] if len(self._collective) else self._collective
        values = np.full((len(self.ranks), len(columns)), np.nan)
        metric_values = self._values[metric]
        known = (column >= 0) & ~np.isnan(metric_values)
        cells = (self._rank[known], column[known])
        if metric in _SUMMED and axis == "step":
            values[cells] = 0.0
            np.add.at(values, cells, metric_values[known])
        else:
            values[cells] = -np.inf
            np.maximum.at(values, cells, metric_values[known])
        return Heat(metric, axis, self.ranks, tuple(columns), values, self.step_length)

    def _columns(self, axis: Axis, chosen: Sequence[int]) -> tuple[list[HeatColumn], dict[int, int]]:
        """The columns that the collectives ``chosen`` fall into, and the one of each."""
        if axis == "collective":
            columns = [HeatColumn(str(place), self._steps[number], (number,)) for place, number in enumerate(chosen)]
            return columns, {number: place for place, number in enumerate(chosen)}
        if axis == "step":
            keys = [self._steps[number] for number in chosen]
            order = [step for step in self._job.steps if step in set(keys)]
            of = {step: place for place, step in enumerate(order)}
            at = [of[key] for key in keys]
            labels = order
        else:
            # Collectives of ranks that nothing ties to the first one have times that mean nothing here.
            chosen = [number for number in chosen if self._main[number]]
            starts = [int(self._come[number]) for number in chosen]
            first, span = min(starts, default=0), max(starts, default=0) - min(starts, default=0)
            count = min(_BINS, max(len(chosen), 1))
            at = [min((start - first) * count // max(span, 1), count - 1) for start in starts]
            labels = [f"{span * place / count / 1e6:.0f}" for place in range(count)]
        held: list[list[int]] = [[] for _ in labels]
        for number, place in zip(chosen, at, strict=True):
            held[place].append(number)
        columns = [
            HeatColumn(label, self._steps[collectives[0]] if collectives else "", tuple(collectives))
            for label, collectives in zip(labels, held, strict=True)
        ]
        return columns, dict(zip(chosen, at, strict=True))

    def _by_layers(self) -> Heat:
        """How much longer than the mean of its group each rank computes in a step for the experts of each layer."""
        balance = self._job.experts
        if balance is None:
            return self._dumped()
        columns = [
            HeatColumn(str(layer), "", tuple(np.unique(balance.row[balance.layer == layer]).tolist()))
            for layer in balance.layers
        ]
        values = np.full((len(self.ranks), len(columns)), np.nan)
        values[: len(self._job.ranks)] = excess_of(self._job, balance) / max(len(self._job.steps), 1)
        return Heat("experts", "layer", self.ranks, tuple(columns), values, self.step_length)

    def _dumped(self) -> Heat:
        """The tokens of each rank above those of the mean one, a share of these, in the layers of the first dumps."""
        values = np.full((len(self.ranks), 0), np.nan)
        for loads in self._job.loads[:1]:
            values = np.full((len(self.ranks), len(loads.tokens)), np.nan)
            there = [number for number, rank in enumerate(loads.ranks) if rank in self.ranks]
            rows = [self.ranks.index(loads.ranks[number]) for number in there]
            values[rows] = (loads.of_rank / np.maximum(loads.of_rank.mean(axis=1), 1)[:, None] - 1).T[there]
        columns = tuple(HeatColumn(str(layer), "", ()) for layer in range(values.shape[1]))
        return Heat("experts", "layer", self.ranks, columns, values, _DUMPED)

    def _changed(self) -> Heat:
        """How much more the work of each rank is in a step than in the mean one of the other job."""
        values, columns = np.full((len(self.ranks), 0), np.nan), []
        if self._compared is not None:
            own = [self._job.role in (None, part.role) for part, _ in members(self._compared.jobs[1])]
            by_step = self._compared.by_step[np.array(own, np.bool_)]
            values = np.full((len(self.ranks), by_step.shape[1]), np.nan)
            values[: len(by_step)] = by_step
            columns = [self._step_column(step) for step in self._compared.times[1].steps]
        return Heat("change", "step", self.ranks, tuple(columns), values, self.step_length)

    def _step_column(self, step: str) -> HeatColumn:
        return HeatColumn(step, step, tuple(n for n, step_of in enumerate(self._steps) if step_of == step))

    def _excess_by_step(self, metric: Metric) -> Heat:
        """How much more each rank has in a step than the rank with the least."""
        steps = [
            step
            for step in self._job.steps
            if any(step == step_time.step for profile in self._job.ranks for step_time in profile.steps)
        ]
        place = {step: number for number, step in enumerate(steps)}
        values = np.full((len(self.ranks), len(steps)), np.nan)
        for row, profile in enumerate(self._job.ranks):
            for step_time in profile.steps:
                values[row, place[step_time.step]] = getattr(step_time, metric)
        with np.errstate(invalid="ignore"):
            least = np.fmin.reduce(values, axis=0) if len(values) else np.zeros(0)
        columns = map(self._step_column, steps)
        return Heat(metric, "step", self.ranks, tuple(columns), values - least, self.step_length)


def heat_rows(
    heat: Heat, scope: Collection[int] | None = None, missing: Sequence[int] = (), opened: bool = False
) -> list[HeatRow]:
    """The rows of ``heat``: ranks that stand out, the worst first, then all others in one row, then missing ones.

    Only those of the ranks in ``scope``, if there is one. Up to ``ALL_SHOWN`` ranks, and where the alike ones are
    ``opened``, every rank has its own row.
    """
    shares = heat.shares
    in_scope = [
        row for row, rank in enumerate(heat.ranks) if (scope is None or rank in scope) and rank not in set(missing)
    ]
    worst = {row: _worst_share(shares[row]) for row in in_scope}
    total = {row: float(np.nansum(shares[row])) for row in in_scope}
    alone = [row for row in in_scope if worst[row] >= SHADES[0] or len(in_scope) <= ALL_SHOWN or opened]
    alike = sorted(set(in_scope) - set(alone))
    if len(alike) == 1:
        alone, alike = in_scope, []
    alone.sort(key=lambda row: (-total[row], heat.ranks[row]))
    rows = [HeatRow((heat.ranks[row],), shares[row], "rank") for row in alone]
    if alike:
        rows.append(HeatRow(tuple(heat.ranks[row] for row in alike), np.fmax.reduce(shares[alike], axis=0), "alike"))
    seen = {rank: shares[row] for row, rank in enumerate(heat.ranks) if rank in set(missing)}
    away = tuple(rank for rank in missing if scope is None or rank in scope)
    nothing = np.full(len(heat.columns), np.nan)
    rows += [
        HeatRow((rank,), seen[rank], "missing")
        for rank in away
        if rank in seen and _worst_share(seen[rank]) >= SHADES[0]
    ]
    away = tuple(rank for rank in away if all(rank not in row.ranks for row in rows))
    if len(away) > 2:
        rows.append(HeatRow(away, nothing, "missing"))
    else:
        rows += [HeatRow((rank,), nothing, "missing") for rank in away]
    return rows


def _worst_share(shares: F64) -> float:
    return float(np.nanmax(shares, initial=0.0))
