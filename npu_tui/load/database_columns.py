"""What the tables of a database hold, put into the columns that a trace is made of; texts, joins and call stacks.

Its rows name everything by number: texts by ``STRING_IDS``, call stacks by ``PYTORCH_CALLCHAINS``, launches by
``connectionId``. A join is a look-up of one column of numbers in another.

A row of a table takes the place of an event of a text trace. A chunk is a run of neighbouring rows: its offset is the
first row number with the number of the table in ``TABLES`` above it, its length the count of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from npu_tui.load.companion_schema import MISSING
from npu_tui.load.database_rows import ABSENT, DatabaseRows, DatabaseTables, schema_name
from npu_tui.load.json_columns import SOURCE, TARGET, ValueCodes
from npu_tui.load.json_reader import WholeColumns
from npu_tui.trace.arrays import I32, I64, U64

if TYPE_CHECKING:
    import polars as pl


T = TypeVar("T", bound=np.generic)

_TABLE = 1 << 22  # numbers in so narrow a range are found in a table, others by sorting
_NARROW = 1 << 16
_BLOCK = 1 << 16
"""Values at a time that stay in the processor's cache from one step to the next."""


def per_value(values: I64, compute: Callable[[I64], npt.NDArray[T]]) -> npt.NDArray[T]:
    """What ``compute`` gives for each of ``values``; (n,). It is called once, with the distinct ones, ascending."""
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, _NARROW)
    if high - low >= _NARROW:
        distinct, place = numbered(values)
        return compute(distinct)[place]
    # A table of all numbers in between is small: looking up is faster than sorting.
    is_there = np.zeros(high - low + 1, np.bool_)
    for first in range(0, len(values), _BLOCK):
        is_there[values[first : first + _BLOCK] - low] = True
    distinct = np.flatnonzero(is_there)
    results = compute(distinct + low)
    table = np.zeros(len(is_there), results.dtype)
    table[distinct] = results
    column = np.empty(len(values), results.dtype)
    for first in range(0, len(values), _BLOCK):
        np.take(table, values[first : first + _BLOCK] - low, out=column[first : first + _BLOCK], mode="clip")
    return column


def numbered(values: I64) -> tuple[I64, I64]:
    """The distinct ``values``, ascending, and for each of them its place among those; (k,), (n,)."""
    if not len(values):
        return values, np.zeros(0, np.int64)
    low, high = int(values.min()), int(values.max())
    if high - low > max(4 * len(values), _TABLE):
        distinct, place = np.unique(values, return_inverse=True)
        return distinct, place.astype(np.int64)
    if high - low < _NARROW:
        calls: list[I64] = []

        def places(distinct: I64) -> I64:
            calls.append(distinct)
            return np.arange(len(distinct))

        place = per_value(values, places)
        return calls[0], place
    offset = values - low
    is_there = np.zeros(high - low + 1, np.bool_)
    is_there[offset] = True
    return np.flatnonzero(is_there) + low, np.take(np.cumsum(is_there) - 1, offset)


def jointly(*columns: I64) -> tuple[I64, I64]:
    """A row with each combination of values in ``columns``, ascending, and which of these each row has; (k,), (n,)."""
    key = np.zeros(len(columns[0]), np.int64)
    for values in columns:
        distinct, place = numbered(values)
        key = numbered(key * max(len(distinct), 1) + place)[1]
    row = np.zeros(int(key.max(initial=-1)) + 1, np.int64)
    row[key] = np.arange(len(key))
    return row, key


def first_places(keys: I64, wanted: I64) -> I64:
    """The first place of each of ``wanted`` among ``keys``, -1 where it is not there; (n,).

    Negative numbers stand for nothing and match nothing.
    """
    if not len(keys) or not len(wanted):
        return np.full(len(wanted), -1, np.int64)
    low, high = int(keys.min()), int(keys.max())
    if high - low <= max(4 * len(keys), _TABLE):
        table = np.full(high - low + 2, -1, np.int64)
        table[keys[::-1] - low] = np.arange(len(keys) - 1, -1, -1)
        inside = (wanted >= max(low, 0)) & (wanted <= high)
        return table[np.where(inside, wanted - low, high - low + 1)]
    order = np.argsort(keys, kind="stable")
    at = order[np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)]
    return np.where((keys[at] == wanted) & (wanted >= 0), at, -1)


