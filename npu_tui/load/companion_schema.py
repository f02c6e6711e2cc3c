"""The files beside a trace: which columns each CSV table has, and what reading one can end with.

torch_npu and MindSpore write them into ``ASCEND_PROFILER_OUTPUT``, msprof, with a time after the name, into
``mindstudio_profiler_output``. Their documentation describes the columns:
https://www.hiascend.com/document/detail/en/canncommercial/850/devaids/profiling/atlasprofiling_16_1149.html
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from msgspec import Struct

from npu_tui.load.format import Survey
from npu_tui.trace.message import Message, message

if TYPE_CHECKING:
    import polars as pl


Kind = Literal["text", "label", "shapes", "whole", "real", "time", "span", "moment", "length", "date", "requests"]
"""``time`` is int64 ns since 1970, ``span`` int64 ns, both from us in the file; ``moment`` is int64 ns since 1970 from
a date or ms, ``length`` int64 ns from ms; ``date`` is a moment from a date alone, as if its zone were UTC; ``label`` is
one of few texts, dictionary-coded; ``shapes`` is text on one line; ``requests`` is how many requests a list names."""

_NOT_A_WORD = re.compile(r"[^0-9a-z]+")


MISSING = ("", "N/A", "NA", "<NA>", "NaN", "nan", "n/a", "None", "null", "-")
"""What writers put where there is no value."""


class FileColumn(Struct, frozen=True):
    """A column by its ``name`` of ours; ``headings`` are what the writers call it, the usual one first."""

    name: str
    kind: Kind
    headings: tuple[str, ...]


class Schema(Struct, frozen=True):
    """A kind of companion file: ``stem`` is its name without what msprof appends, ``columns`` are those that we know.

    ``others`` are names that other writers give such a file. Other columns are kept under ``column_name`` of their
    heading, as numbers if ``measured`` (PMU counters) and all of their cells are, else as text; with ``only`` they are
    not read. A file without one of the columns ``key``, or without any that we know, is not of this kind. No two
    ``events`` are alike: what a row says was once.
    """

    stem: str
    columns: tuple[FileColumn, ...]
    key: tuple[str, ...]
    measured: bool = False
    others: tuple[str, ...] = ()
    only: bool = False
    events: bool = False

    def by_heading(self) -> dict[str, FileColumn]:
        """Every heading of every column, as ``column_name`` writes it."""
        return {column_name(heading): column for column in self.columns for heading in column.headings}


def column_name(heading: str) -> str:
    """A heading as the name of a column: ``Total Time(us)`` is ``total_time_us``, ``Ratio(%)`` is ``ratio_percent``.

    A sign before the name says what is counted: ``+WAITING`` is a change, and another column than ``waiting``.
    """
    words = re.sub(r"^\s*\+", "change of ", heading).strip().lower().replace("%", " percent ")
    return _NOT_A_WORD.sub("_", words).strip("_")


def declared(
    stem: str, key: str, columns: str, measured: bool = False, others: tuple[str, ...] = (), only: bool = False
) -> Schema:
    """A schema from a line per column: its name, its kind and its headings.

    Headings that differ in case or punctuation alone, such as ``Device_id`` and ``Device ID``, are one.
    """
    parts = [line.split(maxsplit=2) for line in columns.strip().splitlines()]
    known = [FileColumn(name, cast(Kind, kind), tuple(headings.split(" | "))) for name, kind, headings in parts]
    events = any(column.kind == "time" for column in known)
    return Schema(stem, tuple(known), tuple(key.split()), measured, others, only, events)


KERNELS = declared(
    "kernel_details",
    "name duration",
    """
    step                    whole   Step Id
    device                  whole   Device_id
    model                   whole   Model ID
    task                    whole   Task ID
    stream                  whole   Stream ID
    name                    text    Name | Op Name
    type                    text    Type | OP Type
    state                   text    OP State
    core                    text    Accelerator Core | Task Type
    start                   time    Start Time(us) | Task Start Time(us) | Start Time | Task Start Time
    duration                span    Duration(us) | Task Duration(us)
    wait                    span    Wait Time(us) | Task Wait Time(us)
    block_dim               whole   Block Dim | Block Num
    mix_block_dim           whole   Mix Block Dim | Mix Block Num
    hf32                    text    HF32 Eligible
    input_shapes            shapes  Input Shapes
    input_types             text    Input Data Types
    input_formats           text    Input Formats
    output_shapes           shapes  Output Shapes
    output_types            text    Output Data Types
    output_formats          text    Output Formats
    context                 whole   Context ID
    """,
    measured=True,
    others=("op_summary",),
)
"""A row per kernel and collective, which msprof calls op_summary.

