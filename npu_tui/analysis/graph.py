"""When the nodes of a graph are passed: one replay for a rank, a job's collectives, a pipeline and roles.

A node is passed when every edge to it allows it, each a lag after the node it comes from. A change of a run is another
lag on some edges. What builds a graph says what its nodes and edges are; here is only time.

A ``Plan`` is the order in which the stages of a pipeline run their passes, and says how long that takes.

It is a graph too: a pass follows the one before it on its stage and the one that it needs from another stage. Its
length is the longest way through that graph (max-plus), for any length of each pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Literal

import numpy as np
from msgspec import Struct

from npu_tui.native.spans import passing, walking
from npu_tui.trace.arrays import F64, I32, I64, Bools

NEVER = -(2**61)
"""The lag of an edge that allows its target at any time, ns."""


class Graph(Struct, frozen=True, eq=False):
    """The edges in pairs, which makes a run one short loop; ``node`` is the row of each node.

    A row is passed when both ``edge`` from row ``source`` and ``other_edge`` from row ``other_source`` allow it. A node
    with more than two edges gets extra rows before its own: with edges a, b, c the rows are (a, b) and (row before, c).
    ``lag`` (edges + 2,) is that of each edge in the unchanged run, ns; two are added after the last one: one that never
    delays and one that takes no time.
    """

    node: I32
    source: I32
    edge: I32
    other_source: I32
    other_edge: I32
    lag: I64

    @staticmethod
    def of(source: I32 | I64, target: I32 | I64, lag: I64, nodes: int) -> Graph:
        """The graph of edges sorted by target; (edges,) each. Nodes are in topological order, 0 is the origin."""
        edges_to = np.bincount(target, minlength=nodes)
        rows_of = np.maximum(edges_to - 1, 1)
        row = (np.cumsum(rows_of) - 1).astype(np.int32)
        total = int(row[-1]) + 1
        nothing, no_time = len(source), len(source) + 1
        sources, numbers = np.zeros((2, total), np.int32), np.full((2, total), nothing, np.int32)
        # A run is a loop over rows with two maxima each, which is short enough to be compiled (native/replay.c).
        # Of several edges the first two share a row; each further one follows that row.
        number, come_from = np.arange(len(source), dtype=np.int32), row[source]
        rank = number - (np.cumsum(edges_to) - edges_to).astype(np.int32)[target]
        first, other = np.flatnonzero(rank == 0), np.flatnonzero(rank)
        at = (row - rows_of.astype(np.int32) + 1)[target]
        sources[0, at[first]], numbers[0, at[first]] = come_from[first], number[first]
        at = at[other] + rank[other] - 1
        sources[1, at], numbers[1, at] = come_from[other], number[other]
        further = at[rank[other] > 1]
        sources[0, further], numbers[0, further] = further - 1, no_time
        return Graph(row, sources[0], numbers[0], sources[1], numbers[1], np.append(lag, (NEVER, 0)))

    def less(self, edge: I64, less: I64) -> I64:
        """A change: the lags of all edges where each ``edge`` takes so much ``less``, ns."""
        lag: I64 = self.lag.copy()
        lag[edge] -= less
        return lag

    def passed(self, lag: I64) -> I64:
        """When each row is passed with these lags, ns after the origin."""
        return passing(self.source, self.edge, self.other_source, self.other_edge, lag)

    def times(self, lag: I64) -> I64:
        """When each node is passed, ns after the origin."""
        return self.passed(lag)[self.node]

    def walk(self, lag: I64, passed: I64, last: int, until: int = 0) -> tuple[I32, I32]:
        """What held up row ``last`` of the run that ``passed`` with ``lag``: rows and the edges to them, backwards.

        It ends at the first row that is passed at ``until`` (ns) or before; (n,) each.
        """
        return walking(self.source, self.edge, self.other_source, self.other_edge, lag, passed, last, until)


Numbers = I64 | F64 | Bools
Schedule = Literal["1f1b", "gpipe", "interleaved"]
FORWARD, BACKWARD = range(2)
KINDS = ("forward", "backward")

_Pass = tuple[int, int, int]
"""Kind, chunk of layers, micro batch."""


class Plan(Struct, frozen=True, eq=False):
    """The passes of ``stages`` stages with ``micro`` micro batches in ``chunks`` chunks a stage; (n,) by stage, order.

    A pass follows the one ``before`` it on its stage and the one that it ``needs`` from another one, -1 without one;
    ``order`` has every pass after both; node k + 1 of ``graph`` is the end of its k-th pass.
    """

    schedule: Schedule
    stages: int
    micro: int
    chunks: int
    stage: I64
    kind: I64
    chunk: I64
    number: I64
    before: I64
    needs: I64
    order: I64
    graph: Graph

    def length(self, time: Numbers, moved: Numbers | None = None) -> F64:
        """From the first pass to the end of the last one where passes take ``time``, (cases, n); (cases,)."""
        return np.asarray(self.ends(time, moved).max(axis=1))

    def ends(self, time: Numbers, moved: Numbers | None = None) -> F64:
        """When each pass ends after the first one has begun, to the ns, (cases, n).

        ``moved`` (cases, 2, n) is how long what a pass needs takes to come: on the way while the stage is busy, or
        begun once the stage is ready for it.
        """
        sent, fetched = np.zeros((2, *time.shape)) if moved is None else moved.swapaxes(0, 1)
        length = time + np.where(self.needs >= 0, fetched, 0)
        # A pass has two edges in the graph: from the one before, and from the one that it needs.
        lags = np.stack((length, np.where(self.needs >= 0, length + sent, NEVER)), axis=-1)[:, self.order]
        lags = np.rint(lags.reshape(len(time), -1)).astype(np.int64)
        ends = np.zeros(time.shape)
        for case, lag in enumerate(lags):
            ends[case, self.order] = self.graph.times(np.append(lag, self.graph.lag[-2:]))[1:]
        return ends

    @property
    def letters(self) -> list[str]:
        """The passes of each stage in their order as letters: F forward, B backward."""
        return ["".join("FB"[kind] for kind in self.kind[self.stage == stage].tolist()) for stage in range(self.stages)]

    def means(self, values: Numbers) -> F64:
        """The mean of each kind of pass on each stage, in the place of each pass; (…, n)."""
        cell = self.kind + 2 * self.stage
        means = np.zeros(values.shape)
        for one in np.unique(cell).tolist():
            means[..., cell == one] = values[..., cell == one].mean(axis=-1, keepdims=True)
        return means


_MOST = 4_096  # forward passes of a step on one stage; more of them are several steps with unknown borders


def plan_of(kinds: Sequence[str], wraps: bool | None) -> Iterator[Plan]:
    """The plans that ``kinds`` may be, the one with most conditions first: for each stage a letter a pass, F or B.

    A stage without letters is not known. With ``wraps`` the last stage sends to the first one, without it does not;
    None: unknown.
    """
    stages, count = len(kinds), max(own.count("F") for own in kinds)
    names: list[tuple[Schedule, int]] = []
    if wraps is not False:
        names += [("interleaved", chunks) for chunks in range(2, count + 1)]
    if not wraps:
        names += [("1f1b", 1), ("gpipe", 1)]
    for schedule, chunks in names if 0 < count <= _MOST else ():
        if count % chunks == 0 and (chunks == 1 or count // chunks % stages == 0):
            plan = planned(schedule, stages, count // chunks, chunks)
            if plan is not None and all(own in ("", of_plan) for own, of_plan in zip(kinds, plan.letters, strict=True)):
                yield plan


def plan_with(kinds: Sequence[str]) -> Plan | None:
    """The plan that fits the known stages, ``""`` for others: the simplest one."""
    return next((plan for wraps in (False, True) for plan in plan_of(kinds, wraps)), None)


@lru_cache(maxsize=256)
def planned(schedule: Schedule, stages: int, micro: int, chunks: int) -> Plan | None:
    """The plan of a schedule; None where none is known for these numbers."""
    if schedule == "interleaved" and micro % stages:
        return None
    count = micro * chunks
    forward = [(FORWARD, *_place_of_turn(turn, stages, chunks)) for turn in range(count)]
    backward = [(BACKWARD, chunks - 1 - chunk, number) for _, chunk, number in forward]
    orders = []
    for stage in range(stages):
        ahead = {"gpipe": count, "1f1b": stages - stage - 1}
        first = min(ahead.get(schedule, _interleaved(stages, stage, micro, chunks)), count)
        turns = [each for pair in zip(forward[first:], backward, strict=False) for each in pair]
        orders.append([*forward[:first], *turns, *backward[count - first :]])
    return _plan(schedule, orders, micro, chunks)


def _interleaved(stages: int, stage: int, micro: int, chunks: int) -> int:
    """Forward passes before the first pair; source: ``forward_backward_pipelining_with_interleaving`` of Megatron."""
    return micro * chunks if micro == stages else (stages - stage - 1) * 2 + (chunks - 1) * stages


def _place_of_turn(turn: int, stages: int, chunks: int) -> tuple[int, int]:
    """The chunk and the micro batch of a turn: chunks take turns of as many micro batches as there are stages."""
    if chunks == 1:
        return 0, turn
    return turn % (stages * chunks) // stages, turn // (stages * chunks) * stages + turn % stages


def _plan(schedule: Schedule, orders: Sequence[Sequence[_Pass]], micro: int, chunks: int) -> Plan | None:
    """The plan of the passes of each stage; None where they wait for each other."""
    stages, last = len(orders), len(orders) * chunks - 1
    rows = [(stage, *one) for stage, passes in enumerate(orders) for one in passes]
    at = {(kind, chunk * stages + stage, number): place for place, (stage, kind, chunk, number) in enumerate(rows)}
    before = [place - 1 if place and rows[place - 1][0] == row[0] else -1 for place, row in enumerate(rows)]
    needs = []
    for stage, kind, chunk, number in rows:
        virtual = chunk * stages + stage
        turns = kind == BACKWARD and virtual == last
        wanted = (FORWARD, virtual, number) if turns else (kind, virtual + (1 if kind == BACKWARD else -1), number)
        needs.append(at.get(wanted, -1))
    order: list[int] = []
    placed, ahead = {-1}, True
    ends = np.cumsum([len(passes) for passes in orders]).tolist()
    at_stage = [0, *ends[:-1]]
    while ahead:
        ahead = False
        for turn, end in enumerate(ends):
            while at_stage[turn] < end and needs[at_stage[turn]] in placed:
                order.append(at_stage[turn])
                placed.add(at_stage[turn])
                at_stage[turn] += 1
                ahead = True
    if len(order) < len(rows):
        return None
    stage, kind, chunk, number = np.array(rows, np.int64).T
    links, ordered = np.array((before, needs), np.int64), np.array(order, np.int64)
    node = np.zeros(len(rows) + 1, np.int64)
    node[ordered] = np.arange(1, len(rows) + 1)  # -1 is the origin, the last place
    target = np.repeat(np.arange(1, len(rows) + 1), 2)
    graph = Graph.of(node[links[:, ordered].T.ravel()], target, np.zeros(len(target), np.int64), len(rows) + 1)
    return Plan(schedule, stages, micro, chunks, stage, kind, chunk, number, links[0], links[1], ordered, graph)
