"""Counter events taken apart into samples of series."""

from __future__ import annotations

import sys
from collections import Counter
from itertools import chain
from typing import Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from npu_tui.ingest.json.columns.codes import Codes
from npu_tui.ingest.json.decoding.events import Event, decode_args

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
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
