"""A memory snapshot to columns: a dump of MemScope, or a pickle of dicts, each field checked before it counts.

What is damaged is counted and left out: an event without a number for its size, a block without an address. Stacks are
told apart by the objects that the pickle shares, not by their texts.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from npu_tui.load.errors import UNWATCHED, InputError, Watcher
from npu_tui.load.lives import lives_of
from npu_tui.load.memscope import load_memscope
from npu_tui.load.pickle_runs import Run
from npu_tui.load.pickles import PickleError, Unpickler
from npu_tui.load.snapshot_files import is_memscope
from npu_tui.trace.message import Message, message
from npu_tui.trace.side_file import open_regular
from npu_tui.trace.snapshot import ACTIONS, OOM, STATES, Blocks, DeviceMemory, Events, MemorySnapshot, Segments

I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_ACTIONS = {name: number for number, name in enumerate(ACTIONS)}
_STATES = {name: number for number, name in enumerate(STATES)} | {"active_awaiting_free": 1}
_LONGEST_STACK = 400
"""Frames of one stack."""
_LEAST_ENTRIES, _ENTRY_BYTES = 10_000, 8
"""A list of events or blocks that is referred to again holds its entries again: a file has bounds for all of them."""
_LEAST_TEXT, _TEXT_TIMES = 64 << 20, 3
"""Letters of all stacks: those of a small file, and how many times the size of a large one."""
_MOST = 1 << 50
"""Bytes of one block that no device has."""


def load_snapshot(path: Path, watcher: Watcher = UNWATCHED) -> MemorySnapshot:
    """The snapshot at ``path``. Raises ``InputError`` where it is none, ``OSError`` where it cannot be read."""
    if is_memscope(path):
        return load_memscope(path, watcher)
    with open_regular(path) as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        size = len(data)
        unpickler = Unpickler(data, lambda done: watcher.report(done, size))
        try:
            root = unpickler.load()
        except PickleError as error:
            raise InputError(message(error.code, path=str(path), byte=error.at, what=error.what)) from None
        except RecursionError:
            raise InputError(message("input.pickle_deep", path=str(path), byte=0, what="")) from None
    if type(root) is not dict or not (type(root.get("segments")) is list or type(root.get("device_traces")) is list):
        raise InputError(message("input.pickle_other", path=str(path)))
    try:
        return _Reading(unpickler.objects, size).snapshot(str(path), size, root)
    except _Bomb:
        raise InputError(message("input.pickle_bomb", path=str(path), byte=0, what="")) from None


class _Bomb(Exception):  # noqa: N818 - said as an InputError
    """The same lists and texts stand in the snapshot again and again: it means far more than its size."""


class _Reading:
    """One reading; ``objects`` are what the entries of runs refer to."""

    def __init__(self, objects: list[Any], size: int) -> None:
        self._objects = objects
        self._entries_left = _LEAST_ENTRIES + size // _ENTRY_BYTES
        self._text_left = _LEAST_TEXT + _TEXT_TIMES * size
        self._index = {id(value): number for number, value in enumerate(objects)}
        self._stack_of: dict[int, int] = {}
        self._frames: dict[int, str] = {}
        self._stacks: dict[str, int] = {}
        self._pools: dict[Any, int] = {}
        self._odd: dict[Message, int] = {}

    def snapshot(self, path: str, size: int, root: dict[str, Any]) -> MemorySnapshot:
        """The columns of all devices with anything on them."""
        traces = root.get("device_traces")
        traces = traces if type(traces) is list else []
        entries = root.get("segments")
        segments = _Entries(self, entries if type(entries) is list else [])
        device, there = segments.numbers("device", 0)
        known = sorted({number for number in device[there].tolist() if number < 1024})
        numbers = sorted({*known, *(number for number, trace in enumerate(traces) if type(trace) is list and trace)})
        devices = []
        for number in numbers:
            trace = traces[number] if number < len(traces) and type(traces[number]) is list else []
            events = self._events(_Entries(self, trace))
            chosen = np.flatnonzero(there & (device == number)).tolist()
            segment, blocks = self._segments([segments.entry(row) for row in chosen])
            devices.append(DeviceMemory(number, events, segment, blocks, lives_of(events, segment, blocks)))
        stacks = list(self._stacks)
        return MemorySnapshot(path, size, devices, stacks, {said: count for said, count in self._odd.items() if count})

    def _events(self, entries: _Entries) -> Events:
        action = entries.coded("action", _ACTIONS, "odd.memory_action")
        size, sized = entries.numbers("size", 0)
        address, placed = entries.numbers("addr", -1)
        free, _ = entries.numbers("device_free", -1)
        is_oom = action == OOM
        address, placed = np.where(is_oom, free, address), np.where(is_oom, True, placed)
        is_note = action > OOM  # snapshots are notes of the whole: no address is asked of them
        kept = (action >= 0) & sized & (placed | is_note) & (size >= 0) & (size < _MOST)
        self.count(message("odd.memory_event"), int(np.count_nonzero((action >= 0) & ~kept)))
        time, timed = entries.numbers("time_us", 0)
        kept_at = np.flatnonzero(kept)
        return Events(
            action=action[kept_at].astype(np.int8),
            address=address[kept_at],
            size=size[kept_at],
            stream=entries.numbers("stream", 0)[0][kept_at],
            stack=entries.stacks()[kept_at].astype(np.int32),
            time=time[kept_at] * 1000 if len(kept_at) and timed[kept_at].all() else None,
        )

    def _segments(self, entries: list[dict[str, Any]]) -> tuple[Segments, Blocks]:
        segments, lists = _Entries(self, entries), [entry.get("blocks") for entry in entries]
        address, placed = segments.numbers("address", -1)
        size, sized = segments.numbers("total_size", 0)
        kept = placed & sized & (size >= 0) & (size < _MOST)
        self.count(message("odd.memory_segment"), int(np.count_nonzero(~kept)))
        at = np.flatnonzero(kept).tolist()
        pools = [self._pools.setdefault(_plain(entries[row].get("segment_pool_id")), len(self._pools)) for row in at]
        taken = [self._blocks(lists[row], number) for number, row in enumerate(at)]
        columns = [
            np.concatenate([part[name] for part in taken]) if taken else np.zeros(0, np.int64) for name in range(6)
        ]
        found = Segments(
            address=address[kept],
            size=size[kept],
            stream=segments.numbers("stream", 0)[0][kept],
            pool=np.array(pools, np.int32),
            small=np.array([entries[row].get("segment_type") == "small" for row in at], np.bool_),
            expandable=np.array([entries[row].get("is_expandable") is True for row in at], np.bool_),
        )
        segment, block, block_size, requested, state, stack = columns
        blocks = Blocks(
            segment.astype(np.int32), block, block_size, requested, state.astype(np.int8), stack.astype(np.int32)
        )
        return found, blocks

    def _blocks(self, entries: Any, segment: int) -> list[I64]:
        """Segment, address, size, requested size, state and stack of the blocks of a segment."""
        blocks = _Entries(self, entries if type(entries) is list else [])
        state = blocks.coded("state", _STATES, "odd.memory_block")
        address, placed = blocks.numbers("address", -1)
        size, sized = blocks.numbers("size", 0)
        requested, asked = blocks.numbers("requested_size", 0)
        requested = np.where(asked & (requested <= size), requested, size)
        kept = (state >= 0) & placed & sized & (size >= 0) & (size < _MOST)
        self.count(message("odd.memory_block"), int(np.count_nonzero((state >= 0) & ~kept)))
        numbers = np.full(len(state), segment, np.int64)
        return [column[kept] for column in (numbers, address, size, requested, state, blocks.stacks())]

    def take_entries(self, count: int) -> None:
        """Note that ``count`` entries are read. Raises ``_Bomb`` for more than the file can hold."""
        self._entries_left -= count
        if self._entries_left < 0:
            raise _Bomb

    def count(self, said: Message, count: int) -> None:
        """Note ``count`` things that could not be used."""
        self._odd[said] = self._odd.get(said, 0) + count

    def number(self, value: Any) -> int:
        """The index of ``value`` in ``objects``."""
        known = self._index.get(id(value))
        if known is None:
            known = self._index[id(value)] = len(self._objects)
            self._objects.append(value)
        return known

    def stack(self, number: int) -> int:
        """The stack that the object ``number`` is, -1 for none."""
        known = self._stack_of.get(number)
        if known is None:
            frames = self._objects[number]
            texts = [self._frame(frame) for frame in frames[:_LONGEST_STACK]] if type(frames) is list else []
            self._text_left -= sum(map(len, texts))
            if self._text_left < 0:
                raise _Bomb
            text = "\n".join(filter(None, texts))
            known = self._stack_of[number] = self._stacks.setdefault(text, len(self._stacks)) if text else -1
        return known

    def _frame(self, frame: Any) -> str:
        """``file(line): function;``, empty for what is no frame."""
        known = self._frames.get(id(frame))
        if known is None:
            known = ""
            if type(frame) is dict:
                name, file, line = frame.get("name"), frame.get("filename"), frame.get("line")
                if type(name) is str and type(file) is str and type(line) is int:
                    known = f"{file}({line}): {name};" if file != "??" else f"??({line}): {name};"
                else:
                    self.count(message("odd.memory_frame"), 1)
            self._frames[id(frame)] = known
        return known


class _Entries:
    """The entries of a list, some of them in runs, by fields."""

    def __init__(self, reading: _Reading, entries: list[Any]) -> None:
        self._reading = reading
        self._parts: list[Run | list[dict[str, Any]]] = []
        plain: list[dict[str, Any]] = []
        for entry in entries:
            if isinstance(entry, Run):
                if plain:
                    self._parts.append(plain)
                self._parts.append(entry)
                plain = []
            else:
                plain.append(entry if type(entry) is dict else {})
        if plain:
            self._parts.append(plain)
        reading.take_entries(sum(map(len, self._parts)) + 1)

    def _field(self, name: str) -> tuple[I64, npt.NDArray[np.int8]]:
        """The values of a field and what each is: 1 a number, 2 the number of an object, 0 missing."""
        values, kinds = [np.zeros(0, np.int64)], [np.zeros(0, np.int8)]
        for part in self._parts:
            if isinstance(part, Run):
                if name in part.keys:
                    row = part.keys.index(name)
                    values.append(part.value[row])
                    kinds.append(part.is_object[row] + np.int8(1))
                else:
                    values.append(np.zeros(len(part), np.int64))
                    kinds.append(np.zeros(len(part), np.int8))
                continue
            pairs = [self._one(entry.get(name)) for entry in part]
            values.append(np.array([value for value, _ in pairs], np.int64))
            kinds.append(np.array([kind for _, kind in pairs], np.int8))
        return np.concatenate(values), np.concatenate(kinds)

    def _one(self, value: Any) -> tuple[int, int]:
        if type(value) is int:
            if 0 <= value < 1 << 64:
                return value - (1 << 64) * (value >> 63), 1
            return -1, 1
        return (0, 0) if value is None else (self._reading.number(value), 2)

    def numbers(self, name: str, otherwise: int) -> tuple[I64, Bools]:
        """A field of whole numbers, and where it is one that is not negative."""
        value, kind = self._field(name)
        there = (kind == 1) & (value >= 0)
        return np.where(there, value, otherwise), there

    def coded(self, name: str, codes: dict[str, int], odd: str) -> I64:
        """A field of one of the texts ``codes``, -1 for others, which are counted."""
        value, kind = self._field(name)
        return self._by_object(value, kind, lambda text: codes.get(text, -1) if type(text) is str else -1, odd)

    def stacks(self) -> I64:
        """The stack of each entry, -1 for none."""
        value, kind = self._field("frames")
        found = np.full(len(value), -1, np.int64)
        known, where = np.unique(value[kind == 2], return_inverse=True)
        found[kind == 2] = np.array([self._reading.stack(number) for number in known.tolist()], np.int64)[where]
        return found

    def _by_object(self, value: I64, kind: npt.NDArray[np.int8], code: Callable[[Any], int], odd: str) -> I64:
        found = np.full(len(value), -1, np.int64)
        known, where = np.unique(value[kind == 2], return_inverse=True)
        found[kind == 2] = np.array([code(self._reading._objects[number]) for number in known.tolist()], np.int64)[
            where
        ]
        self._reading.count(message(odd), int(np.count_nonzero(found < 0)))
        return found

    def entry(self, row: int) -> dict[str, Any]:
        """Entry ``row`` as a dict."""
        for part in self._parts:
            if row < len(part):
                if not isinstance(part, Run):
                    return part[row]
                objects = self._reading._objects
                columns = zip(part.keys, part.value[:, row].tolist(), part.is_object[:, row].tolist(), strict=True)
                return {name: objects[value] if is_object else value for name, value, is_object in columns}
            row -= len(part)
        return {}


def _plain(pool: Any) -> Any:
    """The id of a pool, to be told from others."""
    return pool if type(pool) is tuple and all(type(part) is int for part in pool) else None
