"""When a server has nothing to do: the thread that launches waits for a request, or its engine is not called."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from npu_tui.analysis.device import named_in
from npu_tui.analysis.steps import Step
from npu_tui.trace.intervals import union
from npu_tui.trace.model import Trace

_WAITS = re.compile(
    r"<(?:method|built-in (?:method|function)) '?(?:poll|select|select\.select|epoll|kqueue|control|accept|recv\w*)\b"
    r"|<method 'get' of '_queue\.SimpleQueue'"
    r"|selectors\.py\(\d+\): select|socket\.py\(\d+\): (?:accept|readinto)|queues?\.py\(\d+\): _?get\b"
    r"|connection\.py\(\d+\): (?:wait|_?poll|_?recv\w*)|zmq/\S+\(\d+\): (?:poll|recv\w*)"
    r"|shm_broadcast\.py\(\d+\): (?:acquire_read|dequeue)"
)
"""Frames of Python that wait for input: a socket, a queue, a pipe, an event loop with nothing to do."""
_OF_DATA = re.compile(r"dataloader|torch/utils/data", re.IGNORECASE)
"""Frames below which such waits are for a batch."""
_FAR_LONGER = 10
"""Pauses of a server without requests exceed the usual one between two steps so many times."""


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
    trace: Trace, steps: Sequence[Step], least: float, calls: Callable[[int, int], bool]
) -> list[tuple[int, int]]:
    """Pauses between ``steps`` of an engine in which it may have no request: start and end (the clock of the host).

    They are far longer than usual and ``least`` ns at least. A prefill follows on other work: a request that is being
    served would go on; beside a dummy batch there is none. Nothing runs meanwhile, by ``calls`` of a time.
    """
    called = [step for step in steps if step.engine is not None and step.item >= 0]
    items = np.array([step.item for step in called], np.int64)
    start, end = trace.slices.start[items], trace.slices.end[items]
    if len(items) < 2:
        return []
    gaps = start[1:] - np.maximum.accumulate(end)[:-1]
    long = np.flatnonzero(gaps >= max(least, _FAR_LONGER * float(np.median(gaps))))
    pauses = []
    for k in long.tolist():
        before, after = called[k].engine, called[k + 1].engine
        low, high = int(start[k + 1] - gaps[k]), int(start[k + 1])
        kinds = [] if before is None or after is None else [before.kind, after.kind]
        new = "dummy" in kinds or (kinds[1:] == ["prefill"] and kinds[0] != "prefill")
        if new and not calls(low, high):
            pauses.append((low, high))
    return pauses
