"""Events to columns: codes of texts, begin and end events paired, counters, ends of links."""

from __future__ import annotations

import sys
from array import array
from binascii import crc32
from collections import Counter
from collections.abc import Hashable
from itertools import chain, islice
from typing import Any, TypeAlias, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.load.json_events import Event, decode_args
from npu_tui.load.times import INVALID, Times, parse_times
from npu_tui.trace.model import HOST_TO_DEVICE

K = TypeVar("K", bound=Hashable)


class Codes(dict[K, int]):
    """Numbers values in the order of their first appearance; the ``absent`` ones are -1."""

    def __init__(self, *absent: K) -> None:
        super().__init__(dict.fromkeys(absent, -1))
        self._absent = len(absent)

    def __missing__(self, key: K) -> int:
        code = self[key] = len(self) - self._absent
        return code

    @property
    def count(self) -> int:
        """How many values are numbered."""
        return len(self) - self._absent

    @property
    def values_in_order(self) -> list[K]:
        """The numbered values; code k is at index k."""
        return self.since(0)

    def since(self, count: int) -> list[K]:
        """The values with the codes ``count`` and up."""
        return list(islice(self, self._absent + count, None))


class JointCodes:
    """Numbers the combinations of a process, a thread and further values; few differ, however many events there are.

    ``threads`` numbers pairs of process and thread, the other ``dictionaries`` one value each.
    """

    def __init__(self, threads: Codes[tuple[int, int]], *dictionaries: Codes[str]) -> None:
        self._threads = threads
        self._dictionaries = dictionaries
        self._numbers: Codes[tuple[Any, ...]] = Codes()
        self._table = np.zeros((1 + len(dictionaries), 0), np.int32)
        self._found: list[npt.NDArray[np.int32]] = []

    def add(self, *columns: list[Any]) -> None:
        """Take in processes, threads and the further values, one of each per event."""
        numbers = map(self._numbers.__getitem__, zip(*columns, strict=True))
        self._found.append(np.fromiter(numbers, np.int32, len(columns[0])))

    def take(self) -> npt.NDArray[np.int32]:
        """The codes of all events since the last call: one row per dictionary, one column per event."""
        news = [
            [self._threads[pid, tid], *(codes[value] for codes, value in zip(self._dictionaries, values, strict=True))]
            for pid, tid, *values in self._numbers.since(self._table.shape[1])
        ]
        if news:
            self._table = np.concatenate((self._table, np.array(news, np.int32).T), axis=1)
        found, self._found = np.concatenate([np.zeros(0, np.int32), *self._found]), []
        return np.take(self._table, found, axis=1)


I64 = npt.NDArray[np.int64]

SOURCE, STEP, TARGET = 0, 1, 2


class Pairs(Struct, frozen=True):
    """Indices of link ends that belong together, and how many ends found no partner."""

    source: I64
    target: I64
    lone_sources: int
    lone_targets: int


def link_keys(category: npt.NDArray[np.int32], low: I64, high: I64) -> npt.NDArray[np.int32]:
    """Numbers for the distinct (category, id) of link ends, an id being the numbers ``low`` and ``high``; (n,)."""
    keys = np.zeros(len(low), np.int32)
    if not len(low):
        return keys
    order = np.argsort(low, kind="stable")
    same = np.take(low, order)
    rank = np.append(0, np.cumsum(same[1:] != same[:-1]))
    least, span = int(high.min()), int(high.max()) - int(high.min()) + 1
    ways = span * (int(category.max()) + 1)
    if len(low) * ways < 1 << 62:
        joint = rank * ways + np.take(category * np.int64(span) + (high - least), order)
        again = np.argsort(joint, kind="stable")
        order, joint = np.take(order, again), np.take(joint, again)
        fresh = joint[1:] != joint[:-1]
    else:
        order = order[np.lexsort((order, high[order], category[order], rank))]
        fresh = (low[order][1:] != low[order][:-1]) | (high[order][1:] != high[order][:-1])
        fresh |= category[order][1:] != category[order][:-1]
    keys[order[1:]] = np.cumsum(fresh)
    return keys


