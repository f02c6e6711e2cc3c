"""The JSON document of one profile, and what dumps of expert loads and placements say in it and in that of a job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from npu_tui.analysis.drains import Cause
from npu_tui.analysis.overlap import SlowStage
from npu_tui.analysis.rhythm import Basis
from npu_tui.load.find import Writer
from npu_tui.load.format import Survey
from npu_tui.load.formats.experts import ExpertFiles, expert_files_in, read_expert_files
from npu_tui.output.document import Block, Heading, Paragraph, Table, rendered
from npu_tui.output.envelope import REASONS, NotChecked, Root, not_checked
from npu_tui.profile.expert_tables import LOAD_LAYERS, LOAD_RANKS, LOADS, PLACEMENTS, loads_of
from npu_tui.profile.finding_tables import CRITICAL_PATH, PATH_OWNERS
from npu_tui.profile.launch_tables import CODE_LINES, DRAINS, RANGES
from npu_tui.profile.memory_tables import MEMORY_PEAKS
from npu_tui.profile.module_tables import BORROWED_CODE
from npu_tui.profile.parts import PROFILES
from npu_tui.profile.table import Record, rows_of, with_sections
from npu_tui.strings import say, words
from npu_tui.subjects import SUBJECTS
from npu_tui.trace.message import message

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
    the program that says so. ``writer`` is the profiler that wrote it, None where it is unknown.
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
    ``sequences`` of the other profile, ``unique`` a single one; for ``with_module`` of them the module is known too.
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

    ``free_host_late_us``, ``free_device_side_us`` and ``free_unlinked_us`` split Free; None without launches. Of
    ``free_us``, ``free_unasked_us`` is waiting for requests or the profiler, which findings leave out; it is there if
    there are such waits. ``exposed_copies_us`` and ``busy_us``, the total without Free, are there for GPUs, where Free
    holds no copies. Where there are several devices, ``devices`` has the same for each with its ``device``; both are
    left out elsewhere.
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
    are None where unknown, the latter left out without launches. Of ``lost_us``, ``lost_unasked_us`` is waiting for
    requests, which findings and ``code_lines`` leave out; it is there if there are such waits. ``drains`` are the 1,000
    longest, ``drain_causes`` and ``interrupted`` count all.
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
    """The chain of what held up the end of the run of one device; where there is none, ``reason`` says why.

    ``length_us`` is that of the whole selection: ``owners`` add up to it, most first. Their gains are those of one of
    the ``count`` that ``per`` names. Of the ``stretch_count`` stretches, ``stretches`` has the 1,000 longest in the
    order of time. Times are relative to the start of the trace, on the clock of the host; ``clock_floor_us`` later they
    are on that of the device.
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
    """Memory by the files beside the trace; None where they do not say.

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
    whole file whatever the selection. ``dispatch`` is a list where several devices have launches, ``critical_path``
    where several did anything. ``steps_from`` is the sign by which ``engine_steps`` begin: names of the engine,
    launches of graphs, the rhythm of kernels or the profiler; None without any. ``latencies``, ``requests`` and
    ``transfers`` have the 1,000 longest; ``left_out`` counts the others by list, ``npu-tui query`` has them.
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


_MOST_TOLD = 12  # sentences that a page gets; the tables and JSON have every phase


@rows_of(loads=LOADS, ranks=LOAD_RANKS, layers=LOAD_LAYERS, placements=PLACEMENTS)
class ExpertsReport(Root, frozen=True, kw_only=True):
    """All that is said of dumps of loads and of placements: a part of other documents."""

    OLD: ClassVar = {"not_checked": REASONS}

    verdict: list[str]
    loads: list[Record]
    ranks: list[Record]
    layers: list[Record]
    placements: list[Record]
    not_checked: list[NotChecked]


def experts_at(path: Path, survey: Survey | None = None) -> ExpertsReport | None:
    """The report of the files at ``path``, None where there are none."""
    paths = expert_files_in(path, survey)
    return experts_report(read_expert_files(paths)) if paths else None


def experts_report(files: ExpertFiles, work: Sequence[float] = ()) -> ExpertsReport:
    """All that is said of ``files``; ``work`` is what the mean rank computes for each layer in a step, us."""
    from npu_tui.jobs.expert_loads import described_swaps  # all of a job, which few reports are about

    known = loads_of(files)
    said = list(files.problems)
    said += [
        message("expert_files.apart", phase=one.phase, layers=len(one.tokens), experts=one.tokens.shape[2])
        for one in known
        if one.placement is None and files.placements
    ]
    placements = PLACEMENTS.records(files.placements)
    return ExpertsReport(
        verdict=[
            *(words(line) for one in known for line in described_swaps(one, work)),
            *map(_placement_text, placements),
        ],
        loads=LOADS.records(known, work=work),
        ranks=LOAD_RANKS.records(known),
        layers=LOAD_LAYERS.records(known),
        placements=placements,
        not_checked=list(map(not_checked, said)),
    )


def _placement_text(row: Record) -> str:
    args = {name: getattr(row, name) for name in ("path", "layers", "devices", "slots", "experts")}
    copies = say("expert_files.differ") if row.redundant is None else say("expert_files.copies", count=row.redundant)
    twice = say("expert_files.twice", count=row.twice) if row.twice else ""
    missing = say("expert_files.unplaced", count=row.missing) if row.missing else ""
    return say("expert_files.placement", **args) + copies + twice + missing


def experts_part(report: ExpertsReport | None) -> Iterator[Block]:
    """What stands of dumps and placements in the report of the profiles beside them; nothing without any."""
    if report is not None:
        yield Heading(say("expert_files.title"))
        yield Paragraph((*report.verdict[:_MOST_TOLD], *(row.reason for row in report.not_checked)))
        yield from (table for table in _tables(report) if table.rows)


def _tables(report: ExpertsReport) -> Iterator[Table]:
    """Ranks, those with most tokens, layers, the most uneven ones, and placements."""
    ranks = tuple(row.times_mean or 0.0 for row in report.ranks)
    layers = tuple(row.uneven or row.expert_uneven for row in report.layers)
    yield replace(rendered(LOAD_RANKS, report.ranks, "", True), weights=ranks)
    yield replace(rendered(LOAD_LAYERS, report.layers, "", True), weights=layers)
    yield rendered(PLACEMENTS, report.placements, "", True)
