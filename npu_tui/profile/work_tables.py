"""The tables about what the device did: kernels, operators, collectives, steps, calls of CANN.

Where there is no trace, the files beside it tell; which of them is decided here.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.collectives import Collectives, by_owner, lists
from npu_tui.analysis.device import Window
from npu_tui.analysis.kernels import RATIOS, Coded
from npu_tui.analysis.operators import By, collective_type, kernel_groups
from npu_tui.analysis.steps import Step, StepSums
from npu_tui.load.companion_schema import API_CALLS, OPERATOR_TYPES
from npu_tui.profile.columns import UNKNOWN, devices_of, lanes_of, names_of, rank_of, slowest, steps_at, times, where
from npu_tui.profile.profile import Profile
from npu_tui.profile.table import (
    Array,
    Data,
    Labels,
    Numbers,
    Place,
    Rows,
    Sheet,
    Slices,
    Span,
    attributes,
    coded,
    from_tuples,
    labels,
    numbers,
    optional,
    row_type,
    table,
    us,
)
from npu_tui.trace.intervals import clipped, covered, difference
from npu_tui.trace.text import printable

_MOST_SPANS = 2000
_FABRIC = ("SDMA", "RDMA")
"""The transports whose bytes count where a file names any of them."""
_NO_CORES = ("HCCL", "COMMUNICATION")
"""What op_statistic.csv names instead of a core for collectives."""


def kernels(profile: Profile) -> Sheet:
    """Every kernel with its row of kernel_details.csv; the columns of that file that the table lacks come last."""
    found, trace = profile.kernel_table, profile.trace
    rows, item = len(found), found.item
    known = bool(len(trace.slices))
    device = devices_of(profile)
    lane = np.append(trace.slices.lane, 0).astype(np.int64)
    stream = np.append(trace.slices.stream, UNKNOWN)
    data: dict[str, Data] = {
        "rank": rank_of(profile),
        "device": _from_slices(device[lane] if known else np.full(1, UNKNOWN), item),
        "step": steps_at(profile, found.start),
        "slice": numbers(item, UNKNOWN),
        "stream": _from_slices(stream, item) if known else _details(found.details.get("stream"), rows),
        "name": _texts(found.name),
        "type": _texts(found.type),
        "core": _texts(found.core),
        **times(profile, found.start, found.duration),
        "wait": numbers(found.wait),
        "input_shapes": _texts(found.shapes),
        "input_types": _texts(found.dtypes),
        "input_formats": _texts(found.formats),
        "output_shapes": _texts(found.outputs),
        "block_dim": numbers(found.block_dim),
        "bytes": numbers(found.bytes),
        "gb_s": Numbers(lambda first, last: found.speed[first:last]),
        **{f"{pipe}_ratio": numbers(values) for pipe, values in found.ratios.items()},
        "hit_rate": numbers(found.hit_rate),
        "outlier": Numbers(lambda first, last: found.outliers()[first:last]),
    }
    for name, column in found.details.items():
        if name not in data:
            values = found.measured(name)
            data[name] = numbers(values) if np.isfinite(values).any() or not column.is_known else _texts(column)
    return Sheet(rows, data)


def _texts(column: Coded) -> Labels:
    return coded(column.values, column.code)


def _from_slices(values: Array, items: Array) -> Numbers:
    return Numbers(lambda first, last: np.where(items[first:last] >= 0, values[items[first:last]], UNKNOWN), UNKNOWN)


def _details(column: Coded | None, rows: int) -> Numbers:
    if column is None:
        return numbers(np.full(rows, UNKNOWN, np.int64), UNKNOWN)
    whole = np.array([int(value) if value.isdecimal() else UNKNOWN for value in column.values] + [UNKNOWN], np.int64)
    return numbers(whole[column.code], UNKNOWN)


KERNELS = table(
    "kernels",
    kernels,
    sql="rank device step slice stream name type core start end duration start_ns wait input_shapes input_types "
    "input_formats output_shapes block_dim bytes gb_s mte2_ratio mac_ratio vec_ratio hit_rate outlier",
    extended=True,
)


def operators(part: Profile, by: By = "type") -> Sheet:
    """The kernels gathered ``by`` type and core, or by something else; most time first.

    Without a trace and kernel_details.csv they are those of op_statistic.csv.
    """
    found = part.kernel_table
    groups = kernel_groups(found, by)
    if by == "type":
        if not groups and not len(part.trace.slices):
            return _operators_of_file(part)
        groups.sort(key=lambda each: (-each.total, each.type, each.core or ""))
    items = found.item

    def place(row: int) -> Place:
        members = groups[row].members
        if (items >= 0).all():
            return Slices(groups[row].count, lambda: items[members()])
        start, end = found.start, found.start + found.duration  # rows of a file, without slices
        return [Span(int(start[k]), int(end[k])) for k in members()[:_MOST_SPANS].tolist()]

    return Sheet(
        len(groups),
        {
            "rank": rank_of(part),
            **attributes(
                groups,
                "type name shapes dtypes core calls=count total ratio=share shortest p50 p90 mean=average longest "
                "wait gb_s=speed outliers",
                spread=lambda group: group.longest / max(group.shortest, 1),
            ),
            **{f"{pipe}_ratio": optional([group.ratios[pipe] for group in groups], whole=False) for pipe in RATIOS},
        },
        place,
        lambda row: found.duration[groups[row].members()],
    )


def _operators_of_file(profile: Profile) -> Sheet:
    """The rows of op_statistic.csv but those of collectives."""
    rows = []
    if profile.tables.has(OPERATOR_TYPES.stem):
        frame = profile.tables.table(OPERATOR_TYPES.stem).frame
        cells = frame.select("type", "core", "count", "total", "least", "most").drop_nulls(["type", "count", "total"])
        rows = [row for row in cells.iter_rows() if row[1] not in _NO_CORES and row[2]]
    listed, rank = sum(row[3] for row in rows) or 1, profile.trace.rank
    return from_tuples(
        [
            (
                rank,
                kind,
                None if core == "N/A" else core,
                count,
                total,
                total / listed,
                total / count,
                least or 0,
                most or 0,
            )
            for kind, core, count, total, least, most in sorted(rows, key=lambda row: -row[3])
        ],
        "rank type core calls total ratio mean shortest longest",
    )  # fmt: skip


OPERATORS = table(
    "operators",
    operators,
    sql="rank type core calls total mean shortest longest ratio",
    json="type core? count=calls total ratio? min=shortest avg=mean max=longest",
    page="type core count=calls total share=ratio avg=mean max=longest",
    panel="total share=ratio count=calls max=longest type name core shapes dtypes p50 p90 avg=mean min=shortest wait "
    "outliers bandwidth=gb_s mte2=mte2_ratio mac=mac_ratio vec=vec_ratio spread",
    row="OperatorRow",
    about="Kernels of one type and core (None: unknown); ``ratio`` is over the total of all rows.",
)

KERNEL_GROUPS = table(
    "kernel_groups",
    partial(operators, by="shapes"),
    json="type shapes? dtypes? core? count=calls total p50 p90 max=longest wait bandwidth=gb_s? mte2_ratio? mac_ratio? "
    "vec_ratio? outliers",
    page="type shapes count=calls total p50 max=longest bandwidth=gb_s mte2=mte2_ratio mac=mac_ratio vec=vec_ratio",
    row="KernelGroupRow",
    about="""Kernels of one type, shapes, data types and core (None: unknown); percentiles as numpy's ``linear``.

    ``wait_us`` is how long nothing ran before them, in sum; ratios are how busy a pipe was, weighted by time.
    ``outliers`` took far longer than others of their type and shapes.
    """,
)


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


def collectives(profile: Profile, running: Window | None = None) -> Sheet:
    """The collectives that start in the part, or those that run in a window, by start, with what their tasks tell.

    Without a trace those of communication.json. Raises ``InputError`` if the file of the trace is gone.
    """
    slices = profile.trace.slices
    if not len(slices):
        return _collectives_of_file(profile)
    found = profile.collectives
    if running is not None:
        found = profile.whole.collectives
        found = found.taken((slices.start[found.item] < running.end) & (slices.end[found.item] > running.start))
    item, timings, waited, moved = found.item, found.timings, found.waits, found.moved
    lane, start = slices.lane[item], slices.start[item]
    size, transfer = moved.sums(len(found))
    has_moved = np.bincount(moved.owner, minlength=len(found)) > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        speed = np.where(has_moved & (transfer > 0), size / transfer, np.nan)
        busy = timings.synchronization + timings.transit
        waiting = np.where(timings.known & (busy > 0), timings.synchronization / busy, np.nan)
    last, after = _last(found)
    same_type = [np.flatnonzero(found.type == kind) for kind in range(len(found.types))]

    def place(row: int) -> Slices:
        alike = same_type[int(found.type[row])]
        return Slices(len(alike), lambda: np.roll(item[alike], -int(np.searchsorted(alike, row))))

    return Sheet(
        len(found),
        {
            "rank": rank_of(profile),
            "device": numbers(devices_of(profile)[lane], UNKNOWN),
            "step": steps_at(profile, start),
            "slice": numbers(item),
            "name": names_of(profile, item),
            "type": coded(found.types, found.type),
            "group_name": lanes_of(profile, lane),
            **times(profile, start, found.elapsed),
            "exposed": Numbers(lambda first, end: _exposed(profile, item[first:end])),
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
            "algorithm": labels(found.algorithms[code] or None for code in found.algorithm.tolist()),
            "arrivals": Rows(lambda: by_owner(_arrivals(found), found.arrivals.owner, len(found))),
            "traffic": Rows(lambda: by_owner(_traffic(found), moved.owner, len(found))),
        },
        place,
    )


def _arrivals(found: Collectives) -> list[Any]:
    return list(map(ArrivalRow, found.arrivals.rank.tolist(), map(us, found.arrivals.after.tolist())))


def _traffic(found: Collectives) -> list[Any]:
    moved = found.moved
    rows = zip(*lists(moved.link, moved.size, moved.transfer), strict=True)
    return [_traffic_row(moved.links[link], size, size, time) for link, size, time in rows]


def _last(found: Collectives) -> tuple[Array, Array]:
    """The rank that came last to each collective, -1 where nothing tells, and how long after this one, ns."""
    came = found.arrivals
    rank, after = np.full(len(found), UNKNOWN), np.zeros(len(found), np.int64)
    order = np.lexsort((np.arange(len(came.owner))[::-1], came.after, came.owner))  # of equal ones the first
    rank[came.owner[order]], after[came.owner[order]] = came.rank[order], came.after[order]
    return rank, after


def _exposed(profile: Profile, items: Array) -> Array:
    """How long (ns) nothing was computed on the device while each of the collectives ran."""
    slices, found = profile.trace.slices, np.zeros(len(items), np.int64)
    for members, computing in _by_device(profile, items):
        start, end = lists(slices.start[items[members]], slices.end[items[members]])
        for k, first, last in zip(members.tolist(), start, end, strict=True):
            found[k] = last - first - covered(*clipped(*computing, first, last))
    return found


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


def _collectives_of_file(profile: Profile) -> Sheet:
    """The rows of communication.json by start."""
    tables, rank = profile.tables, profile.trace.rank
    moved: dict[tuple[str, int], list[Any]] = {}
    for transfer in profile.tables.transfers:
        moved.setdefault((transfer.name, transfer.start), []).append(transfer)
    columns = ("name", "group", "start", "elapsed", "wait", "transit", "synchronization", "idle")
    rows = []
    for name, group, start, elapsed, wait, transit, waited, idle in tables.communication.frame.select(
        *columns
    ).iter_rows():
        begin, length = 0 if start is None else start - tables.start_ns, elapsed or 0
        traffic = moved.get((name, begin), [])
        counted = [each for each in traffic if each.transport in _FABRIC] or traffic
        size, time = sum(round(each.size) for each in counted), sum(each.time for each in counted)
        links = [_traffic_row(each.transport, round(each.size), each.size, each.time) for each in traffic]
        busy = (waited or 0) + (transit or 0)
        rows.append(
            (
                rank, name, collective_type(name), group, begin, begin + length, length, begin + tables.start_ns, wait,
                transit, waited, idle, size if traffic else None, size / time if time else None,
                None if waited is None or not busy else waited / busy, links or None,
            )
        )  # fmt: skip
    rows.sort(key=lambda row: row[4])
    return replace(
        from_tuples(
            rows,
            "rank name type group_name start end duration start_ns wait transit synchronization idle size gb_s share "
            "traffic",
        ),
        place=lambda row: [Span(rows[row][4], rows[row][5], words=rows[row][1])],
    )


def _traffic_row(link: str, bytes_: int, size: float, time: int) -> Any:
    return TrafficRow(printable(link), bytes_, us(time), round(size / time, 6) if time else None)


COLLECTIVES = table(
    "collectives",
    collectives,
    sql="rank device step slice name type group_name start end duration start_ns wait transit synchronization idle "
    "size gb_s longest_wait peer_rank algorithm",
    json="name type group=group_name start elapsed=duration wait? transit? synchronization? idle? size? "
    "bandwidth=gb_s? longest_wait? peer_rank? arrivals? traffic?",
    page="name elapsed=duration longest_wait peer=peer_rank size bandwidth=gb_s",
    panel="name elapsed=duration exposed last=last_after wait longest_wait transit sync=synchronization "
    "sync_share=share size bandwidth=gb_s start group=group_name",
    row="CollectiveRow",
    about="One collective; what its plane tasks tell is None at Level0.",
    types={"arrivals": list[ArrivalRow], "traffic": list[TrafficRow]},  # type: ignore[valid-type]
)


def arrivals(profile: Profile) -> Sheet:
    """When every rank of a collective was there. Raises ``InputError`` as ``collectives`` does."""
    slices = profile.trace.slices
    if not len(slices):
        return Sheet(0, {})
    found = profile.collectives
    came, item = found.arrivals, found.item[found.arrivals.owner]
    return Sheet(
        len(item),
        {
            "rank": rank_of(profile),
            "slice": numbers(item),
            "name": names_of(profile, item),
            "group_name": lanes_of(profile, slices.lane[item]),
            "peer_rank": numbers(came.rank),
            "after": numbers(came.after),
            "time": numbers(slices.start[item] + came.after),
        },
    )


ARRIVALS = table("arrivals", arrivals, sql="rank slice name group_name peer_rank after time")


_STEP_COLUMNS = (
    "rank device step name slice start end duration start_ns computing not_overlapped overlapped communication free "
    "stage bubble preparing host_duration length"
)


def steps(profile: Profile, together: bool = False) -> Sheet:
    """The steps that the part touches by device, or of all devices ``together``, as step_trace_time.csv has them.

    Without a trace they are the rows of that file. What spans from first to last has no sum over devices.
    """
    trace, slices = profile.trace, profile.trace.slices
    if not len(slices) and profile.tables.steps:
        return _steps_of_file(profile)
    found: list[tuple[int | None, Step, list[StepSums]]] = []
    devices = [lanes.device for lanes in profile.overlap_lanes]
    if together:
        found = [(None, step, sums) for step, sums in profile.step_sums]
    elif devices:
        by_step = profile.step_sums
        found = [(device, step, sums[k : k + 1]) for k, device in enumerate(devices) for step, sums in by_step]
    else:
        found = [(None, step, []) for step in profile.steps if step.number is not None]
    unlinked = all(step.window is None for step in profile.steps)
    rows = []
    for device, step, sums in found:
        item = step.item
        window: tuple[int | None, ...] = (None, None, None, None)
        if step.window is not None and not unlinked:  # without ProfilerStep the step is all of the trace
            start, end = max(step.window.start, 0), min(step.window.end, trace.end)
            window = start, end, end - start, start + profile.tables.start_ns
        host = int(slices.end[item] - slices.start[item]) if item >= 0 else None
        spent = _spent(sums) if sums else (None,) * 8
        rows.append(
            (trace.rank, device, step.number, step.name, item if item >= 0 else None, *window, *spent, host, host)
        )

    def place(row: int) -> list[Span]:
        step = found[row][1]
        low, high = (0, trace.end) if step.item < 0 else (int(slices.start[step.item]), int(slices.end[step.item]))
        return [Span(low, high, words=step.name or "")]

    return replace(from_tuples(rows, _STEP_COLUMNS), place=place)


def _spent(sums: list[StepSums]) -> tuple[int | None, ...]:
    """How the devices spent a step, from ``computing`` to ``preparing``."""
    communication = sum(each.overlap.communication for each in sums)
    exposed = sum(each.overlap.not_overlapped for each in sums)
    alone = sums[0] if len(sums) == 1 else None
    return (
        sum(each.overlap.computing for each in sums), exposed, communication - exposed, communication,
        sum(each.overlap.free for each in sums), alone.stage if alone else None, sum(each.bubble for each in sums),
        alone.preparing if alone else None,
    )  # fmt: skip


def _steps_of_file(profile: Profile) -> Sheet:
    rows = []
    for step in profile.tables.steps:
        times, name = step.overlap, None if step.number is None else f"ProfilerStep#{step.number}"
        rows.append(
            (
                profile.trace.rank, None, step.number, name, *[None] * 5, times.computing, times.not_overlapped,
                times.communication - times.not_overlapped, times.communication, times.free, step.stage, step.bubble,
                step.preparing, None, step.stage,
            )
        )  # fmt: skip
    return from_tuples(rows, _STEP_COLUMNS)


STEPS = table(
    "steps",
    steps,
    sql="rank device step name slice start end duration start_ns computing not_overlapped overlapped communication "
    "free stage bubble preparing host_duration",
    json="name? step? computing? communication_not_overlapped=not_overlapped? overlapped? communication? free? stage? "
    "bubble? preparing? duration=length?",
    page="step=name length computing not_overlapped free stage",
    row="StepRow",
    about="""One step, summed over devices; ``name`` and ``step`` are None for a trace without steps.

    ``stage_us`` and ``preparing_us`` span from first to last and are None with several devices; ``duration_us`` is the
    length on the host, without a trace that on the device.
    """,
)


def overlap(profile: Profile) -> Sheet:
    """How each device spent its time; without a trace one row, the sum of step_trace_time.csv.

    Free is split by who was late, null where there are no launches.
    """
    none = (None, None, None)
    found = [(each.device, each.lanes.sums(profile.window), each.split) for each in profile.devices if each.lanes]
    if not len(profile.trace.slices) and profile.tables.step_sums.total:
        found = [(None, profile.tables.step_sums, None)]
    return from_tuples(
        [
            (
                device, sums.total, sums.computing, sums.communication, sums.not_overlapped, sums.free,
                *(none if split is None else split.sums(profile.window)),
            )
            for device, sums, split in found
        ],
        "device total computing communication not_overlapped free host_late device_side unlinked",
    )  # fmt: skip


OVERLAP = table("overlap", overlap)


def apis(profile: Profile) -> Sheet:
    """The calls of CANN that start in the part, by level and name; without a trace those of api_statistic.csv."""
    trace = profile.trace
    if not len(trace.slices):
        return _apis_of_file(profile)
    found = profile.apis
    total = max(sum(each.total for each in found), 1)
    return Sheet(
        len(found),
        {
            "rank": rank_of(profile),
            **attributes(
                found,
                "level name calls=count total shortest longest variance",
                mean=lambda each: each.total / each.count,
                share=lambda each: each.total / total,
                deviation=lambda each: each.variance**0.5 * 1000,
            ),
        },
        **slowest(profile, lambda row: found[row].items),
    )


def _apis_of_file(profile: Profile) -> Sheet:
    rows = []
    if profile.tables.has(API_CALLS.stem):
        frame = profile.tables.table(API_CALLS.stem).frame
        cells = frame.select("level", "name", "count", "total", "least", "most").drop_nulls(["name", "total"])
        rows = [row for row in cells.iter_rows() if row[2]]
    total = max(sum(row[3] for row in rows), 1)
    return from_tuples(
        [
            (profile.trace.rank, level or "", name, count, time, time / count, time / total, least or 0, most or 0)
            for level, name, count, time, least, most in rows
        ],
        "rank level name calls total mean share shortest longest",
    )


APIS = table(
    "apis",
    apis,
    sql="rank level name calls total mean shortest longest variance",
    json="level name count=calls total min=shortest avg=mean max=longest",
    panel="total share count=calls avg=mean max=longest call=name level min=shortest deviation",
    row="ApiRow",
    about="Calls of the CANN runtime of one level and name.",
)
