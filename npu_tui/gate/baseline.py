"""A baseline: the measures of a profile that is good enough, as a file people can read, review and commit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
from msgspec import to_builtins

from npu_tui import __version__
from npu_tui.gate.measures import BASELINE_MEASURES, Measures
from npu_tui.ingest.errors import InputError
from npu_tui.report.schema import Report
from npu_tui.strings import say
from npu_tui.trace.message import message
from npu_tui.whole_file import write_file

KIND = "npu-tui baseline"
SCHEMA_VERSION = 1
TOLERANCE = 0.05
"""A p99 of the step above 1.05 times the baseline's is a regression: the rule of Ascend's tuning guide, step 20."""

NOISE = 0.001
"""What changes by less than this share of the baseline's device time is no regression, whatever its own share."""

PLACES = ("rank", "device", "profiler_level", "step_count")
"""Facts of the source that should be the same on both sides."""


def baseline(report: Report, measured: Measures, tolerances: dict[str, float]) -> dict[str, Any]:
    """The object of a baseline file: times in µs, ``tolerances`` as shares for each measure."""
    return {
        "kind": KIND,
        "schema_version": SCHEMA_VERSION,
        "written_by": f"npu-tui {__version__}",
        "source": {name: getattr(report.source, name) for name in ("path", *PLACES)},
        "selection": to_builtins(report.selection),
        "definitions": {name: say(f"gate.definition.{name}") for name in (*BASELINE_MEASURES, "tolerances")},
        "tolerances": {name: tolerances.get(name, TOLERANCE) for name in BASELINE_MEASURES},
        "measures_us": {name: measured.per_step(name) for name in BASELINE_MEASURES},
    }


def write_baseline(path: Path, content: dict[str, Any]) -> None:
    """Write ``content`` to ``path`` in one go. Raises ``OSError``."""
    write_file(path, orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


def read_baseline(path: Path) -> dict[str, Any]:
    """The baseline in ``path``. Raises ``InputError`` for anything else than a baseline of this schema."""
    try:
        found = orjson.loads(path.read_bytes())
    except OSError as error:
        raise _refused(path, "gate.unreadable", words=error.strerror) from None
    except orjson.JSONDecodeError as error:
        raise _refused(path, "gate.no_json", words=str(error)) from None
    if not isinstance(found, dict) or found.get("kind") != KIND:
        raise _refused(path, "gate.no_baseline")
    if found.get("schema_version") != SCHEMA_VERSION:
        raise _refused(path, "gate.other_schema", version=found.get("schema_version"), known=SCHEMA_VERSION)
    for table, unknown in (("measures_us", True), ("tolerances", False)):
        values = found.get(table)
        if not isinstance(values, dict) or not all(
            name in values and _is_size(values[name], unknown) for name in BASELINE_MEASURES
        ):
            raise _refused(path, "gate.bad_table", table=table)
    if all(value is None for value in found["measures_us"].values()):
        raise _refused(path, "gate.empty_baseline")
    if not isinstance(found.get("source"), dict):
        raise _refused(path, "gate.bad_table", table="source")
    return found


_MOST_US = 1e15
"""Thirty years: no profile lasts as long, and what is larger is no number of this file."""


def _refused(path: Path, code: str, **args: object) -> InputError:
    return InputError(message("gate.refused", path=str(path), why=message(code, **args)))


def _is_size(value: object, unknown: bool) -> bool:
    """Whether ``value`` is a number from 0, or None where that is allowed."""
    if value is None:
        return unknown
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _MOST_US
