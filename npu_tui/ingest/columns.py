"""Decoded events taken apart into packed columns, chunk by chunk.

A ``Columns`` reads ranges of the file one after the other and keeps its dictionaries from one to the next; what it
found in a range is a ``Part``.
"""

from __future__ import annotations

from array import array
from collections import Counter
from itertools import compress
from typing import Any

import numpy as np
import numpy.typing as npt

from npu_tui.ingest.codes import Codes
from npu_tui.ingest.events import Event, decode_slice_args
from npu_tui.ingest.marks import PHASES
from npu_tui.ingest.parts import Part
from npu_tui.ingest.samples import Samples, SeriesKey
from npu_tui.ingest.times import joined, nanoseconds, parse_joined

_LOW_BITS = 62
_LOW = (1 << _LOW_BITS) - 1
_HIGHEST = 1 << 120

_LINK_PHASES = {"s": 0, "t": 1, "f": 2}
_KNOWN = frozenset({"X", "C", "M", *_LINK_PHASES, *PHASES})
_INSTANTS = frozenset("iInRP")


class Times:
    """Time texts, parsed in bulk at the end."""

    def __init__(self) -> None:
        self._joined: list[str] = []

    def extend(self, texts: list[str]) -> None:
        """Append ``texts``."""
        if texts:
            self._joined.append(joined(texts))

    def take(self) -> npt.NDArray[np.int64]:
        """All times since the last call, int64 ns, ``INVALID`` for what is no time."""
        parts, self._joined = self._joined, []
        return parse_joined(parts)


