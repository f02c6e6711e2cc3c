"""What is on screen: the traces, how their lanes are folded, and where the user looks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal

import numpy as np
import numpy.typing as npt

from npu_tui.trace.model import Trace
from npu_tui.trace.rows import Rows
from npu_tui.view.viewport import Viewport

I64 = npt.NDArray[np.int64]

RowKind = Literal["layer", "slices", "leaf", "counter", "chart", "hidden"]
ChartKind = Literal["lead", "depth"]
Severity = Literal["high", "medium", "low", "info"]
LinkMode = Literal["off", "selection", "all"]


class LinkShape(IntEnum):
    """The shape of a link's line; PLAIN where the category has no dispatch classes."""

    PLAIN = 0
    NEAR_VERTICAL = 1
    SHALLOW = 2
    QUEUED = 3


@dataclass(frozen=True, slots=True)
class LinkMarks:
    """Per link of one trace (same order as ``Trace.links``): its shape, lost time in ns, and whether it starved."""

    shape: npt.NDArray[np.int8]
    lost: npt.NDArray[np.int64]
    starved: npt.NDArray[np.bool_]

    @classmethod
    def plain(cls, count: int) -> LinkMarks:
        """Marks of ``count`` links without classes."""
        return cls(np.zeros(count, np.int8), np.zeros(count, np.int64), np.zeros(count, np.bool_))


@dataclass(frozen=True, slots=True)
class Steps:
    """A value over time: ``value[k]`` holds from ``time[k]`` on, the last to ``end`` (ns, strictly ascending)."""

    time: npt.NDArray[np.int64]
    value: npt.NDArray[np.int64]
    end: int


@dataclass(frozen=True, slots=True)
class Chart:
    """A derived lane of a device at the end of layer ``layer``; ``steps`` computes what it shows.

    ``lead`` is the signed lead of the host in ns, ``depth`` the number of launches in flight.
    """

    kind: ChartKind
    layer: int
    name: str
    steps: Callable[[], Steps]


@dataclass(frozen=True, slots=True)
class Losses:
    """Start and end (ns) of every time an idle device waited for a launch, and whether that launch starved."""

    start: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]
    starved: npt.NDArray[np.bool_]

    @classmethod
    def none(cls) -> Losses:
        """No launch was waited for."""
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.bool_))


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a finding lies: ``label`` (a number, mostly) over ``[start, end)`` ns."""

    start: int
    end: int
    label: str
    severity: Severity


@dataclass(frozen=True, slots=True)
class ScreenRow:
    """One text row of the lane area.

    ``layer``: head of a layer. ``slices``: one depth row of a lane. ``leaf``: a folded lane, the deepest active slice
    at every instant. ``counter``: one series. ``chart``: one of the trace's charts. ``hidden``: stands for the hidden
    rows of a layer. ``row`` is the row of ``rows`` that holds its slices (-1 without). ``opener`` marks the first row
    of a lane or layer, which carries its name and fold mark, ``pinned`` those on top.
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


@dataclass(frozen=True, slots=True)
class Selected:
    """A slice of a trace of the scene."""

    trace: int
    item: int


@dataclass(slots=True)
class ViewState:
    """Where the user looks: cursor (time and row), selection (one slice) and range (two times) are separate things.

    ``viewport`` covers the columns right of the gutter. ``focus`` and ``top`` are indices of screen rows: the cursor's
    row, and the first row shown below the ``pinned`` ones, which never scroll. ``hits`` are the start times of search
    hits, ascending, ``hit_masks`` one mask per trace over its slices that says which they are (none without a search);
    with ``hits_only`` the rest is dimmed. ``flags`` are the times of flags.
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
    hit_masks: list[npt.NDArray[np.bool_]] = field(default_factory=list)
    hits_only: bool = False
    flags: tuple[int, ...] = ()


def screen_line(state: ViewState, row: I64) -> I64:
    """The line of the lane area on which each outline ``row`` stands; negative or behind the end where it is not."""
    hidden = (row >= state.pinned) & (row < state.top)
    return np.where(row < state.pinned, row, np.where(hidden, row - state.top, row - state.top + state.pinned))


@dataclass(slots=True)
class Scene:
    """The traces on screen with the marks of their links, their charts, lost time and findings, one entry each.

    ``end`` is the end of the last slice of any trace in ns, of the last counter sample where there is no slice.
    """

    traces: list[Trace]
    marks: list[LinkMarks]
    charts: list[list[Chart]] = field(default_factory=list)
    losses: list[Losses] = field(default_factory=list)
    findings: list[list[Mark]] = field(default_factory=list)
    end: int = field(init=False)

    def __post_init__(self) -> None:
        self.charts = self.charts or [[] for _ in self.traces]
        self.findings = self.findings or [[] for _ in self.traces]
        self.losses = self.losses or [Losses.none() for _ in self.traces]
        samples = [int(trace.counters.time.max()) for trace in self.traces if len(trace.counters)]
        self.end = max((trace.end for trace in self.traces), default=0) or max(samples, default=0)

    def steps(self) -> list[tuple[int, int, Selected]]:
        """Start, end (ns) and slice of every step of every trace, by start."""
        found: list[tuple[int, int, Selected]] = []
        for index, trace in enumerate(self.traces):
            for lane in trace.lanes:
                if lane.derived:
                    own = slice(*trace.rows.offset[[lane.first_row, lane.first_row + lane.rows]].tolist())
                    times = (
                        trace.rows.start[own].tolist(),
                        trace.rows.end[own].tolist(),
                        trace.rows.item[own].tolist(),
                    )
                    found += [(start, end, Selected(index, item)) for start, end, item in zip(*times, strict=True)]
        return sorted(found, key=lambda step: step[0])

    def step_at(self, when: int) -> tuple[int, int] | None:
        """Start and end of the step around ``when``, else of the nearest one, or None without steps."""
        best = min(self.steps(), key=lambda step: max(step[0] - when, when - step[1], 0), default=None)
        return None if best is None else best[:2]
