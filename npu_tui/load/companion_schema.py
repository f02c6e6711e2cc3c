"""The files beside a trace: which columns each has, and what reading one can end with."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from npu_tui.trace.message import Message, message

if TYPE_CHECKING:
    import polars as pl


Kind = Literal["text", "label", "shapes", "whole", "real", "time", "span"]
"""``time`` is int64 ns since 1970, ``span`` int64 ns, both from us in the file; ``label`` is one of few texts,
dictionary-coded; ``shapes`` is text on one line."""

_NOT_A_WORD = re.compile(r"[^0-9a-z]+")


class Column(Struct, frozen=True):
    """A column by its ``name`` of ours; ``headings`` are the spellings of the writers, the newest first."""

    name: str
    kind: Kind
    headings: tuple[str, ...]


class Schema(Struct, frozen=True):
    """A kind of companion file: ``stem`` is its name without what msprof appends, ``columns`` are those that we know.

    ``others`` are names that other writers give such a file. Other columns are kept under ``column_name`` of their
    heading, as numbers if ``measured`` (PMU counters) and all of their cells are, else as text. A file without one of
    the columns ``key`` is not of this kind.
    """

    stem: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    measured: bool = False
    others: tuple[str, ...] = ()

    def by_heading(self) -> dict[str, Column]:
        """Every spelling of every column, as ``column_name`` writes it."""
        return {column_name(heading): column for column in self.columns for heading in column.headings}


def column_name(heading: str) -> str:
    """A heading as the name of a column: ``Total Time(us)`` is ``total_time_us``, ``Ratio(%)`` is ``ratio_percent``."""
    return _NOT_A_WORD.sub("_", heading.strip().lower().replace("%", " percent ")).strip("_")


_DEVICE = Column("device", "whole", ("Device_id", "Device ID", "Device Id"))


def _text(name: str, *headings: str) -> Column:
    return Column(name, "text", headings)


def _label(name: str, *headings: str) -> Column:
    return Column(name, "label", headings)


def _shapes(name: str, *headings: str) -> Column:
    return Column(name, "shapes", headings)


def _whole(name: str, *headings: str) -> Column:
    return Column(name, "whole", headings)


def _real(name: str, *headings: str) -> Column:
    return Column(name, "real", headings)


def _time(name: str, *headings: str) -> Column:
    return Column(name, "time", headings)


def _span(name: str, *headings: str) -> Column:
    return Column(name, "span", headings)


KERNELS = Schema(
    "kernel_details",
    (
        _whole("step", "Step Id", "Step ID"),
        _DEVICE,
        _whole("model", "Model ID", "Model Id"),
        _whole("task", "Task ID", "Task Id"),
        _whole("stream", "Stream ID", "Stream Id"),
        _text("name", "Name", "Op Name"),
        _text("type", "Type", "OP Type", "Op Type"),
        _text("state", "OP State", "Op State"),
        _text("core", "Accelerator Core", "Task Type"),
        _time("start", "Start Time(us)", "Task Start Time(us)"),
        _span("duration", "Duration(us)", "Task Duration(us)"),
        _span("wait", "Wait Time(us)", "Task Wait Time(us)"),
        _whole("block_dim", "Block Dim", "Block Num"),
        _whole("mix_block_dim", "Mix Block Dim", "Mix Block Num"),
        _text("hf32", "HF32 Eligible"),
        _shapes("input_shapes", "Input Shapes"),
        _text("input_types", "Input Data Types"),
        _text("input_formats", "Input Formats"),
        _shapes("output_shapes", "Output Shapes"),
        _text("output_types", "Output Data Types"),
        _text("output_formats", "Output Formats"),
        _whole("context", "Context ID", "Context Id"),
    ),
    key=("name", "duration"),
    measured=True,
    others=("op_summary",),
)
"""A row per kernel and collective, which msprof calls op_summary.

