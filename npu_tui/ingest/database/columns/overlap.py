"""The overlap analysis of a device: the rows of a viewer that kept it, else computed as msprof does."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu_tui.ingest.database.columns.collectives import Collectives
from npu_tui.ingest.database.columns.device import Tasks
from npu_tui.ingest.database.columns.whole import Whole
from npu_tui.ingest.database.tables.rows import Tables
from npu_tui.ingest.times import INVALID
from npu_tui.trace.intervals import difference, union

I64 = npt.NDArray[np.int64]

NAMES = ("Computing", "Communication", "Communication(Not Overlapped)", "Free")


def read_overlap(tables: Tables, whole: Whole, tasks: Tasks | None, collectives: Collectives | None) -> None:
    """Take the four lanes of every device in."""
    if not _kept(tables, whole):
        _computed(whole, tasks, collectives)


def _kept(tables: Tables, whole: Whole) -> bool:
    """Whether ``OVERLAP_ANALYSIS`` was there and taken in; its types are the numbers of the lanes."""
    table = tables.find("OVERLAP_ANALYSIS")
    rows = tables.read(table, ("deviceId", "startNs", "endNs", "type")) if table else None
    if rows is None:
        return False
    rows = rows.where((rows["type"] >= 0) & (rows["type"] < len(NAMES)))
    event, start, end = whole.events(rows), rows.time("startNs"), rows.time("endNs")
    for device in np.unique(rows["deviceId"]).tolist():
        for lane in range(len(NAMES)):
            own = np.flatnonzero((rows["deviceId"] == device) & (rows["type"] == lane))
            _take(whole, max(device, 0), lane, event[own], start[own], end[own])
    return len(rows) > 0


def _computed(whole: Whole, tasks: Tasks | None, collectives: Collectives | None) -> None:
    """Unions and differences of kernels and collectives, from the first of them to the last."""
    nothing = np.zeros(0, np.int64)
    devices = np.zeros(0, np.int64) if tasks is None else tasks.device
    for device in np.unique(devices).tolist():
        assert tasks is not None
        on = (tasks.device == device) & (tasks.ends.time != INVALID) & (tasks.until != INVALID)
        kernels = np.flatnonzero(on & tasks.is_kernel)
        computing = union(tasks.ends.time[kernels], tasks.until[kernels])
        communication = (nothing, nothing)
        if collectives is not None:
            own = np.flatnonzero((collectives.device == device) & (collectives.ends.time != INVALID))
            communication = union(collectives.ends.time[own], collectives.until[own])
        starts, ends = (np.concatenate(both) for both in zip(computing, communication, strict=True))
        if not len(starts):
            continue
        free = difference(np.array([starts.min()]), np.array([ends.max()]), starts, ends)
        lanes = (computing, communication, difference(*communication, *computing), free)
        for lane, (start, end) in enumerate(lanes):
            if len(start):
                _take(whole, device, lane, whole.computed(len(start)), start, end)


def _take(whole: Whole, device: int, lane: int, event: I64, start: I64, end: I64) -> None:
    if not len(start):
        return
    whole_columns = whole.columns
    code = whole.thread(whole.process("Overlap Analysis", device), lane, NAMES[lane])
    names = np.full(len(start), whole_columns.names[NAMES[lane]], np.int32)
    whole.slices(event, np.full(len(start), code, np.int32), start, end, names, whole_columns.categories[""])
