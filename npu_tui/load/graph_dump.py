"""The dump of a captured ACLGraph: which stream waits for which, as links from each record of an event to its waits.

It is written to debug a graph, and no profile: processes called ``<pid> aclGraph`` with a thread a stream,
tasks in their order with times of 10 us each, ``EVENT_RECORD_<id>`` and ``EVENT_WAIT_<id>`` among them, and no link.
"""

from __future__ import annotations

import re
from collections import defaultdict

import numpy as np

from npu_tui.trace.message import message
from npu_tui.trace.model import EVENTS, Trace

_PROCESS = re.compile(r"(?:\d+ )?aclGraph", re.IGNORECASE)
_TASK = re.compile(r"EVENT_(RECORD|WAIT)_(\d+)")


def is_graph(process: str) -> bool:
    """Whether a ``process`` is a dumped graph, by its name."""
    return _PROCESS.fullmatch(process) is not None


def link_events(trace: Trace) -> None:
    """Add the links of a ``trace`` that has dumped graphs, and say in its health what they are.

    A wait belongs to the only record of its event in the graph, of several to the one with its number in the order of
    time, where there are as many waits.
    """
    graphs = {layer.index for layer in trace.layers if is_graph(layer.name)}
    if not graphs:
        return
    tasks = {code: match for code, name in enumerate(trace.names) if (match := _TASK.fullmatch(name)) is not None}
    slices, layer_of = trace.slices, [lane.layer for lane in trace.lanes]
    ends: dict[tuple[int, str], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    items = np.flatnonzero(np.isin(slices.name, list(tasks)))
    for item in items[np.argsort(slices.start[items], kind="stable")].tolist():
        layer, match = layer_of[int(slices.lane[item])], tasks[int(slices.name[item])]
        if layer in graphs:
            ends[layer, match[2]][match[1] == "WAIT"].append(item)
    pairs = []
    waiting = 0
    for records, waits in ends.values():
        waiting += len(waits)
        if len(records) == 1:
            pairs += [(records[0], wait) for wait in waits]
        elif len(records) == len(waits):
            pairs += zip(records, waits, strict=True)
    source, target = np.array(pairs, np.int64).reshape(-1, 2).T
    if len(source):
        trace.add_links(EVENTS, source, target, source)
    trace.health.warnings.append(message("odd.graph_dump", linked=len(source), waits=waiting))
