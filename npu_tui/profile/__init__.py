"""One rank measured once: its trace, source, companion files and thresholds, and all that is computed of them."""

TABLE_FILES = (
    "trace_tables", "launch_tables", "work_tables", "collective_tables", "finding_tables",
    "memory_tables", "module_tables", "engine_tables",
    "expert_tables", "file_tables", "service_tables",
)  # fmt: skip
"""The files that declare tables, in the order in which lists name them; a file that is not here comes last."""
