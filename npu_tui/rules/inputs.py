"""What a profile gives the rules, and the slices and spans of time that evidence is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np
from msgspec import Struct

from npu_tui.analysis.calls import HostOperators
from npu_tui.analysis.collectives import Collectives, Preprocessing, Transfer
from npu_tui.analysis.cpu_time import CpuTime
from npu_tui.analysis.device import HOST, Window
from npu_tui.analysis.engine_steps import EngineSteps
from npu_tui.analysis.kernels import KernelTable
from npu_tui.analysis.launches import dequeue_slices, enqueue_of
from npu_tui.analysis.limits import Thresholds
from npu_tui.analysis.memory import MemoryUse
from npu_tui.analysis.operators import TypesOf
from npu_tui.analysis.overlap import DevicePart, Overlap
from npu_tui.analysis.replay import Replay
from npu_tui.analysis.steps import Step
from npu_tui.rules.model import Evidence
from npu_tui.trace import intervals
from npu_tui.trace.args import PlaneArgs, SizedCopies
from npu_tui.trace.arrays import F64, I64, Bools
from npu_tui.trace.classes import names_step
from npu_tui.trace.intervals import covered, difference, intersection, union
from npu_tui.trace.message import Message, Said
from npu_tui.trace.model import Lane, Trace
from npu_tui.trace.once import once
from npu_tui.trace.recorder import bound_launch_links
from npu_tui.trace.text import brief

Input = Literal[
    "device", "links", "overlap", "cann", "runtime", "python", "planes", "steps", "frequency", "kernel_details", "pmu",
    "metadata", "memory", "shapes", "peak", "l2_cache", "transfers", "preprocess", "ftrace",
]  # fmt: skip
"""What a rule may need of a profile: layers and events of the trace, counters, and companion files."""


class Setup(Struct, frozen=True, dict=True):
    """How the run was set up, by the files beside the trace: settings of the profiler, environment of the job.

    None or empty where a file is missing. ``settings`` are those of profiler_info_<rank>.json by name, ``ranks`` those
    whose profiles lie in the same folder, ``groups`` the ranks of the job in every group by its name, ``chip`` the name
    of the device in the profile. ``added`` is what the program wrote by ``add_metadata``.
    """

    settings: Mapping[str, object] = {}
    environment: Mapping[str, str] | None = None
    ranks: tuple[int, ...] = ()
    groups: Mapping[str, tuple[int, ...]] = {}
    chip: str | None = None
    added: Mapping[str, object] = {}


class Inputs(Struct, frozen=True):
    """What the facts of all devices of a profile, or of a part of it, are made from; times in ns.

    ``step`` is the number of the step that ``window`` is, ``steps`` are all of the trace. What takes a while is called
    where a rule needs it: args of the tasks of collectives (``planes``) and of copies between host and device, the
    collectives, the operations of the framework, and of the tables beside the trace kernels (kernel_details.csv),
    memory, what collectives moved (communication.json), the rows of data_preprocess.csv and the sums of
    step_trace_time.csv; all are of the whole trace. ``floor_of`` a device is its clock minus the host's, ``replay_of``
    the model of its run and its host, None where no launch leads to it. ``types_of`` gives the operator types of
    slices, ``cpu`` who had the CPU while devices waited for launches, or why that is unknown; None without a recording.
    ``engine`` gives the steps of an inference engine in figures.

    ``planes``, ``copies`` and ``collectives`` raise ``InputError`` if the file is gone.
    """

    trace: Trace
    window: Window
    step: int | None
    thresholds: Thresholds
    setup: Setup
    steps: Sequence[Step]
    planes: Callable[[], PlaneArgs]
    copies: Callable[[], SizedCopies]
    collectives: Callable[[], Collectives]
    hosts: Callable[[], HostOperators]
    all_kernels: Callable[[], KernelTable]
    memory: Callable[[], MemoryUse]
    transfers: Callable[[], Sequence[Transfer]]
    preprocessing: Callable[[], Sequence[Preprocessing]]
    table_sums: Callable[[], tuple[str, Overlap]]
    preparing: Callable[[], int]
    floor_of: Callable[[DevicePart], int]
    replay_of: Callable[[DevicePart], Replay | None]
    types_of: TypesOf
    communicated: Callable[[], Sequence[tuple[str, int, int, int]]] = tuple
    engine: Callable[[], EngineSteps] = EngineSteps
    cpu: Callable[[], CpuTime | Message | None] = lambda: None
    is_of_mindspore: bool = False


Span = tuple[I64, I64]
"""Starts and ends (ns) of intervals."""

NOTHING: Span = (np.zeros(0, np.int64), np.zeros(0, np.int64))


def length_of(span: Span) -> int:
    """How long ``span`` is, without counting anything twice, ns."""
    return covered(*span)


def without(span: Span, cut: Span) -> Span:
    """``span`` less ``cut``."""
    return difference(*span, *cut)


def common(span: Span, other: Span) -> Span:
    """What two spans share."""
    return intersection(*span, *other)


def together(*spans: Span) -> Span:
    """All of ``spans`` as one."""
    return union(np.concatenate([span[0] for span in spans]), np.concatenate([span[1] for span in spans]))


def inside(span: Span, time: I64) -> Bools:
    """Which of the times lie in a disjoint, ascending ``span``; (n,)."""
    return intervals.inside(*span, time)


def first_of_largest(values: I64 | F64, most: int) -> I64:
    """The positions of the ``most`` largest of ``values``, largest first; among equals the earlier one."""
    if len(values) > most > 0:
        large = np.flatnonzero(values >= np.partition(values, len(values) - most)[len(values) - most])
        return large[np.argsort(-values[large], kind="stable")[:most]]
    return np.argsort(-values, kind="stable")[:most]


MOST_PLACES = 10
"""Places that prove a finding: more are counted, not listed."""


def largest(span: Span, most: int = MOST_PLACES) -> list[tuple[int, int]]:
    """The longest intervals of a disjoint ``span``, in order of time."""
    start, end = span
    chosen = np.sort(first_of_largest(end - start, most))
    return list(zip(start[chosen].tolist(), end[chosen].tolist(), strict=True))


GARBAGE_COLLECTION = "GC"
"""The frame that torch_npu's profiler records for a collection (gc_detect_threshold)."""


