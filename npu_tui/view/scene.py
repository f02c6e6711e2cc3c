"""The scene: the traces that a screen shows, their clocks and offsets, the rows and the state of the view.

Each trace keeps its own clock. The scene's clock adds an offset per trace; in a comparison that aligns every operation
the new trace is warped to the base.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import IntEnum
from operator import add
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from npu_tui.strings import say
from npu_tui.trace.arrays import I8, I32, I64
from npu_tui.trace.classes import lane_roles
from npu_tui.trace.message import Message
from npu_tui.trace.model import Lane, RoleKind, Rows, Trace
from npu_tui.view.path_lane import PathLane
from npu_tui.view.viewport import Viewport

Alignment = Literal["step", "operation", "every"]
Face = Literal["both", "base", "new"]

BASE, NEW = 0, 1
SAME, ALONE, CHANGED = range(3)
"""Marks of a slice: equal to its counterpart, without a counterpart, different from it."""


# --- Comparing two traces ---


class Warp(Struct, frozen=True):
    """Matched times of the base and of the new trace, ns on their own clocks, ascending, of equal length (>= 2).

    Times in between are interpolated, times outside are shifted.
    """

    base: I64
    new: I64

    def to_base(self, time: I64) -> I64:
        """Times of the new trace on the clock of the base."""
        return _through(self.new, self.base, time)

    def to_new(self, time: I64) -> I64:
        """Times of the base on the clock of the new trace."""
        return _through(self.base, self.new, time)


def _through(known: I64, wanted: I64, time: I64) -> I64:
    # np.interp is constant outside of its points; there times are shifted instead.
    inside = np.rint(np.interp(time, known, wanted)).astype(np.int64)
    before, after = time - known[0] + wanted[0], time - known[-1] + wanted[-1]
    return np.where(time < known[0], before, np.where(time > known[-1], after, inside))


class WarpedViewport(Viewport, frozen=True, dict=True):
    """A viewport with columns on the base's clock whose edges are read on the clock of the new trace."""

    warp: Warp = field(default_factory=lambda: Warp(np.zeros(2, np.int64), np.zeros(2, np.int64)))

    # Viewports are keys of caches: a warp is compared by identity, as its arrays are long.
    def __hash__(self) -> int:
        return hash((self.first, self.span, self.width, self.origin, id(self.warp)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WarpedViewport) and hash(self) == hash(other)

    def edge(self, column: int) -> int:
        """Left edge of ``column``, ns of the new trace."""
        return int(self.warp.to_new(np.array([Viewport.edge(self, column)]))[0])

    def edges(self) -> I64:
        """All ``width + 1`` edges, ns of the new trace; strictly ascending, so a column lasts 1 ns or more."""
        step = np.arange(self.width + 1)
        edges: I64 = np.maximum.accumulate(self.warp.to_new(Viewport.edges(self)) - step) + step
        return edges

    def column(self, time: int) -> int:
        """The column of ``time`` of the new trace; below 0 or at least ``width`` if it is outside."""
        return int(np.searchsorted(self.edges(), time, "right")) - 1


class ComparedPair(Struct):
    """A comparison: the base is trace 0 of the scene, the new one trace 1; times are on the clock of their trace.

    ``windows`` are the compared steps; ``twins`` is the counterpart of every slice (-1: none), ``marks`` is ``SAME``,
    ``ALONE`` or ``CHANGED`` for every slice. ``matched`` are the times at which both do the same, from the start of the
    step to its end.
    """

    windows: tuple[tuple[int, int], tuple[int, int]]
    twins: tuple[I32, I32]
    marks: tuple[I8, I8]
    matched: Warp
    alignment: Alignment = "step"
    face: Face = "both"

    @property
    def lag(self) -> I64:
        """How much later the new trace is at each matched time, counted from the starts of the steps, ns."""
        lag: I64 = (self.matched.new - self.matched.new[0]) - (self.matched.base - self.matched.base[0])
        return lag

    @property
    def offsets(self) -> list[int]:
        """The offsets that put the starts of both steps at 0."""
        return [-self.windows[BASE][0], -self.windows[NEW][0]]

    def step(self, offsets: list[int]) -> tuple[int, int]:
        """From the start of the earlier step to the end of the later one, on the scene's clock."""
        times = [(start + offset, end + offset) for (start, end), offset in zip(self.windows, offsets, strict=True)]
        if self.alignment == "every":
            return times[BASE]
        return min(start for start, _ in times), max(end for _, end in times)


_ORDER: tuple[RoleKind, ...] = ("main", "backward", "queue", "compute", "communication", "copy", "plain", "worker")
_STREAM = re.compile(r"(?:^|\b)stream (?P<number>\d+)$", re.IGNORECASE)
_NUMBERED = re.compile(r"(?:thread )?\d+(?!\w)", re.IGNORECASE)
"""The name of a thread that the profiler found no name for."""
_OVERLAP = {
    "Computing": "overlap.computing",
    "Communication": "overlap.all",
    "Communication(Not Overlapped)": "overlap.exposed",
    "Free": "overlap.free",
}


# --- Names and roles of lanes ---


class Role(Struct, frozen=True):
    """The role of a lane, and its name on screen."""

    kind: RoleKind
    name: str

    @property
    def order(self) -> int:
        """The sort key of lanes in a layer; lanes of one role keep the profiler's order."""
        return _ORDER.index(self.kind)


def roles(trace: Trace) -> list[Role]:
    """The role of every lane of ``trace``."""
    return [
        Role(kind, _lane_name(trace, lane, kind)) for lane, kind in zip(trace.lanes, lane_roles(trace), strict=True)
    ]


def _lane_name(trace: Trace, lane: Lane, role: RoleKind) -> str:
    if lane.derived:
        return say("lane.steps")
    known = _OVERLAP if trace.layers[lane.layer].kind == "overlap" else trace.nature.lane_names
    if lane.name in known:
        return say(f"lane.{known[lane.name]}")
    if role in ("main", "backward", "queue") and _NUMBERED.match(lane.name):
        return say(f"lane.{role}")
    stream = _STREAM.search(lane.name)
    if role in ("compute", "communication", "copy") and stream is not None:
        return say(f"lane.{role}", number=stream["number"])
    return lane.name


# --- What is drawn ---

Time = TypeVar("Time", int, I64)

RowKind = Literal["trace", "layer", "slices", "leaf", "counter", "chart", "path", "hidden"]
ChartKind = Literal["lead", "depth", "memory", "stack", "share", "cpu", "network", "path"]
BESIDE_LANES: tuple[ChartKind, ...] = ("cpu",)
"""Charts that are drawn below a lane, not at the end of its layer."""
LinkMode = Literal["off", "selection", "all"]


class LinkShape(IntEnum):
    """The shape of a link's line; PLAIN for categories without dispatch classes."""

    PLAIN = 0
    NEAR_VERTICAL = 1
    SHALLOW = 2
    QUEUED = 3


class LinkClasses(Struct, frozen=True):
    """The shape, lost time (ns) and starvation of every link, in the order of ``Trace.links``."""

    shape: npt.NDArray[np.int8]
    lost: npt.NDArray[np.int64]
    starved: npt.NDArray[np.bool_]

    @classmethod
    def plain(cls, count: int) -> LinkClasses:
        """``count`` links without classes."""
        return cls(np.zeros(count, np.int8), np.zeros(count, np.int64), np.zeros(count, np.bool_))


class StepFunction(Struct, frozen=True):
    """A value over time: ``value[k]`` holds from ``time[k]`` (ns, ascending) on, the last one to ``end``.

    Charts have integers (int64), counters have floats (float64). The values of a ``cpu`` chart are codes: one of
    ``CpuClass`` in the lowest three bits, above them the place in ``legend`` of what is going on.
    """

    time: npt.NDArray[np.int64]
    value: npt.NDArray[Any]
    end: int
    legend: Sequence[Message] = ()


class StackedArea(Struct, frozen=True, eq=False):
    """What holders have over time: ``value[k]`` is that of ``names[k]`` from ``time`` (ns, ascending) on, (k, n).

    The largest one is the first, what all others have together the last.
    """

    names: tuple[str, ...]
    time: npt.NDArray[np.int64]
    value: npt.NDArray[np.int64]
    end: int


class CpuClass(IntEnum):
    """What a thread does, as its lane shows it."""

    NOTHING = 0
    RUNNING = 1
    TAKEN = 2
    UNKNOWN = 3


class Chart(Struct, frozen=True):
    """A chart of a device at the end of layer ``layer``; ``function`` computes its values.

    ``lead`` is the signed lead of the host in ns, ``depth`` the number of launches in flight, ``memory`` bytes up to
    ``top``, ``stack`` those of the holders in ``area``, in several rows, ``network`` bytes/s, ``share`` 1 while
    something happens and 0 otherwise. Memory charts are folded into the first of them until that is opened. ``cpu`` is
    drawn below the ``lane`` of a thread and says what the kernel did with it, as ``legend`` of its function explains. A
    ``path`` has a ``path`` instead of a function, and is drawn above all layers.
    """

    kind: ChartKind
    layer: int
    name: str
    function: Callable[[], StepFunction]
    top: int = 0
    lane: int = -1
    path: PathLane | None = None
    area: Callable[[], StackedArea] | None = None


class Losses(Struct, frozen=True):
    """Start and end (ns) of each wait of an idle device for a launch, and whether that launch is starved."""

    start: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]
    starved: npt.NDArray[np.bool_]

    @classmethod
    def none(cls) -> Losses:
        """No waits."""
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.bool_))


