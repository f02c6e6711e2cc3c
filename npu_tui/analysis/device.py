"""What keeps a device busy: windows of time, masks of compute, collectives and copies; slices by name; times of lanes.

In a trace without a device: how long each lane works and waits, and what the longest chain runs on.

The simulator of ``msprof op`` writes a layer for each core and a lane for each pipe, with links from the flag that a
pipe sets to the instruction that another one begins with it (https://gitcode.com/Ascend/msopprof, ``docs/en/user_guide/
msopprof_simulator_performance_data.md``). Swimlanes of PTO have a lane for each core, and links from a task to those
that need it (https://github.com/hw-native-sys/simpler, ``docs/dfx/chip-swimlane-profiling.md``).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.analysis.limits import SHORT_NS
from npu_tui.trace.arrays import I64, Bools, BySlice
from npu_tui.trace.intervals import clipped, covered, difference
from npu_tui.trace.model import MOST_DEVICES, UNFINISHED, Lane, Layer, LayerKind, Trace, bulk_of
from npu_tui.trace.once import of_trace
from npu_tui.trace.recorder import launch_links, recorder_of
from npu_tui.trace.transfers import names_like


class Window(Struct, frozen=True):
    """The time ``[start, end)`` in ns, of a range or of a step.

    A range cuts slices at its edges. What starts in a step (``whole``) may last longer than its window, as in
    torch_npu's step_trace_time.csv, but not beyond ``until``, when the next step begins: there it is cut.
    """

    start: int
    end: int
    whole: bool = False
    until: int = 2**62

    def holds(self, time: I64) -> npt.NDArray[np.bool_]:
        """Which of ``time`` lie in the window; (n,)."""
        inside: npt.NDArray[np.bool_] = (time >= self.start) & (time < self.end)
        return inside

    def cut(self, start: I64, end: I64, begun: I64 | None = None) -> tuple[I64, I64]:
        """The intervals ``[start, end)`` as far as they belong to the window, empty where they do not; (n,).

        ``begun`` is when each began, where an interval is a part of a longer one.
        """
        if not self.whole:
            return clipped(start, end, self.start, self.end)
        low, high = clipped(start, end, self.start, self.until)
        begun = np.maximum(start if begun is None else begun, self.start)
        return low, np.where(begun < self.end, high, low)

    def length(self, start: I64, end: I64) -> int:
        """How much of the disjoint intervals ``[start, end)`` belongs to the window, ns."""
        low, high = self.cut(start, end)
        return int((high - low).sum())


EVERYTHING = Window(-(2**62), 2**62, whole=True)
"""The whole trace."""

_ON_AI_CPU = re.compile(r"AiCpu(?![a-z])")
"""Part of the names of AI CPU kernels; older writers record no task type for them."""


@dataclass(frozen=True, slots=True)
class DeviceSlices:
    """Masks over all slices of a trace for one device; (n,) each.

    ``busy`` is compute, collectives (of group lanes; without any the tasks of their streams) and copies. Event waits,
    event records and plane tasks are not. Nor are ``overruns``, kernels of an impossible length: those slices, (k,).
    """

    device: int | None
    compute: Bools
    collective: Bools
    copy: Bools
    overruns: I64 = field(default_factory=lambda: np.zeros(0, np.int64))
    busy: Bools = field(init=False)

    def __post_init__(self) -> None:
        busy = self.compute | self.collective
        busy |= self.copy
        object.__setattr__(self, "busy", busy)


def on_ai_cpu(trace: Trace, items: I64) -> Bools:
    """Which of the kernels ``items`` run on the AI CPU, by task type or name; (n,)."""
    of_type = names_like(trace.task_types, lambda kind: kind == "AI_CPU")
    named = names_like(trace.names, lambda name: "AiCpu" in name and _ON_AI_CPU.search(name) is not None)
    mask: Bools = of_type[trace.slices.task_type[items]] | named[trace.slices.name[items]]
    return mask


def device_slices(trace: Trace) -> list[DeviceSlices]:
    """One entry per device, by number, at most ``MOST_DEVICES``; the unknown device of older writers comes first."""
    layers: defaultdict[int | None, list[Layer]] = defaultdict(list)
    for layer in trace.layers:
        if layer.kind in ("hardware", "communication") and layer.lanes:
            layers[layer.device].append(layer)
    devices = sorted(layers, key=lambda device: -1 if device is None else device)
    work = recorder_of(trace).work
    found = (DeviceSlices(device, *work(trace, layers[device])) for device in devices[:MOST_DEVICES])
    return [_judged_slices(trace, device) for device in found]


def _judged_slices(trace: Trace, device: DeviceSlices) -> DeviceSlices:
    """``device`` without what a wrong clock puts far away, and without what never ended or cannot last so long."""
    bulk, overruns = bulk_of(trace), _overruns(trace, device.compute)
    if bulk is None and UNFINISHED not in trace.categories and not len(overruns):
        return device
    near = np.ones(len(trace.slices), np.bool_) if bulk is None else bulk.holds(trace.slices.start, trace.slices.end)
    if UNFINISHED in trace.categories:
        near = near & (trace.slices.category != trace.categories.index(UNFINISHED))
    near[overruns] = False
    return DeviceSlices(device.device, device.compute & near, device.collective & near, device.copy & near, overruns)


def _overruns(trace: Trace, compute: Bools) -> I64:
    """The kernels that end after the next one of their stream has ended, by far: a stream runs them one by one.

    Where the next one may begin before the end of the one before it, it waits for that, so that it ends later too.
    """
    slices, item = trace.slices, np.flatnonzero(compute)
    this, following = item[:-1], item[1:]
    beyond = slices.end[this] - slices.start[following]
    within = (slices.end[following] > slices.start[following]) & (slices.end[following] <= slices.end[this])
    found = np.flatnonzero(within & (slices.lane[this] == slices.lane[following]) & (beyond >= SHORT_NS))
    if not len(found):
        return found
    # A graph has branches, and all of its kernels have the stream of their one launch.
    link = launch_links(trace)
    launch = BySlice(trace.links.target_slice[link], trace.links.source_slice[link])
    launches, next_launches = launch.of(this[found]), launch.of(following[found])
    overruns: I64 = this[found[(launches < 0) | (launches != next_launches)]]
    return overruns


_FEW = 8  # a lookup table costs more than so many comparisons

HOST: tuple[LayerKind, ...] = ("python", "cann", "other")
"""The kinds of layers whose lanes are threads."""


def named_on(trace: Trace, kinds: tuple[LayerKind, ...], rule: Callable[[str], bool]) -> I64:
    """The slices on layers of ``kinds`` whose name passes ``rule``, ascending."""
    return named_in(trace, (lane for lane in trace.lanes if trace.layers[lane.layer].kind in kinds), rule)


def named_in(trace: Trace, lanes: Iterable[Lane], rule: Callable[[str], bool]) -> I64:
    """The slices in ``lanes`` whose name passes ``rule``, ascending."""
    names_in_lanes = _names_in_lanes(trace)
    wanted = np.zeros(len(trace.names) + 1, np.bool_)
    parts = [np.zeros(0, np.int64)]
    for lane in sorted(lanes, key=lambda lane: lane.first):
        codes = [code for code in names_in_lanes[lane.index] if rule(trace.names[code])]
        if not codes:
            continue
        name = trace.slices.name[lane.first : lane.last]
        if len(codes) <= _FEW:  # so few comparisons are faster than a lookup table
            chosen = name == codes[0]
            for code in codes[1:]:
                chosen |= name == code
        else:
            wanted[codes] = True
            chosen = wanted[name]
        parts.append(lane.first + np.flatnonzero(chosen))
    return np.concatenate(parts)


@of_trace
def _names_in_lanes(trace: Trace) -> list[list[int]]:
    """The codes of the names in each lane. They are few, so most searches skip most lanes."""
    codes = []
    for lane in trace.lanes:
        present = np.zeros(len(trace.names) + 1, np.bool_)
        present[trace.slices.name[lane.first : lane.last]] = True
        codes.append(np.flatnonzero(present[:-1]).tolist())
    return codes


_CORE = re.compile(r"core\d+\.(?:vec|cube)core\d+")
_SWIMLANES = frozenset({"AICore View", "Machine View", "Worker View"})
_SWIMLANE = re.compile(r"AI[CV]_\d+")
_WAIT = re.compile(r"wait_(?:flag|event)\w*", re.IGNORECASE)
"""A pipe stands in it until another one has set a flag."""


class LaneTimes(Struct, frozen=True):
    """The lanes ``lane`` with slices, in their order, times in ns; (n,) each.

    A lane works ``busy`` of the ``span`` of its layer, and ``wait`` is what else it stands in instructions that wait.
    ``chained`` is its time in the longest chain, and ``between`` the part of it in no slice; 0 where there is no chain.
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
    """The times of all lanes with slices; only pipes and cores (``core_lanes``) have a chain."""
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
    """Add the time in the longest chain of slices that are ``works`` to ``chained``; what lies between them, ns.

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