The PMU columns depend on the setting ``_aic_metrics``, times in us, ratios 0..1.
"""

COLLECTIVE_CORES = ("HCCL", "COMMUNICATION")
"""What stands instead of a core in the rows of collectives."""

OPERATOR_TYPES = declared(
    "op_statistic",
    "type total",
    """
    device                  whole   Device_id
    type                    text    OP Type
    core                    text    Core Type
    count                   whole   Count
    total                   span    Total Time(us)
    least                   span    Min Time(us) | Min(us)
    mean                    span    Avg Time(us) | Avg(us)
    most                    span    Max Time(us) | Max(us)
    percent                 real    Ratio(%)
    """,
)

API_CALLS = declared(
    "api_statistic",
    "name total",
    """
    device                  text    Device_id
    level                   text    Level
    name                    text    API Name | Name
    total                   span    Time(us) | Total Time(us)
    count                   whole   Count
    mean                    span    Avg(us)
    least                   span    Min(us)
    most                    span    Max(us)
    variance                real    Variance
    """,
)
"""``device`` is text: newer writers put ``host`` there."""

OPERATORS = declared(
    "operator_details",
    "name host_total",
    """
    name                    text    Name
    input_shapes            shapes  Input Shapes
    stack                   text    Call Stack
    host_self               span    Host Self Duration(us)
    host_total              span    Host Total Duration(us)
    device_self             span    Device Self Duration(us)
    device_total            span    Device Total Duration(us)
    device_self_cube        span    Device Self Duration With AICore(us)
    device_total_cube       span    Device Total Duration With AICore(us)
    """,
)

STEPS = declared(
    "step_trace_time",
    "computing free",
    """
    device                  whole   Device_id
    step                    text    Step
    computing               span    Computing
    exposed                 span    Communication(Not Overlapped)
    overlapped              span    Overlapped
    communication           span    Communication
    free                    span    Free
    stage                   span    Stage
    bubble                  span    Bubble
    exposed_without_receive span    Communication(Not Overlapped and Exclude Receive)
    preparing               span    Preparing
    """,
)
"""Without marks of steps ``step`` is null."""

MEMORY = declared(
    "memory_record",
    "time reserved",
    """
    component               label   Component
    time                    time    Timestamp(us)
    allocated               real    Total Allocated(MB)
    reserved                real    Total Reserved(MB)
    active                  real    Total Active(MB)
    stream                  whole   Stream Ptr
    device                  label   Device Type | Device
    """,
)
"""MB of 2**20 bytes; ``APP`` is what the process has reserved on the device."""

ALLOCATIONS = declared(
    "operator_memory",
    "size allocated_at",
    """
    name                    text    Name
    size                    real    Size(KB)
    allocated_at            time    Allocation Time(us)
    released_at             time    Release Time(us)
    inactive_at             time    Active Release Time(us)
    duration                span    Duration(us)
    active_duration         span    Active Duration(us)
    allocated               real    Allocation Total Allocated(MB)
    reserved                real    Allocation Total Reserved(MB)
    active                  real    Allocation Total Active(MB)
    release_allocated       real    Release Total Allocated(MB)
    release_reserved        real    Release Total Reserved(MB)
    release_active          real    Release Total Active(MB)
    stream                  whole   Stream Ptr
    device                  text    Device Type | Device
    """,
)
"""KB of 2**10 bytes; what was not released while profiling has null times of release."""

MODULES = declared(
    "npu_module_mem",
    "component time",
    """
    device_id               whole   Device_id
    component               label   Component
    time                    time    Timestamp(us)
    reserved                real    Total Reserved(MB)
    device                  label   Device | Device Type
    """,
)

STATIC_MEMORY = declared(
    "static_op_mem",
    "size",
    """
    device                  whole   Device_id
    name                    text    Op Name | Name
    model                   text    Model Name | Model
    graph                   text    Graph ID
    first_node              whole   Node Index Start
    last_node               whole   Node Index End
    size                    real    Size(KB)
    """,
)

L2_CACHE = declared(
    "l2_cache",
    "stream task",
    """
    device                  whole   Device_id
    stream                  whole   Stream Id
    task                    whole   Task Id
    hit_rate                real    Hit Rate
    victim_rate             real    Victim Rate
    name                    text    Op Name | Name
    """,
)

DATA_PREPROCESS = declared(
    "data_preprocess",
    "name",
    """
    device                  whole   Device_id
    time                    time    Timestamp(us) | Start Time(us)
    name                    text    Node | Op Name | Name
    compute                 span    Compute_time(us)
    copy                    span    Memcpy_time(us)
    task_time               span    Task_time(us)
    dispatch                span    Dispatch_time(us)
    total                   span    Total_time(us)
    stream                  whole   Stream ID
    task                    whole   Task ID
    """,
)

_NETWORK = """
    device                  whole   Device_id
    time                    time    Timestamp(us) | Timestamp
    bandwidth               real    Bandwidth(MB/s)
    receive_percent         real    Rx Bandwidth efficiency(%)
    receive_packets         real    rxPacket/s | Rx Packet/s
    receive_errors          real    rxError rate(%) | Rx Error Rate(%)
    receive_dropped         real    rxDropped rate(%) | Rx Dropped Rate(%)
    send_percent            real    Tx Bandwidth efficiency(%)
    send_packets            real    txPacket/s | Tx Packet/s
    send_errors             real    txError rate(%) | Tx Error Rate(%)
    send_dropped            real    txDropped rate(%) | Tx Dropped Rate(%)
    function                whole   funcId | Func Id | Function ID
