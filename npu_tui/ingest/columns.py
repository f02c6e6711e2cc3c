"""Decoded events taken apart into packed columns, chunk by chunk."""

from __future__ import annotations

import sys
from array import array
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import compress
from operator import itemgetter
from typing import Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from npu_tui.ingest.events import Event, decode_args, decode_slice_args
from npu_tui.ingest.marks import PHASES, Marks
from npu_tui.ingest.times import INVALID, nanoseconds, parse_times
from npu_tui.trace.model import Chunks

K = TypeVar("K", bound=Hashable)

_FLUSH = 1 << 16
_INSTANCE_KEYS = frozenset({"acc_id", "die", "die_id", "acc id", "die id"})
"""Keys of counter args that tell samples apart and are no curve of their own (msprof's Acc PMU and multi-die chips)."""

_samples = msgspec.json.Decoder(list[dict[str, float]]).decode


class Codes(dict[K, int]):
    """Numbers values in the order of their first appearance; the ``absent`` ones are -1."""

    def __init__(self, *absent: K) -> None:
        super().__init__(dict.fromkeys(absent, -1))
        self._absent = len(absent)

    def __missing__(self, key: K) -> int:
        code = self[key] = len(self) - self._absent
        return code

    @property
    def values_in_order(self) -> list[K]:
        """The numbered values; code k is at index k."""
        return list(self)[self._absent :]


class _SampleShape:
    """What the counter events of one process, name and list of arg keys have in common.

    ``curves`` are the keys of their values, ``telling`` those that tell instances apart, ``codes`` the series of the
    curves by the values of the latter.
    """

    __slots__ = ("codes", "curves", "of_curves", "of_telling", "telling")

    def __init__(self, keys: list[str]) -> None:
        self.telling = [key for key in keys if key in _INSTANCE_KEYS] if len(keys) > 1 else []
        self.curves = [key for key in keys if key not in self.telling]
        self.of_telling = itemgetter(*self.telling) if self.telling else _nothing
        self.of_curves = itemgetter(*self.curves) if self.curves else _nothing
        self.codes: dict[object, list[int]] = {}


def _nothing(sample: object) -> Any:
    """Stands for the values of no keys."""
    return None


