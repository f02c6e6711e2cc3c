"""The report as JSON."""

from __future__ import annotations

import msgspec

from npu_tui.report.schema import Report


def json_report(report: Report) -> bytes:
    """``report`` as UTF-8 text with a line end; the fields are those of ``npu_tui.report.schema``, in their order."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n"
