"""The critical path: the chain of what held up the end of a run, walked backwards through the replay's graph.

Each node is reached by the last of its incoming edges. From the end of the run these edges lead back to its start: a
chain of stretches of time, each of which begins where the one before it ends. Together they cover the run, so nothing
is counted twice or left out. Time that the model cannot explain is a stretch of the kind ``unexplained``.

An ``Owner`` has some stretches of the path, and says what the run would gain without it.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from msgspec import Struct

from npu_tui.analysis.code_lines import CodeLine
from npu_tui.analysis.communication import UNKNOWN
from npu_tui.analysis.graph import NEVER
from npu_tui.analysis.limits import ANOTHER_KIND, SHORT_NS
from npu_tui.analysis.replay import NO_CHANGE, Change, Replay, ReplayWalk
from npu_tui.analysis.replay_device import AWAIT, COLLECTIVE
from npu_tui.trace.arrays import I8, I32, I64, Bools, looked_up

PathKind = Literal["host", "kernel", "copy", "transfer", "late_rank", "latency", "device_gap", "unexplained"]
KINDS: tuple[PathKind, ...] = (
    "host", "kernel", "copy", "transfer", "late_rank", "latency", "device_gap", "unexplained",
)  # fmt: skip
HOST, COMPUTE, COPY, TRANSFER, LATE_RANK, LATENCY, DEVICE_GAP, UNEXPLAINED = range(8)
"""Codes of stretches: indices of ``KINDS``."""

_WAKE, _HAND_OVER, _LAUNCH, _IN_ORDER, _DEPENDENCY = range(5)
"""Kinds of latencies: from a task to the host, from thread to thread, from the host to a task, to the next task of the
same stream, and of another one. Each has a median of its own."""


class Path(Struct, frozen=True):
    """The stretches of a critical path by time, on the host's clock, ns; (n,) each.

    ``item`` is the slice that a stretch is about: the task, the call that waited or the task that starts after a
    latency; -1 without one. A stretch of the host is work of the ``thread`` (an index of ``Model.tids``, else -1);
    ``low`` is when it began in the recording. ``peer`` is the rank that a stretch waits for, as
    ``communication.peers_seen`` numbers it.
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
        """The path from ``start`` to ``end``, ns; stretches that cross either of them are clipped."""
        if not len(self) or (start <= self.start[0] and end >= self.end[-1]):
            return self
        inside = self.taken((self.end > start) & (self.start < end))
        low, high = np.maximum(inside.start, start), np.minimum(inside.end, end)
        return Path(low, high, inside.kind, inside.item, inside.thread, inside.low + low - inside.start, inside.peer)


NO_PEER = UNKNOWN - 1
"""``Path.peer`` of a stretch that waits for no rank."""


class Reach(Struct, frozen=True):
    """The end of a path, walked backwards until a ``task`` stopped the walk (-1: it reached the start of the run).

    ``path`` is what follows the end of that task, which is at ``done``, ns. ``rest`` is the path within the task, and
    ``node`` the node that it begins at, from which a further walk goes on.
    """

    path: Path
    task: int
    done: int
    rest: Path
    node: int


def critical_path(replay: Replay, change: Change = NO_CHANGE) -> Path:
    """The path of the run as recorded, or as replayed with ``change``."""
    return Paths(replay, change).whole


class Paths:
    """The paths to the end and to each node of a run: of the recorded one, or of one replayed with ``change``."""

    def __init__(self, replay: Replay, change: Change = NO_CHANGE) -> None:
        self._replay, self._change = replay, change
        self._pieces = _Pieces(replay)
        self._window = _FIRST_WINDOW_NS

    @property
    def whole(self) -> Path:
        """The path to the end of the run."""
        walk = self._replay.walk(self._change)
        at = self._times(walk)
        end = walk.length_of_last + int(at[0])
        pieces = [*self._pieces.last(walk, int(at[0]), end), *self._pieces.edges(walk, at)]
        return _concatenated(pieces).within(walk.start, end)

    @property
    def start(self) -> int:
        """When the run begins, ns."""
        return self._replay.walk(self._change).start

    def reach(self, node: int | None, stops: Bools) -> Reach:
        """The path to ``node`` (None: the end of the run), back to the first task where ``stops`` (tasks,) is true."""
        replay, since, window = self._replay, NEVER, self._window
        if node is not None:
            since = int(replay.model.time[node]) - window
        walk = replay.walk(self._change, node, since, stops)
        # Most tasks that stop a walk are near: it goes all the way to the start only if none is found.
        while not (stopped := _is_stopped(walk, stops)) and since > walk.start:
            window *= _WIDER
            since -= window
            walk = replay.walk(self._change, node, since, stops)
        at = self._times(walk)
        end = walk.length_of_last + int(at[0])
        pieces = self._pieces.edges(walk, at)
        if node is None:
            pieces += self._pieces.last(walk, int(at[0]), end)
        path = _concatenated(pieces).within(walk.start, end)
        if not stopped:
            return Reach(path, -1, walk.start, path.taken(np.zeros(0, np.int64)), int(walk.nodes[-1]))
        done = int(at[-2])
        rest = path.taken(path.start < done)
        return Reach(path.taken(path.start >= done), int(walk.task_of[-1]), done, rest, int(walk.nodes[-1]))

    def _times(self, walk: ReplayWalk) -> I64:
        """When the nodes of ``walk`` are passed, ns."""
        # Of the unchanged run the recorded times count: replayed ones differ from them a little.
        time = self._replay.model.time if self._change.is_empty else walk.time
        times: I64 = np.minimum.accumulate(time[walk.nodes])
        return times


