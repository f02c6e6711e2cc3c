"""A memory snapshot as columns and as a ``Trace``: a dump of MemScope, or a pickle of dicts, each field checked.

What is damaged is counted and left out: an event without a number for its size, a block without an address. Each object
that is a stack is read once; stacks of the same text have one number. Where the writer gives no times, as torch_npu
does, one event of the allocator stands for 1 us.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from npu_tui.load.build import build_trace
from npu_tui.load.errors import UNWATCHED, InputError, Watcher
from npu_tui.load.format import ReadingPace, Source
from npu_tui.load.formats.memory import is_memscope
from npu_tui.load.json_reader import WholeColumns
from npu_tui.load.memscope import lives_of, load_memscope
from npu_tui.load.pickles import EntryRun, Objects, PickleError, Unpickler, unframed
from npu_tui.trace.args import ArgReader
from npu_tui.trace.arrays import I64, Bools
from npu_tui.trace.classes import NO_STACK, function_of, step_number
from npu_tui.trace.message import Message, message
from npu_tui.trace.model import EventFile, Health, Trace
from npu_tui.trace.side_file import bytes_to_read, open_regular
from npu_tui.trace.snapshot import (
    AGES,
    BEFORE,
    MEMORY,
    NEVER,
    PLACELESS,
    SEGMENTS_PID,
    Action,
    AllocatorEvents,
    Annotation,
    DeviceMemory,
    MemorySnapshot,
    SegmentBlocks,
    Segments,
    State,
)
from npu_tui.trace.text import memory_text

_STATES = {**State.__members__, "active_awaiting_free": State.active_pending_free}
_EVENT, _SEGMENT, _NOTE = (message(f"odd.memory_{name}") for name in ("event", "segment", "annotation"))
_LONGEST_STACK = 400
"""The most frames of one stack that are kept."""
_LEAST_ENTRIES, _ENTRY_BYTES = 10_000, 8
"""A pickle may refer to a list of events or blocks many times, and each time it is read. So many entries are read of
any file, and one more for every few bytes of it."""
_LEAST_TEXT, _TEXT_TIMES = 64 << 20, 3
"""The letters of all stacks together: so many of any file, and so many times its size more."""
_TOO_LARGE, _TOO_MANY_DEVICES = 1 << 50, 1024
"""Bytes of one block that no device has, and devices that no host has."""
_TOO_LATE_US = 1 << 53  # moments from here on do not fit into 64 bits as ns, and are none


def load_snapshot(path: Path, watcher: Watcher = UNWATCHED) -> MemorySnapshot:
    """The snapshot at ``path``. Raises ``InputError`` where it is no snapshot, ``OSError`` where it cannot be read."""
    if is_memscope(path):
        return load_memscope(path, watcher)
    with open_regular(path) as stream:
        size = bytes_to_read(stream)
        data = unframed(stream, size)
    unpickler = Unpickler(data, lambda done: watcher.report(done, size))
    try:
        root, objects = unpickler.load(), unpickler.objects
    except PickleError as error:
        raise InputError(message(error.code, path=str(path), byte=error.at, what=error.what)) from None
    del data, unpickler  # the columns take as much memory again
    if type(root) is not dict or not (type(root.get("segments")) is list or type(root.get("device_traces")) is list):
        raise InputError(message("input.pickle_other", path=str(path)))
    try:
        return _SnapshotReading(objects, size).snapshot(str(path), size, root)
    except _Bomb:
        raise InputError(message("input.pickle_bomb", path=str(path), byte=0, what="")) from None


class _Bomb(Exception):  # noqa: N818 - said as an InputError
    """The snapshot refers to the same lists and texts many times: it expands to far more than its size."""


class _SnapshotReading:
    """One reading; ``objects`` are what an ``EntryRun`` refers to by number."""

    def __init__(self, objects: Objects, size: int) -> None:
        self.objects = objects
        self._entries_left = _LEAST_ENTRIES + size // _ENTRY_BYTES
        self._text_left = _LEAST_TEXT + _TEXT_TIMES * size
        self._stack_of: dict[int, int] = {}
        self._frames: dict[int, str] = {}
        self._stacks: dict[str, int] = {}
        self._pools: dict[Any, int] = {}
        self.odd = Counter[Message]()
        """What could not be used."""

    def snapshot(self, path: str, size: int, root: dict[str, Any]) -> MemorySnapshot:
        """The columns of all devices with any event or segment."""
        traces = [self.listed(trace, _EVENT) for trace in self.listed(root.get("device_traces", []), _EVENT)]
        self.odd[_EVENT] += sum(map(len, traces[_TOO_MANY_DEVICES:]))
        del traces[_TOO_MANY_DEVICES:]
        segments = _ListEntries(self, self.listed(root.get("segments", []), _SEGMENT))
        device, there = segments.numbers("device", 0)
        there &= device < _TOO_MANY_DEVICES
        self.odd[_SEGMENT] += int(np.count_nonzero(~there))
        entries = list(segments)
        notes: dict[Any, list[dict[str, Any]]] = {}
        for note in _ListEntries(self, root.get("external_annotations")):
            of = note.get("device")
            notes.setdefault(of if type(of) is int else None, []).append(note)
        devices = []
        for number in sorted({*device[there].tolist(), *(number for number, trace in enumerate(traces) if trace)}):
            trace = traces[number] if number < len(traces) else []
            events = self._events(_ListEntries(self, trace))
            if not any(other is trace for other in traces[number + 1 :]):
                trace.clear()  # the caller's list: its entries take more memory than the columns
            held, blocks = self._segments([entries[row] for row in np.flatnonzero(there & (device == number)).tolist()])
            annotations = self._annotations(notes.pop(number, []), events)
            lives = lives_of(events, held, blocks)
            # A block that is allocated lies in a segment: where there is none, the writer does not record them.
            has_segments = len(held) > 0 or not (lives.end == NEVER).any()
            devices.append(
                DeviceMemory(number, events, held, blocks, lives, has_segments=has_segments, annotations=annotations)
            )
        self.odd[_NOTE] += sum(map(len, notes.values()))
        pools = [", ".join(map(str, pool)) for pool in self._pools]
        has_host = bool(root.get("host_segments") or root.get("host_traces"))
        return MemorySnapshot(path, size, devices, list(self._stacks), +self.odd, pools=pools, has_host=has_host)

    def _events(self, entries: _ListEntries) -> AllocatorEvents:
        action = entries.coded("action", Action.__members__, "odd.memory_action")
        size, kept = entries.numbers("size", 0)
        address, placed = entries.numbers("addr", -1)
        failed = np.flatnonzero(action == Action.oom)
        if len(failed):
            address[failed] = entries.numbers("device_free", -1)[0][failed]
        placed |= np.isin(action, PLACELESS)
        kept |= action == Action.annotate
        kept &= placed & (action >= 0) & (size < _TOO_LARGE)
        self.odd[_EVENT] += int(np.count_nonzero((action >= 0) & ~kept))
        time, timed = entries.numbers("time_us", 0)
        timed &= time < _TOO_LATE_US
        rows = slice(None) if kept.all() else kept  # avoids a copy of every column
        return AllocatorEvents(
            action=action[rows].astype(np.int8),
            address=address[rows],
            size=size[rows],
            stream=entries.numbers("stream", 0)[0][rows],
            stack=entries.of_objects("frames", self.stack)[rows],
            time=time[rows] * 1000 if timed[rows].all() and len(timed) else None,
            pool=entries.of_objects("pool_id", lambda number: self._pool_of(self.objects[number]))[rows],
        )

    def _segments(self, entries: list[dict[str, Any]]) -> tuple[Segments, SegmentBlocks]:
        segments = _ListEntries(self, entries)
        address, placed = segments.numbers("address", -1)
        size, sized = segments.numbers("total_size", 0)
        kept = placed & sized & (size >= 0) & (size < _TOO_LARGE)
        self.odd[_SEGMENT] += int(np.count_nonzero(~kept))
        usable = [entries[row] for row in np.flatnonzero(kept).tolist()]
        found = Segments(
            address=address[kept],
            size=size[kept],
            stream=segments.numbers("stream", 0)[0][kept],
            pool=np.array([self._pool_of(entry.get("segment_pool_id")) for entry in usable], np.int32),
            small=np.array([entry.get("segment_type") == "small" for entry in usable], np.bool_),
            expandable=np.array([entry.get("is_expandable") is True for entry in usable], np.bool_),
        )
        self.odd[message("odd.memory_block")] += sum(type(entry.get("blocks")) is not list for entry in usable)
        starts = address[kept].tolist()
        taken = [self._blocks(entry.get("blocks"), number, starts[number]) for number, entry in enumerate(usable)]
        columns = np.concatenate([np.zeros((6, 0), np.int64), *taken], axis=1)
        segment, block, block_size, requested, state, stack = columns
        return found, SegmentBlocks(
            segment.astype(np.int32), block, block_size, requested, state.astype(np.int8), stack.astype(np.int32)
        )

    def _blocks(self, entries: Any, segment: int, start: int) -> I64:
        """Segment, address, size, requested size, state and stack of the blocks of a segment; (6, blocks)."""
        listed = _list_or_empty(entries)
        self.take_entries(len(listed))
        blocks = _ListEntries(self, [_with_last_allocation(entry) for entry in listed])
        state = blocks.coded("state", _STATES, "odd.memory_block")
        address, placed = blocks.numbers("address", -1)
        size, sized = blocks.numbers("size", 0)
        # Early versions of PyTorch record no addresses of blocks: one begins where the one before it ends.
        address = np.where(placed, address, start + np.cumsum(size) - size)
        placed |= np.logical_and.accumulate(sized)
        requested, asked = blocks.numbers("requested_size", 0)
        requested = np.where(asked & (requested <= size), requested, size)
        kept = (state >= 0) & placed & sized & (size >= 0) & (size < _TOO_LARGE)
        self.odd[message("odd.memory_block")] += int(np.count_nonzero((state >= 0) & ~kept))
        stack = blocks.of_objects("frames", self.stack)
        return np.stack((np.full(len(state), segment), address, size, requested, state, stack))[:, kept]

    def _annotations(self, entries: list[dict[str, Any]], events: AllocatorEvents) -> list[Annotation]:
        """The ranges of ``record_function``, which newer PyTorch for CUDA writes; one without an end lasts to the last
        of ``events``. What has no beginning is counted.
        """
        open_at: dict[str, list[int]] = {}
        ranges: list[tuple[str, int, int]] = []
        for entry in entries:
            name, time, stage = entry.get("name"), entry.get("time_us"), entry.get("stage")
            if type(name) is not str or type(time) is not int or not 0 <= time < _TOO_LATE_US:
                self.odd[_NOTE] += 1
            elif stage == "START":
                open_at.setdefault(name, []).append(time * 1000)
            elif stage == "END" and open_at.get(name):
                ranges.append((name, open_at[name].pop(), time * 1000))
            else:
                self.odd[_NOTE] += 1
        last = 0 if events.time is None else int(events.time.max(initial=0))
        ranges += [(name, start, max(start, last)) for name, starts in open_at.items() for start in starts]
        found = [Annotation(name, start, end, step_number(name) is not None) for name, start, end in ranges]
        return sorted(found, key=lambda note: (note.start, -note.end))

    def take_entries(self, count: int) -> None:
        """Note that ``count`` entries are read. Raises ``_Bomb`` for more than the file can hold."""
        self._entries_left -= count
        if self._entries_left < 0:
            raise _Bomb

    def listed(self, value: Any, odd: Message) -> list[Any]:
        """``value`` if it is a list; else that is counted as ``odd``, and the list is empty."""
        self.odd[odd] += int(type(value) is not list)
        return _list_or_empty(value)

    def _pool_of(self, pool: Any) -> int:
        """A number for each id of a pool, which is a pair of ints; -1 for anything else."""
        if type(pool) is not tuple or len(pool) != 2 or any(type(part) is not int for part in pool):
            return -1
        return self._pools.setdefault(pool, len(self._pools))

    def stack(self, number: int) -> int:
        """The number of the stack in the object ``number``, -1 if it is no stack."""
        known = self._stack_of.get(number)
        if known is None:
            texts = [self._frame(frame) for frame in _list_or_empty(self.objects[number])[:_LONGEST_STACK]]
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
                    known = f"{file}({line}): {name};"
                else:
                    self.odd[message("odd.memory_frame")] += 1
            self._frames[id(frame)] = known
        return known


class _ListEntries:
    """The entries of a list, which are dicts and runs of them, read field by field; none of what is no list."""

    def __init__(self, reading: _SnapshotReading, entries: Any) -> None:
        self._reading = reading
        self._parts: list[EntryRun | list[dict[str, Any]]] = []
        for is_run, group in groupby(_list_or_empty(entries), lambda entry: isinstance(entry, EntryRun)):
            part = list(group)
            self._parts += part if is_run else [[entry if type(entry) is dict else {} for entry in part]]
        reading.take_entries(sum(map(len, self._parts)) + 1)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The entries as dicts."""
        for part in self._parts:
            if not isinstance(part, EntryRun):
                yield from part
                continue
            for values, are_objects in zip(part.value.T.tolist(), part.is_object.T.tolist(), strict=True):
                fields = zip(part.keys, values, are_objects, strict=True)
                yield {key: self._reading.objects[value] if is_object else value for key, value, is_object in fields}

    def _field(self, name: str) -> tuple[I64, npt.NDArray[np.int8]]:
        """The values of a field and what each is: 1 a number, 2 the number of an object, 0 missing."""
        values, kinds = [np.zeros(0, np.int64)], [np.zeros(0, np.int8)]
        for part in self._parts:
            if not isinstance(part, EntryRun):
                pairs = np.array([self._one(entry.get(name)) for entry in part], np.int64).reshape(-1, 2)
                values.append(pairs[:, 0])
                kinds.append(pairs[:, 1].astype(np.int8))
            elif name in part.keys:
                row = part.keys.index(name)
                values.append(part.value[row])
                kinds.append(part.is_object[row] + np.int8(1))
            else:
                values.append(np.zeros(len(part), np.int64))
                kinds.append(np.zeros(len(part), np.int8))
        return np.concatenate(values), np.concatenate(kinds)

    def _one(self, value: Any) -> tuple[int, int]:
        if type(value) is int:
            return (value - (1 << 64) * (value >> 63), 1) if 0 <= value < 1 << 64 else (-1, 1)
        return (0, 0) if value is None else (self._reading.objects.number(value), 2)

    def numbers(self, name: str, default: int) -> tuple[I64, Bools]:
        """The ints from 0 on of a field, ``default`` for anything else, and where there is one."""
        value, kind = self._field(name)
        valid = (kind == 1) & (value >= 0)
        value[~valid] = default
        return value, valid

    def of_objects(self, name: str, code: Callable[[int], int]) -> npt.NDArray[np.int32]:
        """``code`` of the number of each object that a field refers to, -1 where it refers to none."""
        value, kind = self._field(name)
        value[kind != 2] = none = len(self._reading.objects)
        if len(value) < none:  # of many devices each has few entries: the time is that of these
            known, place = np.unique(value, return_inverse=True)
            return np.array([-1 if number == none else code(number) for number in known.tolist()], np.int32)[place]
        known = np.flatnonzero(np.bincount(value, minlength=none + 1)[:-1])
        codes = np.full(none + 1, -1, np.int32)
        codes[known] = [code(number) for number in known.tolist()]
        return codes[value]

    def coded(self, name: str, codes: Mapping[str, int], odd: str) -> npt.NDArray[np.int32]:
        """A field of texts as their ``codes``, -1 for others, which are counted as ``odd``."""

        def code(number: int) -> int:
            text = self._reading.objects[number]
            return codes.get(text, -1) if type(text) is str else -1

        found = self.of_objects(name, code)
        self._reading.odd[message(odd)] += int(np.count_nonzero(found < 0))
        return found