class Columns:
    """The events of a range so far. ``x_*`` belong to slices, ``c_*`` to counter samples, ``l_*`` to link ends."""

    def __init__(self) -> None:
        self.threads: Codes[tuple[int, int]] = Codes()
        self.names: Codes[str] = Codes()
        self.categories: Codes[str] = Codes()
        self.task_types: Codes[str] = Codes("")
        self.stacks: Codes[str] = Codes("")
        self.series: Codes[SeriesKey] = Codes()
        self.link_categories: Codes[str] = Codes()
        self.link_texts: Codes[str] = Codes()
        self.count = 0
        self._skipped: Counter[str] = Counter()
        self._samples = Samples(self.series, self._skipped)
        self._x_time, self._c_time, self._l_time = Times(), Times(), Times()
        self._begin()

    @property
    def dictionaries(self) -> dict[str, Codes[Any]]:
        """The dictionaries by name: a column of codes names the one it uses in ``parts.DICTIONARY``."""
        return {
            "threads": self.threads,
            "names": self.names,
            "categories": self.categories,
            "task_types": self.task_types,
            "stacks": self.stacks,
            "series": self.series,
            "link_categories": self.link_categories,
            "link_texts": self.link_texts,
        }

    def _begin(self) -> None:
        """A new range."""
        self.count = 0
        self._known = {name: codes.count for name, codes in self.dictionaries.items()}
        self._phases: Counter[str] = Counter()
        self._skipped.clear()
        self._replay: list[tuple[int, Event]] = []
        self._x_duration = array("d")
        self._x = {name: array("i") for name in ("thread", "name", "category", "task_type", "stack", "event")}
        self._x_ids = {name: array("q") for name in ("stream", "connection", "correlation")}
        self._c_event = array("i")
        self._l = {name: array("i") for name in ("category", "thread", "event")}
        self._l_phase = array("b")
        self._l_id, self._l_high = array("q"), array("q")
        self._chunk_offset, self._chunk_length, self._chunk_first = array("q"), array("q"), array("i")

    def take(self) -> Part:
        """What the range held; the next one begins."""
        samples, series, value = self._samples.take()
        numbers: dict[str, tuple[Any, Any]] = {
            "x_duration": (nanoseconds(np.array(self._x_duration, np.float64)), np.int64),
            **{f"x_{name}": (values, np.int32) for name, values in self._x.items()},
            **{f"x_{name}": (values, np.int64) for name, values in self._x_ids.items()},
            "x_time": (self._x_time.take(), np.int64),
            "c_time": (self._c_time.take()[samples], np.int64),
            "c_series": (series, np.int32),
            "c_value": (value, np.float64),
            **{f"l_{name}": (values, np.int32) for name, values in self._l.items()},
            "l_time": (self._l_time.take(), np.int64),
            "l_phase": (self._l_phase, np.int8),
            "l_id": (self._l_id, np.int64),
            "l_high": (self._l_high, np.int64),
            "chunk_offset": (self._chunk_offset, np.int64),
            "chunk_length": (self._chunk_length, np.int64),
            "chunk_first": (self._chunk_first, np.int64),
        }
        part = Part(
            count=self.count,
            phases=dict(self._phases),
            skipped=dict(self._skipped),
            known=self._known,
            news={name: codes.since(self._known[name]) for name, codes in self.dictionaries.items()},
            replay=self._replay,
            columns={name: np.asarray(values, dtype) for name, (values, dtype) in numbers.items()},
        )
        self._begin()
        return part

    def give_up(self) -> None:
        """Forget the range, so that it leaves no trace in the dictionaries."""
        known = self._known
        self.take()
        for name, codes in self.dictionaries.items():
            codes.forget(known[name])
        self._begin()

    def add(self, offset: int, length: int, events: list[Event]) -> None:
        """Take in the events of one chunk of ``length`` bytes at ``offset`` of the file."""
        self._chunk_offset.append(offset)
        self._chunk_length.append(length)
        self._chunk_first.append(self.count)
        phases = [event.ph for event in events]
        left = len(events)
        if slices := [event for event in events if event.ph == "X"]:
            left -= len(slices)
            self._phases["X"] += len(slices)
            chosen = [phase == "X" for phase in phases]
            self._x["event"] += array("i", compress(range(self.count, self.count + len(events)), chosen))
            self._add_slices(slices)
        if left and (samples := [event for event in events if event.ph == "C"]):
            left -= len(samples)
            self._phases["C"] += len(samples)
            self._c_time.extend([event.ts for event in samples])
            self._samples.add(samples)
        if left:
            self._add_others(phases, events)
        self.count += len(events)

    def _add_others(self, phases: list[str], events: list[Event]) -> None:
        """Take in what is neither slice nor sample."""
        places = [i for i, phase in enumerate(phases) if phase != "X" and phase != "C"]
        numbered = [(self.count + i, events[i]) for i in places]
        counted = Counter([event.ph for _, event in numbered])
        self._phases.update(counted)
        if not _LINK_PHASES.keys().isdisjoint(counted):
            self._add_link_ends([(i, event) for i, event in numbered if event.ph in _LINK_PHASES])
        if "M" in counted or not PHASES.isdisjoint(counted):
            self._replay += [(i, event) for i, event in numbered if event.ph == "M" or event.ph in PHASES]
        for phase, number in counted.items():
            if phase not in _KNOWN:
                self._skipped[_not_shown(phase)] += number

    def add_pairs(self, pairs: list[tuple[int, Event]]) -> None:
        """Take in slices that are no events of their own, each with the ordinal of the event it begins with."""
        self._x["event"].extend([ordinal for ordinal, _ in pairs])
        self._add_slices([event for _, event in pairs])

    def _add_slices(self, events: list[Event]) -> None:
        self._x_time.extend([event.ts for event in events])
        self._x_duration += array("d", [event.dur for event in events])
        x, ids = self._x, self._x_ids
        pids_and_tids = zip([event.pid for event in events], [event.tid for event in events], strict=True)
        x["thread"] += array("i", list(map(self.threads.__getitem__, pids_and_tids)))
        x["name"] += array("i", list(map(self.names.__getitem__, [event.name for event in events])))
        x["category"] += array("i", list(map(self.categories.__getitem__, [event.cat for event in events])))
        args = decode_slice_args([event.args for event in events])
        x["task_type"] += array("i", list(map(self.task_types.__getitem__, [arg.task_type for arg in args])))
        x["stack"] += array("i", list(map(self.stacks.__getitem__, [arg.stack for arg in args])))
        ids["stream"] += array("q", [arg.stream if arg.stream >= 0 else arg.physic_stream for arg in args])
        ids["connection"] += array("q", [arg.connection for arg in args])
        ids["correlation"] += array("q", [arg.correlation for arg in args])

    def _add_link_ends(self, numbered: list[tuple[int, Event]]) -> None:
        known = [(i, event) for i, event in numbered if event.id is not None]
        if len(known) < len(numbered):
            self._skipped["link end without id"] += len(numbered) - len(known)
        ends = [event for _, event in known]
        columns = self._l
        columns["event"] += array("i", [i for i, _ in known])
        columns["category"] += array("i", list(map(self.link_categories.__getitem__, [event.cat for event in ends])))
        pids_and_tids = zip([event.pid for event in ends], [event.tid for event in ends], strict=True)
        columns["thread"] += array("i", list(map(self.threads.__getitem__, pids_and_tids)))
        self._l_phase += array("b", [_LINK_PHASES[event.ph] for event in ends])
        self._l_time.extend([event.ts for event in ends])
        ids = [event.id for event in ends]
        try:
            numbers = list(map(int, ids))  # type: ignore[arg-type]
            if numbers and list(map(str, numbers)) == list(map(str, ids)) and min(numbers) >= 0:
                self._l_id += array("q", [number & _LOW for number in numbers])
                self._l_high += array("q", [number >> _LOW_BITS for number in numbers])
                return
        except (ValueError, OverflowError):
            pass
        for text in map(str, ids):
            low, high = self._split(text)
            self._l_id.append(low)
            self._l_high.append(high)

    def _split(self, text: str) -> tuple[int, int]:
        """The id of a link as two numbers: that of a decimal text, else -1 less its code."""
        if text.isdecimal() and text.isascii() and len(text) < 37 and str(number := int(text)) == text:
            return number & _LOW, number >> _LOW_BITS
        return 0, -1 - self.link_texts[text]


def _not_shown(phase: str) -> str:
    """Why an event of ``phase`` is on no lane."""
    if not phase:
        return "not an event"
    return "instant without duration" if phase in _INSTANTS else f"phase {phase!r} is not shown"
