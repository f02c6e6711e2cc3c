"""The comparison of two profiles as programs read it, schema 1.

Times are µs with three decimals, differences are new minus base and per step; shares are 0...1 with six decimals;
pairs are (base, new). None is what cannot be told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from npu_tui.compare import tables
from npu_tui.profile.table import Record

if TYPE_CHECKING:  # the type of a row is made of the columns of its table
    Collective = Record
    Group = Record
    GroupSide = Record
    Line = Record
    Part = Record
    Setting = Record
else:
    Collective, Group, Line, Part, Setting = (
        each.row for each in (tables.COLLECTIVES, tables.GROUPS, tables.LINES, tables.PARTS, tables.CONFIG)
    )
    GroupSide = tables.GroupSide


class ComparedStep(msgspec.Struct):
    """A step of one side: its number and how long it took; ``reason`` says why it is left out."""

    step: int | None
    wall_us: float
    reason: str | None = None


class Source(msgspec.Struct):
    """One profile."""

    path: str
    kind: str
    rank: int | None
    profiler_level: int | None


class Side(msgspec.Struct):
    """One profile with the steps that are compared and those that are not."""

    source: Source
    steps: list[ComparedStep]
    left_out: list[ComparedStep]


class Note(msgspec.Struct):
    """A circumstance that limits the comparison."""

    id: str
    text: str


class Comparable(msgspec.Struct):
    """How much alike the profiles are: ``verdict`` is same_job, comparable, partly or incomparable."""

    verdict: str
    notes: list[Note]
    ops_matched: float | None
    kernels_matched: float | None
    rungs: dict[str, float]


class Judged(msgspec.Struct):
    """A time per step on both sides: ``shift_us`` and ``ci_us`` are Hodges-Lehmann, ``p`` an exact rank test.

    ``visible_us`` is the smallest change that these samples would show; ``verdict`` slower, faster, same, unsure or
    incomparable.
    """

    base_us: list[float]
    new_us: list[float]
    delta_us: float
    shift_us: float | None
    ci_us: tuple[float, float] | None
    p: float | None
    visible_us: float | None
    verdict: str


class Place(msgspec.Struct):
    """Where a finding is to be seen, on one side, µs since the start of that side's trace."""

    side: str
    start_us: float
    end_us: float
    lane: str | None
    name: str


class Finding(msgspec.Struct):
    """One change; ``delta_us`` is what it adds to a step."""

    id: str
    cls: str = msgspec.field(name="class")
    severity: str = ""
    title: str = ""
    delta_us: float | None = None
    evidence: list[Place] = []
    advice: list[str] = []
    part_of: str | None = None


class KnownFinding(msgspec.Struct):
    """A finding that only one of the two profiles has on its own: ``change`` is new or solved, between ranks of one
    job only_new or only_base.
    """

    id: str
    change: str
    title: str


class Compared(msgspec.Struct):
    """The whole comparison."""

    schema_version: int
    kind: str
    base: Side
    new: Side
    comparability: Comparable
    step: Judged
    computing: Judged | None
    parts: list[Part]
    groups: list[Group]
    stream_overlap_us: float
    lines: list[Line]
    collectives: list[Collective]
    config: list[Setting]
    findings: list[Finding]
    profile_findings: list[KnownFinding]
    not_judged: list[Note]