_OF_BLOCKS = "state", "address", "size", "requested_size", "frames"


def _with_last_allocation(block: Any) -> Any:
    """What is read of ``block``; early versions of PyTorch have its last allocation in its ``history``."""
    history = _list_or_empty(block.get("history")) if type(block) is dict else []
    if not history or type(history[0]) is not dict:
        return block
    told = {"requested_size": history[0].get("real_size"), "frames": history[0].get("frames")}
    return told | {name: block[name] for name in _OF_BLOCKS if name in block}


def _list_or_empty(value: Any) -> list[Any]:
    return value if type(value) is list else []


_BEFORE, _KEPT, _AT_PEAK, _OTHER = range(1, 5)
"""The lanes of a device by the age of blocks; ``_OTHER`` has no age."""
_GONE, _NOWHERE = "segments given back", "blocks"


def read_snapshot_trace(source: Source, watcher: Watcher, pace: ReadingPace) -> Trace:
    """The trace of the snapshot ``source``; raises as ``load_snapshot``."""
    snapshot = load_snapshot(source.path, watcher)
    whole = WholeColumns()
    for number, device in enumerate(snapshot.devices):
        _add_device(whole, snapshot, device, number)
    untimed = [device.events.time is None for device in snapshot.devices]
    health = Health(skipped=dict(snapshot.odd), warnings=[message("odd.memory_axis")] if any(untimed) else [])
    trace = build_trace(whole, snapshot.path, (EventFile(snapshot.path, snapshot.size),), None, health)
    trace.args = SnapshotArgs(snapshot.devices)
    trace.nature, trace.snapshot, trace.is_untimed = MEMORY, snapshot, bool(untimed) and all(untimed)
    return trace