class TraceSlices:
    """The slices of ``trace`` as the rules about ``device`` (its number, None for the only one) choose them."""

    def __init__(self, trace: Trace, device: int | None) -> None:
        self.trace = trace
        self._device = device

    @once
    def foreign(self) -> frozenset[int]:
        """Ids of the threads that work for another device."""
        return foreign_threads(self.trace, self._device)

    def host_calls(self, low: int, high: int, after: int) -> I64:
        """What the host begins in ``[low, high)`` of its clock and ends later than ``after``, by lane.

        Frames of Python and steps do not count.
        """
        slices, items = self.trace.slices, self._begun(self._host_lanes, low, high, after)
        name = slices.name[items]
        call = (slices.category[items] != self._frames) | self._collecting[name]
        calls: I64 = items[call & ~self._steps_named[name]]
        return calls

    def frames(self, low: int, high: int, after: int) -> I64:
        """The frames of Python that begin in ``[low, high)`` of the host's clock and end later than ``after``."""
        items = self._begun(self.trace.lanes, low, high, after)
        frames: I64 = items[self.trace.slices.category[items] == self._frames]
        return frames

    def _begun(self, lanes: Sequence[Lane], low: int, high: int, after: int) -> I64:
        slices = self.trace.slices
        begun_on = [np.zeros(0, np.int64)]
        for lane in lanes:
            begun = slices.start[lane.first : lane.last]
            first, last = (lane.first + int(begun.searchsorted(time)) for time in (low, high))
            if first < last:
                begun_on.append(first + np.flatnonzero(slices.end[first:last] > after))
        return np.concatenate(begun_on)

    @once
    def _host_lanes(self) -> list[Lane]:
        lanes = [lane for lane in self.trace.lanes if lane.tid not in self.foreign]
        return [lane for lane in lanes if self.trace.layers[lane.layer].kind in HOST]

    @once
    def _frames(self) -> int:
        """The category of frames of Python; with its entry for none if there are none."""
        categories = self.trace.categories
        return categories.index("python_function") if "python_function" in categories else len(categories)

    @property
    def _has_frames(self) -> bool:
        return self._frames < len(self.trace.categories)

    @once
    def _collecting(self) -> Bools:
        return self.names_where(GARBAGE_COLLECTION.__eq__)

    @once
    def _steps_named(self) -> Bools:
        return self.names_where(names_step)

    def names_where(self, rule: Callable[[str], bool]) -> Bools:
        """Which names of the trace fulfil ``rule``; the last entry, that of no name (-1), is False; (names + 1,).

        It is found once; ``rule`` depends on nothing but the name.
        """
        key = "names_where", getattr(rule, "__code__", rule)
        return self.trace.known.value(key, lambda: np.array([*map(rule, self.trace.names), False]))

    def length(self, items: I64) -> I64:
        """Durations of slices, ns."""
        return self.trace.slices.end[items] - self.trace.slices.start[items]

    def span_of(self, chosen: Bools | I64) -> Span:
        """The union of slices, given as a mask or by index."""
        return union(self.trace.slices.start[chosen], self.trace.slices.end[chosen])

    def outermost(self, items: I64) -> I64:
        """Those of ``items`` that lie in no other of them on the same lane."""
        slices = self.trace.slices
        if not len(items):
            return items
        # By lane, start and, the longest first, end: so all slices are sorted.
        least = int(items.min())
        chosen = np.zeros(int(items.max()) - least + 1, np.bool_)
        chosen[items - least] = True
        order = least + np.flatnonzero(chosen)
        # Lanes one after another on one axis: what reaches no farther than any before it on its lane lies inside.
        far = slices.end[order] + slices.lane[order].astype(np.int64) * (int(slices.end[order].max()) + 1)
        outer = np.ones(len(order), np.bool_)
        outer[1:] = far[1:] > np.maximum.accumulate(far)[:-1]
        outermost: I64 = order[outer]
        return outermost[np.argsort(slices.start[outermost], kind="stable")]

    def name_of(self, item: int, longest: int = 200) -> str:
        """The name of a slice, harmless and cut to ``longest`` characters."""
        return brief(self.trace.name_of(item), longest)

    def place(self, item: int, note: Said) -> Evidence:
        """A slice as evidence."""
        slices = self.trace.slices
        start, end, lane = int(slices.start[item]), int(slices.end[item]), int(slices.lane[item])
        return Evidence(start, end, lane, self.name_of(item), note, item)

    def longest(self, items: I64, note: Callable[[int], Said], most: int = MOST_PLACES) -> tuple[Evidence, ...]:
        """The longest of ``items`` as evidence, in order of time; ``note`` gives the words for a slice."""
        chosen = np.sort(items[first_of_largest(self.length(items), most)])
        chosen = chosen[np.argsort(self.trace.slices.start[chosen], kind="stable")]
        return tuple(self.place(item, note(item)) for item in chosen.tolist())


