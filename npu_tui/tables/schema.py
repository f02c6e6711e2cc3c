"""The tables that SQL and the Python API read, by name; ``strings/<language>/tables.py`` says what columns mean."""

from __future__ import annotations

from npu_tui.jobs.tables import RANKS
from npu_tui.profile.file_tables import ALLOCATIONS, MEMORY
from npu_tui.profile.finding_tables import EVIDENCE, FINDINGS
from npu_tui.profile.launch_tables import CODE_LINES, FREE, LAUNCHES
from npu_tui.profile.table import Table
from npu_tui.profile.trace_tables import COUNTERS, HOST_OPERATORS, LINKS, OVERVIEW, SLICES
from npu_tui.profile.work_tables import APIS, ARRIVALS, COLLECTIVES, KERNELS, OPERATORS, STEPS

TABLES: dict[str, Table] = {
    each.id: each
    for each in (
        SLICES, LINKS, LAUNCHES, KERNELS, OPERATORS, HOST_OPERATORS, COLLECTIVES, ARRIVALS, COUNTERS, STEPS, FREE,
        FINDINGS, EVIDENCE, MEMORY, ALLOCATIONS, APIS, CODE_LINES, OVERVIEW, RANKS,
    )
}  # fmt: skip
"""Every table by name."""

ONE_PROFILE = tuple(name for name in TABLES if name != RANKS.id)
"""The tables of one profile."""
