"""The JSON document of one profile."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from msgspec import UNSET, Struct, UnsetType

from npu_tui.analysis.drains import Cause
from npu_tui.analysis.overlap import SlowStage
from npu_tui.analysis.rhythm import Basis
from npu_tui.load.find import Writer
from npu_tui.output.envelope import NotChecked, Root
from npu_tui.output.experts_report import ExpertsReport
from npu_tui.profile.finding_tables import CRITICAL_PATH, PATH_OWNERS
from npu_tui.profile.launch_tables import CODE_LINES, DRAINS, RANGES
from npu_tui.profile.memory_tables import MEMORY_PEAKS
from npu_tui.profile.module_tables import BORROWED_CODE
from npu_tui.profile.parts import PROFILES
from npu_tui.profile.table import Record, rows_of, with_sections
from npu_tui.subjects import SUBJECTS

_KINDS = (*PROFILES, *(name for name in SUBJECTS if name not in ("profile", "job", "history")))
if TYPE_CHECKING:
    SourceKind = str
else:
    SourceKind = Literal[_KINDS]


class SelectionPart(Struct, frozen=True, kw_only=True):
    """The range or step that the report is about; an end that is open is None, and so is ``step`` of a range."""

    start_us: float | None
    end_us: float | None
    step: int | None


class SourcePart(Struct, frozen=True, kw_only=True):
    """What was read: ``path`` as the user gave it, ``bytes`` of its events unpacked.

    ``device`` is None where there are several; ``step_count`` counts ``ProfilerStep#N``; ``tool_version`` is that of
    the program that says so. ``writer`` is the profiler that wrote it, None where nothing tells.
    """

    path: str
    kind: SourceKind
    bytes: int
    rank: int | None
    device: int | None
    profiler_level: int | None
    step_count: int
    tool_version: str
    writer: Writer | None = None


class TracePart(Struct, frozen=True, kw_only=True):
    """The whole trace; ``start_ns`` is the time since the epoch of its first slice."""

    start_ns: int
    span_us: float
    events: int
    slices: int
    links: int
    counters: int
    lanes: int


@rows_of(code=BORROWED_CODE)
class BorrowedPart(Struct, frozen=True, kw_only=True):
    """The code of replayed kernels by the profile ``path`` (``--eager``).

    ``kernels`` count and ``total_us`` adds up those in graphs, of all of them ``placed`` have a place in the
    ``sequences`` of the other profile, ``unique`` a single one; of ``with_module`` the module is known too.
    ``covered_here`` and ``covered_there`` are the shares of both sides that are placed. Where one is below 0.8,
    ``fits`` is false and only operations are borrowed. ``eager_kernels`` are outside of graphs. ``unplaced`` names the
    first kernels without a place.
    """

    path: str
    sequences: list[str]
    fits: bool
    kernels: int
    total_us: float
    placed: int
    placed_us: float
    unique: int
    unique_us: float
    with_module: int
    covered_here: float
    covered_there: float
    eager_kernels: int
    eager_us: float
    unplaced: list[str]
    code: list[Record]


class OverlapPart(Struct, frozen=True, kw_only=True):
    """How the devices spent their time, in sum; ratios are over ``total_us``. All None without a device.

    ``free_host_late_us``, ``free_device_side_us`` and ``free_unlinked_us`` split Free; None without launches.
    Of ``free_us``, ``free_unasked_us`` is waiting for requests or the profiler, which findings leave out; it is there
    if there are such waits. ``exposed_copies_us`` and ``busy_us``, the total without Free, are there for GPUs, where
    Free holds no copies. Where there are several devices, ``devices`` has the same of each with its ``device``; both
    are left out elsewhere.
    """

    device: int | UnsetType | None = UNSET
    total_us: float | None
    computing_us: float | None
    communication_us: float | None
    communication_not_overlapped_us: float | None
    overlapped_us: float | None
    free_us: float | None
    computing_ratio: float | None
    communication_not_overlapped_ratio: float | None
    free_ratio: float | None
    free_host_late_us: float | None
    free_device_side_us: float | None
    free_unlinked_us: float | None
    free_unasked_us: float | UnsetType | None = UNSET
    exposed_copies_us: float | UnsetType | None = UNSET
    busy_us: float | UnsetType | None = UNSET
    devices: list[OverlapPart] | UnsetType = UNSET


class StepTimes(Struct, frozen=True, kw_only=True):
    """How long steps take on the host after the first ``warm_up`` ones; percentiles as numpy's ``linear``.

    ``unprofiled_us`` is what a step takes without the profiler, as the user says; ``profiler_us`` is what these take
    more in the mean. ``device_us`` is how long the device works or exchanges data in a step; None with several devices.
    """

    count: int
    warm_up: int
    p50_us: float | None
    p90_us: float | None
    p99_us: float | None
    steps_per_s: float | None
    unprofiled_us: float | None = None
    profiler_us: float | None = None
    device_us: float | None = None


@rows_of(ranges=RANGES, code_lines=CODE_LINES, drains=DRAINS)
class DispatchPart(Struct, frozen=True, kw_only=True):
    """The launches of one device; all but ``links`` None without any.

    ``clock_floor_us`` is None where several host processes have their own; ``slow_stage`` and ``dequeue_idle_ratio``
    are None where nothing tells, the latter left out without launches. Of ``lost_us``, ``lost_unasked_us`` is waiting
    for requests, which findings and ``code_lines`` leave out; it is there if there are such waits. ``drains`` are the
    1,000 longest, ``drain_causes`` and ``interrupted`` count all.
    """

    device: int | None
    links: int
    clock_floor_us: float | None = None
    clock_floor_trusted: bool | None = None
    threshold_us: float | None = None
    near_vertical: int | None = None
    near_vertical_ratio: float | None = None
    shallow: int | None = None
    queued: int | None = None
    starved: int | None = None
    lost_us: float | None = None
    lost_unasked_us: float | UnsetType | None = UNSET
    ranges: list[Record] = []
    code_lines: list[Record] = []
    drains: list[Record] = []
    drain_causes: dict[Cause, int] = {}
    interrupted: int = 0
    slow_stage: SlowStage | None = None
    dequeue_idle_ratio: float | UnsetType | None = UNSET


@rows_of(owners=PATH_OWNERS, stretches=CRITICAL_PATH)
class CriticalPathPart(Struct, frozen=True, kw_only=True):
    """The chain of what held up the end of the run of one device; where none is told, ``reason`` says why.

    ``length_us`` is that of the whole selection: ``owners`` add up to it, most first. Their gains are of one of what
    ``per`` names, of which there are ``count``. Of the ``stretch_count`` stretches, ``stretches`` has the 1,000 longest
    in the order of time. Times are relative to the start of the trace, on the clock of the host; ``clock_floor_us``
    later they are on that of the device.
    """

    told: bool
    reason: str | None = None
    device: int | None = None
    per: str | None = None
    count: int | None = None
    length_us: float | None = None
    clock_floor_us: float | None = None
    owners: list[Record] = []
    stretch_count: int = 0
    stretches: list[Record] = []


@rows_of(peaks=MEMORY_PEAKS)
class MemoryPart(Struct, frozen=True, kw_only=True):
    """Memory by the files beside the trace; None where they do not tell.

    ``peaks`` are those of the allocators, the process and the components that hold any. ``gap_bytes`` is the most that
    was reserved and not allocated.
    """

    peaks: list[Record]
    gap_bytes: int | None
    gap_at_us: float | None
    allocations: int
    never_released: int
    never_released_bytes: int


class SkippedRow(Struct, frozen=True, kw_only=True):
    """Events that were skipped for one reason."""

    reason: str
    count: int


class HealthPart(Struct, frozen=True, kw_only=True):
    """What could not be placed as it stands, in the whole file."""

    events: int
    skipped: list[SkippedRow]
    unbound_sources: int
    unbound_targets: int
    crossing_slices: int
    negative_links: int
    truncated: bool
    warnings: list[str]


@with_sections("npu_tui.profile", required="layers steps links operators communication apis host_operators findings")
class Report(Root, frozen=True, kw_only=True):
    """Everything that is said about a profile, or about a range or step of it.

    The lists are the sections that tables declare. ``source``, ``trace``, ``layers`` and ``health`` are those of the
    whole file whatever the selection. ``dispatch`` is
    a list where several devices have launches, ``critical_path`` where several did anything. ``steps_from`` says what
    tells where ``engine_steps`` begin: names of the engine, launches of graphs, the rhythm of kernels or the profiler;
    None without any. ``latencies``, ``requests`` and ``transfers`` have the 1,000 longest; ``left_out`` counts the
    others by list, ``npu-tui query`` has them.
    """

    ORDER: ClassVar = (
        "schema_version selection source trace layers overlap steps step_times links dispatch operators kernel_groups "
        "memory cross_check files metadata link_matrix communication collective_costs apis host_operators modules "
        "borrowed fusion lanes cores names ports engine_steps engine_kinds experts expert_files steps_from latency "
        "latency_parts latencies service_engines requests batch_kinds transfers left_out cpu_time critical_path "
        "verdict findings not_checked health"
    )
    FIRST: ClassVar = ("selection", "overlap", "step_times", "steps_from", "critical_path")
    OLD: ClassVar = {"kind": None}

    schema_version: Literal[2] = 2
    kind: Literal["report"] = "report"
    selection: SelectionPart | None
    source: SourcePart
    trace: TracePart
    overlap: OverlapPart
    step_times: StepTimes | None = None
    dispatch: DispatchPart | list[DispatchPart]
    memory: MemoryPart | None = None
    borrowed: BorrowedPart | None = None
    expert_files: ExpertsReport | None = None
    steps_from: Basis | None = None
    left_out: dict[str, int] = {}
    critical_path: CriticalPathPart | list[CriticalPathPart] | None = None
    verdict: list[str]
    not_checked: list[NotChecked]
    health: HealthPart

    if TYPE_CHECKING:

        def __getattr__(self, section: str) -> list[Record]: ...

    @property
    def request_count(self) -> int:
        """All requests of an inference service."""
        return len(self.requests) + self.left_out.get("requests", 0)

    @property
    def critical_paths(self) -> list[CriticalPathPart]:
        """The critical path of every device, one entry also where there is none."""
        paths = self.critical_path
        return paths if isinstance(paths, list) else [] if paths is None else [paths]

    @property
    def dispatches(self) -> list[DispatchPart]:
        """The launches of every device, one entry also where there are none."""
        return self.dispatch if isinstance(self.dispatch, list) else [self.dispatch]
