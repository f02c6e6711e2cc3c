"""Parses what-if questions, such as ``kernel MatMul x0.5`` or ``no .item()``, into changes of the replay."""

from __future__ import annotations

import re

import numpy as np
from msgspec import Struct

from npu_tui.analysis.code_lines import stack_of, user_lines
from npu_tui.analysis.communication import lane_and_place
from npu_tui.analysis.device import named_on
from npu_tui.analysis.launches import dequeue_slices, enqueue_slices
from npu_tui.analysis.operators import TypesOf
from npu_tui.analysis.replay import Change, HostCut, TaskCut
from npu_tui.analysis.replay_device import COLLECTIVE, KERNEL
from npu_tui.analysis.replay_host import thread_numbers, waits_of
from npu_tui.analysis.replay_model import Model
from npu_tui.trace.arrays import I64
from npu_tui.trace.intervals import inside, union
from npu_tui.trace.message import SaidError, message
from npu_tui.trace.model import Trace

_FACTOR = r"\s+[x×*]\s*(?P<factor>\d{1,6}(?:\.\d{1,6})?)"
_LINE = re.compile(rf"line\s+(?P<file>\S+):(?P<line>\d{{1,9}}){_FACTOR}", re.IGNORECASE)
_KERNEL = re.compile(rf"(?:kernel|collective|copy)\s+(?P<name>\S+){_FACTOR}", re.IGNORECASE)
_OPERATION = re.compile(rf"(?:op|operation)\s+(?P<name>\S+){_FACTOR}", re.IGNORECASE)
_RANK = re.compile(r"rank\s+(?P<rank>\d{1,9})(?:\s+of\s+(?P<group>.+))?\s+in\s+time", re.IGNORECASE)
_PEERS = re.compile(r"(?:all\s+)?(?:ranks|peers)\s+in\s+time", re.IGNORECASE)
_NO = re.compile(r"no\s+\.?(?P<name>[\w:]+)(?:\(\))?", re.IGNORECASE)
_WAITS = frozenset({"sync", "syncs", "wait", "waits", "synchronize"})


class UnknownChangeError(SaidError):
    """A text that is not a change, or fits nothing in the run; ``message`` says which."""


class Question(Struct, frozen=True):
    """A question: its ``text``, the ``change`` it means, and how many slices of the trace (or ranks) match."""

    text: str
    change: Change
    matches: int


def parse_question(model: Model, text: str, types_of: TypesOf) -> Question:
    """The question in ``text``. Raises ``UnknownChangeError`` if it is not a change or nothing in the run matches.

    ``line FILE:LINE xF``, ``kernel NAME xF``, ``op NAME xF``, ``rank N in time``, ``rank N of GROUP in time``,
    ``ranks in time``, ``no .item()``, ``no sync``; F is the factor of the time, 0 removes it. ``types_of`` gives the
    operator types of slices.
    """
    words = " ".join(text.split())
    if match := _LINE.fullmatch(words):
        change, matches = _line_change(model, match["file"], int(match["line"]), float(match["factor"]))
    elif match := _KERNEL.fullmatch(words):
        items = _kernels(model, match["name"], types_of)
        change, matches = Change(tasks=(TaskCut(items, float(match["factor"])),)), len(items)
    elif match := _OPERATION.fullmatch(words):
        change, matches = _operation_change(model, match["name"], float(match["factor"]))
    elif match := _RANK.fullmatch(words):
        peers = _peers(model, int(match["rank"]), match["group"])
        seen = model.meetings.seen
        change, matches = Change(in_time=peers), len(np.unique(seen.owner[seen.of(peers)]))
    elif _PEERS.fullmatch(words):
        ranks = frozenset(np.unique(model.meetings.late.rank).tolist())
        change, matches = Change(in_time=ranks), len(ranks)
    elif match := _NO.fullmatch(words):
        change, matches = _removal(model, match["name"])
    else:
        raise UnknownChangeError(message("whatif.unknown", text=text))
    if not matches:
        raise UnknownChangeError(message("whatif.nothing", text=text))
    return Question(words, change, matches)


def _python_operations(trace: Trace) -> I64:
    """The operations of the framework, without steps."""
    if "cpu_op" not in trace.categories:
        return np.zeros(0, np.int64)
    operations = np.flatnonzero(trace.slices.category == trace.categories.index("cpu_op"))
    steps = np.array([name.startswith("ProfilerStep#") for name in trace.names] + [False])
    result: I64 = operations[~steps[trace.slices.name[operations]]]
    return result


def _cuts(trace: Trace, thread: I64, start: I64, end: I64, keep: float) -> tuple[HostCut, ...]:
    """Cuts of the time ranges ``[start, end)`` on the threads with the numbers ``thread``; (n,) each."""
    tids, _ = thread_numbers(trace)
    return tuple(
        HostCut(int(tids[number]), union(start[thread == number], end[thread == number]), keep)
        for number in np.unique(thread).tolist()
        if number >= 0
    )


def _queued(trace: Trace, thread: I64, start: I64, end: I64) -> tuple[I64, I64]:
    """The Dequeue slices of what the threads enqueued in their ``[start, end)``, and the thread number of each."""
    slices = trace.slices
    _, number = thread_numbers(trace)
    entered = _begun_within(trace, enqueue_slices(trace), thread, start, end)
    dequeues = dequeue_slices(trace)
    queued = dequeues[np.isin(slices.correlation[dequeues], slices.correlation[entered])]
    return queued, number[slices.lane[queued]]


def _begun_within(trace: Trace, items: I64, thread: I64, start: I64, end: I64) -> I64:
    """Those of the slices ``items`` that the threads begin in their ``[start, end)``."""
    _, number = thread_numbers(trace)
    on, begin = number[trace.slices.lane[items]], trace.slices.start[items]
    begun = np.zeros(len(items), np.bool_)
    for there in np.unique(thread).tolist():
        of_thread = thread == there
        begun |= (on == there) & inside(*union(start[of_thread], end[of_thread]), begin)
    return items[begun]


