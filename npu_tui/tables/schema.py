"""What tables there are, with the type and the unit of every column: what help, README and tests read.

The sentence of a column stands in ``strings/<language>/tables.py`` under ``tables.<table>.<column>``, or under
``tables.any.<column>`` where it means the same in every table.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Kind = Literal["whole", "real", "flag", "label"]
"""Int64, Float64, Boolean and Enum: texts of which many are alike, sorted as texts."""

NAMES: dict[Kind, str] = {"whole": "Int64", "real": "Float64", "flag": "Boolean", "label": "Enum"}
"""What polars calls the type of each kind."""


class Column(Struct, frozen=True):
    """A column: ``unit`` is that of its numbers, empty where they count or are ids; null is unknown, never 0."""

    name: str
    kind: Kind
    unit: str
    key: str

    @property
    def type(self) -> str:
        """The type of polars."""
        return NAMES[self.kind]


class Table(Struct, frozen=True):
    """A table; ``extended`` if files beside the trace may add columns of their own."""

    name: str
    columns: tuple[Column, ...]
    extended: bool = False

    def column(self, name: str) -> Column:
        """The column called ``name``."""
        return next(each for each in self.columns if each.name == name)


_ANY = {
    "rank": ("whole", ""),
    "device": ("whole", ""),
    "step": ("whole", ""),
    "slice": ("whole", ""),
    "start": ("whole", "ns"),
    "end": ("whole", "ns"),
    "duration": ("whole", "ns"),
    "start_ns": ("whole", "ns"),
    "name": ("label", ""),
    "file": ("label", ""),
    "line": ("whole", ""),
    "function": ("label", ""),
    "total": ("whole", "ns"),
    "mean": ("real", "ns"),
    "shortest": ("whole", "ns"),
    "longest": ("whole", "ns"),
    "calls": ("whole", ""),
}  # fmt: skip
"""Columns that mean the same in every table: kind and unit."""

_KINDS: dict[str, Kind] = {"i": "whole", "f": "real", "b": "flag", "t": "label"}


def _table(name: str, columns: str, extended: bool = False) -> Table:
    """The table of ``columns``: names of ``_ANY``, else ``name:kind`` or ``name:kind:unit``, kinds by letter."""
    found = []
    for word in columns.split():
        column, _, rest = word.partition(":")
        if not rest:
            kind, unit = _ANY[column]
            found.append(Column(column, kind, unit, f"tables.any.{column}"))  # type: ignore[arg-type]
        else:
            letter, _, unit = rest.partition(":")
            found.append(Column(column, _KINDS[letter], unit, f"tables.{name}.{column}"))
    return Table(name, tuple(found), extended)


TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        _table(
            "slices",
            "rank device slice layer:t kind:t lane:t depth:i name category:t class:t task_type:t stream:i connection:i "
            "correlation:i start end duration start_ns stack:t event:i",
        ),
        _table(
            "links",
            "rank link:i category:t source_slice:i source_name:t source_lane:t source_time:i:ns target_slice:i "
            "target_name:t target_lane:t target_time:i:ns latency:i:ns",
        ),
        _table(
            "launches",
            "rank device step link:i slice name start end duration start_ns class:t starved:b lost:f:ns relative:f:ns "
            "lead:f:ns latency:i:ns source_time:i:ns launch:i launch_name:t dequeue:i dequeue_start:i:ns "
            "dequeue_end:i:ns enqueue:i enqueue_start:i:ns enqueue_end:i:ns op:i op_name:t op_start:i:ns file line "
            "function",
        ),
        _table(
            "kernels",
            "rank device step slice stream:i name type:t core:t start end duration start_ns wait:i:ns input_shapes:t "
            "input_types:t input_formats:t output_shapes:t block_dim:f bytes:f:bytes gb_s:f:GB/s mte2_ratio:f:0..1 "
            "mac_ratio:f:0..1 vec_ratio:f:0..1 hit_rate:f:0..1 outlier:b",
            extended=True,
        ),
        _table("operators", "rank type:t core:t calls total mean shortest longest ratio:f:0..1"),
        _table(
            "host_operators",
            "rank slice name start end duration start_ns host_self:i:ns device_self:i:ns device_total:i:ns",
        ),
        _table(
            "collectives",
            "rank device step slice name type:t group_name:t start end duration start_ns wait:i:ns transit:i:ns "
            "synchronization:i:ns idle:i:ns size:i:bytes gb_s:f:GB/s longest_wait:i:ns peer_rank:i algorithm:t",
        ),
        _table("arrivals", "rank slice name group_name:t peer_rank:i after:i:ns time:i:ns"),
        _table("counters", "rank layer:t series:i name key:t instance:t start start_ns value:f"),
        _table(
            "steps",
            "rank device step name slice start end duration start_ns computing:i:ns not_overlapped:i:ns "
            "overlapped:i:ns communication:i:ns free:i:ns stage:i:ns bubble:i:ns preparing:i:ns host_duration:i:ns",
        ),
        _table(
            "free",
            "rank device step start end duration start_ns host_late:f:ns device_side:f:ns unlinked:f:ns "
            "before_slice:i before_name:t after_slice:i after_name:t link:i",
        ),
        _table(
            "findings",
            "rank number:i id:t class:t severity:t title:t detail:t gain:i:ns step_after:i:ns part_of:t confidence:t "
            "hidden:b slice start end duration start_ns",
        ),
        _table("evidence", "rank number:i id:t slice name note:t lane:t start end duration start_ns"),
        _table("memory", "rank component:t amount:t start start_ns value:i:bytes"),
        _table("allocations", "rank slice name size:i:bytes start end duration start_ns"),
        _table("apis", "rank level:t name calls total mean shortest longest variance:f:µs²"),
        _table("code_lines", "rank device file line function lost:f:ns launches:i"),
        _table(
            "profile",
            "rank device path:t kind:t start_ns span:i:ns events:i slices:i links:i profiler_level:i bytes:i:bytes",
        ),
        _table(
            "ranks",
            "rank host:t step:f:µs computing:f:µs communication_not_overlapped:f:µs free:f:µs own_excess:f:µs "
            "inherited:f:µs came_last:i collectives:i job_waits:f:µs gain:f:µs shape:t clock_offset:f:µs",
        ),
    )
}
"""Every table by name."""

RANKS = "ranks"
"""The table that only a job has."""

ONE_PROFILE = tuple(name for name in TABLES if name != RANKS)
"""The tables of one profile."""
