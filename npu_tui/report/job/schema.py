"""The report about a job, schema 1 of ``kind`` "ranks". Times are in us with three decimals; None is not known."""

from __future__ import annotations

from typing import Literal

import msgspec

Bound = Literal["exact", "at_most"]


class JobSource(msgspec.Struct):
    """Where the job lies: how many ``ranks`` and ``traces`` there are, and in which forms."""

    path: str
    ranks: int
    traces: int
    kinds: list[str]


class HostRow(msgspec.Struct):
    """Ranks of one host; ``boot_epoch_ns`` is its wall clock at boot."""

    id: str
    ranks: list[int]
    boot_epoch_ns: int | None


class GroupRow(msgspec.Struct):
    """Ranks that meet in collectives; ``kind`` is tp, pp, dp, ep, cp or mp."""

    name: str
    kind: str | None
    ranks: list[int]


class ClockBend(msgspec.Struct):
    """What a clock gained beside its drift, so long after the rank's first collective."""

    after_us: float
    gained_us: float


class ClockRow(msgspec.Struct):
    """That rank's device clock minus the lowest rank's: a point, what is certain, and what it rests on."""

    rank: int
    offset_us: float | None
    low_us: float | None
    high_us: float | None
    error_us: float | None
    method: str
    drift_us_per_s: float
    edges: int
    bends: list[ClockBend]


class RankRow(msgspec.Struct):
    """One rank over all its steps."""

    rank: int
    host: str
    step_us: float | None
    computing_us: float | None
    communication_not_overlapped_us: float | None
    free_us: float | None
    own_excess_us: float
    inherited_us: float
    came_last: int
    collectives: int
    job_waits_us: float
    job_waits_exposed_us: float | None
    gain_us: float | None
    shape: str | None
    why: list[str]
    clock_offset_us: float | None


class HeatCell(msgspec.Struct, gc=False):
    """A rank in a step."""

    rank: int
    step: str
    own_excess_us: float
    late_us: float


class ArrivalRow(msgspec.Struct, gc=False):
    """When a rank came, after the first one; ``at_most``: it may have come earlier."""

    rank: int
    after_us: float
    bound: Bound


class CollectiveRow(msgspec.Struct):
    """A collective of several ranks; ``second_us`` is how long the last one came after the second last."""

    step: str
    group: str
    type: str
    ordinal: int
    last_rank: int | None
    second_us: float
    transfer_us: float
    end_spread_us: float
    arrivals: list[ArrivalRow]


class LinkRow(msgspec.Struct, gc=False):
    """From a rank to another in one kind of operation; ``z`` in robust standard deviations."""

    src: int
    dst: int
    transport: str
    type: str
    size_bytes: int
    gb_s: float
    expected_gb_s: float
    z: float
    verdict: str


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
