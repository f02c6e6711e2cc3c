"""The rows of the report that files beside a trace tell."""

from __future__ import annotations

from msgspec import Struct


class KernelGroupRow(Struct, frozen=True, kw_only=True):
    """Kernels of one type, shapes, data types and core (None: unknown); percentiles as numpy's ``linear``.

    ``wait_us`` is how long nothing ran before them, in sum; ratios are how busy a pipe was, weighted by time.
    ``outliers`` took far longer than others of their type and shapes.
    """

    type: str
    shapes: str | None
    dtypes: str | None
    core: str | None
    count: int
    total_us: float
    p50_us: float
    p90_us: float
    max_us: float
    wait_us: float
    bandwidth_gb_s: float | None
    mte2_ratio: float | None
    mac_ratio: float | None
    vec_ratio: float | None
    outliers: int


class MemoryPeakRow(Struct, frozen=True, kw_only=True):
    """The most of one curve of memory and when it was reached; ``amount`` is allocated, reserved or active."""

    component: str
    amount: str
    peak_bytes: int
    at_us: float


class MemoryPart(Struct, frozen=True, kw_only=True):
    """Memory by the files beside the trace; None where they do not tell.

    ``peaks`` are those of the allocators, the process and the components that hold any. ``gap_bytes`` is the most that
    was reserved and not allocated.
    """

    peaks: list[MemoryPeakRow]
    gap_bytes: int | None
    gap_at_us: float | None
    allocations: int
    never_released: int
    never_released_bytes: int


class FileRow(Struct, frozen=True, kw_only=True):
    """A file that may lie beside the trace: ``state`` is missing, empty, cut_off, unreadable or read.

    ``problems`` tell what of it is lost; ``setting`` makes the profiler write it.
    """

    name: str
    state: str
    rows: int | None
    problems: list[str]
    tells: str
    setting: str


class PairRow(Struct, frozen=True, kw_only=True):
    """What went from rank ``source`` to ``target`` of a group by one transport, by communication_matrix.json."""

    group: str
    source: int
    target: int
    transport: str
    size_bytes: int
    transit_us: float
    bandwidth_gb_s: float | None


class CrossCheckRow(Struct, frozen=True, kw_only=True):
    """Our figures against one file of the profiler: its rows, those we have, figures compared, rows that differ."""

    file: str
    rows: int
    matched: int
    figures: int
    differing: int
    ours_only: int
