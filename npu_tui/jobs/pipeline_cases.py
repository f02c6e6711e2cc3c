"""One step of a pipeline, and what-ifs: the same passes with other times, transfers or numbers of micro batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.analysis.schedules import Plan, plan_with, planned
from npu_tui.jobs.columns import F64, I64, Bools
from npu_tui.jobs.model import RankProfile, is_message


class Run(Struct, frozen=True, eq=False):
    """One step of the pipeline of ``ranks``, by stage; ns on the clock of the job since 1970, (passes of ``plan``,).

    ``transfer`` is how long what a pass needed took to come, from when both ranks were ready for it; it was ``fetched``
    where that was after the pass before. ``tail`` is how long after its last kernel a pass ended. ``apart`` is what the
    clock of the rank of each stage is ahead, (stages,).
    """

    ranks: tuple[int, ...]
    step: str
    plan: Plan
    start: I64
    end: I64
    transfer: I64
    fetched: Bools
    tail: I64
    apart: I64

    @property
    def time(self) -> I64:
        """How long each pass took."""
        return self.end - self.start

    @property
    def moved(self) -> I64:
        """The transfers on the way while the stage was busy, and those it fetched; (2, passes)."""
        return self.transfer * np.stack((~self.fetched, self.fetched))

    @property
    def length(self) -> int:
        """From the first pass to the end of the last."""
        return int(self.end.max() - self.start.min())

    def idle(self, stage: int) -> int:
        """How long a stage ran no pass."""
        return self.length - int(self.time[self.plan.stage == stage].sum())

    def between(self, source: int, target: int) -> list[int]:
        """The passes of rank ``target`` that need one of rank ``source``."""
        ranks, stage, needs = np.array(self.ranks), self.plan.stage, self.plan.needs
        told = (needs >= 0) & (ranks[stage] == target) & (ranks[stage[needs]] == source)
        return list(np.flatnonzero(told).tolist())


class Case(Struct, frozen=True, eq=False):
    """Some ``runs`` of one plan, as recorded or changed: times (cases, n) and transfers (cases, 2, n), ns.

    ``beside`` (cases,) is what the replay leaves out where only means of passes are known.
    """

    runs: tuple[Run, ...]
    plan: Plan
    time: F64
    moved: F64
    beside: F64

    @property
    def length(self) -> F64:
        """How long each run takes by its order, (cases,)."""
        return np.asarray(self.plan.length(self.time, self.moved) + self.beside)


Change = Callable[[Case], Case]
"""What is different in a what-if."""


def stages_even(case: Case) -> Case:
    """All stages share their work evenly."""
    by_stage = np.maximum(case.plan.means(case.time), 1)
    return replace(case, time=case.time * evened(case.plan, by_stage) / by_stage)


def stage_as_others(stage: int) -> Change:
    """The passes of ``stage`` take as long as those of the other stages."""

    def change(case: Case) -> Case:
        plan, time, kind = case.plan, case.time.copy(), case.plan.kind
        for one in np.unique(kind).tolist():
            mine, others = ((kind == one) & ((plan.stage == stage) == own) for own in (True, False))
            usual = case.time[:, others].sum(axis=1) / (plan.stages - 1)
            time[:, mine] *= (usual / np.maximum(case.time[:, mine].sum(axis=1), 1))[:, None]
        return replace(case, time=time)

    return change


def pairs_in_time(pairs: Sequence[tuple[int, int]], usual: float) -> Change:
    """Messages of ``pairs`` of ranks, from and to, come ``usual`` ns after their pass was done, or before."""

    def change(case: Case) -> Case:
        time, moved = case.time.copy(), case.moved.copy()
        for row, run in enumerate(case.runs):
            for at in (at for pair in pairs for at in run.between(*pair)):
                source = int(case.plan.needs[at])
                sent = min(int(run.tail[source]), usual)
                time[row, source] -= int(run.tail[source]) - sent
                moved[row, :, at] = np.minimum(moved[row, :, at], usual - sent)
        return replace(case, time=time, moved=moved)

    return change


def micro_batches(micro: int) -> Change:
    """Another number of micro batches of the same size, for which ``Pipelines.orders`` is true; by means of passes."""

    def change(case: Case) -> Case:
        plan, other = case.plan, planned(case.plan.schedule, case.plan.stages, micro, case.plan.chunks)
        assert other is not None
        cell = (plan.kind + 2 * plan.stage).tolist()
        at = [cell.index(one) for one in (other.kind + 2 * other.stage).tolist()]
        time, moved = plan.means(case.time), _mean_transfers(plan, case.moved)
        beside = case.length - plan.length(time, moved)
        return Case(case.runs, other, time[:, at], moved[..., at], beside)

    return change


def evened(plan: Plan, time: F64) -> F64:
    """``time`` as if all stages took as long for the passes of a kind; (cases, n)."""
    evened: F64 = time.copy()
    for kind in np.unique(plan.kind).tolist():
        usual = time[:, plan.kind == kind].sum(axis=1) / plan.stages
        for stage in range(plan.stages):
            mine = (plan.kind == kind) & (plan.stage == stage)
            evened[:, mine] *= (usual / np.maximum(time[:, mine].sum(axis=1), 1))[:, None]
    return evened


def _mean_transfers(plan: Plan, moved: F64) -> F64:
    """Transfers as means of the passes of each kind and stage that need one; (cases, 2, n)."""
    known = np.broadcast_to(plan.needs >= 0, moved.shape)
    return np.asarray(plan.means(moved) / np.maximum(plan.means(known), 1e-9))


class Partial(Struct, frozen=True, eq=False):
    """What is left of pipelines of which stages are ``lost``: the passes of all, and how long those ``told`` took.

    ``time`` is that of each pass in each step, (steps, n); ``span`` is how long the lowest told stage took for a step,
    ``transfer`` what a message takes at least, ns. No file confirms what a lost stage costs; it is here as simulated
    jobs with a lost stage (tests/jobs/pipeline_jobs.py) name the wrong one else.
    """

    plan: Plan
    told: tuple[int, ...]
    lost: tuple[int, ...]
    time: F64
    span: float
    transfer: float

    def longer(self, slow: int = -1) -> float:
        """What a step takes longer than if the lost stages, and ``slow``, took as long as the others, ns."""
        plan, time, others = self.plan, self.time.copy(), [at for at in self.told if at != slow]
        even = ~np.isin(plan.stage, others)
        for kind in np.unique(plan.kind).tolist():
            time[:, even & (plan.kind == kind)] = time[:, ~even & (plan.kind == kind)].mean()
        time = np.stack((time, np.where(even, 1.5 * time, time))).reshape(-1, time.shape[1])
        moved = np.zeros((len(time), 2, time.shape[1]))
        moved[:, 1, (plan.needs >= 0) & (plan.stage[plan.needs] != plan.stage)] = self.transfer
        ends, lowest = plan.ends(time, moved), plan.stage == self.told[0]
        spans = ends[:, lowest].max(axis=1) - (ends - time)[:, lowest].min(axis=1)
        (span, longer), (step, whole) = (each.reshape(2, -1).mean(axis=1) for each in (spans, ends.max(axis=1)))
        # Where the first stage is lost, the span of the lowest told one grows by less than the step.
        return float((self.span - span) * ((whole - step) / (longer - span) if slow < 0 else 1))


def partial_pipeline(
    ranks: Sequence[RankProfile], stage: Callable[[int], int | None], stages: int, steps: int
) -> Partial | None:
    """The pipelines of ``steps`` steps and so many ``stages``, some of which have no profile.

    None where none is lost, or no schedule has the passes that are there in their order.
    """
    passes = {at: own.passes for own in ranks if own.passes is not None and (at := stage(own.rank)) is not None}
    told, lost = tuple(sorted(passes)), tuple(at for at in range(stages) if at not in passes)
    total = {len(own.start) for own in passes.values()}
    if not lost or len(told) < 2 or len(total) != 1 or min(total) % steps:
        return None
    letters = {at: "".join("FB"[back] for back in own.backward.tolist()) for at, own in passes.items()}
    plan = plan_with([letters.get(at, "")[: min(total) // steps] for at in range(stages)])
    if plan is None or any(own != own[: min(total) // steps] * steps for own in letters.values()):
        return None
    time = np.zeros((steps, len(plan.stage)))
    for at, own in passes.items():
        time[:, plan.stage == at] = (own.end - own.start).reshape(steps, -1)
    first = passes[told[0]]
    spans = first.end.reshape(steps, -1).max(axis=1) - first.start.reshape(steps, -1).min(axis=1)
    messages = [
        (calls.end - calls.start)[np.array([is_message(kind) for _, kind, _ in calls.kinds], np.bool_)[calls.kind]]
        for calls in (profile.calls for profile in ranks)
    ]
    return Partial(plan, told, lost, time, float(spans.mean()), float(min(np.concatenate(messages), default=0)))