_FIRST_WINDOW_NS = 20_000_000
_WIDER = 8
"""The first window of a walk, and the factor by which it grows whenever no task in it stops the walk."""


def _is_stopped(walk: ReplayWalk, stops: Bools) -> bool:
    return len(walk.edges) > 0 and bool(np.append(stops, False)[walk.task_of[-1]])


_Columns = tuple[I64, I64, I8, I64, I64, I64, I64]
"""Stretches as the fields of ``Path``."""


class _Pieces:
    """Splits each edge of a walk into stretches, in chronological order."""

    def __init__(self, replay: Replay) -> None:
        model = replay.model
        self._replay, edges = replay, model.edges
        self._point_of = _map(model.host.node, len(model))
        self._task_of = _map(model.end_node, len(model))
        self._task_of[model.start_node] = np.arange(len(model.tasks))
        self._called = np.zeros(len(edges), np.bool_)
        self._called[edges.call.edge] = True
        self._thread = np.append(model.host.thread, -1).astype(np.int64)
        self._usual: dict[int, float] = {}

    def last(self, walk: ReplayWalk, start: int, end: int) -> list[_Columns]:
        """The stretch of the last task of the run, from ``start`` to ``end``, ns; none if it has no length."""
        if end <= start:
            return []
        model = self._replay.model
        task = np.flatnonzero(model.end_node == walk.nodes[0])[:1]
        kind = np.where(model.copies[task], COPY, COMPUTE)
        return [_stretch_columns(np.array([start]), np.array([end]), kind, model.tasks.item[task])]

    def edges(self, walk: ReplayWalk, at: I64) -> list[_Columns]:
        """The stretches of all edges of ``walk``; ``at`` is when its nodes are passed, ns."""
        model, tasks, work = self._replay.model, self._replay.model.tasks, self._replay.model.edges.work
        source, target = walk.nodes[1:], walk.nodes[:-1]
        from_point, to_point, to_task = self._point_of[source], self._point_of[target], self._task_of[target]
        left = _Left(at[1:].copy(), at[:-1])
        # Work of the host.
        thread, low = looked_up(work.thread, walk.work_of, -1), looked_up(work.low, walk.work_of)
        left.take(walk.work, HOST, thread=thread, low=low)
        # A wait for the rank that comes last, then the transfer; or the task that must end.
        late, peer = walk.waits
        item = looked_up(tasks.item, walk.task_of, -1)
        left.take(late, LATE_RANK, item, peer=peer)
        kinds = np.where(tasks.kind == COLLECTIVE, TRANSFER, np.where(model.copies, COPY, COMPUTE))
        left.take(walk.task, looked_up(kinds, walk.task_of, COMPUTE), item)
        # What is left is a call that the host was in, or a latency.
        thread = self._thread[to_point]
        same = (from_point >= 0) & (self._thread[from_point] == thread)
        in_host = (to_point >= 0) & (from_point >= 0) & (self._called[walk.edges] | same)
        rest = left.length
        left.take(np.where(in_host, rest, 0), HOST, thread=thread, low=model.time[target] - rest)
        about = np.where(to_task >= 0, looked_up(tasks.item, to_task), looked_up(model.host.item, to_point, -1))
        rest = left.length
        left.take(rest, self._rest_of(source, target, rest), about, thread)
        return left.pieces

    def _rest_of(self, source: I32, target: I32, rest: I64) -> I64:
        """The kind of the remainder of each edge, which is ``rest`` ns long; (n,)."""
        model = self._replay.model
        group = self._groups(source, target)
        kind = np.where(group == _IN_ORDER, DEVICE_GAP, LATENCY)
        kind[group < 0] = UNEXPLAINED
        waiting = self._task_of[target]
        unknown = (waiting >= 0) & (model.tasks.kind[waiting] == AWAIT) & (model.tasks.event[waiting] < 0)
        kind[unknown & (group == _IN_ORDER) & (rest > SHORT_NS)] = UNEXPLAINED
        long = np.flatnonzero((rest > SHORT_NS) & (group >= 0))
        for number in np.unique(group[long]).tolist():
            mine = long[group[long] == number]  # far longer than the median of its kind: something unknown held it up
            kind[mine[rest[mine] > ANOTHER_KIND * self._usual_of(number)]] = UNEXPLAINED
        return kind

    def _usual_of(self, number: int) -> float:
        """The median latency of a kind in the run, ns."""
        if number not in self._usual:
            edges = self._replay.model.edges
            every = self._groups(edges.source, edges.target)
            for one in np.unique(every[every >= 0]).tolist():
                self._usual[one] = float(np.median(np.maximum(edges.fixed[every == one], 0)))
        return self._usual[number]

    def _groups(self, source: I32, target: I32) -> I64:
        """The kind of latency of each edge from ``source`` to ``target``, -1 if the edge is no latency; (n,)."""
        threads = self._thread
        from_point, to_point = self._point_of[source], self._point_of[target]
        from_task, to_task = self._task_of[source], self._task_of[target]
        group = np.full(len(source), -1, np.int64)
        group[(to_point >= 0) & (from_task >= 0)] = _WAKE
        group[(to_point >= 0) & (from_point >= 0) & (threads[to_point] != threads[from_point])] = _HAND_OVER
        group[(to_task >= 0) & (from_point >= 0)] = _LAUNCH
        stream = np.append(self._replay.model.tasks.stream, -1)
        on_device = (to_task >= 0) & (from_task >= 0)
        group[on_device & (stream[to_task] == stream[from_task])] = _IN_ORDER
        group[on_device & (stream[to_task] != stream[from_task])] = _DEPENDENCY
        return group