The PMU columns depend on the setting ``_aic_metrics``, times in us, ratios 0..1.
"""

OPERATOR_TYPES = Schema(
    "op_statistic",
    (
        _DEVICE,
        _text("type", "OP Type", "Op Type"),
        _text("core", "Core Type"),
        _whole("count", "Count"),
        _span("total", "Total Time(us)"),
        _span("least", "Min Time(us)", "Min(us)"),
        _span("mean", "Avg Time(us)", "Avg(us)"),
        _span("most", "Max Time(us)", "Max(us)"),
        _real("percent", "Ratio(%)"),
    ),
    key=("type", "total"),
)

API_CALLS = Schema(
    "api_statistic",
    (
        _text("device", "Device_id", "Device ID"),
        _text("level", "Level"),
        _text("name", "API Name", "Name"),
        _span("total", "Time(us)", "Total Time(us)"),
        _whole("count", "Count"),
        _span("mean", "Avg(us)"),
        _span("least", "Min(us)"),
        _span("most", "Max(us)"),
        _real("variance", "Variance"),
    ),
    key=("name", "total"),
)
"""``device`` is text: newer writers put ``host`` there."""

OPERATORS = Schema(
    "operator_details",
    (
        _text("name", "Name"),
        _shapes("input_shapes", "Input Shapes"),
        _text("stack", "Call Stack"),
        _span("host_self", "Host Self Duration(us)"),
        _span("host_total", "Host Total Duration(us)"),
        _span("device_self", "Device Self Duration(us)"),
        _span("device_total", "Device Total Duration(us)"),
        _span("device_self_cube", "Device Self Duration With AICore(us)"),
        _span("device_total_cube", "Device Total Duration With AICore(us)"),
    ),
    key=("name", "host_total"),
)

STEPS = Schema(
    "step_trace_time",
    (
        _DEVICE,
        _text("step", "Step"),
        _span("computing", "Computing"),
        _span("exposed", "Communication(Not Overlapped)"),
        _span("overlapped", "Overlapped"),
        _span("communication", "Communication"),
        _span("free", "Free"),
        _span("stage", "Stage"),
        _span("bubble", "Bubble"),
        _span("exposed_without_receive", "Communication(Not Overlapped and Exclude Receive)"),
        _span("preparing", "Preparing"),
    ),
    key=("computing", "free"),
)
"""Without marks of steps ``step`` is null."""

MEMORY = Schema(
    "memory_record",
    (
        _label("component", "Component"),
        _time("time", "Timestamp(us)"),
        _real("allocated", "Total Allocated(MB)"),
        _real("reserved", "Total Reserved(MB)"),
        _real("active", "Total Active(MB)"),
        _whole("stream", "Stream Ptr"),
        _label("device", "Device Type", "Device"),
    ),
    key=("time", "reserved"),
)
"""MB of 2**20 bytes; ``APP`` is what the process has reserved on the device."""

ALLOCATIONS = Schema(
    "operator_memory",
    (
        _text("name", "Name"),
        _real("size", "Size(KB)"),
        _time("allocated_at", "Allocation Time(us)"),
        _time("released_at", "Release Time(us)"),
        _time("inactive_at", "Active Release Time(us)"),
        _span("duration", "Duration(us)"),
        _span("active_duration", "Active Duration(us)"),
        _real("allocated", "Allocation Total Allocated(MB)"),
        _real("reserved", "Allocation Total Reserved(MB)"),
        _real("active", "Allocation Total Active(MB)"),
        _real("release_allocated", "Release Total Allocated(MB)"),
        _real("release_reserved", "Release Total Reserved(MB)"),
        _real("release_active", "Release Total Active(MB)"),
        _whole("stream", "Stream Ptr"),
        _text("device", "Device Type", "Device"),
    ),
    key=("size", "allocated_at"),
)
"""KB of 2**10 bytes; what was not released while profiling has null times of release."""

MODULES = Schema(
    "npu_module_mem",
    (
        _whole("device_id", "Device_id", "Device ID"),
        _label("component", "Component"),
        _time("time", "Timestamp(us)"),
        _real("reserved", "Total Reserved(MB)"),
        _label("device", "Device", "Device Type"),
    ),
    key=("component", "time"),
)

STATIC_MEMORY = Schema(
    "static_op_mem",
    (
        _DEVICE,
        _text("name", "Op Name", "Name"),
        _text("model", "Model Name", "Model"),
        _text("graph", "Graph ID", "Graph Id"),
        _whole("first_node", "Node Index Start"),
        _whole("last_node", "Node Index End"),
        _real("size", "Size(KB)"),
    ),
    key=("size",),
)

L2_CACHE = Schema(
    "l2_cache",
    (
        _DEVICE,
        _whole("stream", "Stream Id", "Stream ID"),
        _whole("task", "Task Id", "Task ID"),
        _real("hit_rate", "Hit Rate"),
        _real("victim_rate", "Victim Rate"),
        _text("name", "Op Name", "Name"),
    ),
    key=("stream", "task"),
)

DATA_PREPROCESS = Schema(
    "data_preprocess",
    (
        _DEVICE,
        _time("time", "Timestamp(us)", "Start Time(us)"),
        _text("name", "Node", "Op Name", "Name"),
        _span("compute", "Compute_time(us)", "Compute Time(us)"),
        _span("copy", "Memcpy_time(us)", "Memcpy Time(us)"),
        _span("task_time", "Task_time(us)", "Task Time(us)"),
        _span("dispatch", "Dispatch_time(us)", "Dispatch Time(us)"),
        _span("total", "Total_time(us)", "Total Time(us)"),
        _whole("stream", "Stream ID", "Stream Id"),
        _whole("task", "Task ID", "Task Id"),
    ),
    key=("name",),
)


def _network(stem: str) -> Schema:
    return Schema(
        stem,
        (
            _DEVICE,
            _time("time", "Timestamp(us)", "Timestamp"),
            _real("bandwidth", "Bandwidth(MB/s)"),
            _real("receive_percent", "Rx Bandwidth efficiency(%)", "Rx Bandwidth Efficiency(%)"),
            _real("receive_packets", "rxPacket/s", "Rx Packet/s"),
            _real("receive_errors", "rxError rate(%)", "Rx Error Rate(%)"),
            _real("receive_dropped", "rxDropped rate(%)", "Rx Dropped Rate(%)"),
            _real("send_percent", "Tx Bandwidth efficiency(%)", "Tx Bandwidth Efficiency(%)"),
            _real("send_packets", "txPacket/s", "Tx Packet/s"),
            _real("send_errors", "txError rate(%)", "Tx Error Rate(%)"),
            _real("send_dropped", "txDropped rate(%)", "Tx Dropped Rate(%)"),
            _whole("function", "funcId", "Func Id", "Function ID"),
        ),
        key=("bandwidth",),
        measured=True,
    )


def _bus(stem: str) -> Schema:
    return Schema(
        stem,
        (
            _DEVICE,
            _text("mode", "Mode", "Event"),
            _real("least", "Min"),
            _real("most", "Max"),
            _real("mean", "Avg", "Average"),
        ),
        key=("mode",),
        measured=True,
    )


NIC, ROCE, PCIE, HCCS = _network("nic"), _network("roce"), _bus("pcie"), _bus("hccs")

SCHEMAS: dict[str, Schema] = {
    schema.stem: schema
    for schema in (
        KERNELS, OPERATOR_TYPES, API_CALLS, OPERATORS, STEPS, MEMORY, ALLOCATIONS, MODULES, STATIC_MEMORY, L2_CACHE,
        DATA_PREPROCESS, NIC, ROCE, PCIE, HCCS,
    )
}  # fmt: skip


State = Literal["missing", "empty", "cut_off", "unreadable", "read"]
"""No such file; nothing but a header; its end is missing; not to be read at all; whole."""


class Reading(Struct, frozen=True):
    """What became of the file ``name``: its ``frame`` has all columns of its schema, null where the file has none.

    ``headings`` are the columns that the file has, by their names in the frame; ``not_numbers`` counts, by column, the
    cells that should be numbers and are none (null in the frame). ``why`` is what the system or the parser says of an
    unreadable file.
    """

    name: str
    state: State
    frame: pl.DataFrame
    headings: tuple[str, ...] = ()
    not_numbers: dict[str, int] | None = None
    why: str = ""

    @property
    def messages(self) -> list[Message]:
        """What is to be said of the file: that it is not whole, and which cells were lost; nothing if all is well."""
        found = []
        if self.state == "cut_off":
            found.append(message("companion.cut_off", name=self.name, rows=len(self.frame)))
        elif self.state == "unreadable":
            found.append(message("companion.unreadable", name=self.name, why=self.why))
        elif self.state != "read":
            found.append(message(f"companion.{self.state}", name=self.name))
        for column, count in (self.not_numbers or {}).items():
            found.append(message("companion.not_numbers", name=self.name, column=column, count=count))
        return found


def reason(error: Exception) -> str:
    """What the system or a parser says, on one line."""
    words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(words.split())[:200]


def find_file(folder: Path, stem: str, others: tuple[str, ...] = (), suffix: str = ".csv") -> Path:
    """The file ``stem`` in ``folder``, else one of ``others``; msprof puts a time after the name, the newest counts.

    Raises ``OSError`` if the folder cannot be read.
    """
    plain = folder / f"{stem}{suffix}"
    if plain.exists():
        return plain
    for name in (stem, *others):
        if found := max(folder.glob(f"{name}_[0-9]*{suffix}"), default=None):
            return found
    return plain
