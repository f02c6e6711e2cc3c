"""One scanner of a text trace: the compiled loops of ``native/scan.c``, the memory they work in, and what they leave.

The loops take the events that torch_npu and msprof write by the million: complete slices (``X``), counters (``C``) and
link ends (``s``, ``t``, ``f``), in the Trace Event Format
(https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU). They write columns of these, and
number the texts they meet. Three things come back to Python: rare events such as metadata, numbers with more digits
than the loops decode, and anything that is not quite JSON, which the tolerant reader takes from there.
"""

from __future__ import annotations

import itertools
import mmap
import os
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.load.json_chunks import CHUNK
from npu_tui.load.json_columns import PHASES, RangeColumns, SeriesKey, instance_name
from npu_tui.load.json_events import decode_events, place_number
from npu_tui.load.json_reader import read_on
from npu_tui.load.times import nanoseconds, parse_time
from npu_tui.native.layout import (
    DICTIONARIES,
    DONE,
    DURATION,
    ENTITIES_PER_EVENT,
    GROW,
    LINK_TIME,
    MORE,
    MOST_VALUES,
    NUMBER,
    PADDING,
    PLAIN,
    POWERS,
    REGION,
    SAMPLE_TIME,
    SLICE_TIME,
    VALUE,
    WORDS,
)
from npu_tui.native.library import Library

Array = npt.NDArray[Any]

_I64, _I32, _I8, _F64 = np.int64, np.int32, np.int8, np.float64
GROUPS: dict[str, dict[str, type[np.generic]]] = {
    "x": {
        "x_time": _I64, "x_duration": _I64, "x_thread": _I32, "x_name": _I32, "x_category": _I32, "x_task_type": _I32,
        "x_stack": _I32, "x_event": _I32, "x_stream": _I64, "x_connection": _I64, "x_correlation": _I64,
    },
    "c": {"c_time": _I64, "c_series": _I32, "c_value": _F64},
    "l": {
        "l_time": _I64, "l_category": _I32, "l_thread": _I32, "l_event": _I32, "l_id": _I64, "l_high": _I64,
        "l_phase": _I8,
    },
    "chunk": {"chunk_offset": _I64, "chunk_length": _I64, "chunk_first": _I64},
}  # fmt: skip
"""The columns of slices, samples, link ends and chunks; those of a group have the same rows."""

_ROWS = {"x": "x", "c": "c", "l": "l", "chunk": "chunks"}  # the number that counts the rows of a group

BUFFER = 1 << 20
_CHUNK = 8 << 10
"""Bytes per chunk at most: nothing decodes these chunks, and the args of few events are read from short ones."""
_FOREVER = 1 << 62  # no file is as long

_ENTITIES = 1 << 11  # entries of each table at first; it grows when the library asks for more
_HEAP = 1 << 17
_SET_ASIDE = 512
"""Rare events and inexact numbers that there is room for until the library returns."""
_LEAST_ROWS = 4 * MOST_VALUES + 64
_LEAST_MAP = 1 << 18
"""Bytes of a column that are worth a mapping of their own."""
_MOST_MAPS = 4096  # mappings of a scanner; Linux gives 65530 to a process
# No file has more rows than one in so many bytes. Room for too many costs nothing: memory comes when it is touched.
_BYTES_PER_ROW = {"x": 160, "c": 100, "l": 300, "chunk": 1 << 13}

_ODD_BYTES = 16 << 10  # that the tolerant reader gets where one event is odd; it doubles while more are
_ODD_MOST = 4 << 20  # as much as it gets where nearly all are
_ODD_FACTOR = 8  # how much farther it looks each time for the end of an event that has none
_TIME_COLUMNS = {SLICE_TIME: "x_time", SAMPLE_TIME: "c_time", LINK_TIME: "l_time"}
_LETTERS = "XCstf"
_TAIL, _BLANK = 64, b" \t\r\n"
"""Bytes at the end of a file that hold the bracket which closes its array, and what may follow that."""
_SKIPPED = {
    "without_duration": "odd.no_duration",
    "launch_without_id": "skip.launch_id",
    "link_without_id": "skip.link_id",
}


