"""The tables about what the device did: kernels, operators, steps, how its time was spent, calls of CANN.

Without a trace the rows come from the files beside it; which file is decided here.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.kernels import RATIOS, Coded
from npu_tui.analysis.operators import By, kernel_groups
from npu_tui.analysis.steps import Step, StepSums
from npu_tui.load.companion_schema import API_CALLS, COLLECTIVE_CORES, OPERATOR_TYPES
from npu_tui.profile.columns import UNKNOWN, devices_of, slowest, steps_at, times
from npu_tui.profile.module_tables import borrowed_of
from npu_tui.profile.profile import Profile
from npu_tui.profile.table import (
    Array,
    CodedLabels,
    Data,
    Numbers,
    Place,
    RankedSlices,
    Span,
    TableSheet,
    attribute_rows,
    attributes,
    coded,
    from_tuples,
    numbers,
    optional,
    table,
)
from npu_tui.trace.kineto import exchanges
from npu_tui.trace.recorder import recorder_of
from npu_tui.trace.text import decimal_number

_MOST_SPANS = 2000  # rows of a file that a row of operators leads to; a user walks through no more


def kernels(profile: Profile) -> TableSheet:
    """Every kernel with its row of kernel_details.csv; what is borrowed and other columns of that file come last."""
    table, trace = profile.kernel_table, profile.trace
    rows, item = len(table), table.item
    known = bool(len(trace.slices))
    device = devices_of(profile)
    lane = np.append(trace.slices.lane, 0).astype(np.int64)
    stream = np.append(trace.slices.stream, UNKNOWN)
    data: dict[str, Data] = {
        "device": _from_slices(device[lane] if known else np.full(1, UNKNOWN), item),
        "step": steps_at(profile, table.start),
        "slice": numbers(item, UNKNOWN),
        "stream": _from_slices(stream, item) if known else _details(table.details.get("stream"), rows),
        "name": _coded_labels(table.name),
        "type": _coded_labels(table.type),
        "core": _coded_labels(table.core),
        **times(profile, table.start, table.duration),
        "wait": numbers(table.wait),
        "input_shapes": _coded_labels(table.shapes),
        "input_types": _coded_labels(table.dtypes),
        "input_formats": _coded_labels(table.formats),
        "output_shapes": _coded_labels(table.outputs),
        "block_dim": numbers(table.block_dim),
        "bytes": numbers(table.bytes),
        "gb_s": Numbers(lambda first, last: table.speed[first:last]),
        **{f"{pipe}_ratio": numbers(values) for pipe, values in table.ratios.items()},
        "hit_rate": numbers(table.hit_rate),
        "outlier": Numbers(lambda first, last: table.outliers()[first:last]),
    }
    if profile.whole.borrowed is not None:
        data |= {name: _coded_labels(column) for name, column in borrowed_of(profile.whole.borrowed, item).items()}
    for name, column in table.details.items():
        if name not in data:
            values = table.measured(name)
            data[name] = numbers(values) if np.isfinite(values).any() or not column.is_known else _coded_labels(column)
    return TableSheet(rows, data)


def _coded_labels(column: Coded) -> CodedLabels:
    return coded(column.values, column.code)


def _from_slices(values: Array, items: Array) -> Numbers:
    return Numbers(lambda first, last: np.where(items[first:last] >= 0, values[items[first:last]], UNKNOWN), UNKNOWN)


def _details(column: Coded | None, rows: int) -> Numbers:
    if column is None:
        return numbers(np.full(rows, UNKNOWN, np.int64), UNKNOWN)
    known = (decimal_number(value) for value in column.values)
    number = np.array([*(UNKNOWN if one is None else one for one in known), UNKNOWN], np.int64)
    return numbers(number[column.code], UNKNOWN)


KERNELS = table(
    "kernels",
    kernels,
    sql="rank device step slice stream name type core start end duration start_ns wait input_shapes input_types "
    "input_formats output_shapes block_dim bytes gb_s mte2_ratio mac_ratio vec_ratio hit_rate outlier",
    extended=True,
)


def operators(profile: Profile, by: By = "type") -> TableSheet:
    """The computing kernels, grouped ``by`` type and core or by something else; most time first.

    Those at the edge of the part count with what lies within. Without a trace and kernel_details.csv they are those of
    op_statistic.csv.
    """
    table = profile.kernels_within
    if (waiting := table.name.where(exchanges)).any():
        table = table.taken(np.flatnonzero(~waiting))
    groups = kernel_groups(table, by)
    if by == "type":
        if not groups and not len(profile.trace.slices):
            return _operators_of_file(profile)
        groups.sort(key=lambda group: (-group.total, group.type, group.core or ""))
    items = table.item

    def place(row: int) -> Place:
        members = groups[row].members
        if (items >= 0).all():
            return RankedSlices(groups[row].count, lambda: items[members()])
        start, end = table.start, table.start + table.duration  # rows of a file, without slices
        return [Span(int(start[k]), int(end[k])) for k in members()[:_MOST_SPANS].tolist()]

    return TableSheet(
        len(groups),
        {
            **attributes(
                groups,
                "type name shapes dtypes core calls=count total shortest p50 p90 mean=average longest wait gb_s=speed "
                "outliers",
                # A ratio of files has six decimals, as op_statistic.csv and the report have it.
                ratio=lambda group: group.share if len(profile.trace.slices) else round(group.share, 6),
                spread=lambda group: group.longest / max(group.shortest, 1),
            ),
            **{f"{pipe}_ratio": optional([group.ratios[pipe] for group in groups], whole=False) for pipe in RATIOS},
        },
        place,
        lambda row: table.duration[groups[row].members()],
    )


def _operators_of_file(profile: Profile) -> TableSheet:
    """The rows of op_statistic.csv but those of collectives."""
    rows = []
    if profile.tables.has(OPERATOR_TYPES.stem):
        frame = profile.tables.table(OPERATOR_TYPES.stem).frame
        cells = frame.select("type", "core", "count", "total", "least", "most").drop_nulls(["type", "count", "total"])
        rows = [row for row in cells.iter_rows() if row[1] not in COLLECTIVE_CORES and row[2]]
    sum_of_all = sum(row[3] for row in rows) or 1
    return from_tuples(
        [
            (
                kind, None if core == "N/A" else core, count, total, round(total / sum_of_all, 6), total / count,
                least or 0, most or 0,
            )
            for kind, core, count, total, least, most in sorted(rows, key=lambda row: -row[3])
        ],
        "type core calls total ratio mean shortest longest",
    )  # fmt: skip


OPERATORS = table(
    "operators",
    operators,
    sql="rank type core calls total mean shortest longest ratio",
    json="type core? count=calls total ratio? min=shortest avg=mean max=longest",
    page="type core count=calls total share=ratio avg=mean max=longest",
    panel="total share=ratio count=calls max=longest type name core shapes dtypes p50 p90 avg=mean min=shortest wait "
    "outliers bandwidth=gb_s mte2=mte2_ratio mac=mac_ratio vec=vec_ratio spread",
    section="operators",
    row="OperatorRow",
    about="Kernels of one type and core (None: unknown); ``ratio`` is over the total of all rows.",
)


def by_shapes(profile: Profile) -> TableSheet:
    """The kernels by type, shapes, data types and core, most time first."""
    return operators(profile, by="shapes")


KERNEL_GROUPS = table(
    "kernel_groups",
    by_shapes,
    json="type shapes? dtypes? core? count=calls total p50 p90 max=longest wait bandwidth=gb_s? mte2_ratio? mac_ratio? "
    "vec_ratio? outliers",
    page="type shapes count=calls total p50 max=longest bandwidth=gb_s mte2=mte2_ratio mac=mac_ratio vec=vec_ratio",
    section="kernel_groups",
    row="KernelGroupRow",
    about="""Kernels of one type, shapes, data types and core (None: unknown); percentiles as numpy's ``linear``.

    ``wait_us`` is how long nothing ran before them, in sum; ratios are how busy a pipe was, weighted by time.
    ``outliers`` took far longer than others of their type and shapes.
    """,
)


def apis(profile: Profile) -> TableSheet:
    """The calls of CANN that start in the part, by level and name; without a trace those of api_statistic.csv."""
    trace = profile.trace
    if not len(trace.slices):
        return _apis_of_file(profile)
    calls = profile.apis
    total = max(sum(call.total for call in calls), 1)
    sheet = attribute_rows(
        calls,
        "level name calls=count total shortest longest variance",
        mean=lambda call: call.total / call.count,
        share=lambda call: call.total / total,
        deviation=lambda call: call.variance**0.5 * 1000,
    )
    return replace(sheet, **slowest(profile, lambda row: calls[row].items))


def _apis_of_file(profile: Profile) -> TableSheet:
    rows = []
    if profile.tables.has(API_CALLS.stem):
        frame = profile.tables.table(API_CALLS.stem).frame
        cells = frame.select("level", "name", "count", "total", "least", "most").drop_nulls(["name", "total"])
        rows = [row for row in cells.iter_rows() if row[2]]
    total = max(sum(row[3] for row in rows), 1)
    return from_tuples(
        [
            (level or "", name, count, time, time / count, time / total, least or 0, most or 0)
            for level, name, count, time, least, most in rows
        ],
        "level name calls total mean share shortest longest",
    )


APIS = table(
    "apis",
    apis,
    sql="rank level name calls total mean shortest longest variance",
    json="level name count=calls total min=shortest avg=mean max=longest",
    panel="total share count=calls avg=mean max=longest call=name level min=shortest deviation",
    section="apis",
    row="ApiRow",
    about="Calls of CANN, or of the runtime of a GPU, of one level and name.",
)


_STEP_COLUMNS = (
    "device step name slice start end duration start_ns computing not_overlapped overlapped communication free "
    "stage bubble preparing host_duration length"
)


def steps(profile: Profile, together: bool = False) -> TableSheet:
    """The steps that the part touches by device, or of all devices ``together``, as step_trace_time.csv has them.

    Without a trace they are the rows of that file. What spans from first to last has no sum over devices.
    """
    trace, slices = profile.trace, profile.trace.slices
    if not len(slices) and profile.tables.steps:
        return _steps_of_file(profile)
    spans: list[tuple[int | None, Step, list[StepSums]]] = []
    devices = [lanes.device for lanes in profile.overlap_lanes]
    if together:
        spans = [(None, step, sums) for step, sums in profile.step_sums]
    elif devices:
        by_step = profile.step_sums
        spans = [(device, step, sums[k : k + 1]) for k, device in enumerate(devices) for step, sums in by_step]
    else:
        spans = [(None, step, []) for step in profile.steps if step.number is not None]
    unlinked = all(step.window is None for step in profile.steps)
    rows = []
    for device, step, sums in spans:
        item = step.item
        window: tuple[int | None, ...] = (None, None, None, None)
        if step.window is not None and not unlinked:  # without ProfilerStep the step is all of the trace
            start, end = max(step.window.start, 0), min(step.window.end, trace.end)
            window = start, end, end - start, start + profile.tables.start_ns
        host = int(slices.end[item] - slices.start[item]) if item >= 0 else None
        spent = _spent(sums) if sums else (None,) * 8
        rows.append((device, step.number, step.name, item if item >= 0 else None, *window, *spent, host, host))

    def place(row: int) -> list[Span]:
        step = spans[row][1]
        low, high = (0, trace.end) if step.item < 0 else (int(slices.start[step.item]), int(slices.end[step.item]))
        return [Span(low, high, words=step.name or "")]

    return replace(from_tuples(rows, _STEP_COLUMNS), place=place)


def _spent(sums: list[StepSums]) -> tuple[int | None, ...]:
    """How the devices spent a step, from ``computing`` to ``preparing``."""
    computing, communication, exposed, free = (
        sum(getattr(device.overlap, name) for device in sums)
        for name in ("computing", "communication", "not_overlapped", "free")
    )
    bubble = sum(device.bubble for device in sums)
    stage, preparing = (sums[0].stage, sums[0].preparing) if len(sums) == 1 else (None, None)
    return computing, exposed, communication - exposed, communication, free, stage, bubble, preparing


def _steps_of_file(profile: Profile) -> TableSheet:
    rows = []
    for step in profile.tables.steps:
        times, name = step.overlap, None if step.number is None else f"ProfilerStep#{step.number}"
        rows.append(
            (
                None, step.number, name, *[None] * 5, times.computing, times.not_overlapped,
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
    section="steps",
    options={"together": True},
    row="StepRow",
    about="""One step, summed over devices; ``name`` and ``step`` are None for a trace without steps.

    ``stage_us`` and ``preparing_us`` span from first to last and are None with several devices; ``duration_us`` is the
    length on the host, without a trace that on the device.
    """,
)


def overlap(profile: Profile) -> TableSheet:
    """How each device spent its time; without a trace one row, the sum of step_trace_time.csv or of kernel_details.csv.

    Free is split into host late and device side, null without launches.
    """
    none = (None, None, None)
    spent = [
        (device.device, device.lanes.sums(profile.window), device.split) for device in profile.devices if device.lanes
    ]
    if not len(profile.trace.slices) and profile.tables.sums[1].total:
        spent = [(None, profile.tables.sums[1], None)]
    return from_tuples(
        [
            (
                device, sums.total, sums.computing, sums.communication, sums.not_overlapped,
                sums.copies if recorder_of(profile.trace).copies_apart else None, sums.free,
                *(none if split is None else split.sums(profile.window)),
            )
            for device, sums, split in spent
        ],
        "device total computing communication not_overlapped copies free host_late device_side unlinked",
    )  # fmt: skip


OVERLAP = table("overlap", overlap)
