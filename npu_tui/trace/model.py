"""What a trace is: lanes, rows, slices, links and counters as columns; and how strays in time are found.

A wrong clock puts some slices far away from all others: these are shown, but not judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.trace.args import ArgReader, CommunicationArgs, SizedCopies
from npu_tui.trace.arrays import F64, I8, I32, I64, Bools
from npu_tui.trace.message import Message
from npu_tui.trace.nature import PROFILE, Nature
from npu_tui.trace.once import ValueCache, of_trace
from npu_tui.trace.scheduling import Scheduling
from npu_tui.trace.service import Service
from npu_tui.trace.snapshot import MemorySnapshot


class Rows(Struct, eq=False):
    """Row r holds the positions ``[offset[r], offset[r + 1])``, sorted by start and never overlapping.

    ``item`` is the slice at each position, ``start`` and ``end`` its times (int64 ns; within one row both ascend),
    ``busy`` the prefix sum of durations over all positions, with one entry more than positions. A folded row cuts
    slices into pieces: its ``start`` and ``end`` may differ from those of the slice.
    """

    offset: npt.NDArray[np.int64]
    item: npt.NDArray[np.int32]
    start: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]
    busy: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offset) - 1


def make_rows(
    offset: npt.NDArray[np.int64], item: npt.NDArray[np.int32], start: npt.NDArray[np.int64], end: npt.NDArray[np.int64]
) -> Rows:
    """Rows over positions that are already in row order."""
    busy = np.zeros(len(item) + 1, np.int64)
    np.cumsum(end - start, out=busy[1:])
    return Rows(offset, item, start, end, busy)


LayerKind = Literal["python", "cann", "hardware", "communication", "overlap", "counter", "other"]
RoleKind = Literal["main", "backward", "queue", "compute", "communication", "copy", "plain", "worker"]

HOST_TO_DEVICE = "HostToDevice"

MOST_DEVICES = 64
"""How many devices of one trace are analysed. A server has 16 at most, so a trace with more is odd."""
UNFINISHED = "never ended"
"""The category of a slice whose end is missing: it lasts to the end of the trace instead."""

ASYNC_NPU = "async_npu"
TASK_QUEUE = "async_task_queue"
FORWARD_BACKWARD = "fwdbwd"
EVENTS = "event"
"""From the record of an event to a wait for it; no file has these links."""


class Layer(Struct, frozen=True):
    """A process of the trace, such as Python, CANN or Ascend Hardware; its lanes are in the profiler's order."""

    index: int
    pid: int
    name: str
    kind: LayerKind
    rank: int | None
    device: int | None
    lanes: tuple[int, ...]
    series: tuple[int, ...] = ()


class Lane(Struct, frozen=True):
    """A thread or stream of a layer.

    Its slices are ``[first, last)`` of ``Slices``, its rows ``[first_row, first_row + rows)`` of ``Rows``. A derived
    lane (Steps) shows slices of other lanes again: it has rows but ``first == last``.
    """

    index: int
    layer: int
    tid: int
    name: str
    rank: int | None
    first: int
    last: int
    first_row: int
    rows: int
    derived: bool = False


class Slices(Struct):
    """The ``X`` events, sorted by (lane, start, -end, order in the file); every array has one entry per slice."""

    start: I64
    end: I64
    lane: I32
    depth: I32
    name: I32
    category: I32
    op_class: I8
    task_type: I32
    stream: I64
    connection: I64
    correlation: I64
    stack: I32
    event: I64

    def __len__(self) -> int:
        return len(self.start)

    def file_order(self) -> I64:
        """All slices in the order of their events in the file; (n,)."""
        return np.argsort(self.event, kind="stable")


class Links(Struct):
    """(source, target) pairs sorted by target time; ``*_slice`` is -1 where an end is bound to no slice.

    ``key`` numbers the distinct (category, id text). Ids are reused, so only pairs that share key and source are the
    1-to-N links of one launch. ``*_event`` are ordinals in the file, ``*_lane`` the lane of the bound slice or,
    unbound, of the point itself (-1 where that thread has no slice).
    """

    category: I32
    key: I32
    source_time: I64
    target_time: I64
    source_slice: I32
    target_slice: I32
    source_lane: I32
    target_lane: I32
    source_event: I64
    target_event: I64

    def __len__(self) -> int:
        return len(self.source_time)

    @property
    def latency(self) -> I64:
        """Raw target start minus source time, ns; negative where the clocks of host and device differ."""
        return self.target_time - self.source_time


class CounterSeries(Struct, frozen=True):
    """One curve of a counter layer: counter name, the key of its value and, where several share both, an id."""

    index: int
    layer: int
    name: str
    key: str
    instance: str


CORE_CLOCK = "AI Core Freq"
"""The series of the clock of the AI cores, MHz."""