def expanded(keys: I64, wanted: I64) -> tuple[I64, I64]:
    """Every match of ``wanted`` with ``keys``: the index into each where the values are equal; (matches,) both.

    Matches are in the order of ``wanted``, those of one value in the order of ``keys``. Negative values match nothing.
    """
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    first, last = np.searchsorted(ordered, wanted, "left"), np.searchsorted(ordered, wanted, "right")
    count = np.where(wanted >= 0, last - first, 0)
    left = np.repeat(np.arange(len(wanted)), count)
    begins = np.cumsum(count) - count
    return left, order[np.arange(len(left)) - np.repeat(begins - first, count)]


_MOST_NUMBERS = 16  # the profiler writes three at most


class Connections:
    """``CONNECTION_IDS``: one or more numbers for each ``connectionId`` of the rows of the framework.

    A number is a connection of CANN, or what an operation and its backward one, or both sides of the queue, share. For
    one id the first ``_MOST_NUMBERS`` are kept, and ``dropped`` counts the others.
    """

    def __init__(self, tables: DatabaseTables) -> None:
        rows = tables.select("CONNECTION_IDS", ("id", "connectionId"))
        order = np.argsort(rows["id"], kind="stable")
        ids = rows["id"][order]
        of_id = np.arange(len(ids)) - np.searchsorted(ids, ids)
        is_kept = np.ones(len(ids), np.bool_)
        is_kept[order] = of_id < _MOST_NUMBERS
        self.dropped = int(np.count_nonzero(~is_kept))
        self._rows = rows.where(is_kept) if self.dropped else rows

    def first_of(self, ids: I64) -> I64:
        """The first number of each of ``ids``, -1 without one; (n,). Without the table an id is its own number."""
        if not len(self._rows):
            return ids
        at = first_places(self._rows["id"], ids)
        return np.where(at >= 0, self._rows["connectionId"][at], -1)

    def all_of(self, ids: I64) -> tuple[I64, I64]:
        """The index into ``ids`` and the number for every number that an id has; (pairs,) each."""
        if not len(self._rows):
            place = np.flatnonzero(ids >= 0)
            return place, ids[place]
        place, at = expanded(self._rows["id"], ids)
        return place, self._rows["connectionId"][at]


_NO_CONNECTION = (1 << 32) - 1  # -1 in 32 bits without a sign


def valid_connections(values: I64) -> I64:
    """Connection ids, -1 for those that stand for none."""
    return np.where((values < 0) | (values == _NO_CONNECTION), ABSENT, values)


NOT_APPLICABLE = "N/A"


class Texts:
    """``STRING_IDS``: texts by number."""

    def __init__(self, tables: DatabaseTables) -> None:
        table = tables.find("STRING_IDS")
        self._texts = tables.texts(table, "id", "value") if table else {}
        self.missing: set[int] = set()

    def __getitem__(self, number: int) -> str:
        """The text of ``number``, empty for ``ABSENT``, and the number itself where its text is lost."""
        text = self._texts.get(number)
        if text is None:
            if number == ABSENT:
                return ""
            self.missing.add(number)
            return f"#{number}"
        return text

    def codes(self, numbers: I64, into: ValueCodes[str], prefix: str = "") -> I32:
        """The codes of texts, each after ``prefix``, in the dictionary ``into``; (n,)."""
        return per_value(
            numbers, lambda ids: np.array([into[prefix + self[number]] for number in ids.tolist()], np.int32)
        )

    def which(self, numbers: I64, test: Callable[[str], bool]) -> npt.NDArray[np.bool_]:
        """Which of ``numbers`` stand for a text that passes ``test``; (n,)."""
        return per_value(numbers, lambda ids: np.array([test(self[number]) for number in ids.tolist()], np.bool_))


def enumeration(tables: DatabaseTables, *names: str) -> dict[int, str]:
    """The names of an ``ENUM_`` table by number, empty without it."""
    table = tables.find(*names)
    return tables.texts(table, "id", "name") if table else {}


FRAMES = ";\r\n"
"""Stands between the frames of a call stack, innermost first, as in a text trace."""

_MIX = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)  # of SplitMix64 and xxHash: odd, and with bits everywhere
_PLACE = 0xD6E8FEB86659FD93
_SPREAD = 0xBF58476D1CE4E5B9
"""What frames are mixed with; two numbers of 64 bits keep stacks apart."""


