"""The forward and backward passes of a stage of a pipeline, from the kernels of its rank and its messages.

A kernel belongs to the backward pass where its operation does (``fwdbwd`` links, threads of autograd). Without
operations, as in kernel_details.csv, the types decide: what has a twin with ``Grad`` belongs to the forward pass, and
the twin to the other. A pass ends where its message is sent, and begins where the message that it needs has come.

``PipelineRun`` is one step of a pipeline, and its what-ifs: other times, transfers or numbers of micro batches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.analysis.graph import Plan, planned
from npu_tui.analysis.kernels import KernelTable
from npu_tui.analysis.launches import operation_of
from npu_tui.analysis.limits import SOME
from npu_tui.analysis.ranges import PHASES, phases
from npu_tui.jobs.columns import run_begins
from npu_tui.jobs.model import RankCalls, RankPasses, is_message, is_pair, is_receive, is_send
from npu_tui.profile.profile import Profile
from npu_tui.trace.arrays import F64, I64, Bools
from npu_tui.trace.model import FORWARD_BACKWARD, HOST_TO_DEVICE, Trace

_NEITHER, _FORWARD, _BACKWARD = 0, 1, 2
_GRAD = ("Grad", "Backward")


def passes_of(profile: Profile, calls: RankCalls, launched: I64 | None = None) -> RankPasses | None:
    """The passes of a rank that makes ``calls``; None where it sends and receives nothing, or no kernel shows it.

    ``launched`` is when the host launched each call, ns of the trace, -1 where that is not known.
    """
    kinds = [kind for _, kind, _ in calls.kinds]
    if not any(map(is_message, kinds)):
        return None
    table = profile.kernel_table
    start = table.start + profile.tables.start_ns
    if not len(start):
        return None
    end = np.maximum.accumulate(start + table.duration)
    sends, receives = (
        np.array([test(kind) or is_pair(kind) for kind in kinds], np.bool_)[calls.kind]
        for test in (is_send, is_receive)
    )
    sent, come = np.sort(calls.start[sends]), np.sort(calls.end[receives])
    # A pass ends with the last kernel before what it sends. A wait for a message lies between two kernels.
    before = np.searchsorted(start, come, "left")
    by_device = np.append(np.searchsorted(end, sent, "right"), before[(before == 0) | (end[before - 1] <= come)])
    asked = np.full(1, -1) if launched is None else launched[sends | receives]
    launches = np.maximum.accumulate(launched_at(profile.trace, table.item))
    known = len(launches) and launches[0] >= 0 and (asked >= 0).all()
    # The host sends and asks for messages between two passes, whenever the device does.
    ways = [np.searchsorted(launches, asked), by_device] if known else [by_device]
    # What the host asked for in time, a call waited on the device for: the gap before it is not of the host.
    asked_at = (
        calls.start if launched is None else np.where(launched < 0, calls.start, launched + profile.trace.start_ns)
    )
    others = np.sort(calls.start[~(sends | receives)])
    found: list[RankPasses] = []
    for cuts in ways:
        stretch: I64 = np.isin(np.arange(len(start)), cuts).cumsum(dtype=np.int64)
        # Operations say nothing of what runs without gradients, such as forward passes that are computed again later.
        for marks in (_pass_by_operation(profile, table), _pass_by_type(table, stretch, start, others)):
            some = np.flatnonzero(marks)
            if not len(some) or not (marks == _BACKWARD).any():
                continue
            first = run_begins(stretch[some], marks[some])
            begin, last = some[first], np.append(some[first[1:] - 1], some[-1])
            back = marks[begin] == _BACKWARD
            forward = int(np.argmin(back))
            layers = _layers(table.type.code[begin[forward] : last[forward] + 1])
            found.append(_passes_between_messages(start[begin], end[last], back, layers, come, calls.start, asked_at))
            if 2 * back.sum() == len(back):
                return found[-1]
    return found[0] if found else None


def launched_at(trace: Trace, items: I64) -> I64:
    """When the host launched each slice, ns of the trace; -1 where no link says it; (n,)."""
    launched = np.full(len(trace.slices) + 1, -1, np.int64)
    links = trace.bound_links_of(HOST_TO_DEVICE)
    launched[trace.links.target_slice[links]] = trace.links.source_time[links]
    return launched[items]


def _pass_by_operation(profile: Profile, table: KernelTable) -> I64:
    """Which pass each kernel belongs to by the operation that launched it, (n,).

    What a backward pass computes again of the forward one runs on its thread, where ``fwdbwd`` links end.
    """
    trace, marks = profile.trace, np.zeros(len(table), np.int64)
    known = np.flatnonzero(table.item >= 0)
    links = trace.bound_links_of(FORWARD_BACKWARD)
    if len(known) and len(links):
        phase = phases(trace, table.item[known])
        back = np.bincount(trace.links.target_lane[links], minlength=len(trace.lanes)) > 0
        operation = operation_of(trace, table.item[known])
        on_thread = (operation >= 0) & back[trace.slices.lane[operation]]
        backward = phase == PHASES.index("backward")
        again = (phase == PHASES.index("forward")) & (on_thread & bool((~on_thread & (operation >= 0)).any()))
        marks[known[(phase == PHASES.index("forward")) & ~again]] = _FORWARD
        marks[known[backward | again]] = _BACKWARD
    return marks


def _pass_by_type(table: KernelTable, stretch: I64, start: I64, collectives: I64) -> I64:
    """Which pass each kernel belongs to by the types of those in its stretch between two messages, (n,).

    A forward pass lasts to the first kernel of a backward one. The optimizer follows a collective.
    """
    names = table.type.values
    twins = {name: name.replace(word, "") for name in names for word in _GRAD if word in name}
    mark = np.array([_BACKWARD if n in twins else _FORWARD if n in set(twins.values()) else 0 for n in names] + [0])
    told = mark[table.type.code]
    marks = np.zeros(len(table), np.int64)
    runs: list[tuple[int, int, int, int]] = []
    bounds = np.append(run_begins(stretch), len(stretch)).tolist()
    for low, high in pairwise(bounds):
        some = low + np.flatnonzero(told[low:high])
        if not len(some):
            continue
        first = run_begins(told[some])
        kinds = _without_again(told[some[first]], np.diff(np.append(first, len(some))))
        borders = [low, *some[first[1:]].tolist(), high]
        ends = some[np.append(first[1:], len(some)) - 1].tolist()
        runs += zip(kinds.tolist(), borders[:-1], ends, borders[1:], strict=True)
    # What follows the last kernel of a known pass belongs to it, as far as after every pass.
    rest = min((until - last - 1 for kind, _, last, until in runs if kind == _BACKWARD), default=0)
    for kind, begin, last, until in runs:
        stop = until
        if kind == _BACKWARD:
            over = int(np.searchsorted(collectives, start[last], "right"))
            after = int(np.searchsorted(start, collectives[over])) if over < len(collectives) else last + 1 + rest
            stop = min(until, after)
        marks[begin:stop] = kind
    return marks


def _without_again(kinds: I64, sizes: I64) -> I64:
    """The kinds of runs of ``sizes`` kernels where a backward pass computes each layer again; (n,).

    What it computes again is part of it: all but a far longer first run, and a last one that nothing follows.
    """
    if len(kinds) <= SOME:
        return kinds
    again: I64 = kinds.copy()
    again[:-1] = _BACKWARD
    if kinds[0] == _FORWARD and sizes[0] > 2 * sizes[2]:
        again[0] = _FORWARD
    return again


def _layers(kinds: I64) -> int:
    """How many layers a pass of kernels of such ``kinds`` has: how often what it runs is repeated in its order."""
    best, layers = 0, 1
    for period in range(1, len(kinds) // 2 + 1):
        same = int(np.count_nonzero(kinds[period:] == kinds[:-period]))
        if (score := 2 * same - (len(kinds) - period)) > best:  # those that are repeated less those that are not
            best, layers = score, round(same / period) + 1
    return layers


def _passes_between_messages(
    start: I64, end: I64, backward: Bools, layers: int, come: I64, called: I64, asked: I64
) -> RankPasses:
    """Passes from kernel to kernel, ``start`` to ``end`` (n,), up to the messages around them.

    A gap of the host before a message that was ``asked`` for late is part of the pass; one without any, of the forward
    pass before.
    """
    before, after = np.append(np.iinfo(np.int64).min, end[:-1]), np.append(start[1:], np.iinfo(np.int64).max)
    begin = start
    if len(come):
        at = np.searchsorted(come, start, "right") - 1
        begin = np.where((at >= 0) & (come[at] > before), come[at], start)
    at = np.minimum(np.searchsorted(called, end), len(called) - 1)
    calls_next = (called[at] >= end) & (called[at] <= after)
    follows = ~calls_next & ~backward & np.append(backward[1:], False)
    until = np.where(calls_next & (asked[at] >= end), called[at], np.where(follows, after, end))
    return RankPasses(begin, until, end, backward, np.full(len(end), layers))


class PipelineRun(Struct, frozen=True, eq=False):
    """One step of the pipeline of ``ranks``, by stage; ns on the clock of the job since 1970, (passes of ``plan``,).

    ``transfer`` is how long what a pass needed took to come, from when both ranks were ready for it; it was ``fetched``
    where that was after the pass before. ``tail`` is how long after its last kernel a pass ended. ``apart`` is what the
    clock of the rank of each stage is ahead, (stages,), ``layers`` how many layers it has, as far as kernels show it.
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
    return replace(case, time=case.time * _spread_layers(case.plan, by_stage, layers) / by_stage)


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


def _spread_layers(plan: Plan, time: F64, layers: I64) -> F64:
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
    """The change that does the same work in ``micro`` batches: the more there are, the shorter their passes."""

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
