"""A trace read the slow and obvious way: ``json``, plain loops, whole integers, no cleverness.

It knows the rules of the design, not the loader: what both find must be equal.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

Event = dict[str, Any]
Thread = tuple[int, int]


@dataclass
class Slice:
    """An ``X`` event; times are absolute ns."""

    ordinal: int
    event: Event
    thread: Thread
    start: int
    end: int
    depth: int = -1

    def arg(self, key: str) -> Any:
        return self.event.get("args", {}).get(key)


@dataclass
class End:
    """A link end: ``s``, ``t`` or ``f`` at an absolute time in ns."""

    ordinal: int
    event: Event
    thread: Thread
    time: int


@dataclass
class Pair:
    """A link; each slice is None where that end is bound to none."""

    category: str
    id: str
    source: End
    target: End
    source_slice: Slice | None
    target_slice: Slice | None


@dataclass
class Reference:
    """Everything the loader is compared with."""

    events: list[Event]
    slices: dict[Thread, list[Slice]]
    pairs: list[Pair]
    samples: dict[tuple[int, str, str, str], list[tuple[int, float]]]
    process_name: dict[int, str] = field(default_factory=dict)
    thread_name: dict[Thread, str] = field(default_factory=dict)

    @property
    def phases(self) -> Counter[str]:
        return Counter(event["ph"] for event in self.events)

    @property
    def all_slices(self) -> list[Slice]:
        return [item for lane in self.slices.values() for item in lane]

    @property
    def start(self) -> int:
        return min(item.start for item in self.all_slices)


def nanoseconds(text: str) -> int:
    """Exact whole ns of a text in us, half up."""
    return int(Decimal(text).scaleb(3).to_integral_value(ROUND_HALF_UP))


def read(data: bytes) -> Reference:
    """The trace in ``data``, which is well-formed and has no event that a reader would have to skip."""
    document = json.loads(data)
    events: list[Event] = document["traceEvents"] if isinstance(document, dict) else document
    process_name, thread_name, python = {}, {}, set()
    for event in events:
        if event["ph"] == "M" and event["name"] == "process_name":
            process_name[event["pid"]] = event["args"]["name"]
            if event["args"]["name"] == "Python":
                python.add(event["pid"])
        if event["ph"] == "M" and event["name"] == "thread_name":
            thread_name[event["pid"], event["tid"]] = event["args"]["name"]
    slices = _slices(events)
    return Reference(events, slices, _pairs(events, slices, python), _samples(events), process_name, thread_name)


def _slices(events: list[Event]) -> dict[Thread, list[Slice]]:
    found: dict[Thread, list[Slice]] = {}
    for ordinal, event in enumerate(events):
        if event["ph"] == "X":
            start = nanoseconds(event["ts"])
            thread = (event["pid"], event["tid"])
            item = Slice(ordinal, event, thread, start, start + round(event.get("dur", 0) * 1000))
            found.setdefault(thread, []).append(item)
    for lane in found.values():
        lane.sort(key=lambda item: (item.start, -item.end, item.ordinal))
        for item, depth in zip(lane, rows([(item.start, item.end) for item in lane]), strict=True):
            item.depth = depth
    return found


def rows(intervals: list[tuple[int, int]]) -> list[int]:
    """First fit in the plainest form: each interval goes to the lowest row whose last one has ended.

    An interval without length takes up 1 ns.
    """
    free_from: list[int] = []
    found = []
    for start, end in intervals:
        row = 0
        while row < len(free_from) and free_from[row] > start:
            row += 1
        if row == len(free_from):
            free_from.append(0)
        free_from[row] = max(end, start + 1)
        found.append(row)
    return found


def _pairs(events: list[Event], slices: dict[Thread, list[Slice]], python: set[int]) -> list[Pair]:
    by_key: dict[tuple[str, str], list[End]] = {}
    for ordinal, event in enumerate(events):
        if event["ph"] in ("s", "t", "f") and event.get("id") is not None:
            end = End(ordinal, event, (event["pid"], event["tid"]), nanoseconds(event["ts"]))
            by_key.setdefault((event.get("cat", ""), str(event["id"])), []).append(end)
    found = []
    for (category, id_text), ends in by_key.items():
        phases = [end.event["ph"] for end in ends]
        for source, target in matched(phases):
            target_slice = bound(slices.get(ends[target].thread, []), ends[target].time, None)
            wanted = target_slice.arg("connection_id") if target_slice else None
            source_slice = bound(slices.get(ends[source].thread, []), ends[source].time, wanted)
            if source_slice is None and category == "HostToDevice":
                for pid in python:
                    lane = slices.get((pid, ends[source].thread[1]), [])
                    source_slice = innermost(lane, ends[source].time) or source_slice
            found.append(Pair(category, id_text, ends[source], ends[target], source_slice, target_slice))
    return found


def matched(phases: list[str]) -> list[tuple[int, int]]:
    """(source, target) positions among the ends of one link id in file order.

    A step ends one link and begins the next; it is never its own source. One source has all targets; as many sources
    as targets (and no step) go together in order; otherwise a target belongs to the last source before it, or to the
    first one.
    """
    sources = [i for i, phase in enumerate(phases) if phase in "st"]
    targets = [i for i, phase in enumerate(phases) if phase in "tf"]
    if not sources:
        return []
    if len(sources) == 1:
        links = [(sources[0], target) for target in targets]
    elif len(sources) == len(targets) and "t" not in phases:
        links = list(zip(sources, targets, strict=True))
    else:
        links = [(max((s for s in sources if s < target), default=sources[0]), target) for target in targets]
    return [(source, target) for source, target in links if source != target]


def bound(lane: list[Slice], time: int, connection: int | None) -> Slice | None:
    """The slice that starts at ``time`` (ties: the same connection id, then the deeper), else the innermost one."""
    exact = [item for item in lane if item.start == time]
    if exact:
        same = [item for item in exact if connection is not None and item.arg("connection_id") == connection]
        return (same or exact)[-1]
    return innermost(lane, time)


def innermost(lane: list[Slice], time: int) -> Slice | None:
    """The slice that started last of those open at ``time``; without one, of those that end there."""
    begun = [item for item in lane if item.start <= time]
    open_ones = [item for item in begun if item.end > time] or [item for item in begun if item.end == time]
    return open_ones[-1] if open_ones else None


def _samples(events: list[Event]) -> dict[tuple[int, str, str, str], list[tuple[int, float]]]:
    found: dict[tuple[int, str, str, str], list[tuple[int, float]]] = {}
    for event in events:
        if event["ph"] == "C":
            args = event["args"]
            told = [key for key in args if key in ("acc_id", "die", "die_id", "acc id", "die id")]
            instance = " ".join(f"{key} {args[key]}" for key in told) if len(args) > 1 else ""
            for key, value in args.items():
                if not (instance and key in told):
                    series = found.setdefault((event["pid"], event["name"], key, instance), [])
                    series.append((nanoseconds(event["ts"]), value))
    for series in found.values():
        series.sort(key=lambda sample: sample[0])
    return found
