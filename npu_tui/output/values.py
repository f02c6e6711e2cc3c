"""How values are written in JSON and in words, and which fields of a document are wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any, TypeVar, overload

import msgspec
from msgspec import inspect

from npu_tui.strings import say
from npu_tui.trace import text as units
from npu_tui.trace.text import printable


def ratio(part: float | None, whole: float | None) -> float | None:
    """``part`` of ``whole``, None where either is unknown or there is no whole."""
    return None if part is None or not whole else round(part / whole, 6)


@overload
def text(value: str) -> str: ...
@overload
def text(value: str | None) -> str | None: ...
def text(value: str | None) -> str | None:
    """A text of the trace without characters that act on a terminal; None stays None."""
    return None if value is None else printable(value)


Number = TypeVar("Number", int, float)


def time_text(us: float | None) -> str:
    """A time in µs in the unit that suits it."""
    return _known(us, lambda time: units.duration_text(time * 1000) if time else "0")


def moment(us: float | None) -> str:
    """A time in µs since the start of the trace."""
    return _known(us, lambda time: units.moment_text(time * 1000))


def share_text(value: float | None) -> str:
    """A share of 1 as a percentage."""
    return _known(value, units.share_text)


def size_text(size: int | None) -> str:
    """A number of bytes."""
    return _known(size, units.size_text)


def speed_text(gigabytes: float | None) -> str:
    """A bandwidth in GB/s."""
    return _known(gigabytes, units.speed_text)


def count_text(count: int | None) -> str:
    """A whole number."""
    return _known(count, units.count_text)


def or_unknown(value: object) -> object:
    """``value`` itself unless it is None."""
    return say("report.unknown") if value is None else value


def _known(value: Number | None, words: Callable[[Number], str]) -> str:
    return say("report.unknown") if value is None else words(value)


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