class ScannerMemory:
    """What one scanner and the library share: plain ``numbers`` and ``arrays``, by their names.

    ``native/layout.py`` says which there are.
    """

    def __init__(self, buffer_bytes: int, range_bytes: int) -> None:
        self.words = np.zeros(WORDS, np.int64)
        self.numbers = self.words[min(NUMBER.values()) :].view([(name, np.int64) for name in NUMBER])[0]
        self.arrays: dict[str, Array] = {}
        self._range_bytes = range_bytes
        self._maps = 0
        self._share("buffer", np.zeros(buffer_bytes + PADDING, np.uint8))
        self._share("powers", POWERS)
        self._share("rare", np.zeros(3 * _SET_ASIDE, np.int64))
        self._share("inexact", np.zeros(4 * _SET_ASIDE, np.int64))
        self.numbers["rare_room"] = _SET_ASIDE
        self.numbers["inexact_room"] = _SET_ASIDE
        self._make_tables(_ENTITIES)
        self._share("heap", np.zeros(_HEAP, np.uint8))
        self.numbers["heap_room"] = _HEAP - 64
        for group in GROUPS:
            self.new_columns(group)

    def _share(self, name: str, array: Array) -> None:
        """Let the library use ``array`` as the region ``name``."""
        self.arrays[name] = array
        at = REGION[name]
        self.words[at], self.words[at + 1] = array.ctypes.data, array.nbytes

    def new_columns(self, group: str) -> None:
        """Fresh columns of ``group``; the old ones stay with the parts that hold rows of them.

        Large columns are mapped one by one, so that the system has the memory back with the last row of each: in the
        heap, pieces that live longer would lie between them.
        """
        rows = max(self._range_bytes // _BYTES_PER_ROW[group], _LEAST_ROWS)
        for name, scalar in GROUPS[group].items():
            size = rows * np.dtype(scalar).itemsize
            if self._maps >= _MOST_MAPS or size < _LEAST_MAP:
                self._share(name, np.empty(rows, scalar))
            else:
                self._maps += 1
                self._share(name, np.frombuffer(mmap.mmap(-1, size), scalar))
        self.numbers[f"{group}_room"] = rows
        self.numbers[_ROWS[group]] = 0

    def grow_tables(self, event_bytes: int) -> bool:
        """Make room for another event in the tables; True if the places of all entities must be found again."""
        room, used = int(self.numbers["heap_room"]), int(self.numbers["heap_used"])
        wanted = event_bytes + 16 * ENTITIES_PER_EVENT * MOST_VALUES
        if used + wanted > room:
            heap = np.zeros(2 * (room + wanted) + 64, np.uint8)
            heap[:used] = self.arrays["heap"][:used]
            self._share("heap", heap)
            self.numbers["heap_room"] = len(heap) - 64
        room = int(self.numbers["entity_room"])
        if int(self.numbers["entities"]) + ENTITIES_PER_EVENT <= room:
            return False
        self._make_tables(4 * room)
        return True

    def _make_tables(self, room: int) -> None:
        """Tables for ``room`` entities, with what is known already."""
        before = int(self.numbers["entity_room"])
        tables = {name: np.zeros(room, np.int64) for name in ("hash", "offset", "length")}
        tables |= {name: np.full((len(DICTIONARIES), room), -1, np.int32) for name in ("code", "list")}
        for name, table in tables.items():
            if name in self.arrays:
                table[..., :before] = self.arrays[name]
            self._share(name, table)
        self._share("slots", np.zeros(4 * room, np.int32))
        self.numbers["entity_room"] = room


_numbers = itertools.count()


class Scanned(Struct):
    """A range that was scanned: its parts in file order, each with the name of its reader, and where it ended.

    ``last`` says that nothing after it is to be read.
    """

    start: int
    end: int
    parts: list[tuple[str, RangeColumns]] = []
    last: bool = False


class Scanner:
    """Reads ranges one after the other and keeps its tables from one to the next; ``name`` identifies it.

    While the library works, a part of the range is open: its columns stand in ``memory`` from the rows ``_first`` on.
    """

    def __init__(self, library: Library, chunk_size: int = CHUNK, range_bytes: int = 1 << 20) -> None:
        self.name = f"scanner {next(_numbers)}"
        self._library = library
        self._chunk_size = chunk_size
        self._memory = ScannerMemory(min(BUFFER, max(range_bytes, 1 << 16)), range_bytes)
        self._memory.numbers["chunk_size"] = min(chunk_size, _CHUNK)
        self._tolerant_parts = 0

    def scan(self, descriptor: int, start: int, cut: int | None) -> Scanned:
        """The events from ``start``, where one begins, to the first that begins after one that ends after ``cut``.

        All events if ``cut`` is None. Raises ``OSError`` if the file cannot be read.
        """
        scanned = Scanned(start, start)
        odd_bytes = _ODD_BYTES
        size = os.fstat(descriptor).st_size
        while cut is None or scanned.end <= cut:
            begin = scanned.end
            if self._read_common(descriptor, scanned, cut) == DONE or scanned.last:
                break
            # One odd event costs little; where there are more and more of them, the tolerant reader gets longer pieces.
            if scanned.end - begin > 8 * odd_bytes:
                odd_bytes = max(odd_bytes // 4, _ODD_BYTES)
            self._read_odd(descriptor, scanned, odd_bytes, size)
            if scanned.last:
                break
            odd_bytes = min(2 * odd_bytes, _ODD_MOST)
        return scanned

    def _read_odd(self, descriptor: int, scanned: Scanned, length: int, size: int) -> None:
        """Let the tolerant reader have at least ``length`` bytes."""
        cuts, ahead = [], length
        while scanned.end + ahead < size:
            cuts.append(scanned.end + ahead)
            ahead *= _ODD_FACTOR
        part = read_on(descriptor, scanned.end, cuts, min(self._chunk_size, length))
        self._tolerant_parts += 1
        scanned.parts.append((f"{self.name} odd {self._tolerant_parts}", part))
        scanned.end, scanned.last = part.end, part.last

    def _read_common(self, descriptor: int, scanned: Scanned, cut: int | None) -> int:
        """Take in the common events from the end of ``scanned``; why there are no more of them."""
        memory, buffer = self._memory, self._memory.arrays["buffer"]
        view, room = buffer.data, len(buffer) - PADDING
        base, filled, position, closed = scanned.end, 0, 0, -1
        exhausted = False
        self._begin_part()
        memory.numbers["cut"] = _FOREVER if cut is None else cut
        while True:
            if filled < room and not exhausted:
                got = os.preadv(descriptor, [view[filled:room]], base + filled)
                exhausted = got == 0
                filled += got
                if exhausted and bytes(view[max(filled - _TAIL, 0) : filled]).rstrip(_BLANK).endswith(b"]"):
                    closed = filled = bytes(view[:filled]).rindex(b"]") + 1
                    view[filled - 1 : filled + 1] = b",{"  # the library takes an event once it sees the next one
                    filled += 1
                buffer[filled : filled + PADDING] = 0
            memory.numbers["base"] = base
            memory.numbers["filled"] = filled
            memory.numbers["position"] = position
            why = int(self._library.scan(memory.words, WORDS))
            position = int(memory.numbers["position"])
            self._settle()
            scanned.end = base + position
            if why == GROW:
                numbers = memory.numbers
                if full := [g for g, rows in _ROWS.items() if numbers[f"{g}_room"] - numbers[rows] < MOST_VALUES + 2]:
                    self._end_part(scanned)
                    for group in full:
                        memory.new_columns(group)
                    self._begin_part()
                if memory.grow_tables(filled - position):
                    self._library.rehash(memory.words, WORDS)
                continue
            if why != MORE or exhausted or (position == 0 and filled == room):
                break
            buffer[: filled - position] = buffer[position:filled].copy()
            base, filled, position = base + position, filled - position, 0
        scanned.last = position == closed
        self._end_part(scanned)
        return why

    def _begin_part(self) -> None:
        memory = self._memory
        known = {name: int(memory.numbers[f"known_{name}"]) for name in DICTIONARIES}
        self._part = RangeColumns(known)
        self._first = {group: int(memory.numbers[rows]) for group, rows in _ROWS.items()}
        for name in ("events", *_SKIPPED, *(f"phase_{letter}" for letter in _LETTERS)):
            memory.numbers[name] = 0

    def _settle(self) -> None:
        """Take over what the library left in the buffer: rare events, and numbers of many digits."""
        memory, part = self._memory, self._part
        arrays, buffer = memory.arrays, memory.arrays["buffer"]
        if count := int(memory.numbers["rare_count"]):
            memory.numbers["rare_count"] = 0
            rows = arrays["rare"][: 3 * count].reshape(-1, 3).tolist()
            events = decode_events(b"[%b]" % b",".join([buffer[at : at + length].tobytes() for _, at, length in rows]))
            for (ordinal, _, _), event in zip(rows, events, strict=True):
                part.phases[event.ph] = part.phases.get(event.ph, 0) + 1
                if event.ph == "M" or event.ph in PHASES:
                    part.replay.append((ordinal, event))
        if count := int(memory.numbers["inexact_count"]):
            memory.numbers["inexact_count"] = 0
            for kind, row, at, length in arrays["inexact"][: 4 * count].reshape(-1, 4).tolist():
                text = buffer[at : at + length].tobytes().decode("ascii")
                if kind == DURATION:
                    arrays["x_duration"][row] = nanoseconds(np.array([float(text)]))[0]
                elif kind == VALUE:
                    arrays["c_value"][row] = float(text)
                else:
                    arrays[_TIME_COLUMNS[kind]][row] = parse_time(text)

    def _end_part(self, scanned: Scanned) -> None:
        """Add the open part to ``scanned``, if it holds anything."""
        memory, part = self._memory, self._part
        part.count = int(memory.numbers["events"])
        if not part.count:
            return
        part.phases |= {letter: count for letter in _LETTERS if (count := int(memory.numbers[f"phase_{letter}"]))}
        part.skipped |= {reason: count for name, reason in _SKIPPED.items() if (count := int(memory.numbers[name]))}
        part.news = new_values(memory, part.known)
        for group, names in GROUPS.items():
            first, end = self._first[group], int(memory.numbers[_ROWS[group]])
            part.columns |= {name: memory.arrays[name][first:end] for name in names}
        part.end = scanned.end
        scanned.parts.append((self.name, part))


_text_list = msgspec.json.Decoder(list[str]).decode


def new_values(memory: ScannerMemory, known: dict[str, int]) -> dict[str, list[Any]]:
    """The values of each dictionary after the ``known`` first ones, in the order of their codes."""
    values: dict[str, list[Any]] = {}
    for number, name in enumerate(DICTIONARIES):
        entities = memory.arrays["list"][number, known[name] : int(memory.numbers[f"known_{name}"])].tolist()
        if name == "threads":
            values[name] = [_thread(memory, entity) for entity in entities]
        elif name == "series":
            values[name] = [_curve_key(memory, entity) for entity in entities]
        else:
            values[name] = _entity_texts(memory, entities)
    return values


def _entity_texts(memory: ScannerMemory, entities: list[int]) -> list[str]:
    """The texts of ``entities``, which stand in the heap as JSON writes them."""
    heap, offset, length = memory.arrays["heap"], memory.arrays["offset"], memory.arrays["length"]
    if not entities:
        return []
    return _text_list(b'["%b"]' % b'","'.join([
        heap[at : at + (tag >> 3)].tobytes()
        for at, tag in zip(offset[entities].tolist(), length[entities].tolist(), strict=True)
    ]))  # fmt: skip


def _thread(memory: ScannerMemory, entity: int) -> tuple[int, int]:
    """Process and thread: each is two words, a value and its kind. A value that is no number is a text."""
    words = _entity_words(memory, entity)
    process, thread = (
        value if kind == PLAIN else place_number(_entity_texts(memory, [value])[0])
        for value, kind in zip(words[::2], words[1::2], strict=True)
    )
    return process, thread


def _curve_key(memory: ScannerMemory, entity: int) -> SeriesKey:
    """A curve, from the words of its entity: the process, name, id and key, then what distinguishes instances."""
    process, kind, name, identity, key, *telling = _entity_words(memory, entity)
    texts = _entity_texts(memory, [name, key, *telling[::2], *([identity] if identity >= 0 else [])])
    values = np.array(telling[1::2], np.int64).view(np.float64).tolist()
    pid = process if kind == PLAIN else place_number(_entity_texts(memory, [process])[0])
    label = texts[0] if identity < 0 else f"{texts[0]}[{texts[-1]}]"
    return pid, label, texts[1], instance_name(texts[2 : 2 + len(values)], values)


def _entity_words(memory: ScannerMemory, entity: int) -> list[int]:
    at, length = int(memory.arrays["offset"][entity]), int(memory.arrays["length"][entity]) >> 3
    return memory.arrays["heap"][at : at + length].view(np.int64).tolist()  # type: ignore[no-any-return]
