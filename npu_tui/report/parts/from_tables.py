"""The parts of the report that tables tell where there is no trace."""

from __future__ import annotations

from msgspec import structs

from npu_tui.analysis.work.joined.kernel_groups import kernel_groups
from npu_tui.analysis.work.operators import collective_type
from npu_tui.ingest.companions.schemas import API_CALLS, OPERATOR_TYPES
from npu_tui.profile.profile import Profile
from npu_tui.profile.step_table import step_sums
from npu_tui.report.parts.device_part import overlap_object
from npu_tui.report.schema import ApiRow, CollectiveRow, OperatorRow, OverlapPart, Report, StepRow, TrafficRow
from npu_tui.report.values import ratio, text, us

_COLLECTIVES = ("HCCL", "COMMUNICATION")


def with_tables(report: Report, profile: Profile) -> Report:
    """``report`` with the sums, steps, operators, collectives and calls that the tables of ``profile`` hold."""
    steps = profile.table_steps
    return structs.replace(
        report,
        source=structs.replace(report.source, step_count=sum(each.number is not None for each in steps)),
        overlap=_overlap(profile) or report.overlap,
        steps=[
            StepRow(
                name=None if each.number is None else f"ProfilerStep#{each.number}",
                step=each.number,
                computing_us=us(each.overlap.computing),
                communication_not_overlapped_us=us(each.overlap.not_overlapped),
                overlapped_us=us(each.overlap.communication - each.overlap.not_overlapped),
                communication_us=us(each.overlap.communication),
                free_us=us(each.overlap.free),
                stage_us=us(each.stage),
                bubble_us=us(each.bubble),
                preparing_us=us(each.preparing),
                duration_us=us(each.stage),
            )
            for each in steps
        ]
        or report.steps,
        operators=_operators(profile),
        communication=_collectives(profile),
        apis=_apis(profile),
    )


def _overlap(profile: Profile) -> OverlapPart | None:
    sums = step_sums(profile.table_steps)
    if not sums.total:
        return None
    return overlap_object(
        {
            "total": sums.total,
            "computing": sums.computing,
            "communication": sums.communication,
            "not_overlapped": sums.not_overlapped,
            "free": sums.free,
            "late": None,
            "side": None,
            "unlinked": None,
        }
    )


def _operators(profile: Profile) -> list[OperatorRow]:
    """By kernel_details.csv, else by op_statistic.csv."""
    groups = kernel_groups(profile.kernel_table, "type")
    rows = [(each.type, each.core, each.count, each.total, each.shortest, each.longest) for each in groups]
    if not rows and profile.tables.has(OPERATOR_TYPES.stem):
        frame = profile.tables.table(OPERATOR_TYPES.stem).frame
        cells = frame.select("type", "core", "count", "total", "least", "most").drop_nulls(["type", "count", "total"])
        rows = [row for row in cells.iter_rows() if row[1] not in _COLLECTIVES and row[2]]
    whole = sum(row[3] for row in rows)
    return [
        OperatorRow(
            type=text(kind), core=text(core), count=count, total_us=us(total), ratio=ratio(total, whole),
            min_us=us(least or 0), avg_us=us(total / count), max_us=us(most or 0),
        )
        for kind, core, count, total, least, most in sorted(rows, key=lambda row: -row[3])
    ]  # fmt: skip


def _collectives(profile: Profile) -> list[CollectiveRow]:
    tables = profile.tables
    moved: dict[tuple[str, int], list[TrafficRow]] = {}
    for each in profile.transfers:
        row = TrafficRow(
            link=text(each.transport), size_bytes=round(each.size), transit_us=us(each.time),
            bandwidth_gb_s=ratio(each.size, each.time),
        )  # fmt: skip
        moved.setdefault((each.name, each.start), []).append(row)
    found = []
    columns = ("name", "group", "start", "elapsed", "wait", "transit", "synchronization", "idle")
    for name, group, start, elapsed, *rest in tables.communication.frame.select(*columns).iter_rows():
        begin = (tables.start_ns if start is None else start) - tables.start_ns
        traffic = moved.get((name, begin), [])
        whole = [each for each in traffic if each.link in ("SDMA", "RDMA")] or traffic
        size, time = sum(each.size_bytes for each in whole), sum(each.transit_us for each in whole)
        wait, transit, synchronization, idle = (us(value) for value in rest)
        found.append(
            CollectiveRow(
                name=text(name), type=text(collective_type(name)), group=text(group), start_us=us(begin),
                elapsed_us=us(elapsed or 0), wait_us=wait, transit_us=transit, synchronization_us=synchronization,
                idle_us=idle, size_bytes=size if traffic else None, bandwidth_gb_s=ratio(size / 1000, time),
                longest_wait_us=None, peer_rank=None, arrivals=None, traffic=traffic or None,
            )
        )  # fmt: skip
    return sorted(found, key=lambda each: each.start_us)


def _apis(profile: Profile) -> list[ApiRow]:
    if not profile.tables.has(API_CALLS.stem):
        return []
    frame = profile.tables.table(API_CALLS.stem).frame
    columns = ("level", "name", "count", "total", "least", "most")
    return [
        ApiRow(
            level=text(level or ""), name=text(name), count=count, total_us=us(total), min_us=us(least or 0),
            avg_us=us(total / count), max_us=us(most or 0),
        )
        for level, name, count, total, least, most in frame.select(*columns).drop_nulls(["name", "total"]).iter_rows()
        if count
    ]  # fmt: skip
