"""A trace read the slow and obvious way: ``json``, plain loops, whole integers, no cleverness.

It knows the rules of the design, not the loader: what both find must be equal.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

Event = dict[str, Any]
UNFINISHED = "never ended"
#: Numbers or names of process and thread; the lane of ``b``/``e`` pairs is ("async", category).
Thread = tuple[Any, Any]
HOST_LAYERS = ("Python", "MindSpore", "CPU OP")


class Exact(float):
    """A number that remembers how it is written."""

    text: str

    def __new__(cls, text: str) -> Exact:
        number = super().__new__(cls, text)
        number.text = text
        return number

    def __str__(self) -> str:
        return self.text


@dataclass
class Slice:
    """An ``X`` event, or a pair of marks that ``event`` begins; times are absolute ns."""

    ordinal: int
    event: Event
    thread: Thread
    start: int
    end: int
    depth: int = -1

    def arg(self, key: str) -> Any:
        args = self.event.get("args")
        return args.get(key) if isinstance(args, dict) else None


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
    samples: dict[tuple[Any, str, str, str], list[tuple[int, float]]]
    process_name: dict[Any, str] = field(default_factory=dict)
    thread_name: dict[Thread, str] = field(default_factory=dict)

    @property
    def phases(self) -> Counter[str]:
        return Counter(event.get("ph", "") if isinstance(event, dict) else "" for event in self.events)

    @property
    def all_slices(self) -> list[Slice]:
        return [item for lane in self.slices.values() for item in lane]

    @property
    def start(self) -> int:
        return min(item.start for item in self.all_slices)


def nanoseconds(text: object) -> int:
    """Exact whole ns of a number or text in us, half up."""
    return int(Decimal(str(text)).scaleb(3).to_integral_value(ROUND_HALF_UP))


def number(value: Any) -> Any:
    """A process or thread: its number, also where that is written as text, else its name."""
    try:
        return int(value)
    except ValueError:
        return value


def thread_of(event: Event) -> Thread:
    return number(event.get("pid", -1)), number(event.get("tid", 0))


def parsed(data: bytes) -> list[Event]:
    """The events of one file: packed or not, an array or an object, in UTF-8 or in the encoding of a Chinese host."""
    if data.startswith(b"\x1f\x8b"):
        data = gzip.decompress(data)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("gb18030")
    document = json.loads(text, strict=False, parse_float=Exact)
    events: list[Event] = document["traceEvents"] if isinstance(document, dict) else document
    return events


def read(*files: bytes) -> Reference:
    """The trace in ``files``, whose events all have usable times and durations."""
    events = [event for data in files for event in parsed(data)]
    process_name, thread_name, python = {}, {}, set()
    for event in events:
        if event["ph"] == "M" and event["name"] == "process_name":
            name = process_name.setdefault(number(event["pid"]), event["args"]["name"])
            if name in HOST_LAYERS:
                python.add(number(event["pid"]))
        if event["ph"] == "M" and event["name"] == "thread_name":
            thread_name[thread_of(event)] = event["args"]["name"]
    slices = _slices(events)
    return Reference(events, slices, _pairs(events, slices, python), _samples(events), process_name, thread_name)


def _slices(events: list[Event]) -> dict[Thread, list[Slice]]:
    found: dict[Thread, list[Slice]] = {}
    for ordinal, event in enumerate(events):
        if event["ph"] == "X":
            start = nanoseconds(event["ts"])
            item = Slice(ordinal, event, thread_of(event), start, start + round(float(event.get("dur") or 0) * 1000))
            found.setdefault(item.thread, []).append(item)
    last = max((item.end for lane in found.values() for item in lane), default=-(2**63))
    for item in _marked(events, last):
        found.setdefault(item.thread, []).append(item)
    for lane in found.values():
        lane.sort(key=lambda item: (item.start, -item.end, item.ordinal))
        for item, depth in zip(lane, rows([(item.start, item.end) for item in lane]), strict=True):
            item.depth = depth
    return found


def _marked(events: list[Event], last: int) -> list[Slice]:
    """``B``/``E`` and ``b``/``e`` pairs by time: an end takes the last open beginning that it may belong to.

    ``B`` and ``E`` belong together on a thread; ``b`` and ``e`` by category, id and name, rather within a process.
    One that never ended lasts to the end of the trace: ``last``, when the last other slice ends, or the last mark.
    """
    marks = [(nanoseconds(event["ts"]), i) for i, event in enumerate(events) if event["ph"] in ("B", "E", "b", "e")]
    open_marks: list[tuple[int, int]] = []
    found = []
    for time, ordinal in sorted(marks):
        event = events[ordinal]
        if event["ph"] in ("B", "b"):
            open_marks.append((time, ordinal))
            continue
        mine = [mark for mark in open_marks if _belong_together(events[mark[1]], event)]
        near = [mark for mark in mine if thread_of(events[mark[1]])[0] == thread_of(event)[0]]
        for start, begun in (near or mine)[-1:]:
            open_marks.remove((start, begun))
            first = events[begun]
            pid, tid = thread_of(first)
            lane = ("async", first.get("cat") or first["name"]) if first["ph"] == "b" else tid
            found.append(Slice(begun, first, (pid, lane), start, time))
    last = max([last, *(time for time, _ in marks)])
    for start, begun in open_marks:
        first = events[begun]
        pid, tid = thread_of(first)
        lane = ("async", first.get("cat") or first["name"]) if first["ph"] == "b" else tid
        found.append(Slice(begun, {**first, "cat": UNFINISHED}, (pid, lane), start, last))
    return found


def _belong_together(begin: Event, end: Event) -> bool:
    if (begin["ph"], end["ph"]) == ("B", "E"):
        return thread_of(begin) == thread_of(end)
    keys = [(event.get("cat", ""), str(event.get("id")), event.get("name", "")) for event in (begin, end)]
    return (begin["ph"], end["ph"]) == ("b", "e") and keys[0] == keys[1]


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
            end = End(ordinal, event, thread_of(event), nanoseconds(event["ts"]))
            by_key.setdefault((event.get("cat", ""), str(event["id"])), []).append(end)
    found = []
    for (category, id_text), ends in by_key.items():
        phases = [end.event["ph"] for end in ends]
        for source, target in matched(phases):
            lane, time = slices.get(ends[target].thread, []), ends[target].time
            target_slice, goal = bound(lane, time, None), ends[target]
            if goal.event["ph"] == "f" and goal.event.get("bp") != "e" and not any(item.start == time for item in lane):
                # Without "bp": "e" a target is that of the slice that begins next.
                later = next((item for item in lane if item.start > time), None)
                if later is not None:
                    target_slice, goal = later, replace(goal, time=later.start)
            wanted = target_slice.arg("connection_id") if target_slice else None
            source_slice = bound(slices.get(ends[source].thread, []), ends[source].time, wanted)
            if source_slice is None and category == "HostToDevice":
                for pid in python:
                    lane = slices.get((pid, ends[source].thread[1]), [])
                    source_slice = innermost(lane, ends[source].time) or source_slice
            found.append(Pair(category, id_text, ends[source], goal, source_slice, target_slice))
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


def _samples(events: list[Event]) -> dict[tuple[Any, str, str, str], list[tuple[int, float]]]:
    found: dict[tuple[Any, str, str, str], list[tuple[int, float]]] = {}
    for event in events:
        if event["ph"] == "C":
            args = event["args"]
            told = [key for key in args if key in ("acc_id", "die", "die_id", "acc id", "die id")]
            instance = " ".join(f"{key} {args[key]}" for key in told) if len(args) > 1 else ""
            for key, value in args.items():
                if not (instance and key in told):
                    name = f"{event['name']}[{event['id']}]" if "id" in event else event["name"]
                    series = found.setdefault((thread_of(event)[0], name, key, instance), [])
                    series.append((nanoseconds(event["ts"]), value))
    for key, series in found.items():  # equal samples of one moment count once
        found[key] = list(dict.fromkeys(sorted(series, key=lambda sample: sample[0])))
    return found
