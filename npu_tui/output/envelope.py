"""Everything that is written as JSON: its fields, its JSON Schema (2020-12), the envelope of schema 2 and schema 1."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from typing import Any, ClassVar, Generic, Literal, TypeVar, get_args, get_type_hints

import msgspec
from msgspec import UNSET, Struct, UnsetType, defstruct, inspect, structs

from npu_tui.load.errors import InputError
from npu_tui.rules.model import Confidence, FindingClass, Severity, SideName
from npu_tui.strings import words
from npu_tui.subjects import subjects
from npu_tui.trace.message import Message, message

SCHEMA_VERSION = 2
"""The version of everything written as JSON, unless schema 1 is asked for."""


class NotChecked(Struct, frozen=True, kw_only=True):
    """A field, a finding or a side of it that is not known, and why."""

    id: str
    reason: str


def not_checked(why: Message, after: int = 1) -> NotChecked:
    """What is not known by the code of ``why``, ``after`` its first words: ``no_layout`` of ``job.no_layout``."""
    return NotChecked(id=why.code.split(".", after)[-1], reason=words(why))


class PathSource(Struct, frozen=True):
    """What was read."""

    path: str


Source = TypeVar("Source")


class ComparedSides(Struct, Generic[Source], frozen=True):
    """Both sides of a comparison."""

    base: Source
    new: Source


class Old(Struct, frozen=True):
    """How schema 1 has a field: its name, type and value where they are others."""

    name: str = ""
    type: Any = None
    value: Callable[[Any], Any] | None = None


class Root(Struct, frozen=True):
    """A JSON document; the subclass has its fields side by side, in ``ORDER`` where that is not how they are declared.

    Schema 2 has ``source``, ``verdict``, ``findings``, ``not_checked`` and ``health`` beside each other, fields or
    properties, and all other fields in ``sections``. Schema 1 has the fields alone, each as ``OLD`` says, not at all
    where that says None; with ``ALONE``, it is the list of that name. ``FIRST`` are the sections that are given where
    there is no room for all.
    """

    ORDER: ClassVar[str] = ""
    FIRST: ClassVar[Sequence[str]] = ()
    OLD: ClassVar[Mapping[str, Old | None]] = {}
    ALONE: ClassVar[str] = ""
    ON_ONE_LINE: ClassVar[bool] = False
    """Whether schema 1 has no line breaks."""


PATH = Old("path", str, lambda source: source.path)
"""Schema 1 has the path of the source alone."""
REASONS = Old(type=list[str], value=lambda rows: [row.reason for row in rows])
"""Schema 1 has the reasons alone."""


VARIABLE = "NPU_TUI_SCHEMA"
"""The variable of the environment that asks for a schema, where no option does."""
VERSIONS = ("1", "2")


class PlaceEntry(Struct, frozen=True, kw_only=True):
    """A place that proves a finding; in a comparison on a ``side``, for memory an ``event``.

    In a job it is on a ``rank``, and its times are ns since 1970 by the clock of the device.
    """

    side: SideName | UnsetType = UNSET
    rank: int | UnsetType | None = UNSET
    start_us: float | UnsetType = UNSET
    end_us: float | UnsetType = UNSET
    start_ns: int | UnsetType = UNSET
    end_ns: int | UnsetType = UNSET
    lane: str | UnsetType | None = UNSET
    name: str | UnsetType = UNSET
    note: str | UnsetType = UNSET
    event: int | UnsetType = UNSET


class CodeEntry(Struct, frozen=True, kw_only=True):
    """A line of code."""

    file: str
    line: int
    function: str


class HolderEntry(Struct, frozen=True, kw_only=True):
    """Who holds memory: ``where`` the file of a line of code, ``function`` its function; null without a stack.

    Where only the operation of PyTorch is known, that is the function, without a file.
    """

    where: str | None
    line: int | None
    function: str | None
    bytes: int
    blocks: int


class FindingEntry(Struct, frozen=True, kw_only=True, rename={"cls": "class"}):
    """A finding of any document; what does not apply to its kind is left out from ``part_of`` on, null before.

    ``gain_us`` is how much shorter one of what ``per`` names would be, None where it is unknown; ``count`` is how many
    of them were measured. ``step_after_us`` is None for what is no step of the ladder, ``part_of`` for what no other
    finding contains. ``gain_after`` is how many findings above must be fixed first for the gain, as they take as long
    at the same time. ``whatif`` is the change that replays the run without it, ``gain_alone_us`` its gain; ``steps``
    are the numbers of the steps it shows in. In a job ``ranks`` are those it is about; in a comparison ``delta_us`` is
    what it adds to a step, within ``error_us`` (95 %), ``base`` and ``new`` are its titles on the sides; in a memory
    snapshot ``gain_bytes`` is what another setting reserves less.
    """

    id: str
    cls: FindingClass
    severity: Severity | None = None
    title: str
    detail: str | None = None
    evidence: list[PlaceEntry] = []
    advice: list[str] = []
    gain_us: float | None = None
    per: str | None = None
    count: int | None = None
    confidence: Confidence | None = None
    sources: list[str] = []
    part_of: str | UnsetType | None = UNSET
    gain_after: int | UnsetType = UNSET
    step_after_us: float | UnsetType | None = UNSET
    gain_alone_us: float | UnsetType | None = UNSET
    whatif: str | UnsetType | None = UNSET
    steps: list[int] | UnsetType = UNSET
    hidden: bool | UnsetType = UNSET
    code_lines: list[CodeEntry] | UnsetType = UNSET
    role: str | UnsetType | None = UNSET
    ranks: list[int] | UnsetType = UNSET
    delta_us: float | UnsetType | None = UNSET
    error_us: float | UnsetType | None = UNSET
    base: str | UnsetType | None = UNSET
    new: str | UnsetType | None = UNSET
    device: int | UnsetType | None = UNSET
    allocator: str | UnsetType | None = UNSET
    gain_bytes: int | UnsetType | None = UNSET
    where: HolderEntry | UnsetType | None = UNSET


def _finding_of_row(row: Any) -> FindingEntry:
    """The finding in ``row`` of any document; its class is that of its kind where the row has none."""
    told = {name: getattr(row, name) for name in FindingEntry.__struct_fields__ if hasattr(row, name)}
    if "cls" not in told:
        kinds = (kind for subject in subjects() for kind in (*subject.findings(), *subject.differences()))
        told["cls"] = next(kind.cls for kind in kinds if kind.id == row.id)
    return FindingEntry(**told)


def asked_schema(option: str | None = None) -> int:
    """The schema that the ``option`` of a command asks for, else the environment. Raises ``InputError``."""
    asked = option or os.environ.get(VARIABLE) or str(SCHEMA_VERSION)
    if asked not in VERSIONS:
        raise InputError(message("schema.unknown", variable=VARIABLE, version=asked, known=[*VERSIONS]))
    return int(asked)


def document(data: Root, verdict: Sequence[str] | None = None, schema: int = SCHEMA_VERSION) -> Any:
    """``data`` as ``schema`` has it, with ``verdict`` where that is not one of its fields; what is unset stays so."""
    laid_out = layout(type(data), schema)
    if schema == 1:
        return _old_document(data, laid_out)
    sections = structs.fields(laid_out)[_SECTIONS].type
    lines, rows = getattr(data, "verdict", ()) if verdict is None else verdict, getattr(data, "findings", ())
    return laid_out(
        schema_version=SCHEMA_VERSION,
        kind=data.kind,  # type: ignore[attr-defined]  # every document has one
        source=getattr(data, "source", None),
        verdict=lines if lines is UNSET else list(lines),
        findings=rows if rows is UNSET else list(map(_finding_of_row, rows)),
        sections=sections(**{name: getattr(data, name) for name in sections.__struct_fields__}),
        not_checked=getattr(data, "not_checked", []),
        health=getattr(data, "health", None),
    )


def _old_document(data: Root, laid_out: type[Struct]) -> Any:
    fields: dict[str, Any] = {}
    for name, old in _old_names(type(data)):
        value = getattr(data, name)
        if isinstance(value, Root):
            value = document(value, schema=1)
        fields[old.name or name] = value if old.value is None or value is UNSET else old.value(value)
    fields.pop("schema_version", None)
    return fields[data.ALONE] if data.ALONE else laid_out(**fields)


@cache
def layout(root: type[Root], schema: int = SCHEMA_VERSION) -> type[Struct]:
    """The type of the document ``root`` in ``schema``."""
    known = {field.name: field for field in structs.fields(root)}
    fields: list[Any] = []
    if schema == 1:
        for name, old in _old_names(root):
            field = known[name]
            kind, default = old.type or _old_type(field.type), field.default
            if name == "schema_version":
                kind, default = Literal[1], 1
            options = {"default": default, "default_factory": field.default_factory}
            fields.append((old.name or name, kind, msgspec.field(**options)))
    else:
        inner = [
            (name, known[name].type, UNSET) if known[name].default is UNSET else (name, known[name].type)
            for name in _fields_in_order(root)
            if name not in _ENVELOPE
        ]
        about = {"__doc__": f"What the document of kind {known['kind'].default} says beside its envelope."}
        fields = [
            ("schema_version", Literal[2]),
            ("kind", known["kind"].type),
            ("source", _type_of(root, "source")),
            ("verdict", list[str]),
            ("findings", list[FindingEntry]),
            ("sections", defstruct(f"{root.__name__}Sections", inner, kw_only=True, namespace=about)),
            ("not_checked", list[NotChecked]),
            ("health", _type_of(root, "health")),
        ]
    return defstruct(root.__name__, fields, kw_only=True, namespace={"__doc__": root.__doc__})


_ENVELOPE = ("schema_version", "kind", "source", "verdict", "findings", "sections", "not_checked", "health")
_SECTIONS = _ENVELOPE.index("sections")
_SAME = Old()


def _old_names(root: type[Root]) -> Iterator[tuple[str, Old]]:
    """The fields that schema 1 has, by their names in Python, and how it has them."""
    for name in _fields_in_order(root):
        if (old := root.OLD.get(name, _SAME)) is not None:
            yield name, old


def _fields_in_order(root: type[Root]) -> list[str]:
    """The fields of ``root`` in its ``ORDER``, those that it does not name at the end."""
    order = {name: place for place, name in enumerate(root.ORDER.split())}
    return sorted(root.__struct_fields__, key=lambda name: order.get(name, len(order)))


def _old_type(kind: Any) -> Any:
    """The type that schema 1 has for ``kind``: another one where that is a document within a document, or None."""
    inner = next((part for part in get_args(kind) if isinstance(part, type) and issubclass(part, Root)), None)
    return kind if inner is None else layout(inner, 1) | None


def _type_of(root: type[Root], name: str) -> Any:
    """The type of a field or a property of ``root``, that of None where it has neither."""
    there = getattr(root, name, None)
    if isinstance(there, property):
        return get_type_hints(there.fget)["return"]
    return next((field.type for field in structs.fields(root) if field.name == name), None)


def json_bytes(data: Root, verdict: Sequence[str] | None = None, schema: str | None = None) -> bytes:
    """The ``document`` of ``data`` as UTF-8 with a line end, by the asked ``schema``. Raises ``InputError``."""
    asked = asked_schema(schema)
    laid_out = document(data, verdict, asked)
    return msgspec.json.encode(laid_out) + b"\n" if asked == 1 and data.ON_ONE_LINE else indented(laid_out)


def indented(value: Any) -> bytes:
    """``value`` as indented UTF-8 text with a line end, fields in the order of its type."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def side_by_side(plain: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a document of either schema, sections beside the others."""
    return {**{name: value for name, value in plain.items() if name != "sections"}, **plain.get("sections", {})}


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
