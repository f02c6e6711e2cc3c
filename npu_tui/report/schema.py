"""The report, schema 1: what every format of it, and the gate, is made of.

Names ending in ``_us`` are µs with three decimals relative to the trace's start, ``_ns`` whole nanoseconds, ratios and
shares 0 to 1 with six decimals, ``_gb_s`` GB/s. None is unknown, never 0; ``not_checked`` says why. Texts hold no
character that acts on a terminal.
"""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType, field

from npu_tui.analysis.launches.drains import Cause
from npu_tui.analysis.overlap.stage import SlowStage
from npu_tui.profile.profile import SourceKind
from npu_tui.report.schema_files import CrossCheckRow, FileRow, KernelGroupRow, MemoryPart, PairRow
from npu_tui.rules.model import Confidence, FindingClass, Severity
from npu_tui.trace.model import LayerKind

SCHEMA_VERSION = 1


class SelectionPart(Struct, frozen=True, kw_only=True):
    """The range or step that the report is about; an end that is open is None, and so is ``step`` of a range."""

    start_us: float | None
    end_us: float | None
    step: int | None


class SourcePart(Struct, frozen=True, kw_only=True):
    """What was read: ``path`` as the user gave it, ``bytes`` of its events unpacked.

    ``device`` is None where there are several; ``step_count`` counts ``ProfilerStep#N``; ``tool_version`` is that of
    the program that says so.
    """

    path: str
    kind: SourceKind
    bytes: int
    rank: int | None
    device: int | None
    profiler_level: int | None
    step_count: int
    tool_version: str


class TracePart(Struct, frozen=True, kw_only=True):
    """The whole trace; ``start_ns`` is the time since the epoch of its first slice."""

    start_ns: int
    span_us: float
    events: int
    slices: int
    links: int
    counters: int
    lanes: int


class LayerRow(Struct, frozen=True, kw_only=True):
    """A process of the trace."""

    name: str
    kind: LayerKind
    rank: int | None
    device: int | None
    lanes: int
    slices: int


class OverlapPart(Struct, frozen=True, kw_only=True):
    """How the devices spent their time, in sum; ratios are over ``total_us``. All None without a device.

    ``free_host_late_us``, ``free_device_side_us`` and ``free_unlinked_us`` split Free; None without launches. Where
    there are several devices, ``devices`` has the same of each with its ``device``; both are left out elsewhere.
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
    devices: list[OverlapPart] | UnsetType = UNSET


class StepRow(Struct, frozen=True, kw_only=True):
    """One step, summed over devices; ``name`` and ``step`` are None for a trace without steps.

    ``stage_us`` and ``preparing_us`` span from first to last and are None with several devices; ``duration_us`` is the
    length on the host.
    """

    name: str | None
    step: int | None
    computing_us: float | None
    communication_not_overlapped_us: float | None
    overlapped_us: float | None
    communication_us: float | None
    free_us: float | None
    stage_us: float | None
    bubble_us: float | None
    preparing_us: float | None
    duration_us: float | None


class Latency(Struct, frozen=True, kw_only=True):
    """Raw target minus source, µs; percentiles as numpy's ``linear``."""

    min: float | None
    median: float | None
    p90: float | None
    max: float | None


class LinkRow(Struct, frozen=True, kw_only=True):
    """The links of one category; ends are counted as distinct events, bound ones lie on a slice."""

    category: str
    sources: int
    targets: int
    bound_sources: int
    bound_targets: int
    latency_us: Latency
    negative: int


class RangeRow(Struct, frozen=True, kw_only=True):
    """A cluster of near-vertical launches; ``idle_ratio`` is None for one without length."""

    start_us: float
    end_us: float
    links: int
    near_vertical: int
    idle_ratio: float | None
    lost_us: float


class CodeLineRow(Struct, frozen=True, kw_only=True):
    """Lost time by line of user code; place None where no call stack leads to one."""

    file: str | None
    line: int | None
    function: str | None
    lost_us: float
    launches: int


class DrainRow(Struct, frozen=True, kw_only=True):
    """A time without any launch in flight, between the operations ``before`` and ``after``."""

    start_us: float
    end_us: float
    cause: Cause
    peak_backlog: int
    interrupted: bool
    before: str
    after: str