"""
_BUS = """
    device                  whole   Device_id
    mode                    text    Mode | Event
    least                   real    Min
    most                    real    Max
    mean                    real    Avg | Average
"""
NIC, ROCE = (declared(stem, "bandwidth", _NETWORK, measured=True) for stem in ("nic", "roce"))
PCIE, HCCS = (declared(stem, "mode", _BUS, measured=True) for stem in ("pcie", "hccs"))

TASK_TIME = declared(
    "task_time",
    "name duration",
    """
    device                  whole   Device_id
    name                    text    kernel_name
    kind                    label   kernel_type
    stream                  whole   stream_id
    task                    whole   task_id
    duration                span    task_time(us)
    start                   time    task_start(us)
    end                     time    task_stop(us)
    """,
)
"""A row per task of the device, also at Level0: kernels, copies, waits and records of events."""

SOC_PMU = declared(
    "soc_pmu",
    "stream task tlb_hit_rate",
    """
    device                  whole   Device_id
    stream                  whole   Stream Id
    task                    whole   Task Id
    tlb_hit_rate            real    TLB Hit Rate
    tlb_miss_rate           real    TLB Miss Rate
    name                    text    Op Name | Name
    """,
)
"""For kernels of a few us the two rates need not add up to 1."""

HOST_CPU = declared(
    "host_cpu_usage",
    "total used",
    """
    device                  text    Device_id
    total                   real    Total Cpu Numbers
    used                    real    Occupied Cpu Numbers
    recommended             real    Recommend Cpu Numbers
    """,
)
HOST_MEMORY = declared(
    "host_mem_usage",
    "total used",
    """
    device                  text    Device_id
    total                   real    Total Memory(KB)
    used                    real    Peak Used Memory(KB)
    recommended             real    Recommend Memory(KB)
    """,
)
HOST_DISK = declared(
    "host_disk_usage",
    "read write",
    """
    device                  text    Device_id
    read                    real    Peak Disk Read(KB/s)
    recommended_read        real    Recommend Disk Read(KB/s)
    write                   real    Peak Disk Write(KB/s)
    recommended_write       real    Recommend Disk Write(KB/s)
    """,
)
HOST_NETWORK = declared(
    "host_network_usage",
    "total used",
    """
    device                  text    Device_id
    total                   real    Netcard Speed(KB/s)
    used                    real    Peak Used Speed(KB/s)
    recommended             real    Recommend Speed(KB/s)
    """,
)
"""The host's part of msprof with ``--host-sys``: a row for the host as a whole; KB of 2**10 bytes."""