def _add_device(whole: WholeColumns, snapshot: MemorySnapshot, device: DeviceMemory, pid: int) -> None:
    """Take one device in, its blocks by age in one layer and by address in another.

    By age are those that are older than the history, that were never released, or that were there at the peak.
    """
    lives, time, first = device.lives, device.moments, snapshot.first_of(device)
    names = [function_of(stack) or NO_STACK for stack in [*snapshot.stacks, ""]]
    kinds, where = np.unique(lives.size * len(names) + lives.stack + 1, return_inverse=True)
    codes = [
        whole.names[f"{memory_text(kind // len(names))} {names[kind % len(names) - 1]}"] for kind in kinds.tolist()
    ]
    name = np.array([*codes, -1], np.int32)[where]
    stacks = np.array([whole.stacks[stack] for stack in snapshot.stacks] + [-1], np.int32)[lives.stack]
    start = time[np.maximum(lives.start, 0)]
    end = np.maximum(time[np.minimum(lives.gone, len(device.events))], start + 1)

    def put(process: int, lanes: list[str], chosen: I64, lane: I64) -> None:
        """A slice of each of the blocks ``chosen``, in the ``lane`` of each."""
        threads = [whole.threads[process, number] for number in range(len(lanes))]
        whole.metadata.thread_name.update({(process, number): label for number, label in enumerate(lanes)})
        whole.slices(
            first + chosen, np.array(threads, np.int32)[lane], start[chosen], end[chosen], name[chosen],
            whole.categories["block"], stack=stacks[chosen],
        )  # fmt: skip

    for process, label in ((pid, "Device {}"), (SEGMENTS_PID + pid, "Device {} segments")):
        whole.metadata.process_name[process] = label.format(device.label)
        whole.metadata.process_order[process] = process
    at_peak = (lives.start <= device.peak[0]) & (lives.end > device.peak[0])
    age = np.select([lives.start == BEFORE, lives.end == NEVER, at_peak], [_BEFORE, _KEPT, _AT_PEAK], _OTHER)
    chosen = np.flatnonzero(age < _OTHER)
    put(pid, [*AGES], chosen, age[chosen])
    steps = device.step_starts
    history = [f"step {number}" for number in range(1, len(steps) + 1)]
    history = ["before the first step" if history else f"{len(device.events):,} events", *history]
    spans = [
        (AGES[0], history, time[np.append(0, steps)], time[np.append(steps, len(device.events))]),
        ("annotations", [note.name for note in device.annotations],
         np.array([note.start for note in device.annotations], np.int64),
         np.array([note.end for note in device.annotations], np.int64)),
    ]  # fmt: skip
    for number, (lane, labels, begins, ends) in zip((0, len(AGES)), spans, strict=True):
        if not labels:
            continue
        whole.metadata.thread_name[pid, number] = lane
        nobody = np.full(len(labels), sum(len(other.lives) for other in snapshot.devices))
        thread = np.full(len(labels), whole.threads[pid, number], np.int32)
        words = np.array([whole.names[label] for label in labels], np.int32)
        whole.slices(nobody, thread, begins, np.maximum(ends, begins + 1), words, whole.categories[lane])
    put(SEGMENTS_PID + pid, *_segments_by_address(device))


