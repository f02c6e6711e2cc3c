"""The tables about what the device did: kernels, operators, collectives, steps, calls of CANN.

Where there is no trace, the files beside it tell; which of them is decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from npu_tui.analysis.collectives import Collectives, by_owner, lists
from npu_tui.analysis.device import Window
from npu_tui.analysis.kernels import RATIOS, Coded
from npu_tui.analysis.operators import By, collective_type, kernel_groups
from npu_tui.analysis.overlap import Overlap
from npu_tui.analysis.steps import Step, StepSums
from npu_tui.ingest.companions.schemas import API_CALLS, OPERATOR_TYPES
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


def kernels(part: Profile) -> Sheet:
    """Every kernel with its row of kernel_details.csv; the columns of that file that the table lacks come last."""
    profile, found, trace = part.whole, part.kernel_table, part.trace
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
    whole = np.array([int(each) if each.isdecimal() else UNKNOWN for each in column.values] + [UNKNOWN], np.int64)
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
                spread=lambda each: each.longest / max(each.shortest, 1),
            ),
            **{f"{pipe}_ratio": optional([each.ratios[pipe] for each in groups], whole=False) for pipe in RATIOS},
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
    rows.sort(key=lambda row: -row[3])
    listed = sum(row[3] for row in rows)
    return Sheet(
        len(rows),
        {
            "rank": rank_of(profile),
            "type": labels(row[0] for row in rows),
            "core": labels(None if row[1] == "N/A" else row[1] for row in rows),
            "calls": optional([row[2] for row in rows]),
            "total": optional([row[3] for row in rows]),
            "ratio": optional([row[3] / listed if listed else None for row in rows], whole=False),
            "mean": optional([row[3] / row[2] for row in rows], whole=False),
            "shortest": optional([row[4] or 0 for row in rows]),
            "longest": optional([row[5] or 0 for row in rows]),
        },
    )


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


def collectives(part: Profile, running: Window | None = None) -> Sheet:
    """The collectives that start in the part, or those that run in a window, by start, with what their tasks tell.

    Without a trace those of communication.json. Raises ``InputError`` if the file of the trace is gone.
    """
    profile, slices = part.whole, part.trace.slices
    if not len(slices):
        return _collectives_of_file(profile)
    found = part.collectives
    if running is not None:
        found = profile.collectives
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
            "arrivals": Rows(
                by_owner(
                    list(map(ArrivalRow, found.arrivals.rank.tolist(), map(us, found.arrivals.after.tolist()))),
                    found.arrivals.owner,
                    len(found),
                )
            ),
            "traffic": Rows(by_owner(_traffic(found), moved.owner, len(found))),
        },
        place,
    )


def _traffic(found: Collectives) -> list[Any]:
    moved = found.moved
    links = [printable(each) for each in moved.links]
    return [
        TrafficRow(links[link], size, us(time), round(size / time, 6) if time else None)
        for link, size, time in zip(*lists(moved.link, moved.size, moved.transfer), strict=True)
    ]


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
        known = [each for each in profile.overlap_lanes if (UNKNOWN if each.device is None else each.device) == number]
        lanes = known or profile.overlap_lanes
        yield np.flatnonzero(device == number), lanes[0].computing if lanes else (slices.start[:0], slices.end[:0])


def _collectives_of_file(profile: Profile) -> Sheet:
    """The rows of communication.json by start."""
    tables = profile.tables
    moved: dict[tuple[str, int], list[Any]] = {}
    for each in profile.transfers:
        moved.setdefault((each.name, each.start), []).append(each)
    columns = ("name", "group", "start", "elapsed", "wait", "transit", "synchronization", "idle")
    rows = []
    for name, group, start, elapsed, *rest in tables.communication.frame.select(*columns).iter_rows():
        begin = 0 if start is None else start - tables.start_ns
        traffic = moved.get((name, begin), [])
        counted = [each for each in traffic if each.transport in _FABRIC] or traffic
        size, time = sum(round(each.size) for each in counted), sum(each.time for each in counted)
        links = [
            TrafficRow(
                printable(each.transport), round(each.size), us(each.time),
                round(each.size / each.time, 6) if each.time else None,
            )
            for each in traffic
        ]  # fmt: skip
        busy = (rest[2] or 0) + (rest[1] or 0)
        rows.append(
            (name, group, begin, elapsed or 0, *rest, size if traffic else None, size / time if time else None,
             rest[2] / busy if busy and rest[2] is not None else None, links or None)
        )  # fmt: skip
    rows.sort(key=lambda row: row[2])
    start, length = (np.array([row[k] for row in rows], np.int64) for k in (2, 3))
    none = Numbers(lambda first, last: np.full(last - first, UNKNOWN), UNKNOWN)
    whole = {name: optional([row[k] for row in rows])
             for k, name in enumerate(("wait", "transit", "synchronization", "idle", "size"), 4)}  # fmt: skip
    return Sheet(
        len(rows),
        {
            "rank": rank_of(profile),
            "device": none,
            "step": steps_at(profile, start),
            "slice": none,
            "name": labels(row[0] for row in rows),
            "type": labels(collective_type(row[0]) for row in rows),
            "group_name": labels(row[1] for row in rows),
            **times(profile, start, length),
            **whole,
            "gb_s": optional([row[9] for row in rows], whole=False),
            "share": optional([row[10] for row in rows], whole=False),
            **dict.fromkeys(("exposed", "longest_wait", "peer_rank", "last_rank", "last_after"), none),
            "algorithm": labels([None] * len(rows)),
            "arrivals": Rows([None] * len(rows)),
            "traffic": Rows([row[11] for row in rows]),
        },
        lambda row: [Span(rows[row][2], rows[row][2] + rows[row][3], words=rows[row][0])],
    )


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


def arrivals(part: Profile) -> Sheet:
    """When every rank of a collective was there. Raises ``InputError`` as ``collectives`` does."""
    profile, trace = part.whole, part.trace
    if not len(trace.slices):
        empty = np.zeros(0, np.int64)
        item, rank, after, start = empty, empty, empty, empty
    else:
        came = part.collectives.arrivals
        item, rank, after = part.collectives.item[came.owner], came.rank, came.after
        start = trace.slices.start[item]
    return Sheet(
        len(item),
        {
            "rank": rank_of(profile),
            "slice": numbers(item),
            "name": names_of(profile, item),
            "group_name": lanes_of(profile, trace.slices.lane[item]),
            "peer_rank": numbers(rank),
            "after": numbers(after),
            "time": numbers(start + after),
        },
    )


ARRIVALS = table("arrivals", arrivals, sql="rank slice name group_name peer_rank after time")


_STEP_SUMS = ("computing", "not_overlapped", "overlapped", "communication", "free", "stage", "bubble", "preparing")


def steps(part: Profile, together: bool = False) -> Sheet:
    """The steps that the part touches by device, or of all devices ``together``, as step_trace_time.csv has them.

    Without a trace they are the rows of that file. What spans from first to last has no sum over devices.
    """
    profile, trace = part.whole, part.trace
    if not len(trace.slices) and profile.table_steps:
        return _steps_of_file(profile)
    unlinked = all(step.window is None for step in profile.steps)
    devices = [lanes.device for lanes in profile.overlap_lanes]
    rows: list[tuple[int | None, Step, list[StepSums]]] = []
    if together:
        rows = [(None, step, sums) for step, sums in part.step_sums]
    elif devices:
        by_step = part.step_sums
        rows = [(device, step, sums[k : k + 1]) for k, device in enumerate(devices) for step, sums in by_step]
    else:
        rows = [(None, step, []) for step in profile.steps if step.number is not None]
    window = [None if unlinked else step.window for _, step, _ in rows]
    # Without ProfilerStep the step is all of the trace.
    begin = [None if each is None else max(each.start, 0) for each in window]
    end = [None if each is None else min(each.end, trace.end) for each in window]
    found: dict[str, list[Any]] = {name: [] for name in _STEP_SUMS}
    for _, _, sums in rows:
        values = [None] * len(_STEP_SUMS) if not sums else _step_sums(sums)
        for name, value in zip(_STEP_SUMS, values, strict=True):
            found[name].append(value)
    item = [step.item for _, step, _ in rows]
    host = [int(trace.slices.end[each] - trace.slices.start[each]) if each >= 0 else None for each in item]

    def place(row: int) -> list[Span]:
        _, step, _ = rows[row]
        slices, at = trace.slices, step.item
        low, high = (0, trace.end) if at < 0 else (int(slices.start[at]), int(slices.end[at]))
        return [Span(low, high, words=step.name or "")]

    names = [(device, step.number, step.name, step.item) for device, step, _ in rows]
    return _steps(profile, names, begin, end, found, host, host, place)


def _step_sums(sums: list[StepSums]) -> list[int | None]:
    """``_STEP_SUMS`` of a step over devices."""
    communication = sum(each.overlap.communication for each in sums)
    exposed = sum(each.overlap.not_overlapped for each in sums)
    alone = sums[0] if len(sums) == 1 else None
    return [
        sum(each.overlap.computing for each in sums), exposed, communication - exposed, communication,
        sum(each.overlap.free for each in sums), alone.stage if alone else None, sum(each.bubble for each in sums),
        alone.preparing if alone else None,
    ]  # fmt: skip


def _steps_of_file(profile: Profile) -> Sheet:
    rows = profile.table_steps
    overlaps = [each.overlap for each in rows]
    found: dict[str, list[Any]] = {
        "computing": [each.computing for each in overlaps],
        "not_overlapped": [each.not_overlapped for each in overlaps],
        "overlapped": [each.communication - each.not_overlapped for each in overlaps],
        "communication": [each.communication for each in overlaps],
        "free": [each.free for each in overlaps],
        **{name: [getattr(each, name) for each in rows] for name in ("stage", "bubble", "preparing")},
    }
    names = [
        (None, each.number, None if each.number is None else f"ProfilerStep#{each.number}", UNKNOWN) for each in rows
    ]
    none = [None] * len(rows)
    return _steps(profile, names, none, none, found, none, found["stage"])


def _steps(
    profile: Profile,
    names: Sequence[tuple[int | None, int | None, str | None, int]],
    start: Sequence[int | None],
    end: Sequence[int | None],
    sums: dict[str, list[Any]],
    host: Sequence[int | None],
    length: Sequence[int | None],
    place: Callable[[int], Place] | None = None,
) -> Sheet:
    """The sheet of steps; ``names`` are device, number, name and slice of each.

    ``length`` is how long a step takes: on the host, without a trace on the device.
    """
    origin = profile.tables.start_ns
    duration = [None if a is None or b is None else b - a for a, b in zip(start, end, strict=True)]
    return Sheet(
        len(names),
        {
            "rank": rank_of(profile),
            "device": optional([each[0] for each in names]),
            "step": optional([each[1] for each in names]),
            "name": labels(each[2] for each in names),
            "slice": numbers(np.array([each[3] for each in names], np.int64), UNKNOWN),
            "start": optional(start),
            "end": optional(end),
            "duration": optional(duration),
            "start_ns": optional([None if each is None else each + origin for each in start]),
            **{name: optional(values) for name, values in sums.items()},
            "host_duration": optional(host),
            "length": optional(length),
        },
        place,
    )


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


def overlap(part: Profile) -> Sheet:
    """How each device spent its time; without a trace one row, the sum of step_trace_time.csv.

    Free is split by who was late, null where there are no launches.
    """
    rows: list[tuple[int | None, Overlap, Sequence[float | None]]] = [
        (
            each.device,
            each.lanes.sums(part.window),
            each.split.sums(part.window) if each.split is not None else (None, None, None),
        )
        for each in part.devices
        if each.lanes is not None
    ]
    if not len(part.trace.slices) and part.table_sums.total:
        rows = [(None, part.table_sums, (None, None, None))]
    sums = [each for _, each, _ in rows]
    names = ("host_late", "device_side", "unlinked")
    return Sheet(
        len(rows),
        {
            "device": optional([device for device, _, _ in rows]),
            **attributes(sums, "total computing communication not_overlapped free"),
            **{name: optional([split[k] for _, _, split in rows], whole=False) for k, name in enumerate(names)},
        },
    )


OVERLAP = table("overlap", overlap)


def apis(part: Profile) -> Sheet:
    """The calls of CANN that start in the part, by level and name; without a trace those of api_statistic.csv."""
    profile, trace = part.whole, part.trace
    if not len(trace.slices):
        return _apis_of_file(profile)
    found = part.apis
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
    return Sheet(
        len(rows),
        {
            "rank": rank_of(profile),
            "level": labels(row[0] or "" for row in rows),
            "name": labels(row[1] for row in rows),
            "calls": optional([row[2] for row in rows]),
            "total": optional([row[3] for row in rows]),
            "mean": optional([row[3] / row[2] for row in rows], whole=False),
            "share": optional([row[3] / total for row in rows], whole=False),
            "shortest": optional([row[4] or 0 for row in rows]),
            "longest": optional([row[5] or 0 for row in rows]),
            **dict.fromkeys(("variance", "deviation"), optional([None] * len(rows), whole=False)),
        },
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
