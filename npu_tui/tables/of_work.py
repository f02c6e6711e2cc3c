"""The tables about what the device did: kernels, operators, collectives, steps, calls of CANN."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npu_tui.analysis.overlap.steps import Step, StepSums
from npu_tui.analysis.work.collectives.collective import Collective
from npu_tui.analysis.work.joined.kernels import Coded
from npu_tui.analysis.work.operators import collective_type
from npu_tui.profile.profile import Profile
from npu_tui.tables.places import UNKNOWN, devices_of, rank_of, steps_at, times
from npu_tui.tables.schema import TABLES
from npu_tui.tables.sheet import Array, Data, Labels, Numbers, Sheet, coded, computed, labels, numbers, optional


def kernels(profile: Profile) -> Sheet:
    """Every kernel with its row of kernel_details.csv; the columns of that file that the schema lacks come last."""
    table, trace = profile.kernel_table, profile.trace
    rows, item = len(table), table.item
    known = bool(len(trace.slices))
    device = devices_of(profile)
    lane = np.append(trace.slices.lane, 0).astype(np.int64)
    stream = np.append(trace.slices.stream, UNKNOWN)
    data: dict[str, Data] = {
        "rank": rank_of(profile, rows),
        "device": _from_slices(device[lane] if known else np.full(1, UNKNOWN), item),
        "step": steps_at(profile, table.start),
        "slice": numbers(item, UNKNOWN),
        "stream": _from_slices(stream, item) if known else _details(table.details.get("stream"), rows),
        "name": _texts(table.name),
        "type": _texts(table.type),
        "core": _texts(table.core),
        **times(profile, table.start, table.duration),
        "wait": numbers(table.wait),
        "input_shapes": _texts(table.shapes),
        "input_types": _texts(table.dtypes),
        "input_formats": _texts(table.formats),
        "output_shapes": _texts(table.outputs),
        "block_dim": numbers(table.block_dim),
        "bytes": numbers(table.bytes),
        "gb_s": computed(lambda first, last: table.speed[first:last]),
        **{f"{pipe}_ratio": numbers(values) for pipe, values in table.ratios.items()},
        "hit_rate": numbers(table.hit_rate),
        "outlier": computed(lambda first, last: table.outliers()[first:last]),
    }
    for name, column in table.details.items():
        if name not in data:
            values = table.measured(name)
            data[name] = numbers(values) if np.isfinite(values).any() or not column.is_known else _texts(column)
    return Sheet(rows, data)


def _texts(column: Coded) -> Labels:
    return coded(column.values, column.code)


def _from_slices(values: Array, items: Array) -> Numbers:
    return computed(lambda first, last: np.where(items[first:last] >= 0, values[items[first:last]], UNKNOWN), UNKNOWN)


def _details(column: Coded | None, rows: int) -> Numbers:
    if column is None:
        return numbers(np.full(rows, UNKNOWN, np.int64), UNKNOWN)
    whole = np.array([int(each) if each.isdecimal() else UNKNOWN for each in column.values] + [UNKNOWN], np.int64)
    return numbers(whole[column.code], UNKNOWN)


def operators(profile: Profile) -> Sheet:
    """The kernels by type and core, as the report has them."""
    if not len(profile.trace.slices):
        return _operators_of_files(profile)
    found = profile.whole.operators
    listed = sum(each.total for each in found)
    return _operators(
        profile,
        [(each.type, each.core, each.count, each.total, each.shortest, each.longest) for each in found],
        [each.total / listed if listed else None for each in found],
    )


def _operators_of_files(profile: Profile) -> Sheet:
    from npu_tui.report.report import report

    found = report(profile.whole).operators
    rows = [
        (each.type, each.core, each.count, _ns(each.total_us), _ns(each.min_us), _ns(each.max_us)) for each in found
    ]
    return _operators(profile, rows, [each.ratio for each in found])


def _operators(
    profile: Profile,
    rows: Sequence[tuple[str, str | None, int, int | None, int | None, int | None]],
    ratios: Sequence[float | None],
) -> Sheet:
    return Sheet(
        len(rows),
        {
            "rank": rank_of(profile, len(rows)),
            "type": labels([row[0] for row in rows]),
            "core": labels([None if row[1] in (None, "N/A") else row[1] for row in rows]),
            "calls": optional([row[2] for row in rows]),
            "total": optional([row[3] for row in rows]),
            "mean": optional([None if row[3] is None else row[3] / row[2] for row in rows], whole=False),
            "shortest": optional([row[4] for row in rows]),
            "longest": optional([row[5] for row in rows]),
            "ratio": optional(ratios, whole=False),
        },
    )


def apis(profile: Profile) -> Sheet:
    """The calls of CANN by level and name."""
    if len(profile.trace.slices):
        rows = [(each.level, each.name, each.count, each.total, each.shortest, each.longest, each.variance)
                for each in profile.whole.apis]  # fmt: skip
    else:
        from npu_tui.report.report import report

        rows = [(each.level, each.name, each.count, _ns(each.total_us) or 0, _ns(each.min_us) or 0,
                 _ns(each.max_us) or 0, float("nan")) for each in report(profile.whole).apis]  # fmt: skip
    return Sheet(
        len(rows),
        {
            "rank": rank_of(profile, len(rows)),
            "level": labels([row[0] for row in rows]),
            "name": labels([row[1] for row in rows]),
            "calls": optional([row[2] for row in rows]),
            "total": optional([row[3] for row in rows]),
            "mean": optional([row[3] / row[2] for row in rows], whole=False),
            "shortest": optional([row[4] for row in rows]),
            "longest": optional([row[5] for row in rows]),
            "variance": optional([row[6] for row in rows], whole=False),
        },
    )


def _ns(us: float | None) -> int | None:
    """Microseconds of the report, which have three decimals, as whole ns."""
    return None if us is None else round(us * 1000)


def collectives(profile: Profile) -> Sheet:
    """Every collective with what its tasks tell. Raises ``InputError`` if the file of the trace is gone."""
    if not len(profile.trace.slices):
        return _collectives_of_files(profile)
    trace, found = profile.trace, profile.whole.collectives
    item = np.array([each.item for each in found], np.int64)
    start = trace.slices.start[item]
    names = [trace.name_of(each) for each in item.tolist()]
    moved = [None if each.traffic is None else (sum(link.size for link in each.traffic),
             sum(link.transfer for link in each.traffic)) for each in found]  # fmt: skip
    return Sheet(
        len(found),
        {
            "rank": rank_of(profile, len(found)),
            "device": numbers(devices_of(profile)[trace.slices.lane[item]], UNKNOWN),
            "step": steps_at(profile, start),
            "slice": numbers(item),
            "name": labels(names),
            "type": labels([collective_type(name) for name in names]),
            "group_name": labels(_groups(profile, item)),
            **times(profile, start, trace.slices.end[item] - start),
            "wait": optional([None if each.timing is None else each.timing.wait for each in found]),
            "transit": optional([None if each.timing is None else each.timing.transit for each in found]),
            "synchronization": optional(
                [None if each.timing is None else each.timing.synchronization for each in found]
            ),
            "idle": optional([None if each.timing is None else each.timing.idle for each in found]),
            "size": optional([None if each is None else each[0] for each in moved]),
            "gb_s": optional([each[0] / each[1] if each and each[1] else None for each in moved], whole=False),
            "longest_wait": optional([each.longest_wait for each in found]),
            "peer_rank": optional([each.peer for each in found]),
            "algorithm": labels([each.algorithm or None for each in found]),
        },
    )


def _groups(profile: Profile, items: Array) -> list[str]:
    trace = profile.trace
    return [trace.lanes[lane].name for lane in trace.slices.lane[items].tolist()]


def _collectives_of_files(profile: Profile) -> Sheet:
    from npu_tui.report.report import report

    found = report(profile.whole).communication
    start = np.array([_ns(each.start_us) for each in found], np.int64)
    length = np.array([_ns(each.elapsed_us) for each in found], np.int64)
    rows = len(found)
    return Sheet(
        rows,
        {
            "rank": rank_of(profile, rows),
            "device": numbers(np.full(rows, UNKNOWN), UNKNOWN),
            "step": steps_at(profile, start),
            "slice": numbers(np.full(rows, UNKNOWN), UNKNOWN),
            "name": labels([each.name for each in found]),
            "type": labels([each.type for each in found]),
            "group_name": labels([each.group for each in found]),
            **times(profile, start, length),
            "wait": optional([_ns(each.wait_us) for each in found]),
            "transit": optional([_ns(each.transit_us) for each in found]),
            "synchronization": optional([_ns(each.synchronization_us) for each in found]),
            "idle": optional([_ns(each.idle_us) for each in found]),
            "size": optional([each.size_bytes for each in found]),
            "gb_s": optional([each.bandwidth_gb_s for each in found], whole=False),
            "longest_wait": optional([None] * rows),
            "peer_rank": optional([None] * rows),
            "algorithm": labels([None] * rows),
        },
    )


def arrivals(profile: Profile) -> Sheet:
    """When every rank of a collective was there. Raises ``InputError`` as ``collectives`` does."""
    trace = profile.trace
    known: Sequence[Collective] = profile.whole.collectives if len(trace.slices) else []
    found = [(each.item, *arrival) for each in known for arrival in each.arrivals or ()]
    item = np.array([row[0] for row in found], np.int64)
    after = np.array([row[2] for row in found], np.int64)
    return Sheet(
        len(found),
        {
            "rank": rank_of(profile, len(found)),
            "slice": numbers(item),
            "name": labels([trace.name_of(row[0]) for row in found]),
            "group_name": labels(_groups(profile, item)),
            "peer_rank": optional([row[1] for row in found]),
            "after": numbers(after),
            "time": numbers(trace.slices.start[item] + after),
        },
    )


def steps(profile: Profile) -> Sheet:
    """Every step and device by the rules of step_trace_time.csv."""
    trace = profile.trace
    if not len(trace.slices):
        return _steps_of_files(profile)
    lanes = profile.overlap_lanes
    found: list[tuple[int | None, Step, StepSums | None]] = [
        (lanes[number].device, step, sums)
        for number, rows in enumerate(profile.step_sums)
        for step, sums in zip(profile.steps, rows, strict=True)
    ] or [(None, step, None) for step in profile.steps if step.number is not None]
    unlinked = all(step.window is None for step in profile.steps)
    whole = [None if unlinked or step.window is None else step.window for _, step, _ in found]
    # Without ProfilerStep the step is all of the trace.
    begin = [None if window is None else max(window.start, 0) for window in whole]
    end = [None if window is None else min(window.end, trace.end) for window in whole]
    kept = [None if unlinked else sums for _, _, sums in found]
    item = [step.item for _, step, _ in found]
    host = [int(trace.slices.end[each] - trace.slices.start[each]) if each >= 0 else None for each in item]
    return _steps(
        profile,
        [(device, step.number, step.name, step.item) for device, step, _ in found],
        (begin, [None if a is None or b is None else b - a for a, b in zip(begin, end, strict=True)]),
        {
            "computing": [None if sums is None else sums.overlap.computing for sums in kept],
            "not_overlapped": [None if sums is None else sums.overlap.not_overlapped for sums in kept],
            "overlapped": [
                None if sums is None else sums.overlap.communication - sums.overlap.not_overlapped for sums in kept
            ],
            "communication": [None if sums is None else sums.overlap.communication for sums in kept],
            "free": [None if sums is None else sums.overlap.free for sums in kept],
            "stage": [None if sums is None else sums.stage for sums in kept],
            "bubble": [None if sums is None else sums.bubble for sums in kept],
            "preparing": [None if sums is None else sums.preparing for sums in kept],
            "host_duration": host,
        },
    )


def _steps_of_files(profile: Profile) -> Sheet:
    from npu_tui.report.report import report

    found = report(profile.whole).steps
    amounts = ("computing", "communication_not_overlapped", "overlapped", "communication", "free", "stage", "bubble",
               "preparing")  # fmt: skip
    columns = [column.name for column in TABLES["steps"].columns][-9:]
    sums = {name: [_ns(getattr(row, f"{amount}_us")) for row in found]
            for name, amount in zip(columns, amounts, strict=False)}  # fmt: skip
    return _steps(
        profile,
        [(None, row.step, row.name, -1) for row in found],
        ([None] * len(found), [None] * len(found)),
        {**sums, "host_duration": [None] * len(found)},
    )


def _steps(
    profile: Profile,
    found: Sequence[tuple[int | None, int | None, str | None, int]],
    window: tuple[Sequence[int | None], Sequence[int | None]],
    sums: dict[str, list[int | None]],
) -> Sheet:
    start, length = window
    origin = profile.tables.start_ns
    return Sheet(
        len(found),
        {
            "rank": rank_of(profile, len(found)),
            "step": optional([row[1] for row in found]),
            "device": optional([row[0] for row in found]),
            "name": labels([row[2] for row in found]),
            "slice": numbers(np.array([row[3] for row in found], np.int64), UNKNOWN),
            "start": optional(start),
            "end": optional([None if a is None or b is None else a + b for a, b in zip(start, length, strict=True)]),
            "duration": optional(length),
            "start_ns": optional([None if each is None else each + origin for each in start]),
            **{name: optional(values) for name, values in sums.items()},
        },
    )
