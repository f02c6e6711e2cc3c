"""The lanes of a trace without a device: how long each works and waits, and what the longest chain runs on.

The simulator of ``msprof op`` writes a layer for each core and a lane for each pipe, with links from the flag that a
pipe sets to the instruction that another one begins with it (https://gitcode.com/Ascend/msopprof, ``docs/en/user_guide/
msopprof_simulator_performance_data.md``). Swimlanes of PTO have a lane for each core, and links from a task to those
that need it (https://github.com/hw-native-sys/simpler, ``docs/dfx/chip-swimlane-profiling.md``).
"""

from __future__ import annotations

import re

import numpy as np
from msgspec import Struct

from npu_tui.trace.arrays import I64, Bools
from npu_tui.trace.intervals import covered, difference
from npu_tui.trace.model import Trace
from npu_tui.trace.once import of_trace

_CORE = re.compile(r"core\d+\.(?:vec|cube)core\d+")
_SWIMLANES = frozenset({"AICore View", "Machine View", "Worker View"})
_SWIMLANE = re.compile(r"AI[CV]_\d+")
_WAIT = re.compile(r"wait_(?:flag|event)\w*", re.IGNORECASE)
"""A pipe stands in it until another one has set a flag."""


class LaneTimes(Struct, frozen=True):
    """The lanes ``lane`` with slices, in their order, times in ns; (n,) each.

    A lane works ``busy`` of the ``span`` of its layer, and ``wait`` is what else it stands in instructions that wait.
    ``chained`` is its time in the longest chain, of which ``between`` is in no slice; 0 where there is no chain.
    """

    lane: I64
    slices: I64
    busy: I64
    wait: I64
    span: I64
    chained: I64
    between: int


def core_lanes(trace: Trace) -> tuple[I64, bool]:
    """The lanes that are pipes of cores, or cores (then True); none of a trace of anything else."""
    layers = [layer.name for layer in trace.layers]
    pipes = [lane.index for lane in trace.lanes if lane.last > lane.first and _CORE.fullmatch(layers[lane.layer])]
    if pipes:
        return np.array(pipes, np.int64), False
    lanes = [lane for lane in trace.lanes if lane.last > lane.first and layers[lane.layer] in _SWIMLANES]
    return np.array([lane.index for lane in lanes if _SWIMLANE.fullmatch(lane.name)], np.int64), True


@of_trace
def lane_times(trace: Trace) -> LaneTimes:
    """The times of all lanes with slices; the chain is that of pipes or cores, and is not looked for elsewhere."""
    slices, lanes = trace.slices, [lane for lane in trace.lanes if lane.last > lane.first]
    waits = np.array([_WAIT.fullmatch(name) is not None for name in trace.names] + [False])[slices.name]
    begin: dict[int, int] = {}
    end: dict[int, int] = {}
    for lane in lanes:
        own = slice(lane.first, lane.last)
        begin[lane.layer] = min(begin.get(lane.layer, int(slices.start[lane.first])), int(slices.start[lane.first]))
        end[lane.layer] = max(end.get(lane.layer, 0), int(slices.end[own].max()))
    busy, wait = [], []
    for lane in lanes:
        start, stop, waiting = (column[lane.first : lane.last] for column in (slices.start, slices.end, waits))
        works = start[~waiting], stop[~waiting]
        busy.append(covered(*works))
        wait.append(covered(*difference(start[waiting], stop[waiting], *works)))
    index = np.array([lane.index for lane in lanes], np.int64)
    chained = np.zeros(len(trace.lanes), np.int64)
    between = _chain(trace, ~waits & np.isin(slices.lane, core_lanes(trace)[0]), chained)
    counts = np.array([lane.last - lane.first for lane in lanes], np.int64)
    spans = np.array([end[lane.layer] - begin[lane.layer] for lane in lanes], np.int64)
    return LaneTimes(index, counts, np.array(busy, np.int64), np.array(wait, np.int64), spans, chained[index], between)


def _chain(trace: Trace, works: Bools, chained: I64) -> int:
    """Add the time of the longest chain of slices that ``work`` to their lanes; what lies between them, ns.

    It ends with what ends last. Before a slice comes what ended last of the slice before it in its lane and of those
    that links lead from: to the slice itself, or to a wait in its lane since the slice before.
    """
    slices, links = trace.slices, trace.links
    item = np.flatnonzero(works)
    if not len(item) or not len(links):
        return 0
    bound = np.flatnonzero((links.source_slice >= 0) & (links.target_lane >= 0))
    bound = bound[np.lexsort((links.target_time[bound], links.target_lane[bound]))]
    lane_of, time_of = links.target_lane[bound], links.target_time[bound]
    at = int(item[np.argmax(slices.end[item])])
    edge, between = int(slices.end[at]), 0
    while True:
        lane, start = int(slices.lane[at]), int(slices.start[at])
        chained[lane] += max(edge - start, 0)
        edge = min(edge, start)
        place = int(np.searchsorted(item, at))
        own = [int(item[place - 1])] if place and slices.lane[item[place - 1]] == lane else []
        low, high = np.searchsorted(lane_of, (lane, lane + 1))
        since = int(slices.start[own[0]]) + 1 if own else int(slices.start[trace.lanes[lane].first])
        # Links to waits in its lane since the slice before count as well: a wait has no work of its own.
        first, last = (low + np.searchsorted(time_of[low:high], time) for time in (since, start + 1))
        linked = links.source_slice[bound[first:last]]
        before = [*own, *linked[works[linked] & (slices.start[linked] < start)].tolist()]
        if not before:
            return between
        # What ends after the slice began ran beside it: it counts up to there only.
        at = max(before, key=lambda k: min(int(slices.end[k]), start))
        between += max(edge - int(slices.end[at]), 0)
        edge = min(edge, int(slices.end[at]))
