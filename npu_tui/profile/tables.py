"""The tables beside a trace, each read once when it is asked for, and joined to its slices once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from npu_tui.analysis.device import is_group_lane
from npu_tui.analysis.work.joins import (
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
from npu_tui.ingest.companions.schemas import ALLOCATIONS, KERNELS, L2_CACHE, SCHEMAS
from npu_tui.trace.model import Trace
from npu_tui.trace.once import once

if TYPE_CHECKING:
    import polars as pl

I64 = npt.NDArray[np.int64]


class Tables:
    """What ``companions`` hold beside ``trace``, whose compute slices are ``kernels``, ascending.

    Joins raise ``InputError`` where they need args and the file of the trace is gone.
    """

    def __init__(self, companions: Companions, trace: Trace, kernels: I64) -> None:
        self._companions = companions
        self._trace = trace
        self._kernels = kernels
        self._read: dict[str, Reading] = {}

    def table(self, stem: str) -> Reading:
        """The table ``stem``, one of ``SCHEMAS``, such as ``kernel_details``."""
        if stem not in self._read:
            self._read[stem] = self._companions.read(SCHEMAS[stem])
        return self._read[stem]

    @once
    def _communication(self) -> Document:
        return self._companions.document_state("communication.json")

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
    def matrix(self) -> Reading:
        """What went between every pair of ranks."""
        return communication_matrix(self._companions.document_state("communication_matrix.json"))

    @once
    def kernel_rows(self) -> I64:
        """For every compute slice its row of kernel_details, -1 without one."""
        frame = self.table(KERNELS.stem).frame
        return rows_of_kernels(self._trace, self._kernels, frame["name"].to_list(), _whole(frame, "start"))

    @once
    def collective_slices(self) -> I64:
        """For every row of ``communication`` its slice on a group lane, -1 without one."""
        layers = [layer for layer in self._trace.layers if layer.kind == "communication"]
        lanes = [self._trace.lanes[lane] for layer in layers for lane in layer.lanes]
        found = [np.arange(lane.first, lane.last, dtype=np.int64) for lane in lanes if is_group_lane(lane.name)]
        items = np.concatenate(found) if found else np.zeros(0, np.int64)
        frame = self.communication.frame
        return slices_of_collectives(self._trace, items, frame["name"].to_list(), _whole(frame, "start"))

    @once
    def allocating_slices(self) -> I64:
        """For every row of operator_memory the operation that allocated, or the kernel it was for; -1 without one."""
        frame = self.table(ALLOCATIONS.stem).frame
        names, time = frame["name"].to_list(), _whole(frame, "allocated_at")
        found = operations_at(self._trace, names, time)
        return np.where(found >= 0, found, kernels_allocated_for(self._trace, self._kernels, names, time))

    @once
    def cache_rows(self) -> I64:
        """For every compute slice its row of l2_cache, by stream and task; -1 without one."""
        cache, kernels = self.table(L2_CACHE.stem).frame, self.table(KERNELS.stem)
        if not len(cache):
            return np.full(len(self._kernels), -1, np.int64)
        if "task" in kernels.headings:
            row = self.kernel_rows
            task = np.where(row >= 0, np.append(_whole(kernels.frame, "task"), -1)[row], -1)
            stream = np.where(row >= 0, np.append(_whole(kernels.frame, "stream"), -1)[row], -1)
        else:
            task, stream = task_ids(self._trace, self._kernels), self._trace.slices.stream[self._kernels]
        return rows_of_tasks(stream, task, _whole(cache, "stream"), _whole(cache, "task"))


def _whole(frame: pl.DataFrame, column: str) -> I64:
    """A column of whole numbers, absent ones as the lowest int64."""
    return frame[column].fill_null(np.iinfo(np.int64).min).to_numpy().astype(np.int64)
