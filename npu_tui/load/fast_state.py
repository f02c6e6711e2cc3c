"""The memory that the fast reader shares with the compiled loops, and the new texts they meet."""

from __future__ import annotations

import mmap
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from npu_tui.load.json_columns import SeriesKey, instance_name
from npu_tui.load.json_events import place_number
from npu_tui.native.layout import DICTIONARIES, ENTITIES_PER_EVENT, MOST_VALUES, NUMBER, PADDING, PLAIN, REGION, WORDS

Array = npt.NDArray[Any]

_I64, _I32 = np.dtype(np.int64), np.dtype(np.int32)
SLICE_COLUMNS: dict[str, np.dtype[Any]] = {
    "x_time": _I64, "x_duration": _I64, "x_thread": _I32, "x_name": _I32, "x_category": _I32, "x_task_type": _I32,
    "x_stack": _I32, "x_event": _I32, "x_stream": _I64, "x_connection": _I64, "x_correlation": _I64,
}  # fmt: skip
SAMPLE_COLUMNS: dict[str, np.dtype[Any]] = {"c_time": _I64, "c_series": _I32, "c_value": np.dtype(np.float64)}
LINK_COLUMNS: dict[str, np.dtype[Any]] = {
    "l_time": _I64, "l_category": _I32, "l_thread": _I32, "l_event": _I32, "l_id": _I64, "l_high": _I64,
    "l_phase": np.dtype(np.int8),
}  # fmt: skip
CHUNK_COLUMNS: dict[str, np.dtype[Any]] = {"chunk_offset": _I64, "chunk_length": _I64, "chunk_first": _I64}
GROUPS: tuple[tuple[str, dict[str, np.dtype[Any]]], ...] = (
    ("x", SLICE_COLUMNS),
    ("c", SAMPLE_COLUMNS),
    ("l", LINK_COLUMNS),
    ("chunk", CHUNK_COLUMNS),
)

_ENTITIES = 1 << 11
_HEAP = 1 << 17
_SET_ASIDE = 512
"""Rare events and inexact numbers that are kept until the library returns."""
_LEAST_ROWS = 4 * MOST_VALUES + 64
_LEAST_MAP = 1 << 18
"""Bytes of a column that are worth a mapping of their own."""
_MOST_MAPS = 4096
"""Mappings of a scanner; Linux gives 65530 to a process."""
_BYTES_PER_ROW = {"x": 160, "c": 100, "l": 300, "chunk": 1 << 13}
"""Room for more rows than files have in so many bytes; memory that is not touched costs nothing."""


