"""The table about the ranks of a job."""

from __future__ import annotations

from npu_tui.report.job.schema import JobReport
from npu_tui.tables.schema import TABLES
from npu_tui.tables.sheet import Data, Sheet, labels, optional


def ranks(found: JobReport) -> Sheet:
    """The rows of the report about a job."""
    host_of = {rank: host.id for host in found.hosts for rank in host.ranks}
    rows = found.rank_table
    data: dict[str, Data] = {}
    for column in TABLES["ranks"].columns:
        if column.name == "host":
            data[column.name] = labels([host_of.get(row.rank) for row in rows])
            continue
        field = f"{column.name}_us" if column.unit == "µs" else column.name
        values = [getattr(row, field) for row in rows]
        data[column.name] = labels(values) if column.kind == "label" else optional(values, column.kind == "whole")
    return Sheet(len(rows), data)
