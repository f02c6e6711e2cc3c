"""Two jobs: how the step changed, part by part and stage by stage, and which ranks got slower through their own work.

A rank that takes longer makes all others wait, so the time of the step does not show which rank it is. Computing and
idle time are the rank's own; waiting for others and transfers are not. No common clock is needed.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.analysis.limits import SIGMAS
from npu_tui.analysis.statistics import (
    FEWEST,
    FEWEST_PAIRS,
    MAD_TO_SIGMA,
    WITHIN,
    Judgement,
    Tolerance,
    Verdict,
    judge,
    paired_shift,
    shift,
)
from npu_tui.jobs.job import Job, members
from npu_tui.jobs.model import RankProfile
from npu_tui.jobs.step_times import (
    TIMES,
    Pairing,
    RankStepTimes,
    Stage,
    compared,
    job_losses,
    level,
    mean,
    paired,
    spans,
    stages_of,
    step_times,
    transfers_by_place,
)
from npu_tui.trace.arrays import F64, I64, Bools
from npu_tui.trace.message import Message, message
from npu_tui.trace.once import once

_FREEDOM = 6  # the fewest degrees of freedom of the spread over steps: its relative error is about 1/√n
_MANY = 16  # from so many ranks on the spread between them shows what differs from run to run
# Share of its work by which a rank differs from one equal run to the next; simulated runs differ by 0.1 %.
_RUNS = 0.0025
_FALSE = 0.01  # the probability that chance alone names any of all ranks: more ranks need more spreads
# A rank has changed by itself if it differs from its stage by more than so many times the limit of chance.
_ALONE = 1.25
RANKS_NAMED = 8
"""Ranks that a sentence lists; the tables have all."""


class RoleChange(Struct, frozen=True, kw_only=True):
    """How some ranks of ``role`` and ``stage`` changed: their ``TIMES`` in the base and in the new job, ns a step.

    ``verdict`` is about their work.
    """

    role: str | None
    stage: int | None
    base: dict[str, float]
    new: dict[str, float]
    verdict: Verdict

    def delta(self, name: str) -> float:
        """The new time minus that of the base, ns; NaN if either is unknown."""
        return self.new[name] - self.base[name]


class StageChange(RoleChange, frozen=True, kw_only=True):
    """The mean of the ranks of a stage, ``counts`` of the base and of the new job."""

    counts: tuple[int, int]


class RankChange(RoleChange, frozen=True, kw_only=True):
    """One rank against the ``base_rank`` with the same work; ``alone``: it changed differently from its stage.

    ``error`` is half of the 95 % interval of the change of its work, ns, None with too few steps.
    """

    rank: int
    base_rank: int
    alone: bool = False
    error: float | None = None


class JobComparison:
    """``new`` compared with ``base``; each part is computed once, when it is first asked for.

    The ``tolerance`` of computing holds for all of a rank's own work. A rank may lack the share ``allowed`` of its
    collectives.
    """

    def __init__(self, base: Job, new: Job, tolerance: Tolerance | None = None, allowed: float = 0.0) -> None:
        self.jobs = base, new
        self.tolerance = tolerance or Tolerance()
        self._allowed = allowed

    @once
    def pairing(self) -> Pairing:
        """The ranks that do the same work."""
        return paired(*self.jobs)

    @once
    def _ranks(self) -> tuple[list[tuple[Job, RankProfile]], list[tuple[Job, RankProfile]]]:
        """Every rank of both jobs with the part of the job that it belongs to."""
        return members(self.jobs[0]), members(self.jobs[1])

    @once
    def _sides(self) -> list[tuple[RankStepTimes, list[str]]]:
        return compared(map(step_times, self.jobs))

    @property
    def times(self) -> tuple[RankStepTimes, RankStepTimes]:
        """The steps that are compared, of all ranks of both jobs."""
        return self._sides[0][0], self._sides[1][0]

    @property
    def left_out(self) -> tuple[list[str], list[str]]:
        """The steps of both jobs that are not compared."""
        return self._sides[0][1], self._sides[1][1]

    @once
    def _means(self) -> tuple[dict[str, F64], dict[str, F64]]:
        """The mean step of every rank of both jobs, ns, NaN for what is unknown."""
        base, new = ({name: mean(side[name]) for name in TIMES} for side in self.times)
        return base, new

    def _mean(self, rows: tuple[I64, I64]) -> tuple[dict[str, float], dict[str, float]]:
        """The mean of the ranks at ``rows`` of both jobs, each of ``TIMES`` in ns a step."""
        base, new = (
            {name: float(known.mean()) if len(known := times[at][~np.isnan(times[at])]) else math.nan
             for name, times in means.items()}
            for means, at in zip(self._means, rows, strict=True)
        )  # fmt: skip
        return base, new

    @once
    def _rows(self) -> tuple[I64, I64]:
        """The ranks that are compared: pairs with known steps; all of both jobs if none are paired."""
        if not self.pairing.pairs:
            return np.arange(len(self._ranks[0])), np.arange(len(self._ranks[1]))
        base, new = np.array(self.pairing.pairs, np.int64).T
        told = ~np.isnan(self._means[0]["total"][base]) & ~np.isnan(self._means[1]["total"][new])
        return base[told], new[told]

    @property
    def has_roles(self) -> bool:
        """Whether both jobs have several roles whose working times are known."""
        told = (any(profile.stints for profile in job.ranks) for job in self.jobs)
        return all(len(job.parts) > 1 for job in self.jobs) and all(told)

    @property
    def is_comparable(self) -> bool:
        """Whether the length of any step is known in both jobs."""
        return all(len(level(side["total"][rows])) for side, rows in zip(self.times, self._rows, strict=True))

    @once
    def losses(self) -> list[Message]:
        """What is missing from either job; because of it no verdict can be "same"."""
        reasons = [loss.why for job in self.jobs for loss in job_losses(job) if loss.share > self._allowed]
        pairing = self.pairing
        if pairing.way == "none":
            counts = {"base": len(self._ranks[0]), "new": len(self._ranks[1])}
            return [message("against.divided", **counts), *reasons]
        for side, alone in (("base", pairing.base_only), ("new", pairing.new_only)):
            if alone:
                reasons.append(message(f"against.only_{side}", count=len(alone), ranks=[*alone[:RANKS_NAMED]]))
        for job, ranks, times in zip(self.jobs, self._ranks, self.times, strict=True):
            told = (~np.isnan(times["total"])).sum(axis=1).tolist()
            most: dict[str, int] = {}
            for (_, profile), count in zip(ranks, told, strict=True):
                most[profile.role] = max(most.get(profile.role, 1), count)
            fewer = [
                profile.rank for (_, profile), count in zip(ranks, told, strict=True) if count < most[profile.role]
            ]
            if fewer:
                reasons.append(
                    message("against.fewer_steps", count=len(fewer), ranks=fewer[:RANKS_NAMED], path=str(job.path))
                )
        return reasons

    # --- the job

    @once
    def step(self) -> Judgement:
        """The step of the mean rank; in a job of roles from the first work of any rank to the last.

        Missing data rules out the verdicts "same" and "faster".
        """
        base, new = (level(side["total"][rows]) for side, rows in zip(self.times, self._rows, strict=True))
        if self.has_roles:
            base, new = (spans(job, side.steps) for job, side in zip(self.jobs, self.times, strict=True))
        judged = judge(base, new, self.tolerance.step)
        return replace(judged, verdict="unsure") if self.losses and judged.verdict in ("same", "faster") else judged

    @once
    def computing(self) -> Judgement:
        """The computing time of all ranks a step; with few steps the ranks are the samples."""
        return self._own("computing", self._rows)

    def _own(self, name: str, rows: tuple[I64, I64]) -> Judgement:
        """Judges the own time ``name`` of the ranks at ``rows`` of each side, ns a step.

        The samples are the steps, or the ranks if there are few steps. Computing varies so little that a few steps
        decide it. They decide work only if the computing of the median rank changed in the same direction.
        """
        sides = [side[name][at] for side, at in zip(self.times, rows, strict=True)]
        base, new = map(level, sides)
        is_computing = name == "computing"
        if min(len(base), len(new)) >= FEWEST or not self.pairing.pairs or len(rows[0]) < FEWEST_PAIRS:
            judged = judge(base, new, self.tolerance.computing, few=None if is_computing else "unsure")
        else:
            judged = judge(mean(sides[0]), mean(sides[1]), self.tolerance.computing, paired=True)
        if is_computing or judged.verdict != "unsure" or judged.shift is not None or not self.pairing.pairs:
            return judged
        before, after = self._means
        moved = [float(np.median(after[name][rows[1]] / np.maximum(before[name][rows[0]], 1.0))) - 1
                 for name in ("work", "computing")]  # fmt: skip
        if min(map(abs, moved)) <= self.tolerance.computing or moved[0] * moved[1] <= 0:
            return judged
        return replace(judged, verdict="slower" if moved[0] > 0 else "faster")

    @once
    def parts(self) -> list[tuple[str, float, float]]:
        """What the mean rank spends a step on in the base and in the new job, ns; they sum to the step.

        Empty for a job of roles, whose parts do not add up to a step.
        """
        if self.has_roles:
            return []
        base, new = self._mean(self._rows)
        split = not math.isnan(base["wait"] + new["wait"])
        names = ["computing", *(("wait", "transfer") if split else ("exposed",)), "free"]
        return [(name, base[name], new[name]) for name in names]

    # --- stages

    @once
    def _stage_of(self) -> tuple[list[Stage], list[Stage]]:
        """Role and stage of every rank of both jobs; those of a pair from whichever job knows them."""
        base, new = map(stages_of, self.jobs)
        for before, after in self.pairing.pairs:
            base[before] = new[after] = base[before] if new[after][1] is None else new[after]
        return base, new

    @once
    def stages(self) -> list[StageChange]:
        """Every stage of every role that both jobs have; one row if no stage is known."""
        both = set(self._stage_of[0]) & set(self._stage_of[1])
        rows = []
        for role, stage in sorted(both, key=lambda key: (key[0] or "", -1 if key[1] is None else key[1])):
            at = [np.array([row for row in rows.tolist() if of_rank[row] == (role, stage)], np.int64)
                  for rows, of_rank in zip(self._rows, self._stage_of, strict=True)]  # fmt: skip
            base, new = self._mean((at[0], at[1]))
            if math.isnan(base["work"] + new["work"]):  # no step of its ranks is known
                continue
            verdict = self._own("work", (at[0], at[1])).verdict
            counts = len(at[0]), len(at[1])
            rows.append(StageChange(role=role, stage=stage, counts=counts, base=base, new=new, verdict=verdict))
        return rows

    # --- ranks

    @once
    def ranks(self) -> list[RankChange]:
        """Every rank that is paired, by its number."""
        base, new = self._rows
        if not self.pairing.pairs or not len(base):
            return []
        of_stage: dict[object, int] = {}
        stage = np.array([of_stage.setdefault(self._stage_of[1][row], len(of_stage)) for row in new.tolist()], np.int64)
        work, computing = (self._moves(name, base, new, stage) for name in ("work", "computing"))
        verdicts = [_either(work, computing, k, self.tolerance.computing) for k in range(len(base))]
        for number in range(len(of_stage)):
            self._share_out(work, base, new, np.flatnonzero(stage == number).tolist(), verdicts)
        rows = []
        for k, (before, after) in enumerate(zip(base.tolist(), new.tolist(), strict=True)):
            role, of_rank = self._stage_of[1][after]
            times = [{name: float(of_all[row]) for name, of_all in means.items()}
                     for means, row in zip(self._means, (before, after), strict=True)]  # fmt: skip
            rows.append(
                RankChange(
                    role=role, stage=of_rank, rank=self._ranks[1][after][1].rank,
                    base_rank=self._ranks[0][before][1].rank, base=times[0], new=times[1], verdict=verdicts[k],
                    alone=bool(work.alone[k] or computing.alone[k]),
                    error=None
                    if work.noise is None or work.by_peers
                    else WITHIN * float(work.noise[k] * work.usual[k]),
                )
            )  # fmt: skip
        return sorted(rows, key=lambda row: (row.role or "", row.rank))

    def _share_out(self, work: _RoleMoves, base: I64, new: I64, of_stage: list[int], verdicts: list[Verdict]) -> None:
        """Settle the unsure ranks of a stage: by the verdict of most, else by that on all unsure ones together."""
        verdict: Verdict
        for verdict in ("slower", "faster"):
            moved = [k for k in of_stage if verdicts[k] == verdict]
            if 2 * len(moved) > len(of_stage):
                half = float(work.share[moved].mean()) / 2
                for k in of_stage:
                    verdicts[k] = verdict if verdicts[k] == "unsure" and work.share[k] / half >= 1 else verdicts[k]
        unsure = [k for k in of_stage if verdicts[k] == "unsure" and not work.alone[k]]
        if not unsure or (len(unsure) < 2 and not work.by_peers):
            return
        together = self._own("work", (base[unsure], new[unsure])).verdict
        way = {"slower": 1.0, "faster": -1.0}.get(together, 0.0)
        if work.noise is not None and not work.by_peers:
            chance = SIGMAS * float(work.noise[unsure].mean()) / math.sqrt(len(unsure))
            way *= float(abs(work.share[unsure].mean()) > chance)
        for k in unsure:
            if work.by_peers or way * float(work.share[k]) >= self.tolerance.computing:
                verdicts[k] = together

    @once
    def by_step(self) -> F64:
        """How much more the work of each rank of the new job is in each step than in the mean step of the base, ns."""
        base, new = self._rows
        more = np.full(self.times[1]["work"].shape, np.nan)
        if self.pairing.pairs:
            more[new] = self.times[1]["work"][new] - self._means[0]["work"][base][:, None]
        return more

    def _moves(self, name: str, base: I64, new: I64, stage: I64) -> _RoleMoves:
        """How ``name`` changed in each pair, compared with the noise over steps and over ranks."""
        before, after = self._means[0][name][base], self._means[1][name][new]
        usual = np.maximum(before, 1.0)  # ranks of a slower stage vary by more ns, but by no larger share
        share, count = (after - before) / usual, len(base)
        apart = share.copy()
        for number in range(int(stage.max()) + 1):
            apart[stage == number] -= np.median(share[stage == number])
        sides = self.times[0][name][base], self.times[1][name][new]
        noise, least = _noise(sides, usual)
        by_peers = noise is None
        if count >= (FEWEST_PAIRS if by_peers else _MANY):
            # Half of the ranks may have changed differently from the rest: the least spread of any two fifths counts.
            ordered, inside = np.sort(apart), math.ceil(0.4 * count)
            among = max(float((ordered[inside:] - ordered[:-inside]).min()), _RUNS)
            noise = np.full(count, among) if noise is None else np.maximum(noise, among)
            least = np.maximum(least, _sigmas(count, 8 / count) * among)
        least = np.maximum(least, self.tolerance.computing)
        alone = np.zeros(count, np.bool_) if noise is None else np.abs(apart) > _ALONE * least
        return _RoleMoves(sides, usual, share, noise, by_peers, alone, least)

    # --- transfers

    @once
    def transfers(self) -> Judgement | None:
        """How long the mean rank transfers in a step, ns; None if transfers cannot be separated from waiting.

        With few steps each collective is a sample.
        """
        base, new = (level(side["transfer"][rows]) for side, rows in zip(self.times, self._rows, strict=True))
        if not len(base) or not len(new):
            return None
        tolerance = self.tolerance.computing * self.step.before / max(float(base.mean()), 1.0)
        judged = judge(base, new, tolerance)
        if judged.verdict != "unsure" or min(len(base), len(new)) >= FEWEST or not self.pairing.pairs:
            return judged
        number = {self._ranks[1][b][1].rank: self._ranks[0][a][1].rank for a, b in self.pairing.pairs}
        known = transfers_by_place(self.jobs[0], self.times[0].steps, {rank: rank for rank in number.values()})
        now = transfers_by_place(self.jobs[1], self.times[1].steps, number)
        shift = paired_shift(np.array([now[key] - known[key] for key in known.keys() & now.keys()]))
        if shift is None or abs(judged.delta) < tolerance * base.mean() or not (shift.low > 0 or shift.high < 0):
            return judged
        same_way = (shift.estimate > 0) == (judged.delta > 0)
        verdict: Verdict = "unsure" if not same_way else "slower" if judged.delta > 0 else "faster"
        return replace(judged, verdict=verdict)

    @once
    def bandwidths(self) -> list[tuple[str, float, float]]:
        """The speed of every transport that is known in both jobs, GB/s: all bytes over all time."""
        sums: list[dict[str, list[float]]] = [{}, {}]
        for ranks, of_job in zip(self._ranks, sums, strict=True):
            for _, profile in ranks:
                for link in profile.links:
                    row = of_job.setdefault(link.transport, [0.0, 0.0])
                    row[0] += link.size_mb
                    row[1] += link.size_mb / link.speed
        return [
            (name, size / time, sums[1][name][0] / sums[1][name][1])
            for name, (size, time) in sorted(sums[0].items())
            if name in sums[1]
        ]


class _RoleMoves(Struct, frozen=True, eq=False):
    """How a time of each pair of ranks changed, as a ``share`` of the ``usual`` ns of the base: (ranks,) each.

    ``noise`` is the spread of the share, None if unknown; ``by_peers``: it is that between ranks only, which does not
    show what all have in common. Changes from ``least`` on are no chance; those of ``alone`` differ from their stage.
    ``sides`` are their steps, (ranks, steps) ns.
    """

    sides: tuple[F64, F64]
    usual: F64
    share: F64
    noise: F64 | None
    by_peers: bool
    alone: Bools
    least: F64

    def verdict(self, k: int, tolerance: float) -> Verdict:
        """The verdict on pair ``k``; changes up to ``tolerance`` do not count."""
        share = float(self.share[k])
        if self.noise is None or (self.by_peers and not self.alone[k] and share):
            return "same" if not share else "unsure"
        if abs(share) < tolerance:
            return "same" if 2 * self.noise[k] <= tolerance else "unsure"
        if abs(share) < self.least[k] or not self._lasts(k):
            return "unsure"
        return "slower" if share > 0 else "faster"

    def _lasts(self, k: int) -> bool:
        """Whether most steps of pair ``k`` changed, not one by much; with few steps, whether it is beyond chance."""
        base, new = (side[k][~np.isnan(side[k])] for side in self.sides)
        moved, change = shift(base, new), float(self.share[k] * self.usual[k])
        if moved is not None:
            return moved.estimate * change > 0 and abs(moved.estimate) >= self.least[k] * self.usual[k] / 2
        spread = sum(float(np.var(side, ddof=1)) / len(side) for side in (base, new) if len(side) > 1)
        return abs(change) >= SIGMAS * math.sqrt(spread)


def _either(work: _RoleMoves, computing: _RoleMoves, k: int, tolerance: float) -> Verdict:
    """The verdict on the work of pair ``k``; if idle time is too noisy, that on its computing if the work agrees."""
    verdict = work.verdict(k, tolerance)
    if verdict == "unsure" and float(computing.share[k]) * float(work.share[k]) > 0:
        by_computing = computing.verdict(k, tolerance * float(work.usual[k] / computing.usual[k]))
        return by_computing if by_computing in ("slower", "faster") else verdict
    return verdict


def _noise(sides: tuple[F64, F64], usual: F64) -> tuple[F64 | None, F64]:
    """The standard error of the difference of the means of each pair, and the limit of chance; (ranks,) each.

    Both are shares of ``usual``. The error pools the spread over steps of all ranks and adds that from run to run; None
    with few steps.
    """
    spreads, parts = [], []
    for side in sides:
        there = ~np.isnan(side)
        count = np.maximum(there.sum(axis=1), 1)
        apart = np.where(there, side - mean(side)[:, None], np.nan) / usual[:, None]
        spreads.append((apart * np.sqrt(count / np.maximum(count - 1, 1))[:, None])[count > 1].ravel())
        parts.append(1 / count)
    freedom = int(sum((1 / part - 1).sum() for part in parts))
    if freedom < _FREEDOM or min(map(len, spreads)) == 0:
        return None, np.zeros(len(usual))
    together = np.abs(np.concatenate(spreads))
    pooled = MAD_TO_SIGMA * float(np.median(together[~np.isnan(together)]))
    noise = np.sqrt(pooled**2 * sum(parts) + _RUNS**2)
    return noise, _sigmas(len(usual), 2 / math.sqrt(freedom)) * noise


def _sigmas(count: int, more: float) -> float:
    """The spreads that none of ``count`` ranks exceeds by chance (Bonferroni), and the share ``more`` of them."""
    return max(SIGMAS, NormalDist().inv_cdf(1 - _FALSE / 2 / count)) * (1 + more)
