"""Events of a text trace to columns: one array per field, texts as codes of a dictionary.

``EventColumns`` takes the events of a range of the file and gives ``RangeColumns``; ``json_reader.WholeColumns``
puts the ranges together. The phases with columns are ``X`` (slices, ``x_*``), ``C`` (counter samples, ``c_*``), and
``s``, ``t`` and ``f`` (link ends, ``l_*``). Metadata (``M``) and marks that pair up across ranges (``B``, ``E``, ``b``,
``e``) are handed on as events. All others, such as instants, are counted by their phase.
"""

from __future__ import annotations

import itertools
import re
import sys
from array import array
from collections import Counter
from collections.abc import Hashable, Iterable
from itertools import chain, compress, islice
from typing import Any, TypeAlias, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.load.json_events import NO_DURATION, Event, decode_args, decode_slice_args
from npu_tui.load.times import TimeTexts, nanoseconds
from npu_tui.trace.arrays import F64, I32, I64
from npu_tui.trace.model import HOST_TO_DEVICE

Array = npt.NDArray[Any]
K = TypeVar("K", bound=Hashable)

PHASES = frozenset("BEbe")
"""Marks: the beginnings and ends of slices, as events of their own."""

SOURCE, STEP, TARGET, FOLLOWING = 0, 1, 2, 3
"""The phases of link ends. A target without ``"bp": "e"`` is that of the slice that begins next: ``FOLLOWING``."""
_LINK_PHASES = {"s": SOURCE, "t": STEP, "f": TARGET}
_COMMON = ("X", "C", *_LINK_PHASES)

SeriesKey: TypeAlias = tuple[int, str, str, str]
"""A curve: process, name, key of the value, and what distinguishes instances."""


class ValueCodes(dict[K, int]):
    """Numbers values in the order of their first appearance; the ``absent`` ones are -1."""

    def __init__(self, *absent: K) -> None:
        super().__init__(dict.fromkeys(absent, -1))
        self.absent = len(absent)

    def __missing__(self, key: K) -> int:
        code = self[key] = len(self) - self.absent
        return code

    def of(self, values: Iterable[K]) -> list[int]:
        """The codes of many ``values``, several times faster than one by one."""
        values = list(values)
        new = [value for value in dict.fromkeys(values) if value not in self]
        self.update(zip(new, itertools.count(len(self) - self.absent), strict=False))
        return [*map(self.__getitem__, values)]

    @property
    def values_in_order(self) -> list[K]:
        """The numbered values; code k is at index k."""
        return list(islice(self, self.absent, None))


class Dictionaries:
    """The dictionaries of a trace, or of one reader; ``native/layout.py`` numbers them in the same order."""

    def __init__(self) -> None:
        self.threads: ValueCodes[tuple[int, int]] = ValueCodes()
        self.names: ValueCodes[str] = ValueCodes()
        self.categories: ValueCodes[str] = ValueCodes()
        self.task_types: ValueCodes[str] = ValueCodes("")
        self.stacks: ValueCodes[str] = ValueCodes("")
        self.series: ValueCodes[SeriesKey] = ValueCodes()
        self.link_categories: ValueCodes[str] = ValueCodes()
        self.link_texts: ValueCodes[str] = ValueCodes()
        self.dictionaries: dict[str, ValueCodes[Any]] = dict(vars(self))
        """All of them by name."""


class RangeColumns(Struct):
    """The columns of a range of a file up to byte ``end``, by name, and what else comes in file order.

    Codes are those of the reader of the range: it knew ``known`` values of each dictionary before, and ``news`` came
    with the range. ``x_event``, ``l_event`` and ``chunk_first`` count from the range's first event. ``replay`` are the
    numbered events that concern the whole trace: metadata and marks. ``truncated`` says that the file ends without the
    array's end, ``too_long`` where an element begins that is longer than any event, ``last`` that nothing after the
    range is to be read.
    """

    known: dict[str, int]
    end: int = 0
    count: int = 0
    phases: dict[str, int] = {}
    skipped: dict[str, int] = {}
    news: dict[str, list[Any]] = {}
    replay: list[tuple[int, Event]] = []
    columns: dict[str, Array] = {}
    truncated: bool = False
    malformed: int = 0
    too_long: int | None = None
    last: bool = False


