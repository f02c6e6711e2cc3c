"""Some fields of a JSON report."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

import msgspec
from msgspec import inspect


class NoFieldError(ValueError):
    """A field that the report does not have; ``nearest`` is the one it may mean, empty where none is alike."""

    def __init__(self, name: str, nearest: str) -> None:
        super().__init__(name)
        self.name = name
        self.nearest = nearest


def chosen_fields(report: msgspec.Struct, names: Iterable[str]) -> dict[str, Any]:
    """The fields of ``report`` that ``names`` name, as JSON has them, in the report's order.

    A dot goes into an object or into every object of a list: ``findings.id``. ``schema_version`` is always there.
    Raises ``NoFieldError``.
    """
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
    found: dict[str, Any] = _only(msgspec.to_builtins(report), wanted)
    return found


def _fields(kind: inspect.Type) -> dict[str, inspect.Type]:
    """The fields of the objects that ``kind`` holds, by name."""
    if isinstance(kind, inspect.StructType):
        return {field.encode_name: field.type for field in kind.fields}
    if isinstance(kind, inspect.UnionType):
        return {name: inner for each in kind.types for name, inner in _fields(each).items()}
    if isinstance(kind, (inspect.ListType, inspect.VarTupleType)):
        return _fields(kind.item_type)
    return {}


def _only(value: Any, wanted: dict[str, Any]) -> Any:
    """``value`` with the fields of ``wanted`` alone; all of them where it names none."""
    if not wanted or value is None:
        return value
    if isinstance(value, (list, tuple)):
        return [_only(each, wanted) for each in value]
    return {name: _only(inner, wanted[name]) for name, inner in value.items() if name in wanted}