def pair_ends(key: npt.NDArray[np.int32], phase: npt.NDArray[np.int8]) -> Pairs:
    """Sources and targets of link ends given in file order; ``phase`` is 0 source, 1 step, 2 target.

    A key with one source links it to all its targets. Where a key is used again, the file tells: with as many sources
    as targets the k-th goes to the k-th, otherwise a target belongs to the source before it. A step (``t``) ends one
    link and begins the next.
    """
    is_source = phase != TARGET
    is_target = phase != SOURCE
    keys = int(key.max()) + 1 if len(key) else 0
    sources = np.flatnonzero(is_source)
    targets = np.flatnonzero(is_target)
    source_count = np.bincount(key[sources], minlength=keys)
    target_count = np.bincount(key[targets], minlength=keys)
    steps = np.bincount(key[phase == STEP], minlength=keys)
    sources = sources[np.argsort(key[sources], kind="stable")]
    targets = targets[np.argsort(key[targets], kind="stable")]
    first_source = np.concatenate(([0], np.cumsum(source_count)))
    first_target = np.concatenate(([0], np.cumsum(target_count)))
    of = key[targets]
    rank = np.arange(len(targets)) - first_target[of]
    alone = source_count[of] == 1
    even = (source_count[of] == target_count[of]) & (steps[of] == 0)
    at = np.where(alone, 0, np.where(even, rank, -1))
    for i in np.flatnonzero(at < 0):
        low, high = first_source[of[i]], first_source[of[i] + 1]
        at[i] = max(int(np.searchsorted(sources[low:high], targets[i])) - 1, 0)
    linked = source_count[of] > 0
    source = sources[(first_source[of] + at)[linked]]
    target = targets[linked]
    apart = source != target  # a step with nothing before it would be its own source
    linked[np.flatnonzero(linked)[~apart]] = False
    source, target = source[apart], target[apart]
    return Pairs(
        source,
        target,
        int(np.count_nonzero(target_count[key[sources]] == 0)),
        int(np.count_nonzero(~linked)),
    )


PHASES = frozenset("BEbe")

Numbered = tuple[int, Event]


class _Open:
    """Beginnings without an end so far, as (time, index); an end takes the last one of its process, else the last."""

    def __init__(self) -> None:
        self.left: set[int] = set()
        self._all: list[tuple[int, int]] = []
        self._of: dict[int, list[tuple[int, int]]] = {}

    def begin(self, pid: int, mark: tuple[int, int]) -> None:
        self.left.add(mark[1])
        self._all.append(mark)
        self._of.setdefault(pid, []).append(mark)

    def end(self, pid: int) -> tuple[int, int] | None:
        """The beginning that an end in process ``pid`` belongs to, if there is any."""
        for marks in (self._of.get(pid, []), self._all):
            while marks:
                mark = marks.pop()
                if mark[1] in self.left:  # it stands in both lists
                    self.left.remove(mark[1])
                    return mark
        return None


class BeginEndEvents:
    """BeginEndEvents in file order; ``slices`` pairs them."""

    def __init__(self) -> None:
        self.lane_names: dict[tuple[int, int], str] = {}
        self._marks: list[Numbered] = []

    def add(self, numbered: list[Numbered]) -> None:
        """Take in marks with their ordinals in the file."""
        self._marks.extend(numbered)

    def slices(self, skipped: Counter[str]) -> list[Numbered]:
        """One ``X`` event per pair with the ordinal of its beginning; marks without a partner are counted.

        BeginEndEvents are paired in the order of time, at equal times in that of the file.
        """
        times = parse_times([event.ts for _, event in self._marks])
        skipped["skip.mark_time"] += int((times == INVALID).sum())
        order = sorted((time, i) for i, time in enumerate(times.tolist()) if time != INVALID)
        open_marks: dict[tuple[object, ...], _Open] = {}
        found: list[Numbered] = []
        for time, i in order:
            event = self._marks[i][1]
            key = self._key(event)
            if event.ph in "Bb":
                open_marks.setdefault(key, _Open()).begin(event.pid, (time, i))
            elif key in open_marks and (begun := open_marks[key].end(event.pid)):
                found.append(self._slice(begun[1], time - begun[0]))
            else:
                skipped["skip.lone_end"] += 1
        skipped["skip.lone_begin"] += sum(len(marks.left) for marks in open_marks.values())
        return sorted(found, key=lambda pair: pair[0])

    def _key(self, event: Event) -> tuple[object, ...]:
        return (event.pid, event.tid) if event.ph in "BE" else (event.cat, str(event.id), event.name)

    def _slice(self, index: int, duration: int) -> Numbered:
        ordinal, event = self._marks[index]
        tid = event.tid
        if event.ph == "b":
            label = event.cat or event.name
            tid = -2 - crc32(f"async {label}".encode())
            self.lane_names[event.pid, tid] = label
        return ordinal, msgspec.structs.replace(event, ph="X", tid=tid, dur=duration / 1000)