class DispatchPart(Struct, frozen=True, kw_only=True):
    """The launches of one device; all but ``links`` None without any.

    ``clock_floor_us`` is None where several host processes have their own; ``slow_stage`` and ``dequeue_idle_ratio``
    are None where nothing tells, the latter left out without launches.
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
    ranges: list[RangeRow] = []
    code_lines: list[CodeLineRow] = []
    drains: list[DrainRow] = []
    slow_stage: SlowStage | None = None
    dequeue_idle_ratio: float | UnsetType | None = UNSET


class OperatorRow(Struct, frozen=True, kw_only=True):
    """Kernels of one type and core (None: unknown); ``ratio`` is over the total of all rows."""

    type: str
    core: str | None
    count: int
    total_us: float
    ratio: float | None
    min_us: float
    avg_us: float
    max_us: float


class ArrivalRow(Struct, frozen=True, kw_only=True):
    """How long after the start of the collective on this rank another one arrived, µs."""

    rank: int
    after_us: float


class TrafficRow(Struct, frozen=True, kw_only=True):
    """The data that went over one kind of link."""

    link: str
    size_bytes: int
    transit_us: float
    bandwidth_gb_s: float | None


class CollectiveRow(Struct, frozen=True, kw_only=True):
    """One collective; what its plane tasks tell is None at Level0."""

    name: str
    type: str
    group: str
    start_us: float
    elapsed_us: float
    wait_us: float | None
    transit_us: float | None
    synchronization_us: float | None
    idle_us: float | None
    size_bytes: int | None
    bandwidth_gb_s: float | None
    longest_wait_us: float | None
    peer_rank: int | None
    arrivals: list[ArrivalRow] | None
    traffic: list[TrafficRow] | None


class ApiRow(Struct, frozen=True, kw_only=True):
    """Calls of the CANN runtime of one level and name."""

    level: str
    name: str
    count: int
    total_us: float
    min_us: float
    avg_us: float
    max_us: float


class HostOperatorRow(Struct, frozen=True, kw_only=True):
    """Operations of the framework of one name: time of their own on the host and the device time they launched."""

    name: str
    count: int
    host_self_us: float
    device_self_us: float


class EvidenceRow(Struct, frozen=True, kw_only=True):
    """A place that proves a finding; ``lane`` is None where it is on none."""

    start_us: float
    end_us: float
    lane: str | None
    name: str
    note: str


class PlaceRow(Struct, frozen=True, kw_only=True):
    """A line of code."""

    file: str
    line: int
    function: str


class FindingRow(Struct, frozen=True, kw_only=True):
    """A finding; ``gain_us`` is what the step would lose in length, None where it cannot be told.

    ``step_after_us`` is None for what is no step of the ladder, ``part_of`` for what no other finding contains.
    ``gain_after`` is how many findings above must be fixed first for the gain, as they take as long at the same time.
    ``steps`` are the numbers of the steps it shows in.
    """

    id: str
    cls: FindingClass = field(name="class")
    severity: Severity
    title: str
    detail: str
    evidence: list[EvidenceRow]
    advice: list[str]
    gain_us: float | None
    gain_after: int = 0
    step_after_us: float | None
    part_of: str | None
    steps: list[int] = field(default_factory=list)
    hidden: bool
    confidence: Confidence
    code_lines: list[PlaceRow]
    sources: list[str]


class NotChecked(Struct, frozen=True, kw_only=True):
    """A field or a finding that is not known, and why."""

    id: str
    reason: str


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


class Report(Struct, frozen=True, kw_only=True):
    """Everything that is said about a profile, or about a range or step of it.

    ``source``, ``trace``, ``layers`` and ``health`` are those of the whole file whatever the selection. ``dispatch`` is
    a list where several devices have launches.
    """

    schema_version: int = SCHEMA_VERSION
    selection: SelectionPart | None
    source: SourcePart
    trace: TracePart
    layers: list[LayerRow]
    overlap: OverlapPart
    steps: list[StepRow]
    links: list[LinkRow]
    dispatch: DispatchPart | list[DispatchPart]
    operators: list[OperatorRow]
    kernel_groups: list[KernelGroupRow] = []
    memory: MemoryPart | None = None
    cross_check: list[CrossCheckRow] = []
    files: list[FileRow] = []
    link_matrix: list[PairRow] = []
    communication: list[CollectiveRow]
    apis: list[ApiRow]
    host_operators: list[HostOperatorRow]
    verdict: list[str]
    findings: list[FindingRow]
    not_checked: list[NotChecked]
    health: HealthPart

    @property
    def dispatches(self) -> list[DispatchPart]:
        """The launches of every device, one entry also where there are none."""
        return self.dispatch if isinstance(self.dispatch, list) else [self.dispatch]
