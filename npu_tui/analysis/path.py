"""The critical path: the chain of what held up the end of a run, walked backwards through the replay's graph.

At every node one of its edges was passed last. From the end of the run these edges lead back to its start: a chain of
stretches of time, each of which begins where the one before it ends. Together they are the run, so nothing is counted
twice or left out. What the model cannot explain is a stretch that says so.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from msgspec import Struct

from npu_tui.analysis.lateness import UNKNOWN
from npu_tui.analysis.replay import NO_CHANGE, Change, Replay
from npu_tui.analysis.replay_device import AWAIT, COLLECTIVE
from npu_tui.trace.arrays import I8, I32, I64, Bools

PathKind = Literal["host", "kernel", "copy", "transfer", "late_rank", "latency", "device_gap", "unexplained"]
KINDS: tuple[PathKind, ...] = (
    "host", "kernel", "copy", "transfer", "late_rank", "latency", "device_gap", "unexplained",
)  # fmt: skip
HOST, COMPUTE, COPY, TRANSFER, LATE_RANK, LATENCY, DEVICE_GAP, UNEXPLAINED = range(8)
"""The kinds of stretches, as ``KINDS`` names them."""

_SHORT_NS = 100_000
"""A latency up to this long needs no reason: launches, wake-ups and hand-overs of real profiles take 2 to 80 us."""
_USUAL = 10
"""So many times the usual latency of its kind in the run is not one any more: something unknown held it up."""
_WAKE, _HAND_OVER, _LAUNCH, _IN_ORDER, _DEPENDENCY = range(5)


class Path(Struct, frozen=True):
    """The stretches of a critical path by time, on the host's clock, ns; (n,) each.

    ``item`` is the slice that a stretch is about: the task, the call that waited or the task that starts after a
    latency; -1 without one. A stretch of the host is work of the ``thread`` (an index of ``Model.tids``, else -1) that
    began at ``low`` in the recording. ``peer`` is the rank that a stretch waits for, as ``lateness.peers_seen`` numbers
    it.
    """

    start: I64
    end: I64
    kind: I8
    item: I64
    thread: I64
    low: I64
    peer: I64

    def __len__(self) -> int:
        return len(self.start)

    @property
    def length(self) -> int:
        """From its start to its end, ns."""
        return int(self.end[-1] - self.start[0]) if len(self) else 0

    def taken(self, chosen: Bools | I64) -> Path:
        """The ``chosen`` stretches."""
        return Path(*(getattr(self, name)[chosen] for name in self.__struct_fields__))

    def within(self, start: int, end: int) -> Path:
        """The path from ``start`` to ``end``, ns: stretches that cross these are cut there."""
        inside = self.taken((self.end > start) & (self.start < end))
        low, high = np.maximum(inside.start, start), np.minimum(inside.end, end)
        return Path(low, high, inside.kind, inside.item, inside.thread, inside.low + low - inside.start, inside.peer)


def critical_path(replay: Replay, change: Change = NO_CHANGE) -> Path:
    """The path of the run as recorded, or as replayed with ``change``."""
    model, walk = replay.model, replay.walk(change)
    # The unchanged run is told in its recorded times, which the replay may miss by a little.
    time = model.time if change.is_empty else walk.time
    nodes = walk.nodes
    at = np.minimum.accumulate(time[nodes])
    end = walk.length_of_last + at[0]
    pieces = _Pieces(model.time, time, nodes, at, walk.edges)
    pieces.last(replay, end)
    pieces.edges(replay, walk.work, walk.task, walk.waits)
    path = pieces.path()
    return path.within(walk.start, int(end))


class _Pieces:
    """Collects stretches edge by edge: every edge is cut into what it is made of, in the order of time."""

    def __init__(self, recorded: I64, time: I64, nodes: I32, at: I64, edges: I64) -> None:
        self._recorded, self._time, self._nodes, self._at, self._edges = recorded, time, nodes, at, edges
        self._columns: list[tuple[I64, ...]] = []
        # An edge leads from the node after it in the walk to its own; what is left of it shrinks as pieces are taken.
        self._from, self._until = at[1:].copy(), at[:-1]

    def last(self, replay: Replay, end: int) -> None:
        """The task that the run ends with, from its start node on."""
        if end > self._at[0]:
            model = replay.model
            task = np.flatnonzero(model.end_node == self._nodes[0])[:1]
            kind = np.where(model.copies[task], COPY, COMPUTE)
            self._add(np.array([self._at[0]]), np.array([end]), kind, model.tasks.item[task])

    def edges(self, replay: Replay, work: I64, task: I64, waits: tuple[I64, I64]) -> None:
        """All edges of the walk; see ``Walk`` for the columns."""
        model = replay.model
        tasks, edges = model.tasks, model.edges
        point_of = _map(model.host.node, len(model))
        task_of = _map(model.end_node, len(model))
        task_of[model.start_node] = np.arange(len(tasks))
        source, target = self._nodes[1:], self._nodes[:-1]
        from_point, to_point, to_task = point_of[source], point_of[target], task_of[target]
        # Work of the host.
        entry = _map(edges.work.edge, len(edges))[self._edges]
        low = np.where(entry >= 0, np.append(edges.work.low, 0)[entry], 0)
        thread = np.where(entry >= 0, np.append(edges.work.thread, -1)[entry], -1)
        self._take(np.where(entry >= 0, work, 0), HOST, np.full(len(low), -1), thread, low)
        # A wait for the rank that comes last, then the transfer; or the task that must end.
        late, peer = waits
        of_task = _map(edges.task.edge, len(edges))[self._edges]
        own = np.where(of_task >= 0, np.append(edges.task.number, 0)[of_task], 0)
        item = tasks.item[own] if len(tasks) else own
        self._take(late, LATE_RANK, item, peer=peer)
        kind = np.where(tasks.kind[own] == COLLECTIVE, TRANSFER, np.where(model.copies[own], COPY, COMPUTE))
        self._take(np.where(of_task >= 0, task, 0), kind, item)
        # What is left is a call that the host was in, or a latency.
        called = _map(edges.call.edge, len(edges))[self._edges] >= 0
        own_thread = np.append(model.host.thread, -1)[to_point].astype(np.int64)
        same = (from_point >= 0) & (np.append(model.host.thread, -2)[from_point] == own_thread)
        in_host = (to_point >= 0) & (from_point >= 0) & (called | same)
        rest = self._until - self._from
        self._take(np.where(in_host, rest, 0), HOST, np.full(len(rest), -1), own_thread, self._recorded[target] - rest)
        about = np.where(to_point >= 0, np.append(model.host.item, -1)[to_point], -1)
        about = np.where(to_task >= 0, np.append(tasks.item, -1)[to_task], about)
        self._take(self._until - self._from, self._rest_of(replay, point_of, task_of), about, own_thread)

    def _rest_of(self, replay: Replay, point_of: I64, task_of: I64) -> I64:
        """The kind of what no piece of each edge explains."""
        model = replay.model
        source, target = self._nodes[1:], self._nodes[:-1]
        rest = self._until - self._from
        group = _groups(replay, point_of, task_of, source, target)
        kind = np.where(group == _IN_ORDER, DEVICE_GAP, LATENCY)
        kind[group < 0] = UNEXPLAINED
        waiting = task_of[target]
        unknown = (waiting >= 0) & (model.tasks.kind[waiting] == AWAIT) & (model.tasks.event[waiting] < 0)
        kind[unknown & (group == _IN_ORDER) & (rest > _SHORT_NS)] = UNEXPLAINED
        long = np.flatnonzero((rest > _SHORT_NS) & (group >= 0))
        if len(long):
            edges = model.edges
            every = _groups(replay, point_of, task_of, edges.source, edges.target)
            for number in np.unique(group[long]).tolist():
                usual = float(np.median(np.maximum(edges.fixed[every == number], 0)))
                mine = long[group[long] == number]
                kind[mine[rest[mine] > _USUAL * usual]] = UNEXPLAINED
        return kind

    def _take(
        self, length: I64, kind: int | I64, item: I64, thread: I64 | None = None, low: I64 | None = None,
        peer: I64 | None = None,
    ) -> None:  # fmt: skip
        """The next ``length`` ns of every edge are of this kind."""
        until = np.minimum(self._from + np.maximum(length, 0), self._until)
        self._add(self._from, until, np.broadcast_to(kind, len(until)), item, thread, low, peer)
        self._from = until

    def _add(
        self, start: I64, end: I64, kind: I64, item: I64, thread: I64 | None = None, low: I64 | None = None,
        peer: I64 | None = None,
    ) -> None:  # fmt: skip
        lasting = np.flatnonzero(end > start)
        none = np.full(len(start), -1, np.int64)
        columns = start, end, kind, item, none if thread is None else thread, start if low is None else low
        chosen = tuple(column[lasting] for column in (*columns, none - 1 if peer is None else peer))
        self._columns.append(chosen)

    def path(self) -> Path:
        """All stretches by time."""
        start, end, kind, *others = (np.concatenate(column) for column in zip(*self._columns, strict=True))
        order = np.argsort(start, kind="stable")
        return Path(start[order], end[order], kind[order].astype(np.int8), *(column[order] for column in others))


NO_PEER = UNKNOWN - 1
"""The peer of a stretch that waits for none."""


def _groups(replay: Replay, point_of: I64, task_of: I64, source: I32, target: I32) -> I64:
    """What each edge from ``source`` to ``target`` is beside work and tasks: a kind of latency, -1 for none; (n,)."""
    tasks, threads = replay.model.tasks, np.append(replay.model.host.thread, -1)
    from_point, to_point, from_task, to_task = point_of[source], point_of[target], task_of[source], task_of[target]
    group = np.full(len(source), -1, np.int64)
    group[(to_point >= 0) & (from_task >= 0)] = _WAKE
    group[(to_point >= 0) & (from_point >= 0) & (threads[to_point] != threads[from_point])] = _HAND_OVER
    group[(to_task >= 0) & (from_point >= 0)] = _LAUNCH
    stream = np.append(tasks.stream, -1)
    on_device = (to_task >= 0) & (from_task >= 0)
    group[on_device & (stream[to_task] == stream[from_task])] = _IN_ORDER
    group[on_device & (stream[to_task] != stream[from_task])] = _DEPENDENCY
    return group


def _map(items: I64 | I32, count: int) -> I64:
    """The position of each number below ``count`` in ``items``, -1 where it is not there; (count + 1,)."""
    positions = np.full(count + 1, -1, np.int64)
    positions[items] = np.arange(len(items))
    return positions