class JointCodes:
    """Numbers the combinations of a process, a thread and further texts; few differ, however many events there are.

    ``dictionaries`` number one of the texts each.
    """

    def __init__(self, threads: ValueCodes[tuple[int, int]], *dictionaries: ValueCodes[str]) -> None:
        self._threads = threads
        self._dictionaries = dictionaries
        self._combinations: ValueCodes[tuple[Any, ...]] = ValueCodes()
        self._codes = np.zeros((1 + len(dictionaries), 0), np.int32)  # of each combination, in each dictionary
        self._events: list[I32] = []

    def add(self, *columns: list[Any]) -> None:
        """Take in processes, threads and the further texts, one of each per event."""
        numbers = map(self._combinations.__getitem__, zip(*columns, strict=True))
        self._events.append(np.fromiter(numbers, np.int32, len(columns[0])))

    def take(self) -> I32:
        """The codes of all events since the last call: one row per dictionary, one column per event."""
        codes = [
            [self._threads[pid, tid], *(codes[text] for codes, text in zip(self._dictionaries, texts, strict=True))]
            for pid, tid, *texts in self._combinations.values_in_order[self._codes.shape[1] :]
        ]
        if codes:
            self._codes = np.concatenate((self._codes, np.array(codes, np.int32).T), axis=1)
        events, self._events = np.concatenate([np.zeros(0, np.int32), *self._events]), []
        return np.take(self._codes, events, axis=1)


# Keys of counter args that distinguish samples and are no curve of their own (msprof's Acc PMU and multi-die chips).
_INSTANCE_KEYS = frozenset({"acc_id", "die", "die_id", "acc id", "die id"})

# A number that a writer has put into quotes.
_NUMBER = re.compile(r"\s*[+-]?\d{1,300}(?:\.\d*)?(?:[eE][+-]?\d{1,3})?\s*", re.ASCII)

_samples = msgspec.json.Decoder(list[dict[str, float]]).decode
_values = dict[str, float].values


class CounterEvents:
    """Counter events of one range of the file.

    An event costs one look-up of its shape: process, name, id and the keys of its args. What its values mean is worked
    out per shape, once for all events of the range. For example, ``{"acc_id": 3, "value": 7.5}`` is the curve "value"
    of the instance "acc_id 3".
    """

    def __init__(self, series: ValueCodes[SeriesKey], skipped: Counter[str]) -> None:
        self._series = series
        self._skipped = skipped
        self._shapes: ValueCodes[tuple[Any, ...]] = ValueCodes()
        self._shape: list[I32] = []
        self._value: list[F64] = []

    def add(self, events: list[Event]) -> None:
        """Take in counter events, in file order."""
        try:
            samples = _samples(b"[%b]" % b",".join([event.args or b"{}" for event in events]))
        except ValueError:
            for event in events:
                self._add_tolerated(event)
            return
        keys = zip(
            [event.pid for event in events],
            [event.name for event in events],
            [event.id for event in events],
            map(tuple, samples),
            strict=True,
        )
        self._shape.append(np.fromiter(map(self._shapes.__getitem__, keys), np.int32, len(events)))
        self._value.append(np.fromiter(chain.from_iterable(map(_values, samples)), np.float64))

    def _add_tolerated(self, event: Event) -> None:
        """Take in one event; values that are no finite numbers are left out and counted."""
        args = decode_args(bytes(event.args))
        telling = {key: value for key, value in args.items() if key in _INSTANCE_KEYS} if len(args) > 1 else {}
        numbers = {
            key: number
            for key, value in args.items()
            if key not in telling and (number := _finite_number(value)) is not None
        }
        if lost := len(args) - len(telling) - len(numbers):
            self._skipped["skip.sample_value"] += lost
        instance = instance_name(list(telling), list(telling.values()))
        shape = self._shapes[event.pid, event.name, event.id, tuple(numbers), instance]
        self._shape.append(np.array([shape], np.int32))
        self._value.append(np.array(list(numbers.values()), np.float64))

    def take(self) -> tuple[I64, I32, F64]:
        """The samples since the last call, in file order, as (index of the counter event, series code, value)."""
        shape = np.concatenate([np.zeros(0, np.int32), *self._shape])
        value = np.concatenate([np.zeros(0), *self._value])
        self._shape, self._value = [], []
        shapes = [_CounterShape(*key) for key in self._shapes.values_in_order]
        widths = np.array([len(one.keys) for one in shapes] or [0], np.int64)[shape]
        curves = np.array([len(one.curves()) for one in shapes] or [0], np.int64)[shape]
        begin, place = np.cumsum(widths) - widths, np.cumsum(curves) - curves  # of each event: its values, its samples
        local, chosen = np.empty(int(curves.sum()), np.int32), np.empty(int(curves.sum()))
        series: list[tuple[int, int, SeriesKey]] = []  # first sample, local number and key of each
        order = np.argsort(shape.astype(np.uint16) if len(shapes) < 1 << 16 else shape, kind="stable")
        bounds = np.searchsorted(shape[order], np.arange(len(shapes) + 1))
        for code, one in enumerate(shapes):
            events = order[bounds[code] : bounds[code + 1]]
            if not len(events):
                continue
            for members, instance in one.instances(events, value, begin):
                for k, at in enumerate(one.curves()):
                    samples = place[members] + k
                    local[samples] = len(series)
                    chosen[samples] = value[begin[members] + at]
                    series.append((int(samples[0]), len(series), (one.pid, one.label(), one.keys[at], instance)))
        # Series are numbered by their first sample, whatever the order of their shapes.
        codes = np.zeros(len(series), np.int32)
        for _, number, key in sorted(series):
            codes[number] = self._series[key]
        return np.repeat(np.arange(len(shape)), curves), codes[local], chosen


