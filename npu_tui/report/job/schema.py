"""The report about a job, schema 1 of ``kind`` "ranks". Times are in us with three decimals; None is not known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from npu_tui.jobs import tables
from npu_tui.jobs.tables import CLOCKS, COLLECTIVES, GROUPS, HEAT, HOSTS, LINKS, RANKS
from npu_tui.profile.table import Record

if TYPE_CHECKING:  # the type of a row is made of the columns of its table
    ArrivalRow = Record
    ClockBend = Record
    ClockRow = Record
    CollectiveRow = Record
    GroupRow = Record
    HeatCell = Record
    HostRow = Record
    LinkRow = Record
    RankRow = Record
else:
    ClockRow, CollectiveRow, GroupRow, HeatCell, HostRow, LinkRow, RankRow = (
        each.row for each in (CLOCKS, COLLECTIVES, GROUPS, HEAT, HOSTS, LINKS, RANKS)
    )
    ArrivalRow, ClockBend = tables.ArrivalRow, tables.ClockBend


class JobSource(msgspec.Struct):
    """Where the job lies: how many ``ranks`` and ``traces`` there are, and in which forms."""

    path: str
    ranks: int
    traces: int
    kinds: list[str]


class JobEvidenceRow(msgspec.Struct):
    """Where a finding shows, on the device clock of the rank, ns since 1970."""

    rank: int
    start_ns: int
    end_ns: int


class JobFindingRow(msgspec.Struct):
    """What is wrong with the job."""

    id: str
    severity: str
    title: str
    detail: str
    ranks: list[int]
    gain_us: float | None
    evidence: list[JobEvidenceRow]


class JobReport(msgspec.Struct):
    """A job in numbers."""

    source: JobSource
    hosts: list[HostRow]
    groups: list[GroupRow]
    steps: list[str]
    verdict: str
    clock: list[ClockRow]
    rank_table: list[RankRow]
    heat: list[HeatCell]
    collectives: list[CollectiveRow]
    links: list[LinkRow]
    missing: list[int]
    findings: list[JobFindingRow]
    not_checked: list[str]
    schema_version: int = 1
    kind: Literal["ranks"] = "ranks"
