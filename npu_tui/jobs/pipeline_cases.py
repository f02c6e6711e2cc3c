"""One step of a pipeline, and what-ifs: the same passes with other times, transfers or numbers of micro batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.analysis.schedules import Plan, planned
from npu_tui.jobs.columns import F64, I64, Bools


class PipelineRun(Struct, frozen=True, eq=False):
    """One step of the pipeline of ``ranks``, by stage; ns on the clock of the job since 1970, (passes of ``plan``,).

    ``transfer`` is how long what a pass needed took to come, from when both ranks were ready for it; it was ``fetched``
    where that was after the pass before. ``tail`` is how long after its last kernel a pass ended. ``apart`` is what the
    clock of the rank of each stage is ahead, (stages,), ``layers`` how many layers it has, as far as kernels tell.
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
    layers: I64

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


class PipelineCases(Struct, frozen=True, eq=False):
    """Some ``runs`` of one plan, as recorded or changed: times (cases, n) and transfers (cases, 2, n), ns.

    ``beside`` (cases,) is what the replay leaves out where only means of passes are known.
    """

    runs: tuple[PipelineRun, ...]
    plan: Plan
    time: F64
    moved: F64
    beside: F64

    @property
    def length(self) -> F64:
        """How long each run takes by its order, (cases,)."""
        return np.asarray(self.plan.length(self.time, self.moved) + self.beside)


Change = Callable[[PipelineCases], PipelineCases]
"""What is different in a what-if."""


def stages_even(case: PipelineCases) -> PipelineCases:
    """All stages share their work evenly."""
    by_stage = np.maximum(case.plan.means(case.time), 1)
    return replace(case, time=case.time * evened(case.plan, by_stage) / by_stage)


def layers_even(case: PipelineCases) -> PipelineCases:
    """All stages share their work as evenly as whole layers allow; where none are known evenly."""
    layers = np.median([run.layers for run in case.runs], axis=0).astype(np.int64)
    if layers.max() == 1:
        return stages_even(case)
    by_stage = np.maximum(case.plan.means(case.time), 1)
    return replace(case, time=case.time * _spread(case.plan, by_stage, layers) / by_stage)


def layers_of_even(plan: Plan, time: F64, layers: I64) -> I64:
    """How many of all ``layers`` (stages,) each stage has where the slowest one is as fast as can be.

    Passes take ``time`` (n,). A layer takes what it takes on the stage that has nothing else.
    """
    of_stage = np.bincount(plan.stage, time, plan.stages) / np.bincount(plan.stage)
    layer = float((of_stage / layers).min())
    rest, even = of_stage - layers * layer, np.zeros(plan.stages, np.int64)
    for _ in range(int(layers.sum())):
        even[np.argmin(rest + even * layer)] += 1
    return even


def _spread(plan: Plan, time: F64, layers: I64) -> F64:
    """The ``time`` of passes (cases, n) with ``layers`` (stages,) spread by ``layers_of_even``."""
    more = layers_of_even(plan, time.mean(axis=0), layers) - layers
    spread: F64 = time.copy()
    for kind in np.unique(plan.kind).tolist():
        mine = plan.kind == kind
        layer = (time[:, mine] / layers[plan.stage[mine]]).min(axis=1, keepdims=True)
        spread[:, mine] += more[plan.stage[mine]] * layer
    return spread


def stage_as_others(stage: int) -> Change:
    """The passes of ``stage`` take as long as those of the other stages."""

    def change(case: PipelineCases) -> PipelineCases:
        plan, time, kind = case.plan, case.time.copy(), case.plan.kind
        for one in np.unique(kind).tolist():
            mine, others = ((kind == one) & ((plan.stage == stage) == own) for own in (True, False))
            usual = case.time[:, others].sum(axis=1) / (plan.stages - 1)
            time[:, mine] *= (usual / np.maximum(case.time[:, mine].sum(axis=1), 1))[:, None]
        return replace(case, time=time)

    return change


def pairs_in_time(pairs: Sequence[tuple[int, int]], usual: float) -> Change:
    """Messages of ``pairs`` of ranks, from and to, come ``usual`` ns after their pass was done, or before."""

    def change(case: PipelineCases) -> PipelineCases:
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

    def change(case: PipelineCases) -> PipelineCases:
        plan, other = case.plan, planned(case.plan.schedule, case.plan.stages, micro, case.plan.chunks)
        assert other is not None
        cell = (plan.kind + 2 * plan.stage).tolist()
        at = [cell.index(one) for one in (other.kind + 2 * other.stage).tolist()]
        time, moved = plan.means(case.time), _mean_transfers(plan, case.moved)
        beside = case.length - plan.length(time, moved)
        return PipelineCases(case.runs, other, time[:, at], moved[..., at], beside)

    return change


def smaller_batches(micro: int) -> Change:
    """The same work in another number of micro batches, whose passes are as much shorter as there are more of them."""

    def change(case: PipelineCases) -> PipelineCases:
        size = case.plan.micro / micro
        other = micro_batches(micro)(case)
        return replace(other, time=other.time * size)

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