def foreign_threads(trace: Trace, device: int | None) -> frozenset[int]:
    """Ids of the threads that launch to other devices and never to ``device``, and of those that feed only them.

    A thread that launches nothing may work for any device, so it is never foreign.
    """
    layers = [layer for layer in trace.layers if layer.kind in ("hardware", "communication") and layer.lanes]
    if len({layer.device for layer in layers}) < 2:
        return frozenset()
    of_lane = np.full(len(trace.lanes) + 1, -1, np.int64)
    for layer in layers:
        of_lane[list(layer.lanes)] = 1 if layer.device == device else 0
    links, slices = trace.links, trace.slices
    tid = np.array([lane.tid for lane in trace.lanes] + [-1], np.int64)
    link = bound_launch_links(trace)
    link = link[links.source_slice[link] >= 0]
    reached = of_lane[slices.lane[links.target_slice[link]]]
    source = tid[slices.lane[links.source_slice[link]]]
    ours, others = set(source[reached == 1].tolist()), set(source[reached == 0].tolist())
    dequeues = dequeue_slices(trace)
    entered = enqueue_of(trace, dequeues)
    known = entered >= 0
    launching, feeding = tid[slices.lane[dequeues[known]]], tid[slices.lane[entered[known]]]
    ours |= set(feeding[np.isin(launching, list(ours))].tolist())
    others |= set(feeding[np.isin(launching, list(others))].tolist())
    return frozenset(others - ours)
