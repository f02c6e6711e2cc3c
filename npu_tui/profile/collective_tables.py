"""The tables about communication: collectives, and when every rank was there.

Without a trace the collectives are those of communication.json.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.collectives import Collectives, by_owner, lists
from npu_tui.analysis.device import Window
from npu_tui.analysis.operators import collective_type
from npu_tui.load.companion_schema import COLLECTIVE_CORES, KERNELS
from npu_tui.profile.columns import UNKNOWN, devices_of, lanes_of, names_of, steps_at, times, where
from npu_tui.profile.profile import Profile
from npu_tui.profile.table import (
    COLUMNS,
    Array,
    NestedRows,
    Numbers,
    RankedSlices,
    Span,
    TableSheet,
    coded,
    columns,
    from_tuples,
    labels,
    numbers,
    row_type,
    table,
    us,
)
from npu_tui.trace.intervals import clipped, covered, difference
from npu_tui.trace.text import printable

_OWN = columns("whole", "ns", "time", "without_wait fastest slowest beyond")
_FABRIC = ("SDMA", "RDMA")
"""The transports whose bytes count where a file names any of them."""


ArrivalRow = row_type(
    "ArrivalRow",
    "How long after the start of the collective on this rank another one arrived, µs.",
    rank=int,
    after_us=float,
)
TrafficRow = row_type(
    "TrafficRow",
    "The data that went over one kind of link.",
    link=str,
    size_bytes=int,
    transit_us=float,
    bandwidth_gb_s=float | None,
)


def collectives(profile: Profile, running: Window | None = None) -> TableSheet:
    """The collectives that start in the part, or that run in the window ``running``, by start.

    Without a trace those of communication.json. Raises ``InputError`` if the file of the trace is gone.
    """
    slices = profile.trace.slices
    if not len(slices):
        return _collectives_of_file(profile)
    known = profile.collectives
    if running is not None:
        known = profile.whole.collectives
        known = known.taken((slices.start[known.item] < running.end) & (slices.end[known.item] > running.start))
    item, timings, waited, moved = known.item, known.timings, known.waits, known.moved
    lane, start = slices.lane[item], slices.start[item]
    size, transfer = moved.sums(len(known))
    has_moved = np.bincount(moved.owner, minlength=len(known)) > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        speed = np.where(has_moved & (transfer > 0), size / transfer, np.nan)
        busy = timings.synchronization + timings.transit
        waiting = np.where(timings.known & (busy > 0), timings.synchronization / busy, np.nan)
    last, after = _last(known)
    same_type = [np.flatnonzero(known.type == kind) for kind in range(len(known.types))]

    def place(row: int) -> RankedSlices:
        alike = same_type[int(known.type[row])]
        return RankedSlices(len(alike), lambda: np.roll(item[alike], -int(np.searchsorted(alike, row))))

    return TableSheet(
        len(known),
        {
            "device": numbers(devices_of(profile)[lane], UNKNOWN),
            "step": steps_at(profile, start),
            "slice": numbers(item),
            "name": names_of(profile, item),
            "type": coded(known.types, known.type),
            "group_name": lanes_of(profile, lane),
            **times(profile, start, known.elapsed),
            "without_wait": where(known.elapsed - known.waited, known.waited >= 0),
            "exposed": Numbers(lambda first, end: _exposed_times(profile, item[first:end])),
            "wait": where(timings.wait, timings.known),
            "transit": where(timings.transit, timings.known),
            "synchronization": where(timings.synchronization, timings.known),
            "idle": where(timings.idle, timings.known),
            "share": numbers(waiting),
            "size": where(size, has_moved),
            "gb_s": numbers(speed),
            "longest_wait": where(waited.length, waited.known),
            "peer_rank": where(waited.peer, waited.known & (waited.peer >= 0)),
            "last_rank": where(last, last >= 0),
            "last_after": where(after, last >= 0),
            "algorithm": labels(known.algorithms[code] or None for code in known.algorithm.tolist()),
            "arrivals": NestedRows(lambda: by_owner(_arrival_rows(known), known.arrivals.owner, len(known))),
            "traffic": NestedRows(lambda: by_owner(_traffic(known), moved.owner, len(known))),
        },
        place,
    )


def _arrival_rows(collectives: Collectives) -> list[Any]:
    return list(map(ArrivalRow, collectives.arrivals.rank.tolist(), map(us, collectives.arrivals.after.tolist())))


def _traffic(collectives: Collectives) -> list[Any]:
    moved = collectives.moved
    rows = zip(*lists(moved.link, moved.size, moved.transfer), strict=True)
    return [_traffic_row(moved.links[link], size, size, time) for link, size, time in rows]


def _last(collectives: Collectives) -> tuple[Array, Array]:
    """The rank that came last to each collective, -1 if unknown, and how long after this one, ns."""
    came = collectives.arrivals
    rank, after = np.full(len(collectives), UNKNOWN), np.zeros(len(collectives), np.int64)
    order = np.lexsort((np.arange(len(came.owner))[::-1], came.after, came.owner))  # of equal ones the first
    rank[came.owner[order]], after[came.owner[order]] = came.rank[order], came.after[order]
    return rank, after


def _exposed_times(profile: Profile, items: Array) -> Array:
    """How long (ns) nothing was computed on the device while each of the collectives ran."""
    slices, lengths = profile.trace.slices, np.zeros(len(items), np.int64)
    for members, computing in _by_device(profile, items):
        start, end = lists(slices.start[items[members]], slices.end[items[members]])
        for k, first, last in zip(members.tolist(), start, end, strict=True):
            lengths[k] = last - first - covered(*clipped(*computing, first, last))
    return lengths


def exposed_together(profile: Profile, items: Array) -> int:
    """How long (ns) nothing was computed on a device while any of the collectives ``items`` ran."""
    slices = profile.trace.slices
    return sum(
        covered(*difference(slices.start[items[members]], slices.end[items[members]], *computing))
        for members, computing in _by_device(profile, items)
    )


def _by_device(profile: Profile, items: Array) -> Iterator[tuple[Array, tuple[Array, Array]]]:
    """The positions in ``items`` of the collectives of each device, and when that computes."""
    slices = profile.trace.slices
    device = devices_of(profile)[slices.lane[items]]
    for number in np.unique(device).tolist():
        known = [
            overlap
            for overlap in profile.overlap_lanes
            if (UNKNOWN if overlap.device is None else overlap.device) == number
        ]
        lanes = known or profile.overlap_lanes
        yield np.flatnonzero(device == number), lanes[0].computing if lanes else (slices.start[:0], slices.end[:0])


def _collectives_of_file(profile: Profile) -> TableSheet:
    """The rows of communication.json by start, without it those of collectives in kernel_details.csv."""
    tables = profile.tables
    moved: dict[tuple[str, int], list[Any]] = {}
    for transfer in profile.tables.transfers:
        moved.setdefault((transfer.name, transfer.start), []).append(transfer)
    columns = ("name", "group", "start", "elapsed", "wait", "transit", "synchronization", "idle")
    cells: Iterable[tuple[Any, ...]] = tables.communication.frame.select(*columns).iter_rows()
    if not tables.has_communication and tables.has(KERNELS.stem):
        named = tables.table(KERNELS.stem).frame.select("name", "start", "duration", "core").iter_rows()
        cells = [
            (name, None, start, length, *[None] * 4) for name, start, length, core in named if core in COLLECTIVE_CORES
        ]
    rows = []
    for name, group, start, elapsed, wait, transit, waited, idle in cells:
        begin, length = 0 if start is None else start - tables.start_ns, elapsed or 0
        traffic = moved.get((name, begin), [])
        counted = [transfer for transfer in traffic if transfer.transport in _FABRIC] or traffic
        size, time = sum(round(transfer.size) for transfer in counted), sum(transfer.time for transfer in counted)
        links = [
            _traffic_row(transfer.transport, round(transfer.size), transfer.size, transfer.time) for transfer in traffic
        ]
        busy = (waited or 0) + (transit or 0)
        rows.append(
            (
                name, collective_type(name), group, begin, begin + length, length, begin + tables.start_ns, wait,
                transit, waited, idle, size if traffic else None, round(size / time, 6) if time else None,
                None if waited is None or not busy else waited / busy, links or None,
            )
        )  # fmt: skip
    rows.sort(key=lambda row: row[3])
    return replace(
        from_tuples(
            rows,
            "name type group_name start end duration start_ns wait transit synchronization idle size gb_s share "
            "traffic",
        ),
        place=lambda row: [Span(rows[row][3], rows[row][4], words=rows[row][0])],
    )


def _traffic_row(link: str, bytes_: int, size: float, time: int) -> Any:
    return TrafficRow(printable(link), bytes_, us(time), round(size / time, 6) if time else None)


COLLECTIVES = table(
    "collectives",
    collectives,
    sql="rank device step slice name type group_name start end duration start_ns wait transit synchronization idle "
    "size gb_s longest_wait peer_rank algorithm without_wait",
    json="name type group=group_name start elapsed=duration wait? transit? synchronization? idle? size? "
    "bandwidth=gb_s? longest_wait? peer_rank? arrivals? traffic?",
    page="name elapsed=duration longest_wait peer=peer_rank size bandwidth=gb_s",
    panel="name elapsed=duration wait transit idle exposed last=last_after without_wait longest_wait "
    "sync=synchronization sync_share=share size bandwidth=gb_s start group=group_name",
    section="communication",
    row="CollectiveRow",
    about="One collective; what is taken from its plane tasks is None at Level0.",
    types={"arrivals": list[ArrivalRow], "traffic": list[TrafficRow]},  # type: ignore[valid-type]
    own=_OWN,
)


def collective_costs(profile: Profile) -> TableSheet:
    """The collectives of one type, group and size, and what they took beyond the fastest of them; most of that first.

    Waiting for ranks is left out; where it is not known, so is the rest. Raises ``InputError`` as ``collectives`` does.
    """
    sheet = collectives(profile)
    asked = ("type", "group_name", "size", "duration", "without_wait", "slice")
    kinds: dict[tuple[Any, ...], list[tuple[int, int | None, int]]] = {}
    for type_, group, size, *call in zip(*map(sheet.values, asked), strict=True):
        kinds.setdefault((type_, group, size), []).append((call[0], call[1], call[2]))
    rows, slices = [], []
    for kind, calls in kinds.items():
        own = [cost for _, cost, _ in calls if cost is not None]
        costs: tuple[float | None, ...] = (None,) * 5
        if len(own) == len(calls) and kind[2]:
            speed = kind[2] / min(own) if min(own) else None
            costs = sum(own), min(own), max(own), sum(own) - len(own) * min(own), speed
        elif len(own) == len(calls):  # of unknown sizes: the shortest may move the least
            costs = sum(own), None, None, None, None
        rows.append((*kind, len(calls), sum(time for time, *_ in calls), *costs))
        slices.append([item for *_, item in sorted(calls, key=lambda call: -(call[1] or call[0]))])
    order = sorted(range(len(rows)), key=lambda row: (-(rows[row][8] or 0), -rows[row][4]))
    names = "type group_name size calls total without_wait fastest slowest beyond gb_s"
    found = from_tuples([rows[row] for row in order], names, COLUMNS | _OWN)
    if "slice" not in sheet.data:
        return found
    return replace(found, place=lambda row: RankedSlices(rows[order[row]][3], lambda: np.array(slices[order[row]])))


COLLECTIVE_COSTS = table(
    "collective_costs",
    collective_costs,
    sql="rank type group_name size calls total without_wait fastest slowest beyond gb_s",
    json="type group=group_name? size? count=calls total without_wait? fastest? slowest? beyond? bandwidth=gb_s?",
    page="type size count=calls total without_wait fastest slowest beyond",
    panel="beyond without_wait total count=calls size fastest slowest bandwidth=gb_s type group=group_name",
    section="collective_costs",
    tab=True,
    row="CollectiveCostRow",
    about="Collectives of one type, group and size, without the time they wait for ranks, against the fastest of them.",
    own=_OWN,
)


def arrivals(profile: Profile) -> TableSheet:
    """When every rank of a collective was there. Raises ``InputError`` as ``collectives`` does."""
    slices = profile.trace.slices
    if not len(slices):
        return TableSheet(0, {})
    collectives = profile.collectives
    came, item = collectives.arrivals, collectives.item[collectives.arrivals.owner]
    return TableSheet(
        len(item),
        {
            "slice": numbers(item),
            "name": names_of(profile, item),
            "group_name": lanes_of(profile, slices.lane[item]),
            "peer_rank": numbers(came.rank),
            "after": numbers(came.after),
            "time": numbers(slices.start[item] + came.after),
        },
    )


ARRIVALS = table("arrivals", arrivals, sql="rank slice name group_name peer_rank after time")
