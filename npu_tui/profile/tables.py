"""The tables beside a trace, each read once when it is asked for, and joined to its slices once."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from npu_tui.analysis.joins import (
    kernels_allocated_for,
    operations_at,
    rows_of_kernels,
    rows_of_tasks,
    slices_of_collectives,
    task_ids,
)
from npu_tui.ingest.companions.communication import (
    communication_bandwidth,
    communication_matrix,
    communication_packets,
    communication_times,
)
from npu_tui.ingest.companions.documents import Document
from npu_tui.ingest.companions.files import Companions
from npu_tui.ingest.companions.reading import Reading
from npu_tui.ingest.companions.schema import Schema
from npu_tui.ingest.companions.schemas import ALLOCATIONS, KERNELS, L2_CACHE, MEMORY, SCHEMAS
from npu_tui.trace.model import Trace
from npu_tui.trace.once import once

if TYPE_CHECKING:
    import polars as pl

I64 = npt.NDArray[np.int64]


class Tables:
    """What ``companions`` (None where there is no folder to look into) hold beside ``trace``.

    ``kernels`` are the compute slices of the trace and ``collectives`` those of its group lanes, both ascending. Joins
    raise ``InputError`` where they need args and the file of the trace is gone.
    """

    def __init__(self, companions: Companions | None, trace: Trace, kernels: I64, collectives: I64) -> None:
        self._companions = companions
        self._trace = trace
        self._kernels = kernels
        self._collectives = collectives
        self._read: dict[str, Reading] = {}
        self._lock = Lock()

    def table(self, stem: str) -> Reading:
        """The table ``stem``, one of ``SCHEMAS``, such as ``kernel_details``."""
        with self._lock:
            if stem not in self._read:
                self._read[stem] = (
                    self._companions.read(SCHEMAS[stem]) if self._companions is not None else absent(SCHEMAS[stem])
                )
            return self._read[stem]

    def has(self, stem: str) -> bool:
        """Whether there is a table ``stem``, whatever is in it; nothing is read for the answer."""
        return self._companions is not None and self._companions.has(SCHEMAS[stem])

    def _document(self, name: str) -> Document:
        return self._companions.document_state(name) if self._companions is not None else Document("missing")

    @once
    def start_ns(self) -> int:
        """What times are relative to, ns since 1970: the start of the trace, without one the first of a table."""
        if len(self._trace.slices):
            return self._trace.start_ns
        places = ((KERNELS, "start"), (MEMORY, "time"), (ALLOCATIONS, "allocated_at"))
        times = [self.table(schema.stem).frame[column].min() for schema, column in places if self.has(schema.stem)]
        times.append(self.communication.frame["start"].min())
        known = [time for time in times if isinstance(time, int)]
        return min(known, default=self._trace.start_ns)

    @once
    def _communication(self) -> Document:
        return self._document("communication.json")

    @property
    def has_communication(self) -> bool:
        """Whether there is a communication.json that holds anything."""
        return self._communication.value is not None

    @property
    def lacks_communication(self) -> bool:
        """Whether there is no communication.json."""
        return self._communication.state == "missing"

    @once
    def communication(self) -> Reading:
        """Times of every collective."""
        return communication_times(self._communication)

    @once
    def bandwidth(self) -> Reading:
        """What every collective moved over every transport."""
        return communication_bandwidth(self._communication)

    @once
    def packets(self) -> Reading:
        """How many packets of which size every collective moved."""
        return communication_packets(self._communication)

    @once
    def _matrix(self) -> Document:
        return self._document("communication_matrix.json")

    @property
    def lacks_matrix(self) -> bool:
        """Whether there is no communication_matrix.json."""
        return self._matrix.state == "missing"

    @once
    def matrix(self) -> Reading:
        """What went between every pair of ranks."""
        return communication_matrix(self._matrix)

    @once
    def kernel_rows(self) -> I64:
        """For every compute slice its row of kernel_details, -1 without one."""
        return self._rows_of(self._kernels)

    @once
    def collective_rows(self) -> I64:
        """For every collective its row of kernel_details, -1 without one."""
        return self._rows_of(self._collectives)

    def _rows_of(self, items: I64) -> I64:
        if not self.has(KERNELS.stem):
            return np.full(len(items), -1, np.int64)
        frame = self.table(KERNELS.stem).frame
        return rows_of_kernels(self._trace, items, frame["name"].to_list(), _whole(frame, "start"))

    @once
    def durations(self) -> dict[int, int]:
        """The length (ns) of the slice that each row of kernel_details is joined to, by row."""
        items = np.concatenate([self._kernels, self._collectives])
        rows = np.concatenate([self.kernel_rows, self.collective_rows])
        length = self._trace.slices.end[items] - self._trace.slices.start[items]
        return {row: time for row, time in zip(rows.tolist(), length.tolist(), strict=True) if row >= 0}

    @once
    def collective_slices(self) -> I64:
        """For every row of ``communication`` its slice on a group lane, -1 without one."""
        frame = self.communication.frame
        return slices_of_collectives(self._trace, self._collectives, frame["name"].to_list(), _whole(frame, "start"))

    @once
    def allocating_slices(self) -> I64:
        """For every row of operator_memory the operation that allocated, or the kernel it was for; -1 without one."""
        frame = self.table(ALLOCATIONS.stem).frame
        names, time = frame["name"].to_list(), _whole(frame, "allocated_at")
        found = operations_at(self._trace, names, time)
        return np.where(found >= 0, found, kernels_allocated_for(self._trace, self._kernels, names, time))

    @once
    def cache_rows(self) -> I64:
        """For every compute slice its row of l2_cache, by stream, task and name; -1 without one."""
        if not self.has(L2_CACHE.stem) or not len(self.table(L2_CACHE.stem).frame):
            return np.full(len(self._kernels), -1, np.int64)
        cache, kernels = self.table(L2_CACHE.stem).frame, self.table(KERNELS.stem)
        if "task" in kernels.headings:
            row = self.kernel_rows
            task = np.where(row >= 0, np.append(_whole(kernels.frame, "task"), -1)[row], -1)
            stream = np.where(row >= 0, np.append(_whole(kernels.frame, "stream"), -1)[row], -1)
        else:
            task, stream = task_ids(self._trace, self._kernels), self._trace.slices.stream[self._kernels]
        order = np.argsort(self._trace.slices.start[self._kernels], kind="stable")
        names = [self._trace.name_of(item) for item in self._kernels[order].tolist()]
        found = np.full(len(self._kernels), -1, np.int64)
        found[order] = rows_of_tasks(
            (stream[order], task[order], names),
            (_whole(cache, "stream"), _whole(cache, "task"), cache["name"].to_list()),
        )
        return found


def absent(schema: Schema) -> Reading:
    """The reading of a table that is not there."""
    from npu_tui.ingest.companions.csv_table import empty_frame

    return Reading(f"{schema.stem}.csv", "missing", empty_frame(schema))


def _whole(frame: pl.DataFrame, column: str) -> I64:
    """A column of whole numbers, absent ones as the lowest int64."""
    return frame[column].fill_null(np.iinfo(np.int64).min).to_numpy().astype(np.int64)
