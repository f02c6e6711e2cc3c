"""The log of a run: what became of its steps from run to run. It has a report, and nothing to open."""

from __future__ import annotations

from npu_tui.subjects.declaration import Subject, Without

SUBJECT = Subject(
    id="history",
    without={"report": Without(("range", "step", "eager", "unprofiled"), "cli.report_of_log")},
    refusals={"open": "log.no_profile"},
)
