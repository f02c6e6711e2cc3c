"""What the ranks of a job recorded, before it is brought to one clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from npu_tui.trace.message import Message

BARRIERS = frozenset({"allReduce", "allGather", "reduceScatter", "alltoall", "allToAll", "alltoallv", "allToAllV",
                      "alltoallvc", "batchSendRecv", "AllReduce", "AllGather", "ReduceScatter", "barrier"})  # fmt: skip
"""Types of collectives that no rank can leave before all have arrived (``batchSendRecv`` for its two)."""


@dataclass(frozen=True, slots=True)
class Call:
    """A collective as one rank recorded it: ``start`` and ``end`` in ns since 1970, by the clock of its device.

    ``ordinal`` is that of the profiler within the group, None where the name has none; ``group`` tells groups of a job
    apart and is the same on all their ranks.
    """

    group: str
    type: str
    name: str
    step: str
    ordinal: int | None
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Notify:
    """A record for, or a wait for, ``peer`` inside the call ``name``; times as those of ``Call``.

    The k-th wait with ``key`` on one rank ends after the k-th record with it starts on the other.
    """

    waits: bool
    peer: int
    name: str
    key: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Seen:
    """What a rank saw of a peer in the call ``name``: it was there ``after`` ns after this rank's start, or before."""

    name: str
    peer: int
    after: int
    at_most: bool


@dataclass(frozen=True, slots=True)
class StepTime:
    """One step of a rank by step_trace_time, ns; None is what the file does not tell."""

    step: str
    computing: int
    exposed: int
    free: int
    total: int


@dataclass(frozen=True, slots=True)
class LinkUse:
    """From one rank of the job to another in one operation: GB/s over ``size_mb``, by ``transport``."""

    source: int
    target: int
    transport: str
    type: str
    size_mb: float
    speed: float


@dataclass(frozen=True, slots=True)
class Layout:
    """How the job is divided: sizes of tensor, pipeline and data parallel groups; ``world`` ranks."""

    tensor: int
    pipeline: int
    data: int
    world: int

    def stage(self, rank: int) -> int:
        """The pipeline stage of ``rank``: ranks of a stage are neighbours."""
        return rank // max(self.world // max(self.pipeline, 1), 1)

    def peers_key(self, rank: int) -> tuple[int, int]:
        """What ranks with the same work have in common: stage and tensor index, which runs fastest."""
        return self.stage(rank), rank % max(self.tensor, 1)


@dataclass(frozen=True, slots=True)
class RankProfile:
    """One rank: where it lies and what it recorded.

    ``boot`` is the wall clock of its host at boot in ns, ``counter`` what its cycle counter is ahead of the monotonic
    clock: ranks of one host agree on both. ``groups`` are the ranks of the job in each named group.
    """

    rank: int
    path: Path
    kind: str
    boot: int | None = None
    counter: int | None = None
    host_name: str = ""
    level: int | None = None
    layout: Layout | None = None
    groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    calls: tuple[Call, ...] = ()
    notifies: tuple[Notify, ...] = ()
    seen: tuple[Seen, ...] = ()
    steps: tuple[StepTime, ...] = ()
    links: tuple[LinkUse, ...] = ()
    problems: tuple[Message, ...] = ()
