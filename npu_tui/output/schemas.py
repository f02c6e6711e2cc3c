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
    "report": "report_schema:Report", "compare": "compare_report:Compared", "ranks": "job_report:JobReport",
    "memory": "memory_report:MemoryReport", "compare_memory": "memory_compare:ComparedMemory",
    "log": "log_report:LogReport", "compare_jobs": "job_compare:ComparedJobs",
    "compare_service": "service_compare:ComparedServices",
}  # fmt: skip
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


class NoFieldError(ValueError):
    """A field that the report does not have; ``nearest`` is the one it may mean, empty without a similar one."""

    def __init__(self, name: str, nearest: str) -> None:
        super().__init__(name)
        self.name = name
        self.nearest = nearest


def chosen_fields(report: msgspec.Struct, names: Iterable[str]) -> dict[str, Any]:
    """The fields of ``report`` that ``names`` name, as JSON has them, in the report's order.

    A dot goes into an object or into every object of a list: ``findings.id``. ``schema_version`` is always there.
    Raises ``NoFieldError``.
    """
    import msgspec
    from msgspec import inspect

    kind = inspect.type_info(type(report))
    wanted: dict[str, Any] = {"schema_version": {}} if "schema_version" in _fields(kind) else {}
    for name in sorted(names, key=len, reverse=True):  # what is asked for whole comes after its parts
        inside, inner = kind, wanted
        way: list[str] = []
        for part in name.split("."):
            known = _fields(inside)
            if part not in known:
                raise NoFieldError(name, ".".join([*way, *get_close_matches(part, known, 1)]))
            way.append(part)
            inside, inner = known[part], inner.setdefault(part, {})
        inner.clear()
    chosen: dict[str, Any] = _only(msgspec.to_builtins(report), wanted)
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


def _only(value: Any, wanted: dict[str, Any]) -> Any:
    """``value`` with the fields of ``wanted`` alone; all of them where it names none."""
    if not wanted or value is None:
        return value
    if isinstance(value, (list, tuple)):
        return [_only(item, wanted) for item in value]
    return {name: _only(inner, wanted[name]) for name, inner in value.items() if name in wanted}
