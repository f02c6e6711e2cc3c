"""What a table is: named columns, declared once, and the function that makes their values of a part of a profile.

SQL and the Python API read the columns ``sql`` of a table, the JSON report its ``json`` fields, pages of reports its
``page`` columns, and the panel its ``panel`` columns. ``COLUMNS`` says of every column what kind of value it
has, in which unit, and how a cell reads; the heading of what a view calls ``name`` is the text ``column.<name>``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import numpy as np
import numpy.typing as npt
from msgspec import Struct, defstruct
from msgspec.structs import replace

from npu_tui.strings import KINDS, knows, say
from npu_tui.trace.arrays import I64
from npu_tui.trace.text import printable, ticks_per_us

if TYPE_CHECKING:  # the tables of a job have no code lines
    from npu_tui.analysis.code_lines import CodeLine
    from npu_tui.rules.model import Base

Array = npt.NDArray[Any]
Value = int | float | str | bool | None

Kind = Literal["whole", "real", "flag", "label", "rows"]
"""Int64, Float64, Boolean, Enum (texts that repeat, sorted as texts), and rows of JSON within a row."""

NAMES: dict[Kind, str] = {"whole": "Int64", "real": "Float64", "flag": "Boolean", "label": "Enum", "rows": "List"}
"""What polars calls the type of each kind."""

Record = Any
"""A row of JSON: its type is made from the columns of its table."""

MISSING = int(np.iinfo(np.int64).min)
"""Stands for null in whole numbers that may be anything else."""

_EXACT = 1 << 53
_SUFFIXES = {"ns": "_us", "µs": "_us", "bytes": "_bytes", "GB/s": "_gb_s"}


class Column(Struct, frozen=True):
    """A column: ``unit`` is that of its numbers, empty where they count or are ids; null is unknown, never 0.

    ``form`` says how a cell reads: a kind of ``strings.KINDS``, ``id`` for numbers that name something, ``name`` for
    texts of the trace and ``word`` for ours; a value ``high`` reads as the text ``<words>.high`` where there are
    ``words``. ``about`` is the key of the text that says what the column means. What is ``summed`` over all repetitions
    (lost time) is shown to people for one of them.
    """

    id: str
    kind: Kind
    unit: str
    form: str
    words: str = ""
    about: str = ""
    summed: bool = False

    @property
    def type(self) -> str:
        """The type of polars."""
        return NAMES[self.kind]

    @property
    def is_number(self) -> bool:
        """Whether its cells are numbers."""
        return self.kind in ("whole", "real")

    def cell(self, value: Value) -> str:
        """``value`` (in the unit of the column) as it reads; unknown is empty."""
        if value is None or isinstance(value, str):
            return say(f"{self.words}.{value}") if value and self.words else value or ""
        if self.form == "id":
            return str(value)
        if self.form == "time" and not value:
            return "0"
        return KINDS[self.form](value * ticks_per_us() if self.unit == "µs" else value)


def columns(kind: Kind, unit: str, form: str, ids: str, words: str = "") -> dict[str, Column]:
    """Columns that differ by their ``ids`` only."""
    return {id_: Column(id_, kind, unit, form, words) for id_ in ids.split()}


_SHARED = (
    "rank", "device", "step", "slice", "start", "end", "duration", "start_ns", "name", "file", "line", "function",
    "total", "mean", "shortest", "longest", "calls", "rid", "process", "dp_rank", "total_blocks", "used_blocks",
    "free_blocks", "allocated_blocks", "freed_blocks", "usage", "pass", "accepted_ratio", "domain", "batch",
)  # fmt: skip
"""Columns that mean the same in every table: ``tables.any.<id>`` says what."""

COLUMNS: dict[str, Column] = {
    **columns(
        "whole", "", "id",
        "rank device step slice depth stream connection correlation event link source_slice target_slice launch "
        "dequeue enqueue op line peer_rank series before_slice after_slice number profiler_level source target "
        "last_rank",
    ),
    **columns(
        "whole", "", "count",
        "near_vertical peak_backlog sources targets bound_sources bound_targets negative lanes calls launches events "
        "slices links rows matched figures differing ours_only outliers came_last collectives",
    ),
    **columns(
        "whole", "ns", "time",
        "duration total shortest longest latency wait transit synchronization idle longest_wait after computing "
        "not_overlapped overlapped communication free stage bubble preparing host_duration length host_self host_total "
        "copies device_self device_total backward device_idle idle_after gain gain_alone step_after span exposed "
        "last_after",
    ),
    **columns(
        "whole", "ns", "moment",
        "start end start_ns source_time target_time dequeue_start dequeue_end enqueue_start enqueue_end op_start time "
        "at released",
    ),
    **columns("whole", "bytes", "size", "size bytes_read"),
    **columns("whole", "bytes", "memory", "peak held largest at_end"),
    **columns(
        "real", "ns", "time",
        "drain_start drain_end mean relative lead host_late device_side unlinked p50 p90 deviation",
    ),
    "lost": Column("lost", "real", "ns", "time", summed=True),
    **columns("real", "", "mean_count", "block_dim value"),
    **columns("real", "bytes", "size", "bytes"),
    **columns("real", "GB/s", "speed", "gb_s"),
    **columns("real", "0..1", "share", "ratio share spread mte2_ratio mac_ratio vec_ratio hit_rate late_share"),
    **columns("real", "µs²", "mean_count", "variance"),
    **columns("flag", "", "word", "interrupted starved outlier hidden"),
    **columns(
        "label", "", "name",
        "layer lane name category task_type stack source_name source_lane target_name target_lane launch_name op_name "
        "file function type core input_shapes input_types input_formats output_shapes group_name algorithm key "
        "instance before_name after_name path host shapes dtypes formats component transport place route call level "
        "operation main queue",
    ),
    **columns(
        "label", "", "word",
        "cause kind amount id title detail part_of whatif confidence note shape tells setting where",
    ),
    **columns("label", "", "word", "state", "summary.state"),
    **columns("label", "", "word", "class", "finding.kind"),
    **columns("label", "", "word", "severity", "severity"),
    **columns("rows", "", "word", "arrivals traffic problems latencies"),
}  # fmt: skip
"""Every column by id."""


def heading(name: str, base: Base | None = None) -> str:
    """The heading of the column ``name``; of a time that is saved or lost with the unit of its ``base``."""
    if base is not None and base.words and knows(f"column.{name}.per"):
        return say(f"column.{name}.per", unit=base.words)
    return say(f"column.{name}")


class ViewField(Struct, frozen=True):
    """A column as a view of a table names it; ``optional`` if its value may be null."""

    name: str
    column: Column
    optional: bool = False

    def heading(self, base: Base | None = None) -> str:
        """The name for people; of a time that is saved or lost with its ``base``."""
        return heading(self.name, base)

    def of_one(self, value: Any, base: Base | None) -> Any:
        """``value`` as people see it: what is summed over all steps is that of one."""
        return value if base is None or value is None or not self.column.summed else value / base.count


Subject = Literal["profile", "job", "part"]
"""What a table is made of: a part of a profile, a job, or each part of a job, which are one or its roles."""


class Table(Struct, frozen=True):
    """A table and its views; ``make`` gives its values for a part of a profile, or another ``subject``.

    ``row`` is the type of a row of JSON. With ``extended`` files beside the trace may add columns. The report has its
    rows as the list ``section``, made with the ``options``; of very many rows those that are ``longest`` by a column.
    With a ``tab`` the panel shows it by its name.
    """

    id: str
    make: Callable[..., TableSheet]
    sql: tuple[Column, ...]
    json: tuple[ViewField, ...]
    page: tuple[ViewField, ...]
    panel: tuple[ViewField, ...]
    row: type[Struct]
    extended: bool = False
    subject: Subject = "profile"
    section: str = ""
    options: dict[str, Any] = {}
    longest: str = ""
    tab: bool = False

    @property
    def file(self) -> str:
        """The module that declares it, without its package."""
        return self.make.__module__.rpartition(".")[2]

    def rows(self, sheet: TableSheet) -> list[Any]:
        """The rows of ``sheet`` as JSON has them, objects of the type ``row``."""
        return list(map(self.row, *(_json(field.column, sheet) for field in self.json)))

    def records(self, part: Any, **options: Any) -> list[Any]:
        """The rows of JSON for ``part`` of a profile or what else ``make`` takes; ``options`` are those of ``make``."""
        return self.rows(self.make(part, **options))

    def field(self, column: str) -> ViewField:
        """The field of JSON that holds the column ``column``. Raises ``KeyError``."""
        for known in self.json:
            if known.column.id == column:
                return known
        raise KeyError(column)


def table(
    name: str,
    make: Callable[..., TableSheet],
    sql: str = "",
    json: str = "",
    page: str = "",
    panel: str = "",
    *,
    row: str = "",
    about: str = "",
    own: Mapping[str, Column] = COLUMNS,
    types: dict[str, Any] | None = None,
    extended: bool = False,
    subject: Subject = "profile",
    section: str = "",
    options: dict[str, Any] | None = None,
    longest: str = "",
    tab: bool = False,
) -> Table:
    """The table ``name``, its views as the ids of their columns in order; ``own`` columns go before ``COLUMNS``.

    ``count=calls`` calls the column ``calls`` by another name. In ``json`` a question mark follows what may be null,
    and a name gets the suffix of the unit: ``total`` of ns is ``total_us``. ``row`` and ``about`` name and describe a
    row of JSON; ``types`` gives the types of values that the columns do not define: rows within it, a few words.

    What shows tables finds it by ``declared_tables``: SQL and Python where it has columns ``sql``, the JSON report
    where it has a ``section``, pages where it has columns ``page`` too, the panel by its name (``:fusion``) if it has a
    ``tab``.
    """
    known = {**COLUMNS, **own}
    in_sql = tuple(
        replace(known[column], about=f"tables.{'any' if column in _SHARED else name}.{column}")
        for column in sql.split()
    )
    in_json = tuple(_field(word, known, suffixed=True) for word in json.split())
    of_page, of_panel = (tuple(_field(word, known) for word in view.split()) for view in (page, panel))
    row_of_json = _row_type(row, about, in_json, types or {})
    return Table(
        name, make, in_sql, in_json, of_page, of_panel, row_of_json,
        extended, subject, section, options or {}, longest, tab,
    )  # fmt: skip


@cache
def declared_tables(room: str) -> tuple[Table, ...]:
    """All tables of the package ``room``: those that its files called ``*tables`` declare, each in its order.

    The files that the room's ``TABLE_FILES`` name come first, then the others by name.
    """
    package = import_module(room)
    place = {name: number for number, name in enumerate(package.TABLE_FILES)}
    files = [file.name for file in iter_modules(package.__path__) if file.name.endswith("tables")]
    files.sort(key=lambda name: (place.get(name, len(place)), name))
    modules = [import_module(f"{room}.{name}") for name in files]
    return tuple(
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, Table) and value.make.__module__ == module.__name__
    )


Document = TypeVar("Document", bound=type[Struct])


def rows_of(**tables: Table) -> Callable[[Document], Document]:
    """A decorator that types fields ``list[Record]`` of a Struct as rows of ``tables``, so that schemas have them."""

    def typed(kind: Document) -> Document:
        rows = {name: list[table.row] for name, table in tables.items()}  # type: ignore[name-defined]
        kind.__annotations__ = kind.__annotations__ | rows
        return kind

    return typed


def with_sections(room: str, required: str = "") -> Callable[[Document], Document]:
    """A decorator that gives a Struct the sections of the tables of ``room``: lists of rows, after its own fields.

    Those that are ``required`` are in every document; others are empty lists unless they are given.
    """

    def extended(kind: Document) -> Document:
        sections: list[Any] = [
            (table.section, list[table.row], *([] if table.section in required.split() else [[]]))  # type: ignore[name-defined]
            for table in declared_tables(room)
            if table.section
        ]
        about = {"__doc__": kind.__doc__}
        made: Any = defstruct(
            kind.__name__, sections, bases=(kind,), namespace=about, module=kind.__module__, kw_only=True
        )
        known: Document = made
        return known

    return extended


def row_type(name: str, about: str, /, **fields: Any) -> Any:
    """The type of a row of JSON called ``name``. What Python does not let be called ``class`` is ``cls``."""
    return defstruct(
        name,
        list(fields.items()),
        namespace={"__doc__": about},
        module=__name__,
        frozen=True,
        gc=False,
        rename={"cls": "class"},
    )


def _field(word: str, known: dict[str, Column], suffixed: bool = False) -> ViewField:
    plain = word.removesuffix("?")
    name, _, column = plain.partition("=")
    declared = known[column or name]
    return ViewField(name + (_SUFFIXES.get(declared.unit, "") if suffixed else ""), declared, plain != word)


_TYPES: dict[Kind, Any] = {"whole": int, "real": float, "flag": bool, "label": str}


def _row_type(name: str, about: str, fields: Sequence[ViewField], types: dict[str, Any]) -> type[Struct]:
    """The type of a row of JSON."""
    typed = {}
    for field in fields:
        column = field.column
        kind = types.get(column.id) or (float if column.unit in ("ns", "µs") else _TYPES[column.kind])
        typed[field.name] = kind | None if field.optional else kind
    record: type[Struct] = row_type(name or "Row", about, **typed)
    return record


def _json(column: Column, sheet: TableSheet) -> Sequence[Any]:
    """The values of JSON: times in us with three decimals, shares and speeds with six, harmless texts."""
    data = sheet.data.get(column.id)
    if isinstance(data, CodedLabels) and len(data.texts()) <= sheet.rows:  # a text of many rows is made harmless once
        texts = [*map(printable, data.texts()), None]
        return [texts[max(code, -1)] for code in data.part(0, sheet.rows).tolist()]
    values = sheet.values(column.id)
    if column.kind == "label":
        return [None if value is None else printable(value) for value in values]
    if column.unit == "ns":
        return [*map(us, values)]
    if column.unit in ("0..1", "GB/s"):
        return [None if value is None else round(value, 6) for value in values]
    return values


@overload
def us(ns: float) -> float: ...
@overload
def us(ns: float | None) -> float | None: ...
def us(ns: float | None) -> float | None:
    """Nanoseconds as microseconds with three decimals, picoseconds with six; None stays None."""
    ticks = ticks_per_us()
    if type(ns) is int and -_EXACT < ns < _EXACT:
        return ns / ticks  # the float nearest to it has no more decimals
    return None if ns is None else round(float(ns) / ticks, len(str(ticks)) - 1)


Part = Callable[[int, int], Array]
"""The values of the rows ``[first, last)``."""


class Numbers(Struct, frozen=True):
    """Numbers or flags by rows; null is not-a-number, or the whole number ``missing``."""

    part: Part
    missing: int | None = None

    def values(self, first: int, last: int) -> list[Any]:
        """The values of the rows ``[first, last)``, None for null."""
        array = np.asarray(self.part(first, last))
        values: list[Any] = array.tolist()
        if array.dtype.kind != "f" and self.missing is None:
            return values
        for row in np.flatnonzero(np.isnan(array) if array.dtype.kind == "f" else array == self.missing).tolist():
            values[row] = None
        return values


class CodedLabels(Struct, frozen=True):
    """Texts by rows: ``texts`` at the code of each row, null below 0. ``texts`` may be made when they are needed."""

    texts: Callable[[], Sequence[str]]
    part: Part

    def values(self, first: int, last: int) -> list[Any]:
        """The values of the rows ``[first, last)``, None for null."""
        texts = self.texts()
        return [texts[code] if code >= 0 else None for code in self.part(first, last).tolist()]


class NestedRows(Struct, frozen=True):
    """Rows of JSON within each row, None for null; a job may have millions, so they are made when they are needed."""

    rows: Callable[[], Sequence[Any]]

    def values(self, first: int, last: int) -> Sequence[Any]:
        """The values of the rows ``[first, last)``."""
        return self.rows()[first:last]


Data = Numbers | CodedLabels | NestedRows


class Span(Struct, frozen=True):
    """A stretch of time in ns, on ``lane`` and at ``slice`` if it is of one; ``words`` say what is there."""

    start: int
    end: int
    lane: int | None = None
    slice: int | None = None
    words: str = ""
    marked: bool = True


class RankedSlices(Struct, frozen=True):
    """``count`` slices in the order of their worth, which ``items`` gives when the first of them is asked for."""

    count: int
    items: Callable[[], I64]


Place = RankedSlices | Sequence[Span]


class TableSheet(Struct, frozen=True):
    """``rows`` rows of the columns ``data``, by id.

    ``place`` says where on the timeline a row is, ``lengths`` how long (ns) each thing took that it adds up, ``code``
    which line of code it is about. What is summed in it is shown for one of what its ``base`` names.
    """

    rows: int
    data: dict[str, Data]
    place: Callable[[int], Place] | None = None
    lengths: Callable[[int], I64] | None = None
    code: Callable[[int], CodeLine | None] | None = None
    base: Base | None = None

    def values(self, column: str, most: int | None = None) -> Sequence[Any]:
        """The values of a column in its first ``most`` rows, None for null; a column that is not there is null."""
        rows = self.rows if most is None else min(most, self.rows)
        return self.data[column].values(0, rows) if column in self.data else [None] * rows

    def taken(self, index: I64) -> TableSheet:
        """The rows at ``index``, in that order."""
        rows = index.tolist()

        def moved(ask: Callable[[int], Any] | None) -> Callable[[int], Any] | None:
            return None if ask is None else lambda row: ask(rows[row])

        data = {name: _rows_of_column(column, self.rows, index) for name, column in self.data.items()}
        return TableSheet(len(rows), data, moved(self.place), moved(self.lengths), moved(self.code), self.base)


def _rows_of_column(column: Data, rows: int, index: I64) -> Data:
    if isinstance(column, NestedRows):
        return NestedRows(lambda: list(map(column.rows().__getitem__, index.tolist())))
    values = column.part(0, rows)[index]
    if isinstance(column, CodedLabels):
        return CodedLabels(column.texts, lambda first, last: values[first:last])
    return numbers(values, column.missing)


def numbers(values: Array | Sequence[int | float | bool], missing: int | None = None) -> Numbers:
    """A column that is there."""
    array = np.asarray(values)
    return Numbers(lambda first, last: array[first:last], missing)


def optional(values: Sequence[float | None], whole: bool = True) -> Numbers:
    """A column of a few numbers, None for null."""
    if whole:
        return numbers(np.array([MISSING if value is None else value for value in values], np.int64), MISSING)
    return numbers(np.array([np.nan if value is None else value for value in values], np.float64))


def constant(value: int | None) -> Numbers:
    """The same number in every row, None for null."""
    filled = MISSING if value is None else value
    return Numbers(lambda first, last: np.full(last - first, filled, np.int64), MISSING)


def coded(texts: Sequence[str], codes: Array) -> CodedLabels:
    """Texts that are numbered already."""
    return CodedLabels(lambda: texts, lambda first, last: codes[first:last])


def labels(texts: Iterable[str | None]) -> CodedLabels:
    """A column of a few texts, None for null."""
    known: dict[str, int] = {}
    codes = np.array([-1 if text is None else known.setdefault(text, len(known)) for text in texts], np.int64)
    return coded(list(known), codes)


def attributes(
    objects: Sequence[Any], names: str, own: Mapping[str, Column] | None = None, /, **computed: Callable[[Any], Any]
) -> dict[str, Data]:
    """Columns of a few ``objects``: ``calls=count`` is their attribute ``count``; ``computed`` gives further ones.

    The columns are ``own`` ones of the table, or of ``COLUMNS``.
    """
    known = COLUMNS | dict(own or {})
    values = {}
    for word in names.split():
        column, _, attribute = word.partition("=")
        values[column] = [getattr(row, attribute or column) for row in objects]
    values |= {column: list(map(value, objects)) for column, value in computed.items()}
    return {column: column_of(known[column], cells) for column, cells in values.items()}


def attribute_rows(
    objects: Sequence[Any], names: str, own: Mapping[str, Column] | None = None, /, **computed: Callable[[Any], Any]
) -> TableSheet:
    """A row for each of a few ``objects``, of their ``attributes``."""
    return TableSheet(len(objects), attributes(objects, names, own, **computed))


def from_tuples(rows: Sequence[Sequence[Any]], names: str, own: Mapping[str, Column] = COLUMNS) -> TableSheet:
    """A few ``rows`` with a value for each of the columns ``names``, which are ``own`` ones or of ``COLUMNS``."""
    ids = names.split()
    cells = list(zip(*rows, strict=True)) or [()] * len(ids)
    data = {id_: column_of(own.get(id_) or COLUMNS[id_], values) for id_, values in zip(ids, cells, strict=True)}
    return TableSheet(len(rows), data)


def column_of(column: Column, values: Sequence[Any]) -> Data:
    """A column of a few values, None for null."""
    if column.kind == "label":
        return labels(values)
    if column.kind == "rows":
        return NestedRows(lambda: values)
    if column.kind == "flag":
        return numbers(np.array(values, np.bool_))
    return optional(values, column.kind == "whole")
