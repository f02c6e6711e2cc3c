"""What is wrong with a job, proved by places of the trace: a rule is one object in the file of its family.

A family is a module with ``RULES``; its thresholds are beside the check that compares with them, its texts in
``npu_tui/strings/<language>/rules.py``.
"""

from __future__ import annotations

FAMILIES = (
    "unended", "dispatch", "waits", "launching", "late_ranks", "communication", "links", "compute", "affinity",
    "outliers", "cpu", "pauses", "host_work", "engine", "batches", "data", "kernels", "bandwidth", "transfers",
    "memory", "config",
)  # fmt: skip
"""The modules with rules, in the order in which findings that could not be checked are listed; ``find`` reads them."""
