"""The forward and backward passes of a stage of a pipeline, from the kernels of its rank and its messages.

A kernel is of the backward pass where its operation is (``fwdbwd`` links, threads of autograd). Without operations, as
in kernel_details.csv, the types tell: what has a twin with ``Grad`` is of the forward pass, and the twin of the other.
A pass ends where its message is sent, and begins where the message that it needs has come.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from npu_tui.analysis.kernels import KernelTable
from npu_tui.analysis.launches import operation_of
from npu_tui.analysis.limits import SOME
from npu_tui.analysis.ranges import PHASES, phases
from npu_tui.jobs.columns import I64, Bools, run_begins
from npu_tui.jobs.model import RankCalls, RankPasses, is_message, is_pair, is_receive, is_send
from npu_tui.profile.profile import Profile
from npu_tui.trace.model import FORWARD_BACKWARD, HOST_TO_DEVICE, Trace

_NEITHER, _FORWARD, _BACKWARD = 0, 1, 2
_GRAD = ("Grad", "Backward")


def passes_of(profile: Profile, calls: RankCalls, launched: I64 | None = None) -> RankPasses | None:
    """The passes of a rank that makes ``calls``; None where it sends and receives nothing, or no kernel tells.

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
        # Operations tell nothing of what runs without gradients, such as forward passes that are computed again later.
        for marks in (_by_operation(profile, table), _by_type(table, stretch, start, others)):
            some = np.flatnonzero(marks)
            if not len(some) or not (marks == _BACKWARD).any():
                continue
            first = run_begins(stretch[some], marks[some])
            begin, last = some[first], np.append(some[first[1:] - 1], some[-1])
            back = marks[begin] == _BACKWARD
            forward = int(np.argmin(back))
            layers = _layers(table.type.code[begin[forward] : last[forward] + 1])
            found.append(_between(start[begin], end[last], back, layers, come, calls.start, asked_at))
            if 2 * back.sum() == len(back):
                return found[-1]
    return found[0] if found else None


def launched_at(trace: Trace, items: I64) -> I64:
    """When the host launched each slice, ns of the trace; -1 where no link tells; (n,)."""
    launched = np.full(len(trace.slices) + 1, -1, np.int64)
    links = trace.bound_links_of(HOST_TO_DEVICE)
    launched[trace.links.target_slice[links]] = trace.links.source_time[links]
    return launched[items]


def _by_operation(profile: Profile, table: KernelTable) -> I64:
    """Which pass each kernel is of by the operation that launched it, (n,).

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


def _by_type(table: KernelTable, stretch: I64, start: I64, collectives: I64) -> I64:
    """Which pass each kernel is of by the types of those in its stretch between two messages, (n,).

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
    # What follows the last kernel that is told is of the pass, as far as after every pass.
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


def _between(start: I64, end: I64, backward: Bools, layers: int, come: I64, called: I64, asked: I64) -> RankPasses:
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