def host_without(trace: Trace, thread: I64, start: I64, end: I64, keep: float) -> Change:
    """The change that scales the work of the threads with such numbers in ``[start, end)``, and what the queue does.

    With ``keep`` 0 the waits for the device in these ranges go too.
    """
    queued, queue = _queued(trace, thread, start, end)
    slices = trace.slices
    host = _cuts(trace, thread, start, end, keep) + _cuts(trace, queue, slices.start[queued], slices.end[queued], keep)
    waits = () if keep else _begun_within(trace, waits_of(trace), thread, start, end).tolist()
    return Change(host=host, waits=frozenset(waits))


def _line_change(model: Model, file: str, line: int, keep: float) -> tuple[Change, int]:
    """The change that scales the operations of a code line, and their number.

    Each operation takes along the Python code before it, back to the end of the operation before on its thread.
    """
    trace = model.trace
    slices = trace.slices
    operations = _python_operations(trace)
    stack = stack_of(trace, operations)
    wanted = [
        number
        for number in np.unique(stack).tolist()
        if number >= 0
        and any(frame.line == line and _is_file(frame.file, file) for frame in user_lines(trace.stacks[number]))
    ]
    on_line = np.isin(stack, wanted)
    _, number = thread_numbers(trace)
    if not on_line.any():
        return _frames(trace, file, line, keep)
    thread = number[slices.lane[operations]]
    order = np.lexsort((slices.start[operations], thread))
    ends = np.zeros(len(operations), np.int64)
    # The Python code before an operation belongs to it, back to the end of what its thread did before.
    for number_of_thread in np.unique(thread).tolist():
        of_thread = order[thread[order] == number_of_thread]
        reach = np.maximum.accumulate(slices.end[operations[of_thread]])
        ends[of_thread] = np.minimum(np.append(0, reach[:-1]), slices.start[operations[of_thread]])
    start = np.where(ends[on_line] > 0, ends[on_line], slices.start[operations[on_line]])
    return host_without(trace, thread[on_line], start, slices.end[operations[on_line]], keep), int(on_line.sum())


def _peers(model: Model, place: int, group: str | None) -> frozenset[int]:
    """The peers called ``place``: in the groups whose lane begins with ``group``, in all of them without it."""
    peers = set()
    for peer in np.unique(model.meetings.seen.rank).tolist():
        lane, own_place = lane_and_place(peer)
        in_group = group is None or (lane >= 0 and model.trace.lanes[lane].name.lower().startswith(group.lower()))
        if own_place == place and in_group:
            peers.add(peer)
    return frozenset(peers)


def _frames(trace: Trace, file: str, line: int, keep: float) -> tuple[Change, int]:
    """The change that scales the frames of Python of a line, which is that of their ``def``, and their number."""

    def is_on_line(name: str) -> bool:
        return any(frame.line == line and _is_file(frame.file, file) for frame in user_lines(name))

    items = named_on(trace, ("python", "other"), is_on_line)
    _, number = thread_numbers(trace)
    slices = trace.slices
    return host_without(trace, number[slices.lane[items]], slices.start[items], slices.end[items], keep), len(items)


def _is_file(path: str, wanted: str) -> bool:
    """Whether ``path`` is ``wanted`` or ends with it, in complete parts: ``a/train.py`` ends with ``train.py``."""
    path, wanted = path.replace("\\", "/"), wanted.replace("\\", "/")
    return path == wanted or path.endswith("/" + wanted.lstrip("./"))


def _kernels(model: Model, name: str, types_of: TypesOf) -> I64:
    """The kernels, copies and collectives of the type ``name``; without any, those with it in their name."""
    trace, tasks = model.trace, model.tasks
    items = tasks.item[np.isin(tasks.kind, (KERNEL, COLLECTIVE))]
    types, code = types_of(items)
    same = [number for number, text in enumerate(types) if text.lower() == name.lower()]
    of_type = items[np.isin(code, same)]
    if len(of_type):
        return of_type
    holds = np.array([name.lower() in text.lower() for text in trace.names] + [False])
    chosen = holds[trace.slices.name[items]]
    return np.compress(chosen, items)


def _operation_change(model: Model, name: str, keep: float) -> tuple[Change, int]:
    """The change that scales the operations ``name`` (``aten::add`` or ``add``), and their number."""
    trace = model.trace
    named = np.array([text == name or text.rpartition("::")[2] == name for text in trace.names] + [False])
    items = _python_operations(trace)
    items = items[named[trace.slices.name[items]]]
    _, number = thread_numbers(trace)
    thread = number[trace.slices.lane[items]]
    return host_without(trace, thread, trace.slices.start[items], trace.slices.end[items], keep), len(items)


def _removal(model: Model, name: str) -> tuple[Change, int]:
    """The change without host waits (``sync``), without the operations ``name``, or without such blocking calls."""
    if name.lower() in _WAITS:
        waits = waits_of(model.trace)
        return Change(waits=frozenset(waits.tolist())), len(waits)
    # ``x.cpu()`` and ``x.tolist()`` are recorded under the names of the operations that do the work.
    wanted = {"cpu": "_to_copy", "tolist": "item"}.get(name, name)
    change, matches = _operation_change(model, wanted, 0.0)
    if matches:
        return change, matches
    called = np.array([text.rpartition("@")[2] == name for text in model.trace.names] + [False])
    waits = waits_of(model.trace)
    waits = waits[called[model.trace.slices.name[waits]]]
    return Change(waits=frozenset(waits.tolist())), len(waits)