def _finite_number(value: object) -> float | None:
    """The finite number that ``value`` is, or writes as text; None for anything else."""
    if isinstance(value, str):
        try:
            value = float(value) if _NUMBER.fullmatch(value) else None
        except ValueError:
            return None
    return float(value) if isinstance(value, int | float) and abs(value) <= sys.float_info.max else None


class _CounterShape(Struct, frozen=True):
    """What the counter events of one process, name, id and list of arg keys have in common.

    ``instance`` is known already for events with values that are no numbers.
    """

    pid: int
    name: str
    identity: object
    keys: tuple[str, ...]
    instance: str | None = None

    def label(self) -> str:
        """The name, with the id where there is one."""
        return self.name if self.identity is None else f"{self.name}[{self.identity}]"

    def telling(self) -> list[int]:
        """The places among the keys of the values that distinguish instances."""
        split = self.instance is None and len(self.keys) > 1
        return [at for at, key in enumerate(self.keys) if split and key in _INSTANCE_KEYS]

    def curves(self) -> list[int]:
        """The places of all other values."""
        telling = self.telling()
        return [at for at in range(len(self.keys)) if at not in telling]

    def instances(self, events: I64, value: F64, begin: I64) -> list[tuple[I64, str]]:
        """``events`` by instance, each with what distinguishes it."""
        groups: list[tuple[I64, list[float]]] = [(events, [])]
        for at in self.telling():
            groups = [
                (members[values == number], [*numbers, number])
                for members, numbers in groups
                for values in [value[begin[members] + at]]
                for number in np.unique(values).tolist()
            ]
        names = [self.keys[at] for at in self.telling()]
        return [(members, self.instance or instance_name(names, numbers)) for members, numbers in groups]


def instance_name(keys: list[str], values: list[Any]) -> str:
    """What distinguishes an instance of a counter: each such key with its value, such as ``die 1``."""
    plain = [int(value) if isinstance(value, float) and value.is_integer() else value for value in values]
    return " ".join(f"{key} {value}" for key, value in zip(keys, plain, strict=True))


_LOW_BITS = 62  # an id is two int64: so many bits, and those above them
_LOW = (1 << _LOW_BITS) - 1
_LONGEST_ID = 37
"""An id of so many digits does not fit into two numbers."""
_DIGITS = b" 0123456789"