class FindingMark(Struct, frozen=True):
    """The mark of a finding: its ``label`` (mostly a number) over ``[start, end)`` ns."""

    start: int
    end: int
    label: str
    severity: str


class ScreenRow(Struct, frozen=True):
    """One text row of the lane area.

    ``trace``: head of a trace, where there are several. ``layer``: head of a layer. ``slices``: one depth row of a
    lane. ``leaf``: a folded lane, the deepest active slice at every instant. ``counter``: one series. ``chart``: one of
    the trace's charts; ``path``: one that is a critical path. ``hidden``: a note on the hidden rows of a layer. ``row``
    is the row of ``rows`` with its slices (-1 without). ``opener`` marks the first row of a lane or layer, which has
    its name and fold mark, ``pinned`` the rows on top. ``lanes`` are those that a folded layer or a row of workers
    represents. In the ``bands`` of a stacked area the row is number ``depth`` from the top.
    """

    kind: RowKind
    trace: int
    layer: int
    lane: int = -1
    depth: int = 0
    series: int = -1
    rows: Rows | None = None
    row: int = -1
    name: str = ""
    opener: bool = True
    foldable: bool = False
    folded: bool = False
    chart: int = -1
    pinned: bool = False
    lanes: tuple[int, ...] = ()
    bands: int = 0


