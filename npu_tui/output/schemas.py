"""The JSON Schema (2020-12) of everything that is written as JSON, and documents cut to some fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the program describes its commands without msgspec
    import msgspec
    from msgspec import inspect

REPORTS = {
    "report": "output.report_schema:Report", "compare": "output.compare_report:Compared",
    "ranks": "output.job_report:JobReport", "memory": "output.memory_report:MemoryReport",
    "compare_memory": "output.memory_compare:ComparedMemory", "log": "output.log_report:LogReport",
    "compare_jobs": "output.job_compare:ComparedJobs", "compare_service": "output.service_compare:ComparedServices",
    "whatif": "output.whatif:WhatIf", "explain": "output.explain:Explained", "check": "gate.answer:Checked",
    "baseline": "gate.measures:Baseline", "tables": "query.query:Listed", "doctor": "cli.doctor:Doctor",
}  # fmt: skip
"""Where the type of each JSON document is, by its kind."""

_DIALECT = {"$schema": "https://json-schema.org/draft/2020-12/schema"}


def report_schema(name: str, schema: str | None = None) -> dict[str, Any]:
    """The JSON Schema of the document ``name`` of ``REPORTS``, in the ``schema`` asked for. Raises ``InputError``."""
    import msgspec

    from npu_tui.output.envelope import asked_schema, layout

    place, _, kind = REPORTS[name].partition(":")
    return _DIALECT | msgspec.json.schema(
        layout(getattr(import_module(f"npu_tui.{place}"), kind), asked_schema(schema))
    )


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
    return _DIALECT | _table_schema(
        {
            "keys": _table_schema(keys),
            "screen": _table_schema({name: {"enum": list(allowed)} for name, allowed in choices.items()}),
            "thresholds": _table_schema({name: _threshold(*row) for name, row in thresholds.items()}),
        }
    )


def _table_schema(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _threshold(default: bool | int | float, description: str) -> dict[str, Any]:
    if isinstance(default, bool):
        return {"type": "boolean", "default": default, "description": description}
    kind = "integer" if isinstance(default, int) else "number"
    return {"type": kind, "minimum": 0, "default": default, "description": description}


class NoFieldError(ValueError):
    """A field that the report does not have; ``nearest`` is the one it may mean, empty without a similar one."""

    def __init__(self, name: str, nearest: str) -> None:
        super().__init__(name)
        self.name = name
        self.nearest = nearest


def chosen_fields(report: msgspec.Struct, names: Iterable[str]) -> dict[str, Any]:
    """The fields of ``report``, a document as it is written, that ``names`` name, as JSON has them, in its order.

    A dot goes into an object or into every object of a list: ``findings.id``; a section needs no ``sections.`` before
    it. ``schema_version`` is always there. Raises ``NoFieldError``.
    """
    import msgspec
    from msgspec import inspect

    kind = inspect.type_info(type(report))
    top = _fields(kind)
    sections = _fields(top["sections"]) if "sections" in top else {}
    wanted: dict[str, Any] = {"schema_version": {}}
    ways = {name: ["sections"] * (name.partition(".")[0] in sections) + name.split(".") for name in names}
    for name, parts in sorted(ways.items(), key=lambda way: -len(way[1])):  # what is whole comes after its parts
        inside, inner = kind, wanted
        for place, part in enumerate(parts):
            known = _fields(inside)
            if part not in known:
                near = get_close_matches(part, known if place else known | sections, 1)
                raise NoFieldError(name, ".".join([*parts[len(parts) - name.count(".") - 1 : place], *near]))
            inside, inner = known[part], inner.setdefault(part, {})
        inner.clear()
    chosen: dict[str, Any] = _wanted_fields(msgspec.to_builtins(report), wanted)
    return chosen


def _fields(kind: inspect.Type) -> dict[str, inspect.Type]:
    """The fields of the objects that ``kind`` holds, by name."""
    from msgspec import inspect

    if isinstance(kind, inspect.StructType):
        return {field.encode_name: field.type for field in kind.fields}
    if isinstance(kind, inspect.UnionType):
        return {name: inner for member in kind.types for name, inner in _fields(member).items()}
    if isinstance(kind, (inspect.ListType, inspect.VarTupleType)):
        return _fields(kind.item_type)
    return {}


def _wanted_fields(value: Any, wanted: dict[str, Any]) -> Any:
    """``value`` with the fields of ``wanted`` alone; all of them where it names none."""
    if not wanted or value is None:
        return value
    if isinstance(value, (list, tuple)):
        return [_wanted_fields(item, wanted) for item in value]
    return {name: _wanted_fields(inner, wanted[name]) for name, inner in value.items() if name in wanted}