class _Left:
    """The remainder of every edge that no stretch covers yet, from ``since`` to ``until``, ns; (n,) each."""

    def __init__(self, since: I64, until: I64) -> None:
        self._since, self._until = since, until
        self.pieces: list[_Columns] = []

    @property
    def length(self) -> I64:
        """The length of the remainder, ns; (n,)."""
        return self._until - self._since

    def take(self, length: I64, kind: int | I64, *columns: I64 | None, **others: I64) -> None:
        """Make the next ``length`` ns of every edge a stretch of ``kind``; others as in ``_stretch_columns``."""
        until = np.minimum(self._since + np.maximum(length, 0), self._until)
        self.pieces.append(_stretch_columns(self._since, until, kind, *columns, **others))
        self._since = until


def _stretch_columns(
    start: I64, end: I64, kind: int | I64, item: I64 | None = None, thread: I64 | None = None, low: I64 | None = None,
    peer: I64 | None = None,
) -> _Columns:  # fmt: skip
    """The columns of the stretches of some length; the others are left out."""
    lasting = np.flatnonzero(end > start)
    start, end = start[lasting], end[lasting]
    kinds = np.full(len(lasting), kind, np.int8) if isinstance(kind, int) else kind[lasting].astype(np.int8)
    item, thread, peer = (
        np.full(len(lasting), none, np.int64) if column is None else column[lasting]
        for column, none in ((item, -1), (thread, -1), (peer, NO_PEER))
    )
    return start, end, kinds, item, thread, start if low is None else low[lasting], peer


def _concatenated(pieces: list[_Columns]) -> Path:
    """All stretches by time."""
    columns = [np.concatenate(column) for column in zip(*pieces, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    return Path(*(column[order] for column in columns))


def _map(items: I64 | I32, count: int) -> I64:
    """The position of each number below ``count`` in ``items``, -1 where it is not there; (count + 1,)."""
    positions = np.full(count + 1, -1, np.int64)
    positions[items] = np.arange(len(items))
    return positions


Doing = Literal["work", "launch", "wait", "device"]
"""What an owner does: work that launches nothing, launching, waiting for the device, or work of the device."""


class Owner(Struct, frozen=True, eq=False):
    """An owner of stretches of the path: ``on_path`` ns in ``count`` stretches.

    ``name`` is the call, operator or group (empty: nothing was recorded), ``where`` the line of the user, ``thread``
    the id of the host's thread, ``peer`` the rank that comes late (see ``Path``). ``items`` are the slices that it is
    about, ``calls`` the call with those around it, innermost first. Without it the run has the ``change``, and is
    ``gain`` ns shorter; None: nothing that one could do without.
    """

    kind: PathKind
    doing: Doing
    name: str
    where: CodeLine | None
    thread: int
    peer: int
    on_path: int
    count: int
    items: I64
    change: Change | None = None
    gain: int | None = None
    calls: tuple[str, ...] = ()


class Owners(Struct, frozen=True):
    """A critical path and its owners, the one with the most time first; ``owner`` is the index of that of each stretch.

    Stretches of the host are cut where their owner changes. ``waits`` are all places where the host waits for the
    device, also off the path.
    """

    path: Path
    owner: I64
    owners: tuple[Owner, ...]
    waits: tuple[Owner, ...] = ()