class Times:
    """Time texts, parsed in bulk; ``array()`` is (n,) int64 ns with ``INVALID`` for what is no time."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._parsed: list[npt.NDArray[np.int64]] = []

    def extend(self, texts: Sequence[str]) -> None:
        """Append ``texts``."""
        self._texts.extend(texts)
        if len(self._texts) >= _FLUSH:
            self._flush()

    def array(self) -> npt.NDArray[np.int64]:
        """All times so far."""
        self._flush()
        return np.concatenate(self._parsed) if self._parsed else np.zeros(0, np.int64)

    def _flush(self) -> None:
        if self._texts:
            self._parsed.append(parse_times(self._texts))
            self._texts = []


@dataclass(slots=True)
class Metadata:
    """What ``M`` events say: names, labels and orders of processes, names and orders of threads.

    Packed pids of sort indexes above 31 run into those of other processes: the first name counts, a further one is kept
    in ``other_names``.
    """

    process_name: dict[int, str] = field(default_factory=dict)
    process_label: dict[int, str] = field(default_factory=dict)
    process_order: dict[int, int] = field(default_factory=dict)
    thread_name: dict[tuple[int, int], str] = field(default_factory=dict)
    thread_order: dict[tuple[int, int], int] = field(default_factory=dict)
    other_names: dict[int, str] = field(default_factory=dict)

    def add(self, event: Event) -> None:
        """Take in one ``M`` event; unknown ones and those without a value are ignored."""
        try:
            args = decode_args(bytes(event.args))
        except ValueError:
            return
        thread = (event.pid, event.tid)
        if event.name == "process_name":
            name = str(args.get("name", ""))
            if name and name != self.process_name.setdefault(event.pid, name):
                self.other_names[event.pid] = name
        elif event.name == "process_labels":
            self.process_label[event.pid] = str(args.get("labels", ""))
        elif event.name == "process_sort_index" and isinstance(args.get("sort_index"), int):
            self.process_order[event.pid] = args["sort_index"]
        elif event.name == "thread_name":
            self.thread_name[thread] = str(args.get("name", ""))
        elif event.name == "thread_sort_index" and isinstance(args.get("sort_index"), int):
            self.thread_order[thread] = args["sort_index"]


class Columns:
    """The events read so far. ``x_*`` belong to slices, ``c_*`` to counter samples, ``l_*`` to link ends."""

    def __init__(self) -> None:
        self.count = 0
        self.phases: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self.metadata = Metadata()
        self.threads: Codes[tuple[int, int]] = Codes()
        self.names: Codes[str] = Codes()
        self.categories: Codes[str] = Codes()
        self.task_types: Codes[str] = Codes("")
        self.stacks: Codes[str] = Codes("")
        self.x_time = Times()
        self.x_duration = array("d")
        self.x_thread = array("i")
        self.x_name = array("i")
        self.x_category = array("i")
        self.x_task_type = array("i")
        self.x_stream = array("q")
        self.x_connection = array("q")
        self.x_correlation = array("q")
        self.x_stack = array("i")
        self.x_event = array("q")
        self.series: Codes[tuple[int, str, str, str]] = Codes()
        self._shapes: dict[tuple[object, ...], _SampleShape] = {}
        self.c_time = Times()
        self.c_series = array("i")
        self.c_value = array("d")
        self.l_categories: Codes[str] = Codes()
        self.l_keys: Codes[tuple[str, str]] = Codes()
        self.l_time = Times()
        self.l_phase = array("b")
        self.l_category = array("i")
        self.l_key = array("i")
        self.l_thread = array("i")
        self.l_event = array("q")
        self._marks = Marks()
        self._chunk_file = array("i")
        self._chunk_offset = array("q")
        self._chunk_length = array("q")
        self._chunk_first = array("q")

    @property
    def chunks(self) -> Chunks:
        """Where the events so far lie in the file."""
        return Chunks(
            np.array(self._chunk_file, np.int32),
            np.array(self._chunk_offset, np.int64),
            np.array(self._chunk_length, np.int64),
            np.array(self._chunk_first, np.int64),
        )

    def add(self, offset: int, length: int, events: list[Event], file: int = 0) -> None:
        """Take in the events of one chunk of ``length`` bytes at ``offset`` of file number ``file``."""
        self._chunk_file.append(file)
        self._chunk_offset.append(offset)
        self._chunk_length.append(length)
        self._chunk_first.append(self.count)
        phases = [event.ph for event in events]
        counted = Counter(phases)
        self.phases.update(counted)
        if "X" in counted:
            chosen = [phase == "X" for phase in phases]
            self.x_event.extend(compress(range(self.count, self.count + len(events)), chosen))
            self._add_slices(list(compress(events, chosen)))
        if "C" in counted:
            self._add_samples([event for event in events if event.ph == "C"])
        if "s" in counted or "f" in counted or "t" in counted:
            self._add_link_ends([(i, event) for i, event in enumerate(events) if event.ph in _LINK_PHASES])
        if "M" in counted:
            for event in events:
                if event.ph == "M":
                    self.metadata.add(event)
        if not PHASES.isdisjoint(counted):
            self._marks.add([(self.count + i, event) for i, event in enumerate(events) if event.ph in PHASES])
        for phase, number in counted.items():
            if phase not in _KNOWN:
                self.skipped[_not_shown(phase)] += number
        self.count += len(events)

    def close(self) -> None:
        """Make slices of begin and end marks, once all events are in."""
        pairs = self._marks.slices(self.skipped)
        self.x_event.extend([ordinal for ordinal, _ in pairs])
        self._add_slices([event for _, event in pairs])
        for thread, name in self._marks.lane_names.items():
            self.metadata.thread_name.setdefault(thread, name)
        self._marks = Marks()

    def _add_slices(self, events: list[Event]) -> None:
        threads, names, categories = self.threads, self.names, self.categories
        self.x_time.extend([event.ts for event in events])
        self.x_duration.extend([event.dur for event in events])
        self.x_thread.extend([threads[event.pid, event.tid] for event in events])
        self.x_name.extend([names[event.name] for event in events])
        self.x_category.extend([categories[event.cat] for event in events])
        task_types, stacks = self.task_types, self.stacks
        args = decode_slice_args([event.args for event in events])
        self.x_task_type.extend([task_types[arg.task_type] for arg in args])
        self.x_stream.extend([arg.stream if arg.stream >= 0 else arg.physic_stream for arg in args])
        self.x_connection.extend([arg.connection for arg in args])
        self.x_correlation.extend([arg.correlation for arg in args])
        self.x_stack.extend([stacks[arg.stack] for arg in args])

    def _add_samples(self, events: list[Event]) -> None:
        joined = b"[%b]" % b",".join([event.args or b"{}" for event in events])
        try:
            samples: list[dict[str, Any]] = list(_samples(joined))
        except ValueError:
            samples = [self._numbers(event) for event in events]
        codes: list[int] = []
        times: list[str] = []
        values: list[float] = []
        for event, sample in zip(events, samples, strict=True):
            name = event.name if event.id is None else f"{event.name}[{event.id}]"
            key = (event.pid, name, *sample)
            shape = self._shapes.get(key)
            if shape is None:
                shape = self._shapes[key] = _SampleShape(list(sample))
            told = shape.of_telling(sample)
            found = shape.codes.get(told)
            if found is None:
                instance = " ".join(f"{key} {_plain(sample[key])}" for key in shape.telling)
                found = [self.series[event.pid, name, key, instance] for key in shape.curves]
                shape.codes[told] = found
            if len(found) == 1:
                codes.append(found[0])
                times.append(event.ts)
                values.append(shape.of_curves(sample))
            elif found:
                codes += found
                times += [event.ts] * len(found)
                values += shape.of_curves(sample)
        self.c_series.extend(codes)
        self.c_time.extend(times)
        self.c_value.extend(values)

    def _numbers(self, event: Event) -> dict[str, Any]:
        """The args of a counter event without what is no finite number, which is counted."""
        args = decode_args(bytes(event.args))
        telling = {key: str(args[key]) for key in args if key in _INSTANCE_KEYS} if len(args) > 1 else {}
        values = {key: value for key, value in args.items() if key not in telling}
        numbers = {
            key: float(value)
            for key, value in values.items()
            if isinstance(value, int | float) and abs(value) <= sys.float_info.max
        }
        if len(numbers) < len(values):
            self.skipped["counter value is not a number"] += len(values) - len(numbers)
        return telling | numbers if numbers else {}

    def _add_link_ends(self, numbered: list[tuple[int, Event]]) -> None:
        threads, categories, keys = self.threads, self.l_categories, self.l_keys
        known = [(i, event) for i, event in numbered if event.id is not None]
        if len(known) < len(numbered):
            self.skipped["link end without id"] += len(numbered) - len(known)
        events = [event for _, event in known]
        self.l_event.extend([self.count + i for i, _ in known])
        self.l_phase.extend([_LINK_PHASES[event.ph] for event in events])
        self.l_category.extend([categories[event.cat] for event in events])
        self.l_key.extend([keys[event.cat, str(event.id)] for event in events])
        self.l_thread.extend([threads[event.pid, event.tid] for event in events])
        self.l_time.extend([event.ts for event in events])

    def slice_times(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Absolute start and duration of every slice, ns, and which of them are usable; (n,) each.

        Slices without a time or with a negative or endless duration are counted in ``skipped``.
        """
        start = self.x_time.array()
        duration = nanoseconds(np.array(self.x_duration, np.float64))
        timed = start != INVALID
        lasting = duration >= 0
        self.skipped["slice without a usable time"] += int(np.count_nonzero(~timed))
        self.skipped["slice with a negative or endless duration"] += int(np.count_nonzero(timed & ~lasting))
        return start, duration, timed & lasting


_LINK_PHASES = {"s": 0, "t": 1, "f": 2}
_KNOWN = frozenset({"X", "C", "M", *_LINK_PHASES, *PHASES})
_INSTANTS = frozenset("iInRP")


def _not_shown(phase: str) -> str:
    """Why an event of ``phase`` is on no lane."""
    if not phase:
        return "not an event"
    return "instant without duration" if phase in _INSTANTS else f"phase {phase!r} is not shown"


def _plain(value: object) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