def stack_codes(tables: DatabaseTables, texts: Texts, into: ValueCodes[str]) -> tuple[I64, I32]:
    """The ids of all call stacks and the codes of their texts in ``into``; (stacks,) each.

    Equal stacks of many operations have one text, which is put together once.
    """
    rows = tables.select("PYTORCH_CALLCHAINS", ("id", "stack", "stackDepth"))
    if not len(rows):
        return np.zeros(0, np.int64), np.zeros(0, np.int32)
    chain, frame, depth = rows["id"], rows["stack"], rows["stackDepth"]
    step = np.diff(chain)
    if (step < 0).any() or (np.diff(depth)[step == 0] <= 0).any():
        order = np.lexsort((depth, chain))
        chain, frame = chain[order], frame[order]
    first, *marks = marked(chain, frame)
    last = np.append(first[1:], len(chain))
    _, example, of = np.unique(marks[0], return_index=True, return_inverse=True)
    if (marks[1] != marks[1][example][of]).any():
        _, example, of = np.unique(np.stack(marks, 1), axis=0, return_index=True, return_inverse=True)
    codes = []
    for low, high in zip(first[example].tolist(), last[example].tolist(), strict=True):
        codes.append(into[FRAMES.join(texts[number] for number in frame[low:high].tolist())])
    return chain[first], np.array(codes, np.int32)[of.reshape(-1)]


def marked(chain: I64, frame: I64) -> tuple[I64, U64, U64]:
    """The first row of every stack and two numbers that equal ones share, of rows that lie in order."""
    first = np.flatnonzero(np.diff(chain, prepend=chain[:1] - 1))
    place = (np.arange(len(chain)) - np.repeat(first, np.diff(first, append=len(chain)))).astype(np.uint64)
    frames = frame.astype(np.uint64) + np.uint64(1)
    marks = []
    for mix in _MIX:
        spread = frames * np.uint64(mix) + place * np.uint64(mix ^ _PLACE)
        spread = (spread ^ (spread >> np.uint64(29))) * np.uint64(_SPREAD)
        marks.append(np.add.reduceat(spread ^ (spread >> np.uint64(32)), first))
    return first, marks[0], marks[1]


_QUOTES = str.maketrans("", "", '"\r\n')


def texts_of(texts: Texts, numbers: I64) -> pl.Series:
    """The texts of ``numbers`` on one line; (n,), null where there is none."""
    distinct, place = numbered(numbers)
    return text_at([texts[number].translate(_QUOTES) for number in distinct.tolist()], place)


def text_at(words: list[str], place: I64) -> pl.Series:
    """The text at each ``place`` (n,) among ``words``, null for one that says nothing."""
    import polars as pl

    texts = [None if (text := word.strip()) in MISSING else text for word in words]
    chosen_texts: pl.Series = pl.Series(texts, dtype=pl.String)[place] if texts else pl.Series(dtype=pl.String)
    return chosen_texts


def labels(words: pl.Series) -> pl.Series:
    """``words`` as codes of a dictionary where few of them are distinct."""
    import polars as pl

    coded: pl.Series = words.cast(pl.Categorical)
    return coded


def known_numbers(numbers: I64) -> pl.Series:
    """``numbers`` with null for what is ``ABSENT``; (n,)."""
    return masked(numbers, numbers == ABSENT)


def masked(values: npt.NDArray[Any], absent: npt.NDArray[np.bool_]) -> pl.Series:
    """``values`` (n,) with null where they are ``absent``."""
    import polars as pl

    series: pl.Series = pl.Series(values)
    return series.set(pl.Series(absent), None) if absent.any() else series


TABLES = (
    "PYTORCH_API",
    "CANN_API",
    "API",
    "TASK",
    "COMMUNICATION_OP",
    "COMMUNICATION_TASK_INFO",
    "OVERLAP_ANALYSIS",
    "MSTX_EVENTS",
    "GC_RECORD",
    "OSRT_API",
    "STEP_TIME",
    "",
)
"""The tables whose rows are slices; the last one is for slices that are computed."""

ROW_BITS = 56  # the eight above number the table
ROW = (1 << ROW_BITS) - 1
"""The bits of a chunk's offset that are a row number."""

SORT = {
    "Python": 0,
    "MindSpore": 0,
    "Python GC": 1,
    "MSTX": 6,
    "CANN": 7,
    "CPU Usage": 9,
    "Memory Usage": 10,
    "Network Usage": 11,
    "Disk Usage": 12,
    "OS Runtime API": 13,
    "Ascend Hardware": 14,
    "AI Core Freq": 15,
    "Communication": 16,
    "NPU MEM": 17,
    "DDR": 18,
    "Acc PMU": 19,
    "HCCS": 20,
    "NIC": 21,
    "RoCE": 22,
    "PCIe": 23,
    "HBM": 24,
    "Stars Soc Info": 25,
    "LLC": 27,
    "QoS": 29,
    "Overlap Analysis": 31,
}
"""Sort indexes of msprof's layers (its newest ``process_sort_index``)."""