class Selected(Struct, frozen=True):
    """A slice of a trace of the scene."""

    trace: int
    item: int


class ViewState(Struct):
    """The state of a view. Cursor (time and row), selection (one slice) and range (two times) are independent.

    All times are on the scene's clock. ``viewport`` covers the columns right of the gutter. ``focus`` and ``top`` index
    the outline: the cursor's row, and the first row below the ``pinned`` ones, which never scroll. ``hits`` are the
    start times of search hits, ascending; ``hit_masks`` has one mask per trace over its slices (empty without a
    search); with ``hits_only`` other slices are dimmed. ``flags`` are the times of flags.
    """

    viewport: Viewport
    cursor: int = 0
    focus: int = 0
    top: int = 0
    pinned: int = 0
    selection: Selected | None = None
    range: tuple[int, int] | None = None
    link_mode: LinkMode = "selection"
    link_category: str = "HostToDevice"
    hits: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    hit_masks: list[npt.NDArray[np.bool_]] = []
    hits_only: bool = False
    flags: tuple[int, ...] = ()
    over: Selected | None = None
    """What was selected when the range was marked: another selection is newer than it."""


def screen_line(state: ViewState, row: I64) -> I64:
    """The line of each outline ``row`` in the lane area; negative or beyond the end if it is not on screen."""
    hidden = (row >= state.pinned) & (row < state.top)
    return np.where(row < state.pinned, row, np.where(hidden, row - state.top, row - state.top + state.pinned))


def true_offsets(traces: list[Trace], lengths: list[int]) -> list[int]:
    """The offsets that put all traces where they were recorded, relative to the first one, ns.

    A trace that is farther from the first one than both last is from another run: its start is aligned instead.
    """
    offsets = []
    for trace, length in zip(traces, lengths, strict=True):
        offset = trace.start_ns - traces[0].start_ns
        away = max(offset - lengths[0], -offset - length)
        offsets.append(offset if away <= lengths[0] + length else 0)
    return offsets