I32 = npt.NDArray[np.int32]
F64 = npt.NDArray[np.float64]

SeriesKey: TypeAlias = tuple[int, str, str, str]
"""Process, name, key of the value, and what tells instances apart."""

_INSTANCE_KEYS = frozenset({"acc_id", "die", "die_id", "acc id", "die id"})
"""Keys of counter args that tell samples apart and are no curve of their own (msprof's Acc PMU and multi-die chips)."""

_samples = msgspec.json.Decoder(list[dict[str, float]]).decode
_values = dict[str, float].values


class CounterEvents:
    """Counter events of one range of the file.

    An event costs one look-up of its shape: process, name, id and the keys of its args. What its values mean is worked
    out per shape, once for all events of the range.
    """

    def __init__(self, series: Codes[SeriesKey], skipped: Counter[str]) -> None:
        self._series = series
        self._skipped = skipped
        self._shapes: Codes[tuple[Any, ...]] = Codes()
        self._shape: list[I32] = []
        self._value: list[F64] = []

    def add(self, events: list[Event]) -> None:
        """Take in counter events, in file order."""
        joined = b"[%b]" % b",".join([event.args or b"{}" for event in events])
        shapes = self._shapes
        try:
            samples = _samples(joined)
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
        self._shape.append(np.fromiter(map(shapes.__getitem__, keys), np.int32, len(events)))
        self._value.append(np.fromiter(chain.from_iterable(map(_values, samples)), np.float64))

    def _add_tolerated(self, event: Event) -> None:
        """Take in one event without what is no finite number, which is counted."""
        args = decode_args(bytes(event.args))
        telling = {key: value for key, value in args.items() if key in _INSTANCE_KEYS} if len(args) > 1 else {}
        numbers = {
            key: float(value)
            for key, value in args.items()
            if key not in telling and isinstance(value, int | float) and abs(value) <= sys.float_info.max
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
        shapes = [_Shape(*key) for key in self._shapes.values_in_order]
        width = np.array([len(found.keys) for found in shapes] or [0], np.int64)
        curves = np.array([len(found.curves) for found in shapes] or [0], np.int64)
        begin, place = _begins(width[shape]), _begins(curves[shape])
        total = int(curves[shape].sum()) if len(shape) else 0
        local, chosen = np.empty(total, np.int32), np.empty(total, np.float64)
        found: list[tuple[int, int, SeriesKey]] = []
        order = np.argsort(shape.astype(np.uint16) if len(shapes) < 1 << 16 else shape, kind="stable")
        bounds = np.searchsorted(shape[order], np.arange(len(shapes) + 1))
        for code, one in enumerate(shapes):
            events = order[bounds[code] : bounds[code + 1]]
            if not len(events):
                continue
            for members, instance in one.instances(events, value, begin):
                for k, at in enumerate(one.curves):
                    slots = place[members] + k
                    local[slots] = len(found)
                    chosen[slots] = value[begin[members] + at]
                    found.append((int(slots[0]), len(found), one.series(at, instance)))
        # Series are numbered by their first sample, whatever the order of their shapes.
        codes = np.zeros(len(found), np.int32)
        for _, number, key in sorted(found):
            codes[number] = self._series[key]
        return np.repeat(np.arange(len(shape)), curves[shape]), codes[local], chosen


class _Shape:
    """What the counter events of one process, name, id and list of arg keys have in common.

    ``curves`` are the places of the values among the ``keys``, the others tell instances apart.
    """

    def __init__(
        self, pid: int, name: str, identity: object, keys: tuple[str, ...], instance: str | None = None
    ) -> None:
        self._pid = pid
        self._name = name if identity is None else f"{name}[{identity}]"
        self.keys = keys
        self._known = instance
        split = self._known is None and len(self.keys) > 1
        self._telling = [i for i, key in enumerate(self.keys) if split and key in _INSTANCE_KEYS]
        self.curves = [i for i in range(len(self.keys)) if i not in self._telling]

    def instances(self, events: I64, value: F64, begin: I64) -> list[tuple[I64, str]]:
        """``events`` by instance, each with what tells it apart."""
        groups: list[tuple[I64, list[float]]] = [(events, [])]
        for at in self._telling:
            groups = [
                (group[own == told], [*tale, told])
                for group, tale in groups
                for own in [value[begin[group] + at]]
                for told in np.unique(own).tolist()
            ]
        names = [self.keys[at] for at in self._telling]
        return [(group, self._known or instance_name(names, tale)) for group, tale in groups]

    def series(self, at: int, instance: str) -> SeriesKey:
        """The series of the value at place ``at``."""
        return self._pid, self._name, self.keys[at], instance


def _begins(widths: I64) -> I64:
    return np.cumsum(widths) - widths


def instance_name(keys: list[str], values: list[Any]) -> str:
    """What tells an instance of a counter apart: each key that does, with its value."""
    return " ".join(f"{key} {_plain(value)}" for key, value in zip(keys, values, strict=True))


def _plain(value: object) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


_LOW_BITS = 62
_LOW = (1 << _LOW_BITS) - 1
_LONGEST = 37
"""An id of so many digits does not fit into two numbers."""
_DIGITS = b" 0123456789"


class LinkEnds:
    """The sources and targets of links in file order, with the category and the id that make them pairs.

    An id is two numbers: the low and the high bits of a decimal text, else 0 and -1 less its code among ``texts``.
    """

    def __init__(
        self,
        threads: Codes[tuple[int, int]],
        categories: Codes[str],
        texts: Codes[str],
        skipped: Counter[str],
    ) -> None:
        self._texts = texts
        self._skipped = skipped
        self._places = JointCodes(threads, categories)
        self._begin()

    def _begin(self) -> None:
        self._count = 0
        self._without: list[int] = []
        self._time = Times()
        self._low, self._high = array("q"), array("q")

    def add(self, ends: list[Event]) -> None:
        """Take in link ends; those without an id are counted as skipped."""
        ids, begun = [event.id for event in ends], self._count
        self._count += len(ends)
        if None in ids:
            self._without += [i for i, identity in enumerate(ids, begun) if identity is None]
            launches = sum(event.id is None and event.cat == HOST_TO_DEVICE for event in ends)
            self._skipped["skip.launch_id"] += launches
            self._skipped["skip.link_id"] += ids.count(None) - launches  # a version of MindSpore writes them so
            ends = [event for event in ends if event.id is not None]
            ids = [event.id for event in ends]
        self._places.add([event.pid for event in ends], [event.tid for event in ends], [event.cat for event in ends])
        self._time.extend([event.ts for event in ends])
        self._add_ids(ids)

    def _add_ids(self, ids: list[Any]) -> None:
        if _link_ends_plain(ids):
            numbers = list(map(int, ids))
            if max(numbers) <= _LOW:
                self._low += array("q", numbers)
                self._high += array("q", bytes(8 * len(numbers)))
            else:
                self._low += array("q", [number & _LOW for number in numbers])
                self._high += array("q", [number >> _LOW_BITS for number in numbers])
            return
        for text in map(str, ids):
            low, high = self._split(text)
            self._low.append(low)
            self._high.append(high)

    def _split(self, text: str) -> tuple[int, int]:
        if text.isdecimal() and text.isascii() and len(text) < _LONGEST and str(number := int(text)) == text:
            return number & _LOW, number >> _LOW_BITS
        return 0, -1 - self._texts[text]

    def take(self, ordinals: npt.NDArray[np.int64]) -> dict[str, npt.NDArray[Any]]:
        """The columns since the last call; ``ordinals`` are those of all the ends that were added."""
        thread, category = self._places.take()
        columns: dict[str, npt.NDArray[Any]] = {
            "category": category,
            "thread": thread,
            "event": np.delete(ordinals, self._without) if self._without else ordinals,
            "time": self._time.take(),
            "id": np.frombuffer(self._low, np.int64),
            "high": np.frombuffer(self._high, np.int64),
        }
        self._begin()
        return columns


def _link_ends_plain(ids: list[Any]) -> bool:
    """Whether all ``ids`` are of one type, whole, as a number is written, and of usual length."""
    kinds = set(map(type, ids))
    if kinds == {int}:
        return bool(min(ids) >= 0 and max(ids) >> _LOW_BITS <= _LOW)
    if kinds != {str} or "" in ids or max(map(len, ids)) >= _LONGEST:
        return False
    text = f" {' '.join(ids)}"
    if not text.isascii() or text.encode().translate(None, _DIGITS):
        return False
    return text.count(" ") == len(ids) and " 0" not in text
