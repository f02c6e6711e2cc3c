"""What a user wants to see changed, as text: a line of code, a kernel, a late rank, a wait, and what that changes."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.analysis.code_lines import stack_of, user_lines
from npu_tui.analysis.launches import dequeue_slices, enqueue_slices
from npu_tui.analysis.operators import TypesOf
from npu_tui.analysis.replay import Change, HostCut, TaskCut
from npu_tui.analysis.replay_device import COLLECTIVE, KERNEL
from npu_tui.analysis.replay_host import thread_numbers, waits_of
from npu_tui.analysis.replay_model import Model
from npu_tui.trace.intervals import union
from npu_tui.trace.message import Message, message
from npu_tui.trace.model import Trace

I64 = npt.NDArray[np.int64]

_FACTOR = r"\s+[x×*]\s*(?P<factor>\d{1,6}(?:\.\d{1,6})?)"
_LINE = re.compile(rf"line\s+(?P<file>\S+):(?P<line>\d{{1,9}}){_FACTOR}", re.IGNORECASE)
_KERNEL = re.compile(rf"(?:kernel|collective|copy)\s+(?P<name>\S+){_FACTOR}", re.IGNORECASE)
_OPERATION = re.compile(rf"(?:op|operation)\s+(?P<name>\S+){_FACTOR}", re.IGNORECASE)
_RANK = re.compile(r"rank\s+(?P<rank>\d{1,9})\s+in\s+time", re.IGNORECASE)
_PEERS = re.compile(r"(?:all\s+)?(?:ranks|peers)\s+in\s+time", re.IGNORECASE)
_NO = re.compile(r"no\s+\.?(?P<name>[\w:]+)(?:\(\))?", re.IGNORECASE)
_WAITS = frozenset({"sync", "syncs", "wait", "waits", "synchronize"})


class UnknownChangeError(ValueError):
    """A text that asks for nothing that can be changed; ``said`` says why."""

    def __init__(self, said: Message) -> None:
        super().__init__(said.code)
        self.said = said


class Asked(Struct, frozen=True):
    """``text`` as it was typed, the ``change`` it stands for, and how many slices of the trace (or ranks) it meets."""

    text: str
    change: Change
    matches: int


def asked(model: Model, text: str, types_of: TypesOf) -> Asked:
    """What ``text`` asks for. Raises ``UnknownChangeError`` where it is no change, or nothing in the run fits it.

    ``line FILE:LINE xF``, ``kernel NAME xF``, ``op NAME xF``, ``rank N in time``, ``ranks in time``, ``no .item()``,
    ``no sync``; F is what is left of the time, 0 for nothing. ``types_of`` gives the operator types of slices.
    """
    words = " ".join(text.split())
    if match := _LINE.fullmatch(words):
        change, matches = _line(model, match["file"], int(match["line"]), float(match["factor"]))
    elif match := _KERNEL.fullmatch(words):
        items = _kernels(model, match["name"], types_of)
        change, matches = Change(tasks=(TaskCut(items, float(match["factor"])),)), len(items)
    elif match := _OPERATION.fullmatch(words):
        change, matches = _operations(model, match["name"], float(match["factor"]))
    elif match := _RANK.fullmatch(words):
        rank = int(match["rank"])
        change, matches = Change(in_time=frozenset((rank,))), sum(rank in each.peers for each in model.meetings)
    elif _PEERS.fullmatch(words):
        ranks = frozenset(rank for each in model.meetings for rank, _ in each.late)
        change, matches = Change(in_time=ranks), len(ranks)
    elif match := _NO.fullmatch(words):
        change, matches = _without(model, match["name"])
    else:
        raise UnknownChangeError(message("whatif.unknown", text=text))
    if not matches:
        raise UnknownChangeError(message("whatif.nothing", text=text))
    return Asked(words, change, matches)


def _python_operations(trace: Trace) -> I64:
    """The operations of the framework in threads of Python, without steps."""
    if "cpu_op" not in trace.categories:
        return np.zeros(0, np.int64)
    own = np.flatnonzero(trace.slices.category == trace.categories.index("cpu_op"))
    steps = np.array([name.startswith("ProfilerStep#") for name in trace.names] + [False])
    found: I64 = own[~steps[trace.slices.name[own]]]
    return found


def _cuts(trace: Trace, thread: I64, start: I64, end: I64, keep: float) -> tuple[HostCut, ...]:
    """Cuts of ``[start, end)`` on the thread with each number."""
    tids, _ = thread_numbers(trace)
    return tuple(
        HostCut(int(tids[own]), union(start[thread == own], end[thread == own]), keep)
        for own in np.unique(thread).tolist()
        if own >= 0
    )


def _queued(trace: Trace, thread: I64, start: I64, end: I64) -> tuple[I64, I64]:
    """The entries of the task queue that were put into it in ``[start, end)`` of the threads: their Dequeue slices."""
    slices = trace.slices
    _, number = thread_numbers(trace)
    enqueues = enqueue_slices(trace)
    inside = np.zeros(len(enqueues), np.bool_)
    for own in np.unique(thread).tolist():
        low, high = union(start[thread == own], end[thread == own])
        at = np.searchsorted(low, slices.start[enqueues], "right") - 1
        within = (at >= 0) & (slices.start[enqueues] < high[np.maximum(at, 0)]) if len(low) else inside
        inside |= within & (number[slices.lane[enqueues]] == own)
    dequeues = dequeue_slices(trace)
    found = dequeues[np.isin(slices.correlation[dequeues], slices.correlation[enqueues[inside]])]
    return found, number[slices.lane[found]]


def _of_host(trace: Trace, thread: I64, start: I64, end: I64, keep: float) -> Change:
    """The work of the host in ``[start, end)``, with what the task queue does for it; at 0 its waits go too."""
    found, queue = _queued(trace, thread, start, end)
    slices = trace.slices
    host = _cuts(trace, thread, start, end, keep) + _cuts(trace, queue, slices.start[found], slices.end[found], keep)
    waits: frozenset[int] = frozenset()
    if not keep:
        every = waits_of(trace)
        _, number = thread_numbers(trace)
        own = number[slices.lane[every]]
        inside = np.zeros(len(every), np.bool_)
        for each in np.unique(thread).tolist():
            low, high = union(start[thread == each], end[thread == each])
            at = np.searchsorted(low, slices.start[every], "right") - 1
            if len(low):
                inside |= (own == each) & (at >= 0) & (slices.start[every] < high[np.maximum(at, 0)])
        waits = frozenset(every[inside].tolist())
    return Change(host=host, waits=waits)


def _line(model: Model, file: str, line: int, keep: float) -> tuple[Change, int]:
    """The operations below a line of code, each with the Python in front of it since the operation before."""
    trace = model.trace
    slices = trace.slices
    operations = _python_operations(trace)
    stack = stack_of(trace, operations)
    wanted = [
        number
        for number in np.unique(stack).tolist()
        if number >= 0
        and any(each.line == line and _is_file(each.file, file) for each in user_lines(trace.stacks[number]))
    ]
    own = np.isin(stack, wanted)
    if not own.any():
        return Change(), 0
    _, number = thread_numbers(trace)
    thread = number[slices.lane[operations]]
    order = np.lexsort((slices.start[operations], thread))
    ends = np.zeros(len(operations), np.int64)
    for each in np.unique(thread).tolist():
        of_thread = order[thread[order] == each]
        reach = np.maximum.accumulate(slices.end[operations[of_thread]])
        ends[of_thread] = np.minimum(np.append(0, reach[:-1]), slices.start[operations[of_thread]])
    start = np.where(ends[own] > 0, ends[own], slices.start[operations[own]])
    return _of_host(trace, thread[own], start, slices.end[operations[own]], keep), int(own.sum())


def _is_file(path: str, wanted: str) -> bool:
    """Whether ``path`` is the file or ends with the parts of a path that ``wanted`` names."""
    path, wanted = path.replace("\\", "/"), wanted.replace("\\", "/")
    return path == wanted or path.endswith("/" + wanted.lstrip("./"))


def _kernels(model: Model, name: str, types_of: TypesOf) -> I64:
    """Kernels, copies and collectives of that type, else with that text in their name."""
    trace, tasks = model.trace, model.tasks
    items = tasks.item[np.isin(tasks.kind, (KERNEL, COLLECTIVE))]
    types, code = types_of(items)
    same = [number for number, each in enumerate(types) if each.lower() == name.lower()]
    found = items[np.isin(code, same)]
    if len(found):
        return found
    holds = np.array([name.lower() in each.lower() for each in trace.names] + [False])
    chosen = holds[trace.slices.name[items]]
    return np.compress(chosen, items)


def _operations(model: Model, name: str, keep: float) -> tuple[Change, int]:
    """The operations of that name, with or without the namespace in front of it."""
    trace = model.trace
    named = np.array([each == name or each.rpartition("::")[2] == name for each in trace.names] + [False])
    items = _python_operations(trace)
    items = items[named[trace.slices.name[items]]]
    _, number = thread_numbers(trace)
    thread = number[trace.slices.lane[items]]
    return _of_host(trace, thread, trace.slices.start[items], trace.slices.end[items], keep), len(items)


def _without(model: Model, name: str) -> tuple[Change, int]:
    """No wait of the host for the device, or no operation of that name at all."""
    if name.lower() in _WAITS:
        waits = waits_of(model.trace)
        return Change(waits=frozenset(waits.tolist())), len(waits)
    wanted = {"cpu": "_to_copy", "tolist": "item"}.get(name, name)
    change, matches = _operations(model, wanted, 0.0)
    if matches:
        return change, matches
    called = np.array([each.rpartition("@")[2] == name for each in model.trace.names] + [False])
    waits = waits_of(model.trace)
    waits = waits[called[model.trace.slices.name[waits]]]
    return Change(waits=frozenset(waits.tolist())), len(waits)