class State:
    """One scanner's memory. ``get`` and ``put`` are its plain numbers, ``arrays`` its regions."""

    def __init__(self, buffer_bytes: int, range_bytes: int) -> None:
        self.words = np.zeros(WORDS, np.int64)
        self.arrays: dict[str, Array] = {}
        self._range_bytes = range_bytes
        self._maps = 0
        self.region("buffer", np.zeros(buffer_bytes + PADDING, np.uint8))
        self.region("powers", _powers())
        self.region("rare", np.zeros(3 * _SET_ASIDE, np.int64))
        self.region("inexact", np.zeros(4 * _SET_ASIDE, np.int64))
        self.put("rare_room", _SET_ASIDE)
        self.put("inexact_room", _SET_ASIDE)
        self._make_tables(_ENTITIES)
        self.region("heap", np.zeros(_HEAP, np.uint8))
        self.put("heap_room", _HEAP - 64)
        for group in ("x", "c", "l", "chunk"):
            self.new_columns(group)

    def get(self, name: str) -> int:
        """A plain number."""
        return int(self.words[NUMBER[name]])

    def put(self, name: str, value: int) -> None:
        """Set a plain number."""
        self.words[NUMBER[name]] = value

    def region(self, name: str, array: Array) -> None:
        """Give a region its memory."""
        self.arrays[name] = array
        at = REGION[name]
        self.words[at], self.words[at + 1] = array.ctypes.data, array.nbytes

    def new_columns(self, group: str) -> None:
        """Fresh columns of a group; those before stay with whoever has taken rows of them."""
        rows = max(self._range_bytes // _BYTES_PER_ROW[group], _LEAST_ROWS)
        for name, dtype in dict(GROUPS)[group].items():
            self.region(name, self._pages(rows, np.dtype(dtype)))
        self.put(f"{group}_room", rows)
        self.put("chunks" if group == "chunk" else group, 0)

    def _pages(self, rows: int, dtype: np.dtype[Any]) -> Array:
        """A column whose memory the system has back with its last row.

        Pieces of columns stand between each other: in the heap no whole column would find room where they were.
        """
        if self._maps >= _MOST_MAPS or rows * dtype.itemsize < _LEAST_MAP:
            return np.empty(rows, dtype)
        self._maps += 1
        return np.frombuffer(mmap.mmap(-1, rows * dtype.itemsize), dtype)

    def is_full(self, group: str) -> bool:
        """Whether another event might not fit into the columns of a group."""
        count = self.get("chunks" if group == "chunk" else group)
        return self.get(f"{group}_room") - count < MOST_VALUES + 2

    def grow_tables(self, event_bytes: int) -> bool:
        """Make room for another event in the tables; True if the places of all entities must be found again."""
        room, used = self.get("heap_room"), self.get("heap_used")
        wanted = event_bytes + 16 * ENTITIES_PER_EVENT * MOST_VALUES
        if used + wanted > room:
            heap = np.zeros(2 * (room + wanted) + 64, np.uint8)
            heap[:used] = self.arrays["heap"][:used]
            self.region("heap", heap)
            self.put("heap_room", len(heap) - 64)
        room = self.get("entity_room")
        if self.get("entities") + ENTITIES_PER_EVENT <= room:
            return False
        self._make_tables(4 * room)
        return True

    def _make_tables(self, room: int) -> None:
        """Tables for ``room`` entities, with what is known already."""
        before = self.get("entity_room")
        old = {name: self.arrays.get(name) for name in ("hash", "offset", "length", "code", "list")}
        self.region("slots", np.zeros(4 * room, np.int32))
        for name in ("hash", "offset", "length"):
            array = np.zeros(room, np.int64)
            if (kept := old[name]) is not None:
                array[:before] = kept
            self.region(name, array)
        for name in ("code", "list"):
            table = np.full((len(DICTIONARIES), room), -1, np.int32)
            if (kept := old[name]) is not None:
                table[:, :before] = kept
            self.region(name, table)
        self.put("entity_room", room)


def _powers() -> Array:
    """For every number of decimals up to 18 three words: its power of a fifth in 128 bits, and that of ten as a float.

    Those of a fifth are rounded up and their highest bit is set, as Eisel and Lemire's method wants them.
    """
    table = np.zeros((19, 3), np.uint64)
    for decimals in range(19):
        five = 5**decimals
        bits = (five - 1).bit_length()
        fifth = min((1 << (bits + 127)) // five + 1, (1 << 128) - 1)
        table[decimals, 0], table[decimals, 1] = fifth >> 64, fifth & ((1 << 64) - 1)
        table[decimals, 2] = np.float64(10.0**decimals).view(np.uint64)
    return table


_texts = msgspec.json.Decoder(list[str]).decode
_KNOWN = NUMBER[f"known_{DICTIONARIES[0]}"]


def known_counts(state: State) -> list[int]:
    """How many values each dictionary has."""
    return state.words[_KNOWN : _KNOWN + len(DICTIONARIES)].tolist()  # type: ignore[no-any-return]


def news(state: State, known: list[int]) -> dict[str, list[Any]]:
    """The values of each dictionary after the ``known`` first ones, in the order of their codes."""
    found: dict[str, list[Any]] = {}
    for number, (name, first, last) in enumerate(zip(DICTIONARIES, known, known_counts(state), strict=True)):
        entities = state.arrays["list"][number, first:last].tolist()
        if not entities:
            found[name] = []
        elif name == "threads":
            found[name] = [_thread(state, entity) for entity in entities]
        elif name == "series":
            found[name] = [_series(state, entity) for entity in entities]
        else:
            found[name] = _decoded(state, entities)
    return found


def _decoded(state: State, entities: list[int]) -> list[str]:
    """The texts of entities."""
    heap, offset, length = state.arrays["heap"], state.arrays["offset"], state.arrays["length"]
    return _texts(b'["%b"]' % b'","'.join([
        heap[at : at + (tag >> 3)].tobytes()
        for at, tag in zip(offset[entities].tolist(), length[entities].tolist(), strict=True)
    ]))  # fmt: skip


def _words(state: State, entity: int) -> list[int]:
    """The words of an entity that is no text."""
    at, length = int(state.arrays["offset"][entity]), int(state.arrays["length"][entity]) >> 3
    return state.arrays["heap"][at : at + length].view(np.int64).tolist()  # type: ignore[no-any-return]


def _place(state: State, value: int, kind: int) -> int:
    """The number of a process or thread."""
    return value if kind == PLAIN else place_number(_decoded(state, [value])[0])


def _thread(state: State, entity: int) -> tuple[int, int]:
    process, process_kind, thread, thread_kind = _words(state, entity)
    return _place(state, process, process_kind), _place(state, thread, thread_kind)


def _series(state: State, entity: int) -> SeriesKey:
    process, kind, name, identity, key, *telling = _words(state, entity)
    texts = _decoded(state, [name, key, *telling[::2], *([identity] if identity >= 0 else [])])
    values = np.array(telling[1::2], np.int64).view(np.float64).tolist()
    label = texts[0] if identity < 0 else f"{texts[0]}[{texts[-1]}]"
    return _place(state, process, kind), label, texts[1], instance_name(texts[2 : 2 + len(values)], values)