class Counters(Struct):
    """Samples sorted by (series, time): those of series k are ``[offset[k], offset[k + 1])``."""

    time: I64
    value: F64
    offset: I64
    series: list[CounterSeries]

    def __len__(self) -> int:
        return len(self.time)

    def at(self, name: str, time: I64) -> Iterator[tuple[float, F64]]:
        """For every series ``name`` that is ever above 0 its highest value, and its value at each ``time``; (n,).

        Before its first sample it is at its highest.
        """
        for series in self.series:
            samples = slice(int(self.offset[series.index]), int(self.offset[series.index + 1]))
            value = self.value[samples]
            if series.name == name and value.max(initial=0) > 0:
                place = np.searchsorted(self.time[samples], time, "right") - 1
                yield float(value.max()), np.where(place >= 0, value[place], value.max())


class Chunks(Struct, frozen=True):
    """Where the events are stored: each chunk is ``length`` bytes of complete events, separated by commas.

    ``file`` indexes ``Trace.files``, ``offset`` is in bytes, ``first_event`` the ordinal of the chunk's first event
    over all files. The events of a database are rows: ``load.database_args`` says what a chunk of them is.
    """

    file: I32
    offset: I64
    length: I64
    first_event: I64


class EventFile(Struct, frozen=True):
    """A file of plain events: ``path`` opens its ``size`` bytes again; ``copy`` keeps an unpacked one alive."""

    path: str
    size: int
    copy: object = None


class Health(Struct):
    """What a reader could not place: ``skipped`` counts events by reason, ``warnings`` are further lines.

    A crop was ``cropped`` to a range, ns: what lies outside of it is not in the file.
    """

    skipped: dict[Message, int] = {}
    truncated: bool = False
    warnings: list[Message] = []
    cropped: tuple[int, int] | None = None

    def skip(self, reason: Message, count: int = 1) -> None:
        """Count ``count`` events that were skipped for ``reason``; 0 adds no entry."""
        if count:
            self.skipped[reason] = self.skipped.get(reason, 0) + count


@dataclass(slots=True)
class Trace:
    """One rank's events as columns, with everything that was counted while reading them.

    ``path`` is what the user opened, ``files`` are the plain files that hold its events, ``args`` reads their args.

    ``events`` counts the complete elements of the file by phase (``X``, ``C``, ``s``, ``f``, ``M``, ...) and ``end`` is
    the end of the last slice.
    """

    path: str
    files: tuple[EventFile, ...]
    rank: int | None
    start_ns: int
    end: int
    names: list[str]
    categories: list[str]
    task_types: list[str]
    stacks: list[str]
    layers: list[Layer]
    lanes: list[Lane]
    slices: Slices
    rows: Rows
    links: Links
    link_categories: list[str]
    counters: Counters
    events: dict[str, int]
    chunks: Chunks
    health: Health
    args: ArgReader
    is_fine: bool = False
    """Whether all times are ps instead of ns, as those of a simulator are."""
    folded: dict[int, Rows] = field(default_factory=dict, init=False, repr=False, compare=False)
    """The folded row of each lane that needed one so far, by the lane's first row."""
    known: ValueCache = field(default_factory=ValueCache, init=False, repr=False, compare=False)
    """Results of functions decorated with ``of_trace``."""
    roles: list[RoleKind] = field(default_factory=list, init=False, repr=False, compare=False)
    """The role of every lane, where a parsed copy has it; else empty, and ``lane_roles`` computes it."""
    communication: CommunicationArgs | None = field(default=None, init=False, repr=False, compare=False)
    """The args of communication layers, where a parsed copy has them."""
    nature: Nature = field(default=PROFILE, init=False, repr=False, compare=False)
    """What the trace was made of."""
    snapshot: MemorySnapshot | None = field(default=None, init=False, repr=False, compare=False)
    """The memory snapshot that the trace was made of, if it was."""
    service: Service | None = field(default=None, init=False, repr=False, compare=False)
    """The inference service that the trace was made of, if it was."""
    scheduling: Scheduling | None = field(default=None, init=False, repr=False, compare=False)
    """The recording of the scheduler that the trace was made of, if it was."""
    is_untimed: bool = field(default=False, init=False, repr=False, compare=False)
    """Whether its times are numbers of events, ``EVENT_NS`` each."""
    bytes_beside: int = field(default=0, init=False, repr=False, compare=False)
    """Bytes of the files that it was made of and that hold no events."""
    copies: SizedCopies | None = field(default=None, init=False, repr=False, compare=False)
    """The copies with a known size, where a parsed copy of the trace has them."""
    held: object = field(default=None, init=False, repr=False, compare=False)
    """Its files, which stay open as long as the trace is there, so that args are read without opening them again."""

    @property
    def size(self) -> int:
        """Size of all files in bytes, decompressed."""
        return sum(file.size for file in self.files) + self.bytes_beside

    @property
    def file_lanes(self) -> list[Lane]:
        """The lanes that the file has, without derived ones."""
        return [lane for lane in self.lanes if not lane.derived]

    def layer_of(self, lane: int) -> Layer:
        """The layer that lane ``lane`` belongs to."""
        return self.layers[self.lanes[lane].layer]

    def name_of(self, item: int) -> str:
        """The name of slice ``item``."""
        return self.names[int(self.slices.name[item])]

    def links_of(self, category: str) -> I64:
        """Indices of the links of ``category`` (none if the trace has no such category), in target-time order."""
        if category not in self.link_categories:
            return np.zeros(0, np.int64)
        return np.flatnonzero(self.links.category == self.link_categories.index(category))

    def add_links(self, category: str, source: I64, target: I64, launch: I64) -> None:
        """Add links between slices, (n,) each; those of one ``launch`` belong together."""
        slices, links = self.slices, self.links
        if category not in self.link_categories:
            self.link_categories.append(category)
        added = Links(
            category=np.full(len(target), self.link_categories.index(category), np.int32),
            key=(int(links.key.max(initial=-1)) + 1 + launch).astype(np.int32),
            source_time=slices.start[source],
            target_time=slices.start[target],
            source_slice=source.astype(np.int32),
            target_slice=target.astype(np.int32),
            source_lane=slices.lane[source],
            target_lane=slices.lane[target],
            source_event=slices.event[source],
            target_event=slices.event[target],
        )
        order = np.argsort(np.concatenate((links.target_time, added.target_time)), kind="stable")
        self.links = Links(
            *(np.concatenate((getattr(links, name), getattr(added, name)))[order] for name in Links.__struct_fields__)
        )

    def bound_links_of(self, category: str) -> I64:
        """Indices of the links of ``category`` with a slice at both ends, in target-time order."""
        links = self.links_of(category)
        return links[(self.links.source_slice[links] >= 0) & (self.links.target_slice[links] >= 0)]