class LinkEndRows:
    """The sources and targets of links in file order, with the category and the id that make them pairs.

    An id is two numbers: the low and the high bits of a decimal text, else 0 and -1 less its code among ``texts``.
    """

    def __init__(
        self,
        threads: ValueCodes[tuple[int, int]],
        categories: ValueCodes[str],
        texts: ValueCodes[str],
        skipped: Counter[str],
    ) -> None:
        self._texts = texts
        self._skipped = skipped
        self._places = JointCodes(threads, categories)
        self._time = TimeTexts()
        self._count = 0
        self._without_id: list[int] = []
        self._low, self._high = array("q"), array("q")
        self._phases = bytearray()

    def add(self, ends: list[Event]) -> None:
        """Take in link ends; those without an id are counted as skipped."""
        ids, before = [event.id for event in ends], self._count
        self._count += len(ends)
        if None in ids:
            self._without_id += [i for i, identity in enumerate(ids, before) if identity is None]
            launches = sum(event.id is None and event.cat == HOST_TO_DEVICE for event in ends)
            self._skipped["skip.launch_id"] += launches
            self._skipped["skip.link_id"] += ids.count(None) - launches  # a version of MindSpore writes them so
            ends = [event for event in ends if event.id is not None]
            ids = [event.id for event in ends]
        self._phases += bytes([
            FOLLOWING if event.ph == "f" and event.bp != "e" else _LINK_PHASES[event.ph] for event in ends
        ])  # fmt: skip
        self._places.add([event.pid for event in ends], [event.tid for event in ends], [event.cat for event in ends])
        self._time.extend([event.ts for event in ends])
        if _are_plain(ids):
            numbers = list(map(int, ids))  # type: ignore[arg-type]
            self._low += array("q", [number & _LOW for number in numbers])
            self._high += array("q", [number >> _LOW_BITS for number in numbers])
            return
        for text in map(str, ids):
            if text.isdecimal() and text.isascii() and len(text) < _LONGEST_ID and str(number := int(text)) == text:
                self._low.append(number & _LOW)
                self._high.append(number >> _LOW_BITS)
            else:
                self._low.append(0)
                self._high.append(-1 - self._texts[text])

    def take(self, ordinals: I64) -> dict[str, Array]:
        """The columns since the last call; ``ordinals`` are those of all the ends that were added."""
        thread, category = self._places.take()
        columns: dict[str, Array] = {
            "category": category,
            "thread": thread,
            "event": np.delete(ordinals, self._without_id) if self._without_id else ordinals,
            "time": self._time.take(),
            "id": np.frombuffer(self._low, np.int64),
            "high": np.frombuffer(self._high, np.int64),
            "phase": np.frombuffer(bytes(self._phases), np.int8),
        }
        self._phases = bytearray()
        self._count, self._without_id = 0, []
        self._low, self._high = array("q"), array("q")
        return columns


def _are_plain(ids: list[Any]) -> bool:
    """Whether all ``ids`` are of one type, whole, as a number is written, and of usual length."""
    kinds = set(map(type, ids))
    if kinds == {int}:
        return bool(min(ids) >= 0 and max(ids) >> _LOW_BITS <= _LOW)
    if kinds != {str} or "" in ids or max(map(len, ids)) >= _LONGEST_ID:
        return False
    text = f" {' '.join(ids)}"
    if not text.isascii() or text.encode().translate(None, _DIGITS):
        return False
    return text.count(" ") == len(ids) and " 0" not in text


def _table_of(phases: str) -> bytes:
    """A table for ``bytes.translate`` that makes 1 of the bytes that are one of ``phases`` and 0 of all others."""
    return bytes(chr(byte) in phases for byte in range(256))


_SLICES, _SAMPLES, _LINK_ENDS = _table_of("X"), _table_of("C"), _table_of("".join(_LINK_PHASES))


