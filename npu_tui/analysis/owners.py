"""The owners of the critical path: its stretches by owner, and what the run without each owner would gain.

Work of the host that launches nothing belongs to the innermost frame of the user around it, time between two launches
to what launches, a wait for the device to the call that waits, device time to the operator or the group, lateness to
the rank. What one could do without has a change of the replay; kernels at their length have none.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.code_lines import CodeLine, lines_of_stacks, stack_of
from npu_tui.analysis.host_owners import HostOwners
from npu_tui.analysis.launches import Around, operation_of
from npu_tui.analysis.limits import HALF, UNSEEN
from npu_tui.analysis.operators import TypesOf, collective_type
from npu_tui.analysis.path import (
    COMPUTE,
    COPY,
    DEVICE_GAP,
    HOST,
    KINDS,
    LATE_RANK,
    LATENCY,
    TRANSFER,
    UNEXPLAINED,
    Doing,
    Owner,
    Owners,
    Path,
)
from npu_tui.analysis.replay import NO_CHANGE, Change, Replay, TaskCut
from npu_tui.analysis.replay_device import COLLECTIVE
from npu_tui.analysis.replay_host import waits_of
from npu_tui.trace.arrays import I64, among, distinct, once_each, summed
from npu_tui.trace.model import Trace
from npu_tui.trace.once import of_trace


def owners(
    replay: Replay, types_of: TypesOf, path: Path, judged: Callable[[Change], Change], after: Change = NO_CHANGE
) -> Owners:
    """The owners of ``path``: the path of the run of ``replay`` with the change ``after``, or a part of that.

    ``types_of`` gives the operator types of slices; ``judged`` is a change within what is judged of the run.
    """
    host = HostOwners(replay, path)
    of_part, rows = host.rows()
    cut, owner = _cut_at_owners(path, host, of_part)
    for stretches, row in _device_owners(replay, cut, types_of):
        owner[stretches] = len(rows)
        rows.append(row)
    awake = np.flatnonzero((owner < 0) & (cut.kind == LATENCY))
    owner[awake] = [host.wait_owner.get(item, -1) for item in cut.item[awake].tolist()]
    if len(bare := np.flatnonzero(owner < 0)):
        owner[bare] = len(rows)
        rows.append(_owner(UNEXPLAINED, "device", ""))
    time = summed(owner, cut.end - cut.start, len(rows)).tolist()
    count = np.bincount(owner, minlength=len(rows)).tolist()
    calling = np.flatnonzero(cut.kind == HOST)
    in_calls = summed(owner[calling], (cut.end - cut.start)[calling], len(rows)).tolist()
    order = [k for k in sorted(range(len(rows)), key=lambda k: -time[k]) if count[k]]
    place = np.full(len(rows), -1, np.int64)
    place[order] = np.arange(len(order))
    told = [
        replace(rows[k], kind="host" if 2 * in_calls[k] > time[k] else rows[k].kind, on_path=time[k], count=count[k])
        for k in order
    ]
    # Each gain is a run of the model: of what holds next to nothing of the path is not worth one.
    least = UNSEEN * cut.length
    told = [
        replace(row, gain=max(replay.gain(judged(row.change), after), 0))
        if row.change is not None and (row.doing == "wait" or row.on_path >= least)
        else row
        for row in told
    ]
    return Owners(cut, place[owner], tuple(told), tuple(row for row in rows if row.doing == "wait"))


def _cut_at_owners(path: Path, host: HostOwners, of_part: I64) -> tuple[Path, I64]:
    """``path`` with its host stretches cut where their owner changes, and the owner of each stretch (-1: none yet)."""
    parts = np.flatnonzero(host.stretch >= 0)
    stretch, owner = host.stretch[parts], of_part[parts]
    # Parts next to each other with one owner are one stretch.
    first = np.append(True, (stretch[1:] != stretch[:-1]) | (owner[1:] != owner[:-1]))[: len(parts)]
    head = np.flatnonzero(first)
    tail = np.append(head[1:], len(parts))[: len(head)] - 1
    low, high = host.calls.low[parts[head]], host.calls.high[parts[tail]]
    own = stretch[head]
    pieces = np.bincount(own, minlength=len(path))
    source = np.repeat(np.arange(len(path)), np.maximum(pieces, 1))
    whole, numbers = path.taken(source), np.full(len(source), -1, np.int64)
    at, by_stretch = np.flatnonzero(pieces[source]), np.argsort(own, kind="stable")
    whole.start[at] = (path.start[own] + low - path.low[own])[by_stretch]
    whole.end[at] = whole.start[at] + (high - low)[by_stretch]
    whole.item[at], whole.low[at] = host.calls.item[parts[head]][by_stretch], low[by_stretch]
    numbers[at] = owner[head][by_stretch]
    return whole, numbers


_Found = tuple[I64, Owner]
"""Stretches, and their owner without its time and gain."""


def _owner(kind: int, doing: Doing, name: str, where: CodeLine | None = None, **others: object) -> Owner:
    row = Owner(KINDS[kind], doing, name, where, -1, -2, 0, 0, np.zeros(0, np.int64))
    return replace(row, **others)


def _device_owners(replay: Replay, path: Path, types_of: TypesOf) -> list[_Found]:
    """Kernels and copies by type, transfers by group and type, lateness by rank, latencies and gaps by stream."""
    model = replay.model
    trace, tasks = model.trace, model.tasks
    found: list[_Found] = []
    run = np.flatnonzero(np.isin(path.kind, (COMPUTE, COPY, TRANSFER)))
    types, code = types_of(tasks.item)
    group = np.where(tasks.kind == COLLECTIVE, trace.slices.lane[tasks.item].astype(np.int64), -1)
    kind = np.where(tasks.kind == COLLECTIVE, TRANSFER, np.where(model.copies, COPY, COMPUTE))
    collective = set(np.unique(code[tasks.kind == COLLECTIVE]).tolist())
    names = [collective_type(name) if at in collective else name for at, name in enumerate(types)]
    same = np.array([names.index(name) for name in names], np.int64)
    # Of a task: what it does, the name of its type and, of a collective, its group.
    _, key = distinct(((group + 1) * (len(names) + 1) + same[code]) * len(KINDS) + kind)
    task = replay.task_of.of(path.item[run])
    told, lines = _launching_lines(trace, path.item[run], tasks.lane[task], tasks.launched[task])
    for number in np.unique(key[task]).tolist():
        mine = np.flatnonzero(key[task] == number)
        first = int(task[mine[0]])
        of_type = tasks.item[key == number]
        name = names[code[first]]
        change = None if kind[first] == COMPUTE else Change(tasks=(TaskCut(of_type),))
        if group[first] >= 0:
            name = f"{name} ({trace.lanes[group[first]].name})"
        stretches = run[mine]
        where = _largest_line(told[mine], lines, path.end[stretches] - path.start[stretches])
        words = {"items": path.item[stretches], "change": change}
        found.append((stretches, _owner(int(kind[first]), "device", name, where, **words)))
    late = np.flatnonzero(path.kind == LATE_RANK)
    for peer in np.unique(path.peer[late]).tolist():
        stretches = late[path.peer[late] == peer]
        late_change = Change(in_time=frozenset({peer})) if peer in replay.late else None
        items = once_each(path.item[stretches])
        found.append((stretches, _owner(LATE_RANK, "device", "", peer=peer, items=items, change=late_change)))
    for what in (DEVICE_GAP, UNEXPLAINED):
        stretches = np.flatnonzero(path.kind == what)
        item = path.item[stretches]
        on = np.where(item >= 0, trace.slices.lane[item], -1)
        for lane in np.unique(on).tolist():
            mine = stretches[on == lane]
            name = trace.lanes[lane].name if lane >= 0 else ""
            items = once_each(item[(on == lane) & (item >= 0)])
            starts = Change(tasks=(TaskCut(items, gap=True),)) if what == DEVICE_GAP else None
            found.append((mine, _owner(what, "device", name, items=items, change=starts)))
    latencies = np.flatnonzero(path.kind == LATENCY)
    latencies = latencies[~among(path.item[latencies], waits_of(trace))]
    if len(latencies):
        found.append((latencies, _owner(LATENCY, "device", "", items=once_each(path.item[latencies]))))
    return found


def _launching_lines(trace: Trace, kernels: I64, lane: I64, launched: I64) -> tuple[I64, list[CodeLine]]:
    """The line of the user that launched each of ``kernels``, from host ``lane`` at ``launched``: a code, -1 without.

    (n,); the codes are those of the lines that follow.
    """
    operation = operation_of(trace, kernels)
    # No link leads from an operation to a copy that it waits for: it is the one around the call.
    alone = np.flatnonzero((operation < 0) & (lane >= 0) & (launched >= 0))
    operation[alone] = operations_around(trace, lane[alone], launched[alone])
    stack = np.full(len(kernels), -1, np.int64)
    known = np.flatnonzero(operation >= 0)
    stack[known] = stack_of(trace, operation[known])
    return lines_of_stacks(trace, stack)


def operations_around(trace: Trace, lane: I64, time: I64) -> I64:
    """The innermost operation of the framework around each moment of a thread, one of whose lanes is given; -1: none.

    (n,) each, ns.
    """
    python = {trace.lanes[at].tid: at for layer in trace.layers if layer.kind == "python" for at in layer.lanes}
    around = np.array([python.get(each.tid, -1) for each in trace.lanes] + [-1], np.int32)
    return _framework_operations(trace).find(around[lane], time, time)


@of_trace
def _framework_operations(trace: Trace) -> Around:
    """The operations of the framework."""
    known = "cpu_op" in trace.categories
    code = trace.categories.index("cpu_op") if known else len(trace.categories)
    return Around(trace, np.asarray(trace.slices.category == code))


def _largest_line(codes: I64, lines: list[CodeLine], time: I64) -> CodeLine | None:
    """The line of the ``codes`` that holds most of the ``time`` (ns); None where none does."""
    sums = np.bincount(codes + 1, time, len(lines) + 1)
    most = int(np.argmax(sums))
    return lines[most - 1] if most > 0 and sums[most] > HALF * int(time.sum()) else None