_HOUR_NS = 3600 * 10**9
_DAY_NS = 24 * _HOUR_NS
_LONGER = 100
"""A gap of less than a day, such as the hours of a time zone, counts if it is so many times as long as either side."""
_FEW = 0.1  # such a gap parts less than this share of the slices from the others


class Bulk(Struct, frozen=True):
    """The times ``[start, end]`` that nearly all slices lie in, ns; ``far`` slices lie beyond a ``gap`` of ns."""

    start: int
    end: int
    far: int
    gap: int

    def holds(self, start: I64, end: I64) -> Bools:
        """Which of the intervals from ``start`` to ``end`` lie in it; (n,)."""
        inside: Bools = (start >= self.start) & (end <= self.end)
        return inside


@of_trace
def bulk_of(trace: Trace) -> Bulk | None:
    """Where the slices of ``trace`` lie that can be judged; None where no gap parts them.

    A gap lasts a day or more, or an hour or more and far longer than the rest of the trace. The smaller part before or
    after the longest gap are the strays. So is a slice that lasts for days where all others begin at once: its end is
    of another clock.
    """
    slices = trace.slices
    if trace.end < _HOUR_NS or len(slices) < 2:
        return None
    derived = np.array([trace.layers[lane.layer].kind == "overlap" for lane in trace.lanes])[slices.lane]
    items = np.flatnonzero(~derived)  # Free bridges every gap
    begun = int(np.ptp(slices.start[items])) if len(items) else 0
    endless = slices.end[items] - slices.start[items] >= max(_DAY_NS, _LONGER * begun)
    reached, items = int(slices.end[items].max(initial=0)), items[~endless]
    if not len(items):
        return None
    order = items[np.argsort(slices.start[items], kind="stable")]
    start, end = slices.start[order], np.maximum.accumulate(slices.end[order])
    low, high, longest = 0, len(order), reached - int(end[-1])
    while high - low > 1:  # strays may lie on both sides, and far from each other
        gaps = start[low + 1 : high] - end[low : high - 1]
        at = int(np.argmax(gaps))
        rest, fewer = int(end[high - 1] - start[low] - gaps[at]), min(at + 1, high - low - at - 1)
        few = fewer < _FEW * (high - low)  # else host and device have clocks of their own
        if gaps[at] < (min(_DAY_NS, max(_HOUR_NS, _LONGER * rest)) if few else _DAY_NS):
            break
        longest, at = max(longest, int(gaps[at])), low + at + 1
        low, high = (at, high) if at - low <= high - at else (low, at)
    if not longest:
        return None
    bulk = Bulk(int(start[low]), int(slices.end[order[low:high]].max()), 0, longest)
    far = np.count_nonzero(~bulk.holds(slices.start, slices.end))
    return Bulk(bulk.start, bulk.end, int(far), longest)
