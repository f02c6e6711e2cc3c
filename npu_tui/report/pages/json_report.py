"""The report as JSON."""

from __future__ import annotations

import msgspec
import orjson

from npu_tui.report.schema import Report


def json_report(report: Report) -> bytes:
    """``report`` as UTF-8 text with a line end; the fields are those of ``npu_tui.report.schema``, in their order."""
    return orjson.dumps(msgspec.to_builtins(report), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