# Those of the versions that call the process of collectives HCCL, where they differ.
_OLDER_SORT = {
    "Ascend Hardware": 13,
    "AI Core Freq": 14,
    "HCCL": 15,
    "HBM": 17,
    "DDR": 18,
    "LLC": 18,
    "NPU MEM": 19,
    "Stars Soc Info": 20,
    "Acc PMU": 21,
    "QoS": 22,
    "Overlap Analysis": 23,
}

COLLECTIVE = 5500
"""The type of calls of the library of collectives, which is called ``hccl`` or ``communication``."""

_OTHERS = 30  # after all layers that have an order
_HOST = 31
"""Stands for no device in a packed process id."""


class DatabaseColumns(WholeColumns):
    """Takes links as well, and numbers processes as msprof does."""

    def __init__(self, tables: DatabaseTables) -> None:
        super().__init__()
        self.os_pid = 0
        self.is_older = enumeration(tables, "ENUM_API_TYPE").get(COLLECTIVE) == "hccl"
        self._sort = {**SORT, **_OLDER_SORT} if self.is_older else SORT
        self._table_numbers = {schema_name(name): number for number, name in enumerate(TABLES)}
        self._event = 0
        self._link = 0
        self._pids: dict[tuple[str, int, int], int] = {}

    def events(self, rows: DatabaseRows) -> I64:
        """The ordinals of ``rows`` as events; (n,). They are taken in once."""
        number = rows.number
        begins = np.flatnonzero(np.diff(number, prepend=number[:1] - 2) != 1)
        ordinal = np.arange(self._event, self._event + len(number))
        self._chunks(
            self._table_numbers[schema_name(rows.table)],
            number[begins],
            np.diff(begins, append=len(number)),
            ordinal[begins],
        )
        self._event += len(number)
        return ordinal

    def computed(self, count: int) -> I64:
        """The ordinals of ``count`` slices or ends of links that are rows of no table; (n,)."""
        ordinal = np.arange(self._event, self._event + count)
        self._chunks(len(TABLES) - 1, np.zeros(1, np.int64), np.array([count]), ordinal[:1])
        self._event += count
        return ordinal

    def _chunks(self, table: int, offset: I64, length: I64, first: I64) -> None:
        place = (offset[: len(first)] & ROW) | np.int64(table << ROW_BITS)
        columns = {"file": np.zeros(len(first), np.int32), "offset": place, "length": length, "first": first}
        for name, values in columns.items():
            self.put(f"chunk_{name}", values[: len(first)])

    def process(self, name: str, device: int = -1, os_pid: int = 0, label: str = "") -> int:
        """The id of process ``name`` of a device (-1 for the host), which is named and ordered once."""
        os_pid = os_pid or self.os_pid
        key = (name, device, os_pid)
        with self._lock:
            return self._pids[key] if key in self._pids else self._named(key, label)

    def _named(self, key: tuple[str, int, int], label: str) -> int:
        name, device, os_pid = key
        order = self._sort.get(name, _OTHERS)
        low = device & _HOST if device >= 0 else _HOST
        pid = os_pid if order == 0 else os_pid << 10 | order << 5 | low
        metadata = self.metadata
        while metadata.process_name.get(pid, name) != name or pid in self._pids.values():
            pid += 1 << 52  # two unknown layers, or a device of a high number
        self._pids[key] = pid
        metadata.process_name[pid] = name
        metadata.process_order[pid] = order
        metadata.process_label[pid] = label or ("CPU" if device < 0 else f"NPU {device}")
        return self._pids[key]

    def links(self, category: str, link: I64, source: Ends, target: Ends) -> None:
        """Take links in: each of the targets belongs to the source of the same number in ``link``; (n,) each.

        Sources that stand for the same launch have the same number and are given once per target.
        """
        if not len(link):
            return
        first = np.unique(link, return_index=True)[1]
        for phase, ends, which in ((SOURCE, source, first), (TARGET, target, np.arange(len(link)))):
            columns: dict[str, npt.NDArray[Any]] = {
                "category": np.full(len(which), self.link_categories[category], np.int32),
                "thread": ends.thread[which],
                "time": ends.time[which],
                "event": self.computed(len(which)),
                "id": link[which] + self._link,
                "high": np.zeros(len(which), np.int64),
                "phase": np.full(len(which), phase, np.int8),
            }
            for key, values in columns.items():
                self.put(f"l_{key}", values)
            self._count("s" if phase == SOURCE else "f", len(which))
        self._link += int(link.max()) + 1


class Ends:
    """One end of many links: thread codes and times in ns since 1970; (n,) each."""

    def __init__(self, thread: I32, time: I64) -> None:
        self.thread = thread
        self.time = time

    def __getitem__(self, which: I64) -> Ends:
        return Ends(self.thread[which], self.time[which])
