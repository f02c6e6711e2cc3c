"""communication.json and data_preprocess.csv as the rules read them."""

from __future__ import annotations

from typing import Any

from npu_tui.analysis.collectives import Preprocessing, Transfer
from npu_tui.ingest.companions.schemas import DATA_PREPROCESS
from npu_tui.profile.tables import Tables

_PLACE = ("step", "kind", "name", "group")


def transfers_of(tables: Tables) -> list[Transfer]:
    """What every collective moved over every transport that moved anything, by start."""
    if not tables.has_communication:
        return []
    times = tables.communication.frame
    items = tables.collective_slices.tolist()
    rows: dict[tuple[Any, ...], tuple[int, int, int]] = {}
    for item, row in zip(items, times.select(*_PLACE, "start", "elapsed").iter_rows(), strict=True):
        start = tables.start_ns if row[4] is None else row[4]
        rows[row[:4]] = item, start - tables.start_ns, row[5] or 0
    packets: dict[tuple[Any, ...], list[tuple[float, int]]] = {}
    for *place, transport, size, count, _ in tables.packets.frame.iter_rows():
        if size is not None and count:
            packets.setdefault((*place, transport), []).append((size * 1e6, count))
    found = []
    for *place, transport, size, time, _, large in tables.bandwidth.frame.iter_rows():
        item, start, length = rows.get(tuple(place), (-1, 0, 0))
        if size:
            own = tuple(packets.get((*place, transport), ()))
            found.append(Transfer(place[2], item, start, start + length, transport, size * 1e6, time or 0, large, own))
    return sorted(found, key=lambda each: each.start)


def preprocessing_of(tables: Tables) -> list[Preprocessing]:
    """The rows of data_preprocess.csv; a row without a total has the sum of its parts."""
    if not tables.has(DATA_PREPROCESS.stem):
        return []
    frame = tables.table(DATA_PREPROCESS.stem).frame
    found = []
    for name, start, *parts, total in frame.select("name", "time", "compute", "copy", "dispatch", "total").iter_rows():
        length = total if total is not None else sum(part or 0 for part in parts)
        if name is not None and length:
            found.append(Preprocessing(name, None if start is None else start - tables.start_ns, length))
    return found
