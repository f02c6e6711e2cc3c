"""The JSON Schema (2020-12) of everything that is written as JSON, by name."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

REPORTS = {
    "report": "report_schema:Report",
    "compare": "compare_report:Compared",
    "ranks": "job_report:JobReport",
}
"""Where in ``npu_tui.output`` the type of each JSON document is."""

_DIALECT = {"$schema": "https://json-schema.org/draft/2020-12/schema"}


def report_schema(name: str) -> dict[str, Any]:
    """The schema of the document ``name`` of ``REPORTS``."""
    import msgspec

    place, _, kind = REPORTS[name].partition(":")
    return _DIALECT | msgspec.json.schema(getattr(import_module(f"npu_tui.output.{place}"), kind))


def settings_schema(
    commands: Mapping[str, str],
    choices: Mapping[str, tuple[str, ...]],
    thresholds: Mapping[str, tuple[bool | int | float, str]],
) -> dict[str, Any]:
    """The schema of a settings file as JSON: what ``commands`` do, ``choices`` of the screen, defaults with help."""
    key = {"type": "string", "minLength": 1}
    keys = {
        name: {"description": title, "anyOf": [key, {"type": "array", "items": key}]}
        for name, title in commands.items()
    }
    return _DIALECT | _table(
        {
            "keys": _table(keys),
            "screen": _table({name: {"enum": list(allowed)} for name, allowed in choices.items()}),
            "thresholds": _table({name: _threshold(*row) for name, row in thresholds.items()}),
        }
    )


def _table(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _threshold(default: bool | int | float, description: str) -> dict[str, Any]:
    if isinstance(default, bool):
        return {"type": "boolean", "default": default, "description": description}
    kind = "integer" if isinstance(default, int) else "number"
    return {"type": kind, "minimum": 0, "default": default, "description": description}
