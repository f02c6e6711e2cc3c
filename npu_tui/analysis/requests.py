"""When a server has nothing to do: the thread that launches waits for a request, or its engine is not called."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import numpy as np

from npu_tui.analysis.device import named_in
from npu_tui.trace.arrays import I64, Bools
from npu_tui.trace.intervals import union
from npu_tui.trace.model import Trace

# Frames of Python that wait for input: a socket, a queue, a pipe, an event loop with nothing to do.
_WAITS = re.compile(
    r"<(?:method|built-in (?:method|function)) '?(?:poll|select|select\.select|epoll|kqueue|control|accept|recv\w*)\b"
    r"|<method 'get' of '_queue\.SimpleQueue'"
    r"|selectors\.py\(\d+\): select|socket\.py\(\d+\): (?:accept|readinto)|queues?\.py\(\d+\): _?get\b"
    r"|connection\.py\(\d+\): (?:wait|_?poll|_?recv\w*)|zmq/\S+\(\d+\): (?:poll|recv\w*)"
    r"|shm_broadcast\.py\(\d+\): (?:acquire_read|dequeue)"
)
_OF_DATA = re.compile(r"dataloader|torch/utils/data", re.IGNORECASE)  # frames below which such waits are for a batch
_FAR_LONGER = 10  # pauses of a server without requests exceed the usual one between two steps so many times


def request_waits(trace: Trace, threads: Iterable[int], least: float) -> list[tuple[int, int, int]]:
    """Waits for a request on ``threads``, ``least`` ns or longer: start, end (the clock of the host) and slice."""
    wanted = set(threads)
    lanes = [lane for lane in trace.lanes if lane.tid in wanted]
    slices = trace.slices
    items = named_in(trace, lanes, lambda name: _WAITS.search(name) is not None)
    items = items[slices.end[items] - slices.start[items] >= least]
    if not len(items):
        return []
    data = named_in(trace, lanes, lambda name: _OF_DATA.search(name) is not None)
    below = union(slices.start[data], slices.end[data])
    # The innermost frame says what is waited for; those around it are as long.
    items = items[np.lexsort((slices.end[items], -slices.start[items]))]
    waits: list[tuple[int, int, int]] = []
    for item in items.tolist():
        start, end = int(slices.start[item]), int(slices.end[item])
        if waits and end > waits[-1][0]:
            continue
        at = int(np.searchsorted(below[0], start, "right")) - 1
        if at < 0 or below[1][at] < end:
            waits.append((start, end, item))
    return waits[::-1]


def request_pauses(
    start: I64, end: I64, begins: Bools, least: float, calls: Callable[[int, int], bool]
) -> list[tuple[int, int]]:
    """Pauses between steps of an engine, by ``start`` and ``end``, in which it may have no request; the times of each.

    They are far longer than usual and ``least`` ns at least. Nothing runs meanwhile, by ``calls`` of a time, and the
    step behind ``begins`` with a new request.
    """
    if len(start) < 2:
        return []
    gaps = start[1:] - np.maximum.accumulate(end)[:-1]
    long = np.flatnonzero(begins[1:] & (gaps >= max(least, _FAR_LONGER * float(np.median(gaps)))))
    pauses = [(int(start[k + 1] - gaps[k]), int(start[k + 1])) for k in long.tolist()]
    return [pause for pause in pauses if not calls(*pause)]


def begin_anew(kinds: Sequence[str | None]) -> Bools:
    """Which steps of these ``kinds`` begin with a new request; (n,).

    A prefill follows on other work: a request that is being served would go on; beside a dummy batch there is none.
    """
    pairs = pairwise((None, *kinds))
    return np.array(
        [None not in pair and ("dummy" in pair or (pair[1] == "prefill" and pair[0] != "prefill")) for pair in pairs],
        np.bool_,
    )