def _extent(trace: Trace, length: int) -> tuple[int, int, int]:
    """The first time of ``trace``, the end of its slices, the end of its slices and samples; ns on its own clock."""
    end = max(length, 1, int(trace.slices.start.max()) + 1 if len(trace.slices) else 1)
    if not len(trace.counters):
        return 0, end, end
    return min(int(trace.counters.time.min()), 0), end, max(int(trace.counters.time.max()), end)


def _trace_labels(traces: list[Trace]) -> list[str]:
    """Short labels of ``traces``: ranks, or letters if ranks are unknown or equal; empty for a single trace."""
    if len(traces) < 2:
        return [""] * len(traces)
    ranks = {trace.rank for trace in traces}
    if len(ranks) == len(traces) and None not in ranks:
        return [str(trace.rank) for trace in traces]
    return [letters(index) for index in range(len(traces))]


def letters(index: int) -> str:
    """A, B, ... Z, AA, AB, ..."""
    head, tail = divmod(index, 26)
    return (letters(head - 1) if head else "") + chr(ord("A") + tail)


class Scene(Struct):
    """The traces on screen with the classes of their links, their charts, lost time and findings, one entry per trace.

    ``events`` are the waits for events and the records that they wait for, as slices, once they are paired.

    Data of a trace is on its own clock. ``offsets`` (ns) lead from the clock of each trace to the scene's; by default
    the first trace has 0 and the others are where they were recorded. ``lengths`` are the ends of their last slices, or
    of their last samples; ``roles`` those of their lanes, ``labels`` their short names. ``pair`` is set if the second
    trace is compared with the first. With ``stacked`` the same lanes of all traces are next to each other; in a film
    the second half of them, which are those of the first half replayed, stand above these. Until the scene is
    ``measured``, classes of links and lost time are unknown and not drawn.

    ``start`` and ``end`` are the start of the first trace and the end of the last one, ns on the scene's clock;
    ``whole`` is from the start to the end of the last slice, even one without duration, and lasts 1 ns or more.
    ``limits`` are the times that can be on screen: samples may lie before the first slice and after the last one.
    With ``has_holders`` rows are named after who holds memory.
    """

    traces: list[Trace]
    link_classes: list[LinkClasses]
    charts: list[list[Chart]] = []
    losses: list[Losses] = []
    findings: list[list[FindingMark]] = []
    events: list[tuple[I64, I64]] = []
    offsets: list[int] = []
    pair: ComparedPair | None = None
    stacked: bool = False
    is_film: bool = False
    measured: bool = True
    lengths: list[int] = []
    roles: list[list[Role]] = []
    labels: list[str] = []
    has_holders: bool = False
    start: int = 0
    end: int = 0
    whole: tuple[int, int] = (0, 1)
    limits: tuple[int, int] = (0, 1)
    _extents: list[tuple[int, int, int]] = []

    @classmethod
    def plain(cls, traces: list[Trace]) -> Scene:
        """A scene of ``traces`` without anything that must be computed first."""
        return cls(traces, [LinkClasses.plain(len(trace.links)) for trace in traces], measured=False)

    def __post_init__(self) -> None:
        self.charts = self.charts or [[] for _ in self.traces]
        self.findings = self.findings or [[] for _ in self.traces]
        self.losses = self.losses or [Losses.none() for _ in self.traces]
        self.events = self.events or [(np.zeros(0, np.int64),) * 2 for _ in self.traces]
        self.lengths = [
            trace.end or (int(trace.counters.time.max()) if len(trace.counters) else 0) for trace in self.traces
        ]
        self.roles = [roles(trace) for trace in self.traces]
        self.labels = _trace_labels(self.traces)
        self.has_holders = any(trace.nature.has_holders for trace in self.traces)
        self._extents = list(map(_extent, self.traces, self.lengths))
        self.set_offsets(self.offsets or true_offsets(self.traces, self.lengths))

    def set_offsets(self, offsets: Sequence[int]) -> None:
        """Put the traces ``offsets`` ns ahead of their own clocks."""
        self.offsets = [*offsets]
        self.start = min(offsets, default=0)
        self.end = max(map(add, offsets, self.lengths), default=0)
        first, last_slice, last = zip(*self._extents, strict=True) if self._extents else ((0,), (1,), (1,))
        self.whole = self.start, max(map(add, offsets, last_slice), default=self.start + 1)
        self.limits = min(map(add, offsets, first), default=0), max(map(add, offsets, last), default=1)

    def compare(self, pair: ComparedPair) -> None:
        """Compare the second trace with the first one, with the starts of the compared steps at the same time."""
        self.pair, self.labels = pair, ["B", "N"]
        self.set_offsets(pair.offsets)

    @property
    def played_from(self) -> int:
        """The number of the first replayed trace of a film, 0 without one."""
        return len(self.traces) // 2 if self.is_film else 0

    def add_charts(self, index: int, charts: list[Chart]) -> None:
        """Add ``charts`` to trace number ``index``; a trace without slices and samples gets their length."""
        self.charts[index] += charts
        if not self.lengths[index]:
            self.lengths[index] = max((chart.function().end for chart in charts), default=0)
            self._extents[index] = _extent(self.traces[index], self.lengths[index])
            self.set_offsets(self.offsets)

    def to_scene(self, trace: int, time: Time) -> Time:
        """``time`` ns of trace number ``trace`` on the scene's clock."""
        if warp := self._warp(trace):
            warped = warp.to_base(np.asarray(time)) + self.offsets[BASE]
            return warped if isinstance(time, np.ndarray) else int(warped)
        return time + self.offsets[trace]

    def to_trace(self, trace: int, time: Time) -> Time:
        """``time`` ns of the scene's clock on that of trace number ``trace``."""
        if warp := self._warp(trace):
            warped = warp.to_new(np.asarray(time) - self.offsets[BASE])
            return warped if isinstance(time, np.ndarray) else int(warped)
        return time - self.offsets[trace]

    def local(self, trace: int, view: Viewport) -> Viewport:
        """``view`` of the scene on the clock of trace number ``trace``."""
        if warp := self._warp(trace):
            return WarpedViewport(view.first, view.span, view.width, view.origin - self.offsets[BASE], warp)
        return view.shifted(-self.offsets[trace])

    def _warp(self, trace: int) -> Warp | None:
        """The warp of trace number ``trace`` if every operation of it is drawn where the base has it."""
        return self.pair.matched if self.pair and trace == NEW and self.pair.alignment == "every" else None

    def times(self, selected: Selected) -> tuple[int, int]:
        """Start and end of a slice on the scene's clock, ns."""
        slices = self.traces[selected.trace].slices
        start, end = (int(times[selected.item]) for times in (slices.start, slices.end))
        return self.to_scene(selected.trace, start), self.to_scene(selected.trace, end)

    def overview(self, width: int) -> Viewport:
        """A viewport over all of the scene, ``width`` columns wide."""
        return Viewport.around(0, max(self.end - self.start, 1), max(width, 1)).shifted(self.start)

    def __contains__(self, selected: Selected) -> bool:
        there = 0 <= selected.trace < len(self.traces)
        return there and 0 <= selected.item < len(self.traces[selected.trace].slices)

    def steps(self, only: int | None = None) -> list[tuple[int, int, Selected]]:
        """Start, end (ns on the scene's clock) and slice of the steps of all traces, or of ``only`` one; by start."""
        steps: list[tuple[int, int, Selected]] = []
        for index, trace in enumerate(self.traces):
            for lane in trace.lanes:
                if lane.derived and only in (None, index):
                    own = slice(*trace.rows.offset[[lane.first_row, lane.first_row + lane.rows]].tolist())
                    times = (self.to_scene(index, time[own]).tolist() for time in (trace.rows.start, trace.rows.end))
                    items = (Selected(index, item) for item in trace.rows.item[own].tolist())
                    steps += zip(*times, items, strict=True)
        return sorted(steps, key=lambda step: step[0])

    def step_at(self, when: int, only: int | None = None) -> tuple[int, int] | None:
        """Start and end of the step around ``when``, else of the nearest one; None without steps.

        With ``only`` that is a step of that trace, if it has any. In a pair it is always the compared step.
        """
        if self.pair is not None:
            return self.pair.step(self.offsets)
        steps = self.steps(only) or self.steps()
        best = min(steps, key=lambda step: max(step[0] - when, when - step[1], 0), default=None)
        return None if best is None else best[:2]