def _segments_by_address(device: DeviceMemory) -> tuple[list[str], I64, I64]:
    """The segments by address, what is in none of them last; all blocks, and the segment of each."""
    segments, order = device.segments, np.argsort(device.segments.address, kind="stable")
    lane = np.append(np.argsort(order), len(order))
    lanes = []
    for row in order.tolist():
        pool = "small" if segments.small[row] else "large"
        grows = ", expandable" if segments.expandable[row] else ""
        lanes.append(f"0x{int(segments.address[row]):x} {memory_text(int(segments.size[row]))} {pool}{grows}")
    lanes.append(_GONE if device.has_segments else _NOWHERE)
    return lanes, np.arange(len(device.lives)), lane[segments.holding(device.lives.address)]


class SnapshotArgs(ArgReader, frozen=True, eq=False):
    """What is known of each block, by the ordinal of its slice."""

    devices: list[DeviceMemory]

    def one(self, ordinal: int) -> dict[str, Any]:
        """Address, sizes, stream and events of a block; what is not known is left out."""
        position = ordinal
        for device in self.devices:
            if position < len(device.lives):
                break
            position -= len(device.lives)
        else:
            return {}
        lives = device.lives
        known = {
            "address": f"0x{int(lives.address[position]):x}",
            "requested bytes": int(lives.size[position]),
            "block bytes": int(lives.taken[position]),
            "stream": int(lives.stream[position]),
            "allocated at event": int(lives.start[position]),
            "freed at event": int(lives.end[position]),
        }
        return {name: value for name, value in known.items() if value not in (-1, NEVER)}
