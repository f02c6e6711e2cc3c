"""The parts of a trace in file order, as whole columns with one set of dictionaries."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from npu_tui.ingest.json.columns.begin_end import PHASES, BeginEndEvents
from npu_tui.ingest.json.columns.codes import Codes
from npu_tui.ingest.json.columns.counter_events import SeriesKey
from npu_tui.ingest.json.columns.event_columns import Columns
from npu_tui.ingest.json.columns.metadata import Metadata
from npu_tui.ingest.json.columns.range_columns import DICTIONARY, RangeColumns
from npu_tui.trace.model import Chunks

I32 = npt.NDArray[np.int32]
Array = npt.NDArray[Any]


class WholeColumns:
    """Takes parts in file order; ``column`` gives a column of them all.

    Dictionaries are numbered by first appearance in the file, whoever read which part.
    """

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
        self.series: Codes[SeriesKey] = Codes()
        self.link_categories: Codes[str] = Codes()
        self.link_texts: Codes[str] = Codes()
        self._columns: dict[str, list[Array]] = {}
        self._tables: dict[tuple[str, str], list[int]] = {}
        self._marks = BeginEndEvents()

    def _dictionary(self, name: str) -> Codes[Any]:
        return getattr(self, name)  # type: ignore[no-any-return]

    def add(self, part: RangeColumns, reader: str = "", file: int = 0) -> None:
        """Take in the next part, read by ``reader`` from file number ``file``, after all that it read before."""
        tables = {name: self._tables.setdefault((reader, name), []) for name in part.news}
        # Codes of a part build on the dictionaries of those before it: none may be left out.
        assert all(len(table) == part.known[name] for name, table in tables.items())
        for name, values in part.news.items():
            tables[name] += map(self._dictionary(name).__getitem__, values)
        remap = {name: np.array([*table, -1], np.int32) for name, table in tables.items()}
        for name, column in part.columns.items():
            self._columns.setdefault(name, []).append(self._adopted(name, column, remap))
        self._columns.setdefault("chunk_file", []).append(np.full(len(part.columns["chunk_first"]), file, np.int32))
        for ordinal, event in part.replay:
            if event.ph in PHASES:
                self._marks.add([(self.count + ordinal, event)])
            else:
                self.metadata.add(event)
        self.phases.update(part.phases)
        self.skipped.update(part.skipped)
        self.count += part.count

    def _adopted(self, name: str, values: Array, remap: dict[str, I32]) -> Array:
        """``values`` with the codes and ordinals of the whole trace."""
        if name in DICTIONARY:
            own = values if values.flags.writeable and values.dtype == np.int32 else None
            return np.take(remap[DICTIONARY[name]], values, out=own, mode="wrap")  # -1 is the last entry
        if name == "l_high" and len(values) and values.min() < 0:
            values = values.astype(np.int64)
            text = values < 0
            values[text] = -1 - remap["link_texts"][-1 - values[text]].astype(np.int64)
            return values
        if name in ("x_event", "l_event", "chunk_first"):
            return values.astype(np.int64) + self.count
        return values

    def close(self) -> None:
        """Make slices of begin and end marks, once all parts are in."""
        pairs = self._marks.slices(self.skipped)
        if pairs:
            columns = Columns()
            columns.add_pairs(pairs)
            part, count = columns.take(), self.count
            self.count = 0  # the ordinals of the pairs are those of the file
            self.add(part, "marks")
            self.count = count
        for thread, name in self._marks.lane_names.items():
            self.metadata.thread_name.setdefault(thread, name)
        self._marks = BeginEndEvents()

    def put(self, name: str, values: Array) -> None:
        """Append to the column ``name``: its codes and ordinals are those of the whole trace already."""
        self._columns.setdefault(name, []).append(values)

    def so_far(self) -> WholeColumns:
        """What was taken in until now, without link ends, to be put together before more comes."""
        part = WholeColumns()
        part.count, part.phases, part.metadata = self.count, self.phases, self.metadata
        part.threads, part.names, part.categories = self.threads, self.names, self.categories
        part.task_types, part.stacks, part.series = self.task_types, self.stacks, self.series
        part._columns = {name: list(pieces) for name, pieces in self._columns.items() if not name.startswith("l_")}
        return part

    @property
    def slices(self) -> int:
        """How many slices there are."""
        return sum(map(len, self._columns.get("x_time", [])))

    def column(self, name: str, dtype: npt.DTypeLike) -> Array:
        """The whole column ``name``; it is given away, so that each can be asked for once."""
        pieces = self._columns.pop(name, [])
        whole = np.empty(sum(map(len, pieces)), dtype)
        at = 0
        while pieces:
            piece = pieces.pop(0)
            whole[at : at + len(piece)] = piece
            at += len(piece)
        return whole

    def peek(self, name: str, dtype: npt.DTypeLike) -> Array:
        """A copy of the whole column ``name``, which stays."""
        return np.concatenate([np.zeros(0, dtype), *self._columns.get(name, [])])

    def chunks(self) -> Chunks:
        """Where the events lie in the files."""
        return Chunks(
            self.column("chunk_file", np.int32),
            self.column("chunk_offset", np.int64),
            self.column("chunk_length", np.int64),
            self.column("chunk_first", np.int64),
        )