class EventColumns(Dictionaries):
    """The events of a range so far; the dictionaries stay from one range to the next."""

    def __init__(self) -> None:
        super().__init__()
        self._skipped: Counter[str] = Counter()
        self._kinds = JointCodes(self.threads, self.categories, self.task_types, self.stacks)
        self._samples = CounterEvents(self.series, self._skipped)
        self._ends = LinkEndRows(self.threads, self.link_categories, self.link_texts, self._skipped)
        self._x_time, self._c_time = TimeTexts(), TimeTexts()
        self._begin()

    def _begin(self) -> None:
        """A new range."""
        self.count = 0
        self._part = RangeColumns({name: len(codes) - codes.absent for name, codes in self.dictionaries.items()})
        self._phases: Counter[str] = Counter()
        self._skipped.clear()
        self._marks: list[bytes] = []
        self._pairs: list[int] = []
        self._end_ordinals: list[int] = []
        self._x_name = array("i")
        self._x_duration = array("d")
        self._x_ids = {name: array("q") for name in ("x_stream", "x_connection", "x_correlation")}
        self._chunks = {name: array("q") for name in ("chunk_offset", "chunk_length", "chunk_first")}

    def add(self, offset: int, length: int, events: list[Event]) -> None:
        """Take in the events of one chunk of ``length`` bytes at ``offset`` of the file."""
        for column, value in zip(self._chunks.values(), (offset, length, self.count), strict=True):
            column.append(value)
        marks = _phase_bytes(events)
        self._marks.append(marks)
        left = len(events)
        # Masks over the phases: only rare events are looked at one by one.
        if slices := list(compress(events, marks.translate(_SLICES))):
            left -= len(slices)
            self._add_slices(slices)
            if any(event.bind_id is not None for event in slices):
                bound = [(number, event) for number, event in enumerate(events, self.count) if event.ph == "X"]
                self._part.replay += [(number, event) for number, event in bound if event.bind_id is not None]
        if left and (samples := list(compress(events, marks.translate(_SAMPLES)))):
            left -= len(samples)
            self._c_time.extend([event.ts for event in samples])
            self._samples.add(samples)
        if left and (ends := list(compress(events, marks.translate(_LINK_ENDS)))):
            left -= len(ends)
            self._ends.add(ends)
        # Rare phases are kept as events: they are replayed when all ranges are there.
        for ordinal, event in enumerate(events, self.count) if left else ():
            if event.ph not in _COMMON:
                self._phases[event.ph] += 1
                if event.ph == "M" or event.ph in PHASES:
                    self._part.replay.append((ordinal, event))
        self.count += len(events)

    def add_pairs(self, pairs: list[tuple[int, Event]]) -> None:
        """Take in slices that are no events of their own, each with the ordinal of the event it begins with."""
        self._pairs.extend([ordinal for ordinal, _ in pairs])
        self._add_slices([event for _, event in pairs])

    def add_ends(self, ends: list[tuple[int, Event]]) -> None:
        """Take in link ends that are no events of their own, each with the ordinal of the slice it stands at."""
        self._end_ordinals.extend([ordinal for ordinal, _ in ends])
        self._ends.add([event for _, event in ends])

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
        ids["x_stream"] += array("q", [arg.stream if arg.stream >= 0 else arg.physic_stream for arg in args])
        ids["x_connection"] += array("q", [arg.connection for arg in args])
        ids["x_correlation"] += array("q", [arg.correlation for arg in args])

    def take(self, end: int = 0) -> RangeColumns:
        """What the range held, which ends at byte ``end`` of the file; the next one begins."""
        part, marks = self._part, b"".join(self._marks)
        duration = np.frombuffer(self._x_duration, np.float64)
        if without := int(np.count_nonzero(duration == NO_DURATION)):
            self._skipped["odd.no_duration"] += without
        self._phases.update({phase: count for phase in _COMMON if (count := marks.count(phase.encode()))})
        samples, series, value = self._samples.take()
        thread, category, task_type, stack = self._kinds.take()
        own = np.array(self._end_ordinals, np.int64) if self._end_ordinals else _places_of_phases(marks, _LINK_ENDS)
        ends = self._ends.take(own)
        part.columns = {
            "x_time": self._x_time.take(),
            "x_duration": nanoseconds(duration),
            "x_thread": thread,
            "x_name": np.frombuffer(self._x_name, np.int32),
            "x_category": category,
            "x_task_type": task_type,
            "x_stack": stack,
            "x_event": np.array(self._pairs, np.int64) if self._pairs else _places_of_phases(marks, _SLICES),
            **{name: np.frombuffer(values, np.int64) for name, values in self._x_ids.items()},
            "c_time": self._c_time.take()[samples],
            "c_series": series,
            "c_value": value,
            **{f"l_{name}": values for name, values in ends.items()},
            **{name: np.frombuffer(values, np.int64) for name, values in self._chunks.items()},
        }
        part.end, part.count = end, self.count
        part.phases, part.skipped = dict(self._phases), dict(self._skipped)
        part.news = {name: codes.values_in_order[part.known[name] :] for name, codes in self.dictionaries.items()}
        self._begin()
        return part


def _phase_bytes(events: list[Event]) -> bytes:
    """The phase of every event as one byte; 0 stands for one that is no single character of ASCII."""
    phases = [event.ph for event in events]
    text = "".join(phases)
    if len(text) == len(phases) and "" not in phases and text.isascii():
        return text.encode()
    return "".join([phase if len(phase) == 1 and phase.isascii() else "\0" for phase in phases]).encode()


def _places_of_phases(marks: bytes, table: bytes) -> Any:
    """Where ``marks`` are those of ``table``; (n,) int64."""
    return np.flatnonzero(np.frombuffer(marks.translate(table), np.bool_))
