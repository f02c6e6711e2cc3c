"""Decoded events taken apart into packed columns, chunk by chunk.

A ``Columns`` reads ranges of the file one after the other and keeps its dictionaries from one to the next; what it
found in a range is a ``RangeColumns``.
"""

from __future__ import annotations

from array import array
from collections import Counter
from itertools import compress
from typing import Any

import numpy as np

from npu_tui.ingest.json.columns.begin_end import PHASES
from npu_tui.ingest.json.columns.codes import Codes
from npu_tui.ingest.json.columns.counter_events import CounterEvents, SeriesKey
from npu_tui.ingest.json.columns.joint_codes import JointCodes
from npu_tui.ingest.json.columns.link_ends import LinkEnds
from npu_tui.ingest.json.columns.pairing import SOURCE, STEP, TARGET
from npu_tui.ingest.json.columns.range_columns import RangeColumns
from npu_tui.ingest.json.decoding.events import NO_DURATION, Event, decode_slice_args
from npu_tui.ingest.times import Times, nanoseconds

_LINK_PHASES = {"s": SOURCE, "t": STEP, "f": TARGET}
_COMMON = ("X", "C", *_LINK_PHASES)


def _those(phases: str) -> bytes:
    """A table that makes 1 of the bytes that are one of ``phases`` and 0 of all others."""
    return bytes(chr(byte) in phases for byte in range(256))


_SLICES, _SAMPLES, _LINK_ENDS = _those("X"), _those("C"), _those("".join(_LINK_PHASES))
_LINK_PHASE = np.zeros(256, np.int8)
for _phase, _code in _LINK_PHASES.items():
    _LINK_PHASE[ord(_phase)] = _code


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
        self._kinds = JointCodes(self.threads, self.categories, self.task_types, self.stacks)
        self._samples = CounterEvents(self.series, self._skipped)
        self._ends = LinkEnds(self.threads, self.link_categories, self.link_texts, self._skipped)
        self._x_time, self._c_time = Times(), Times()
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
        self._marks: list[bytes] = []
        self._pairs: list[int] = []
        self._x_name = array("i")
        self._x_duration = array("d")
        self._x_ids = {name: array("q") for name in ("stream", "connection", "correlation")}
        self._chunk_offset, self._chunk_length, self._chunk_first = array("q"), array("q"), array("q")

    def take(self) -> RangeColumns:
        """What the range held; the next one begins."""
        marks = b"".join(self._marks)
        duration = np.frombuffer(self._x_duration, np.float64)
        if without := int(np.count_nonzero(duration == NO_DURATION)):
            self._skipped["odd.no_duration"] += without
        self._phases.update({phase: found for phase in _COMMON if (found := marks.count(phase.encode()))})
        samples, series, value = self._samples.take()
        thread, category, task_type, stack = self._kinds.take()
        ends = self._ends.take(_places(marks, _LINK_ENDS))
        columns = {
            "x_duration": nanoseconds(duration),
            "x_thread": thread,
            "x_name": np.frombuffer(self._x_name, np.int32),
            "x_category": category,
            "x_task_type": task_type,
            "x_stack": stack,
            "x_event": np.array(self._pairs, np.int64) if self._pairs else _places(marks, _SLICES),
            **{f"x_{name}": np.frombuffer(values, np.int64) for name, values in self._x_ids.items()},
            "x_time": self._x_time.take(),
            "c_time": self._c_time.take()[samples],
            "c_series": series,
            "c_value": value,
            **{f"l_{name}": values for name, values in ends.items()},
            "l_phase": _LINK_PHASE[np.frombuffer(marks, np.uint8)[ends["event"]]],
            "chunk_offset": np.frombuffer(self._chunk_offset, np.int64),
            "chunk_length": np.frombuffer(self._chunk_length, np.int64),
            "chunk_first": np.frombuffer(self._chunk_first, np.int64),
        }
        part = RangeColumns(
            count=self.count,
            phases=dict(self._phases),
            skipped=dict(self._skipped),
            known=self._known,
            news={name: codes.since(self._known[name]) for name, codes in self.dictionaries.items()},
            replay=self._replay,
            columns=columns,
        )
        self._begin()
        return part

    def add(self, offset: int, length: int, events: list[Event]) -> None:
        """Take in the events of one chunk of ``length`` bytes at ``offset`` of the file."""
        self._chunk_offset.append(offset)
        self._chunk_length.append(length)
        self._chunk_first.append(self.count)
        marks = _marks(events)
        self._marks.append(marks)
        left = len(events)
        if slices := list(compress(events, marks.translate(_SLICES))):
            left -= len(slices)
            self._add_slices(slices)
        if left and (samples := list(compress(events, marks.translate(_SAMPLES)))):
            left -= len(samples)
            self._c_time.extend([event.ts for event in samples])
            self._samples.add(samples)
        if left and (ends := list(compress(events, marks.translate(_LINK_ENDS)))):
            left -= len(ends)
            self._ends.add(ends)
        if left:
            self._add_rare([(i, event) for i, event in enumerate(events, self.count) if event.ph not in _COMMON])
        self.count += len(events)

    def _add_rare(self, numbered: list[tuple[int, Event]]) -> None:
        """Take in what is neither slice nor sample nor link end."""
        for ordinal, event in numbered:
            self._phases[event.ph] += 1
            if event.ph == "M" or event.ph in PHASES:
                self._replay.append((ordinal, event))

    def add_pairs(self, pairs: list[tuple[int, Event]]) -> None:
        """Take in slices that are no events of their own, each with the ordinal of the event it begins with."""
        self._pairs.extend([ordinal for ordinal, _ in pairs])
        self._add_slices([event for _, event in pairs])

    def _add_slices(self, events: list[Event]) -> None:
        self._x_time.extend([event.ts for event in events])
        self._x_duration += array("d", [event.dur for event in events])
        args = decode_slice_args([event.args for event in events], self._skipped)
        self._kinds.add(
            [event.pid for event in events],
            [event.tid for event in events],
            [event.cat for event in events],
            [arg.task_type for arg in args],
            [arg.stack for arg in args],
        )
        self._x_name += array("i", list(map(self.names.__getitem__, [event.name for event in events])))
        ids = self._x_ids
        ids["stream"] += array("q", [arg.stream if arg.stream >= 0 else arg.physic_stream for arg in args])
        ids["connection"] += array("q", [arg.connection for arg in args])
        ids["correlation"] += array("q", [arg.correlation for arg in args])


def _marks(events: list[Event]) -> bytes:
    """The phase of every event as one byte; 0 stands for one that is no single character of ASCII."""
    phases = [event.ph for event in events]
    text = "".join(phases)
    if len(text) == len(phases) and "" not in phases and text.isascii():
        return text.encode()
    return "".join([phase if len(phase) == 1 and phase.isascii() else "\0" for phase in phases]).encode()


def _places(marks: bytes, those: bytes) -> Any:
    """Where ``marks`` are those of the table; (n,) int64."""
    return np.flatnonzero(np.frombuffer(marks.translate(those), np.bool_))
