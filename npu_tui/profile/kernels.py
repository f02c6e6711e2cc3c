"""The kernels of a profile joined with their rows of kernel_details.csv and l2_cache.csv."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from npu_tui.analysis.device import DeviceSlices
from npu_tui.analysis.work.kernels import Coded, KernelTable, from_trace, waits, with_details
from npu_tui.analysis.work.operators import kernel_types
from npu_tui.ingest.companions.files import Companions
from npu_tui.ingest.companions.schemas import KERNELS, L2_CACHE
from npu_tui.ingest.times import INVALID
from npu_tui.trace.model import Trace

I64 = npt.NDArray[np.int64]

_NONE = np.zeros(0, np.int64)
_COLLECTIVES = ("HCCL", "COMMUNICATION")


def kernels_of(trace: Trace, devices: list[DeviceSlices], companions: Companions | None) -> KernelTable:
    """All kernels of ``devices`` by start; those of kernel_details.csv where the trace has none."""
    items = np.flatnonzero(np.logical_or.reduce([each.compute for each in devices])) if devices else _NONE
    table = _Table(companions)
    if not len(items):
        return _from_rows(trace, table)
    found = from_trace(trace, items, kernel_types(trace, items), _waits(trace, devices, items))
    if not table.columns:
        return found
    row = table.rows_of(trace, found)
    return with_details(found, row, table.columns, table.cells, table.hits(companions, row))


def _waits(trace: Trace, devices: list[DeviceSlices], items: I64) -> I64:
    """What each of ``items`` waited on its device, ns; (n,)."""
    slices = trace.slices
    found = np.zeros(len(slices), np.int64)
    for device in devices:
        own, others = np.flatnonzero(device.compute), np.flatnonzero(device.collective)
        found[own] = waits(slices.start[own], slices.end[own], slices.start[others], slices.end[others])
    return found[items]


class _Table:
    """kernel_details.csv by the columns of its schema."""

    def __init__(self, companions: Companions | None) -> None:
        reading = None if companions is None else companions.read(KERNELS)
        self._frame = None if reading is None or not len(reading.frame) else reading.frame
        self.columns: list[str] = [] if reading is None or self._frame is None else list(reading.headings)

    def cells(self, column: str) -> Sequence[str | None] | None:
        """The cells of ``column`` as texts, None without it."""
        if self._frame is None or column not in self.columns:
            return None
        return [None if value is None else str(value) for value in self._frame[column].to_list()]

    def whole(self, column: str) -> I64:
        """The whole numbers of ``column``, ``INVALID`` where there is none."""
        if self._frame is None or column not in self.columns:
            return np.zeros(0, np.int64)
        return self._frame[column].fill_null(INVALID).to_numpy().astype(np.int64)

    def rows_of(self, trace: Trace, kernels: KernelTable) -> I64:
        """The row of each kernel by name and start, which may differ by one nanosecond; -1 without one."""
        starts = (self.whole("start") - trace.start_ns).tolist()
        own = {key: row for row, key in enumerate(zip(self.cells("name") or [], starts, strict=False))}
        names = [kernels.name.values[code] for code in kernels.name.code.tolist()]
        found = np.full(len(kernels), -1, np.int64)
        for k, (name, start) in enumerate(zip(names, kernels.start.tolist(), strict=True)):
            for away in (0, -1, 1):
                row = own.get((name, start + away))
                if row is not None:
                    found[k] = row
                    break
        return found

    def hits(self, companions: Companions | None, row: I64) -> npt.NDArray[np.float64]:
        """The hit rate of L2 of the kernels at ``row``, by stream, task and name."""
        found = np.full(len(row), np.nan)
        frame = None if companions is None else companions.read(L2_CACHE).frame
        if frame is None or not len(frame):
            return found
        keys = zip(*(frame[column].to_list() for column in ("stream", "task", "name")), strict=True)
        rates = dict(zip(keys, frame["hit_rate"].to_list(), strict=True))
        streams, tasks, names = self.whole("stream"), self.whole("task"), self.cells("name")
        if not len(streams) or not len(tasks) or names is None:
            return found
        for k in np.flatnonzero(row >= 0).tolist():
            at = int(row[k])
            rate = rates.get((int(streams[at]), int(tasks[at]), names[at]))
            found[k] = np.nan if rate is None else rate
        return found


def _from_rows(trace: Trace, table: _Table) -> KernelTable:
    """The kernels of kernel_details.csv alone, for a profile whose trace has none."""
    start, length = table.whole("start"), table.whole("duration")
    cores = table.cells("core") or [None] * len(start)
    known = (start != INVALID) & (length != INVALID) if len(start) == len(length) else np.zeros(len(start), np.bool_)
    own = np.flatnonzero(known & np.array([core not in _COLLECTIVES for core in cores], np.bool_))
    own = own[np.argsort(start[own], kind="stable")]
    others = np.setdiff1d(np.flatnonzero(known), own)
    begin = start - (trace.start_ns or (int(start[known].min()) if known.any() else 0))
    names, nothing = Coded.of(table.cells("name") or []), Coded([], np.full(len(own), -1, np.int64))
    unknown = np.full(len(own), np.nan)
    gap = waits(begin[own], begin[own] + length[own], begin[others], begin[others] + length[others])
    bare = KernelTable(
        np.full(len(own), -1, np.int64), begin[own], length[own], gap, names.taken(own), nothing, nothing, nothing,
        nothing, nothing, nothing, unknown, unknown, {}, unknown,
    )  # fmt: skip
    return with_details(bare, own, table.columns, table.cells) if len(own) else bare