SCHEMAS: dict[str, Schema] = {
    schema.stem: schema
    for schema in (
        KERNELS, OPERATOR_TYPES, API_CALLS, OPERATORS, STEPS, MEMORY, ALLOCATIONS, MODULES, STATIC_MEMORY, L2_CACHE,
        DATA_PREPROCESS, NIC, ROCE, PCIE, HCCS, TASK_TIME, SOC_PMU, HOST_CPU, HOST_MEMORY, HOST_DISK, HOST_NETWORK,
    )
}  # fmt: skip


State = Literal["missing", "empty", "cut_off", "unreadable", "read"]
"""No such file; nothing but a header; its end is missing; not to be read at all; whole."""


class JsonFile(Struct, frozen=True):
    """What became of a JSON file: its ``value`` (None without one), of a file that is cut off what stands before it."""

    state: State
    value: Any = None
    why: str = ""


class Reading(Struct, frozen=True):
    """What became of the file ``name``: its ``frame`` has all columns of its schema, null where the file has none.

    ``headings`` are the columns that the file has, by their names in the frame; ``not_numbers`` counts, by column, the
    cells that should be numbers and are not (null in the frame). ``why`` is what the system or the parser says of an
    unreadable file. ``short`` counts rows that were left out, as they are many and lack most cells, ``twice`` those
    that equal one before them. ``requests`` are those of a column of that kind, one after the other.
    """

    name: str
    state: State
    frame: pl.DataFrame
    headings: tuple[str, ...] = ()
    not_numbers: dict[str, int] | None = None
    why: str = ""
    short: int = 0
    requests: pl.DataFrame | None = None
    twice: int = 0

    @property
    def messages(self) -> list[Message]:
        """What is to be said of the file: that it is not whole, and which cells were lost; nothing if all is well."""
        messages = []
        if self.state == "cut_off":
            messages.append(message("companion.cut_off", name=self.name, rows=len(self.frame)))
        elif self.state == "unreadable":
            messages.append(message("companion.unreadable", name=self.name, why=self.why))
        elif self.state != "read":
            messages.append(message(f"companion.{self.state}", name=self.name))
        if self.short:
            messages.append(message("companion.short", name=self.name, count=self.short))
        if self.twice:
            messages.append(message("companion.twice", name=self.name, count=self.twice))
        for column, count in (self.not_numbers or {}).items():
            messages.append(message("companion.not_numbers", name=self.name, column=column, count=count))
        return messages


def reason(error: Exception) -> str:
    """What the system or a parser says, on one line."""
    words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(words.split())[:200]


def find_file(folder: Path, stem: str, others: tuple[str, ...] = (), survey: Survey | None = None) -> Path:
    """The CSV ``stem`` in ``folder``, else one of ``others``; msprof puts a time after the name, the newest counts.

    Raises ``OSError`` if the folder cannot be read.
    """
    plain = folder / f"{stem}.csv"
    if plain.exists():
        return plain
    survey = survey or Survey()
    for name in (stem, *others):
        if name in others and (folder / f"{name}.csv").exists():
            return folder / f"{name}.csv"
        if newest := max(survey.glob(folder, f"{name}_[0-9]*.csv"), default=None):
            return newest
    if "op_summary" in others:  # renamed, its columns identify it
        return next((file for file in survey.glob(folder, "*.csv") if is_op_summary(file, survey)), plain)
    return plain


_OF_SUMMARY = (b"Op Name", b"Task Start Time(us)", b"Task Duration(us)")


def is_op_summary(file: Path, survey: Survey) -> bool:
    """Whether ``file`` is a table of kernels that msprof wrote, whatever its name is."""
    header = survey.head(file).partition(b"\n")[0]
    return all(column in header for column in _OF_SUMMARY)
