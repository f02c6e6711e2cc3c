"""What answers SQL: polars in a process of its own, which may be ended at any time, a line to the one that asks, and
what a query may be: only tables of the profile, a plan that polars can plan, an answer of so many rows.

The tables stay where they are. The process asks for those that a query names, for the columns that polars needs of
them, and for their rows a piece at a time.

The answer is written as text for people or as bytes for programs. Of useful queries to begin with, the text
``query.example.<id>`` says what each of them answers.
"""

from __future__ import annotations

import json
import mmap
import os
import re
import resource
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from io import BytesIO
from itertools import count
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

from npu_tui.trace.memory import taken_data
from npu_tui.trace.message import Message, SaidError, message
from npu_tui.trace.text import brief, cell_count, drawable, escaped, padded, printable, shortened

if TYPE_CHECKING:
    import polars as pl


class QueryError(SaidError):
    """A query that cannot be answered."""


_TOKEN = re.compile(
    r"""(?P<gap>\s+|--[^\n]*|/\*.*?\*/)
      | (?P<text>'(?:[^']|'')*')
      | (?P<name>"(?:[^"]|"")*"|`[^`]*`|[^\W\d]\w*)
      | (?P<number>\d[\w.]*)
      | (?P<sign>[(),.;]|[^\w\s(),.;'"`]+|.)""",
    re.VERBOSE | re.DOTALL,
)
_OPERATING = frozenset(
    ("and", "or", "not", "in", "is", "like", "ilike", "between", "case", "when", "cast", "xor", "rlike", "regexp",
     "div", "mod")
)  # fmt: skip
_READERS = ("read_", "scan_")
"""How the functions of polars begin that are tables made of files."""

MOST_SECONDS = 300
"""How long a query may take unless another time is given."""
_RECURSION_SECONDS = 6
"""How long one may take that reads itself: without an end it grows until it is stopped."""
NO_TABLE = re.compile(r"relation '(.+?)' was not found", re.DOTALL)
"""What polars says of a table that it does not know."""

_LONGEST_QUERY = 100_000
_MOST_OPERATORS = 500
"""Polars takes a second for 1,000 terms, minutes for 3,200, and ends the process at 20,000."""

_READING = ("select", "from", "join", "values")
_MOST_SCANS = 400
"""Selections and tables that a plan reads, with those that its named queries read each time: 800 end the process."""


def refused(sql: str) -> Message | None:
    """Why ``sql`` is not answered at all, None where it may be."""
    if len(sql) > _LONGEST_QUERY:
        return message("query.too_long", most=_LONGEST_QUERY)
    if any("\ud800" <= letter <= "\udfff" for letter in sql):
        return message("query.not_utf8")
    tokens = [(kind, text) for kind, text in _tokens(sql) if kind != "gap"]
    operators = sum(
        (kind == "sign" and text not in "(),.;") or (kind == "name" and text.lower() in _OPERATING)
        for kind, text in tokens
    )
    if operators > _MOST_OPERATORS:
        return message("query.too_many", count=operators, most=_MOST_OPERATORS)
    if reader := _reader(tokens):
        return message("query.no_files", name=brief(reader, 60))
    if _scans(tokens) > _MOST_SCANS:
        return message("query.too_deep", most=_MOST_SCANS)
    return None


def seconds_of(sql: str) -> int:
    """How long ``sql`` may take without a limit of the user's, s."""
    is_recursive = any(kind == "name" and _unquoted(text) == "recursive" for kind, text in _tokens(sql))
    return _RECURSION_SECONDS if is_recursive else MOST_SECONDS


def _tokens(sql: str) -> Iterator[tuple[str, str]]:
    for match in _TOKEN.finditer(sql):
        yield match.lastgroup or "", match[0]


def _unquoted(name: str) -> str:
    return name.strip('"`').lower()


def _reader(tokens: list[tuple[str, str]]) -> str | None:
    """The first table that would be made by a function, such as ``read_csv('/etc/passwd')``."""
    before = ""
    for (kind, text), (_, bracket) in zip(tokens, [*tokens[1:], ("", "")], strict=False):
        name = _unquoted(text)
        is_table = before in ("from", "join") and name not in ("unnest", "select", "lateral", "values")
        if kind == "name" and bracket == "(" and (name.startswith(_READERS) or is_table):
            return name
        before = text.lower()
    return None


def _scans(tokens: list[tuple[str, str]]) -> int:
    """How many selections and tables the plan reads; one that WITH names counts whenever it is read."""
    named: dict[str, int] = {}
    scans, depth, before, last = 0, 0, "", ""
    bodies: list[tuple[str, int, int]] = []
    for kind, text in tokens:
        word = _unquoted(text) if kind == "name" else text
        if text == "(":
            if before == "as" and last:
                bodies.append((last, depth, scans))
            depth += 1
        elif text == ")":
            depth -= 1
            if bodies and bodies[-1][1] == depth:
                name, _, begun = bodies.pop()
                named[name] = max(scans - begun, 1)
                scans = begun
        elif kind == "name":
            scans += named.get(word, 1 if word in _READING else 0)
            if word != "as":
                last = word
        before = word
        if scans > _MOST_SCANS:
            return scans
    return scans or sum(named.values())


_MOST_CELLS = 100_000_000
"""Numbers and texts of an answer: for a table with 10 columns 10 million rows."""


def most_rows(columns: int) -> int:
    """How many rows an answer of ``columns`` columns may have unless the user asks for all of them."""
    return _MOST_CELLS // max(columns, 1)


_LONGEST = 10_000
"""Characters of an error."""
_MOST_KEPT = 100_000
"""Rows up to which polars keeps the first ones while it sorts. 2.0 takes the memory of all of them beforehand, be there
so many or not, and from here on sorting all is faster anyway."""
_KEEPS_MORE = re.compile(r"\b(?:limit|first|next)\s+\d{6,}", re.IGNORECASE)
"""A query that itself asks for more."""


class Channel:
    """Words and frames from process to process, in memory that has no name; both are bounded by it alone."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end

    def send(self, *words: Any, frame: pl.DataFrame | None = None) -> None:
        """Send ``words``, as JSON has them, and ``frame``. Raises ``OSError`` if the reader is gone."""
        with _memory_connection() as said, _memory_connection() as rows:
            said.write(json.dumps(words).encode())
            said.flush()
            if frame is not None:
                frame.write_ipc(rows)
                rows.flush()
            files = [said.fileno()] if frame is None else [said.fileno(), rows.fileno()]
            socket.send_fds(self.end, [b"."], files)

    def hear(self) -> tuple[list[Any], pl.DataFrame | None]:
        """What the other one sends. Raises ``EOFError`` where it has ended, ``TimeoutError`` as the socket says."""
        import polars as pl

        sent, files, _, _ = socket.recv_fds(self.end, 1, 2)
        if not sent:
            raise EOFError
        try:
            with mmap.mmap(files[0], 0, prot=mmap.PROT_READ) as said:
                words = json.loads(said[:])
            return words, pl.read_ipc(f"/proc/self/fd/{files[1]}") if len(files) > 1 else None
        finally:
            for file in files:
                os.close(file)


def _memory_connection() -> Any:
    return open(os.memfd_create("npu-tui"), "wb")


def schema_of(kinds: Mapping[str, str], texts: Mapping[str, pl.Series]) -> dict[str, Any]:
    """The types of polars of columns of ``kinds``, a label being one of its ``texts``."""
    import polars as pl

    types = {"whole": pl.Int64(), "real": pl.Float64(), "flag": pl.Boolean()}
    return {name: pl.Enum(texts[name]) if kind == "label" else types[kind] for name, kind in kinds.items()}


def lazy_frame(
    name: str, schema: dict[str, Any], frames: Callable[[list[str], int | None], Iterable[pl.DataFrame]]
) -> pl.LazyFrame:
    """A table with columns from ``frames``, at most so many rows of them in pieces, texts as their numbers."""
    import polars as pl
    from polars.io.plugins import register_io_source

    def made(
        columns: list[str] | None, predicate: pl.Expr | None, rows: int | None, batch: int | None
    ) -> Iterator[pl.DataFrame]:
        wanted = list(schema) if columns is None else columns
        texts = [pl.col(name).cat.to(schema[name]) for name in wanted if isinstance(schema[name], pl.Enum)]
        for frame in frames(wanted, rows):
            frame = frame.with_columns(texts)
            yield frame if predicate is None else frame.filter(predicate)

    return register_io_source(made, schema=schema, is_pure=True, explain_name=name)


class _Lender:
    """The tables of the process that asks."""

    def __init__(self, line: Channel) -> None:
        self._line = line
        self._one_by_one = Lock()
        self._numbers = count()
        self.known: dict[str, pl.LazyFrame] = {}

    def _ask(self, *words: Any) -> tuple[list[Any], pl.DataFrame | None]:
        with self._one_by_one:
            self._line.send(*words)
            return self._line.hear()

    def lazy(self, name: str) -> pl.LazyFrame | None:
        """The table ``name``; None where there is none."""
        (kinds,), texts = self._ask("table", name)
        if texts is None:
            return None
        schema = schema_of(kinds, {column: texts[column][0] for column in texts.columns})

        def frames(columns: list[str], rows: int | None) -> Iterator[pl.DataFrame]:
            number = next(self._numbers)
            while (frame := self._ask("rows", number, name, columns, rows)[1]) is not None:
                yield frame

        return lazy_frame(name, schema, frames)

    def answer(self, sql: str, limit: int | None, as_texts: bool) -> pl.DataFrame:
        """The answer; tables are asked for as the query is found to name them."""
        import polars as pl

        known = self.known = {}
        optimizations = pl.QueryOptFlags(slice_pushdown=_KEEPS_MORE.search(sql) is None)
        while True:
            try:
                answer = pl.SQLContext(frames=known, register_globals=False).execute(sql, eager=False)
                if limit is not None and limit > _MOST_KEPT:
                    answer = answer.map_batches(lambda frame: frame, slice_pushdown=False, streamable=True)
                if limit is not None:
                    answer = answer.head(limit)
                return answer.collect(engine="streaming", optimizations=optimizations)
            except pl.exceptions.SQLInterfaceError as error:
                missing = NO_TABLE.search(str(error))
                frame = None if missing is None or missing[1] in known else self.lazy(missing[1])
                if missing is None or frame is None:
                    raise
                known[missing[1]] = frame.with_columns(pl.col(pl.Enum).cast(pl.String)) if as_texts else frame


def _without_codes(frame: pl.DataFrame) -> pl.DataFrame:
    """``frame`` with texts in place of codes, which a file of Arrow reads back in quadratic time."""
    import polars as pl

    lists = [name for name, kind in frame.schema.items() if isinstance(kind, pl.List) and kind.inner == pl.Enum]
    return frame.cast({pl.Enum: pl.String, **dict.fromkeys(lists, pl.List(pl.String))})


def serve(number: int) -> None:
    """Answer what is asked on the socket of this ``number`` until standard input ends, as it does with who asks."""
    import polars as pl

    Thread(target=lambda: os._exit(len(os.read(0, 1))), daemon=True).start()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    line = Channel(socket.socket(fileno=number))
    pl.LazyFrame({"a": [1]}).collect(engine="streaming")  # its threads have their memory before that is bounded
    most = resource.getrlimit(resource.RLIMIT_DATA)[1]
    while True:
        (limit, memory), asked = line.hear()
        assert asked is not None
        allowed = taken_data() + memory
        resource.setrlimit(resource.RLIMIT_DATA, (allowed if most < 0 else min(allowed, most), most))
        sql, tables = asked["sql"][0], _Lender(line)
        try:
            try:
                answer = tables.answer(sql, limit, as_texts=False)
            except (pl.exceptions.SchemaError, pl.exceptions.InvalidOperationError, pl.exceptions.ComputeError):
                # LIKE, upper() and their like need texts, which cost more than the codes that are enough for all else.
                answer = tables.answer(sql, limit, as_texts=True)
            line.send("answer", frame=_without_codes(answer))
        except MemoryError:
            raise
        except (Exception, pl.exceptions.PanicException) as error:  # polars raises whatever its parts do
            line.send("error", str(error)[:_LONGEST], list(tables.known))


FORMATS = ("table", "csv", "json", "ndjson", "parquet", "arrow")
"""How an answer can be written; the last two are binary."""

ENDINGS = {".csv": "csv", ".json": "json", ".ndjson": "ndjson", ".jsonl": "ndjson", ".parquet": "parquet",
           ".arrow": "arrow", ".ipc": "arrow", ".feather": "arrow"}  # fmt: skip
"""The format that the ending of a file names."""

_WIDEST = 60
_GAP = "  "


def unwritable(frame: pl.DataFrame, form: str) -> Message | None:
    """The first column of ``frame`` that ``form`` has no way to write, and what to do; None without one."""
    for name, kind in frame.schema.items():
        nested = kind.is_nested() or kind.base_type().__name__ in ("Duration", "Binary", "Object")
        opaque = "Binary" in str(kind) or "Object" in str(kind)
        if (form == "csv" and nested) or (form in ("json", "ndjson") and opaque) or "Object" in str(kind):
            return message("query.no_way", name=brief(printable(name), 60), kind=brief(str(kind), 40), form=form)
    return None


def written(frame: pl.DataFrame, form: str) -> bytes:
    """``frame`` in ``form``, one of ``FORMATS``, texts as UTF-8; ``unwritable`` says what cannot be."""
    if form == "table":
        return table_text(frame).encode()
    out = BytesIO()
    if form == "json":
        return escaped(f"{frame.write_json()}\n").encode()
    if form == "ndjson":
        return escaped(frame.write_ndjson()).encode()
    if form == "csv":
        _for_sheets(frame).write_csv(out)
    elif form == "parquet":
        frame.write_parquet(out)
    else:
        frame.write_ipc(out)
    return out.getvalue()


_CONTROL = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]"
_FORMULA, _NUMBER = r"^\s*[=+\-@]", r"^\s*[+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?\s*$"
"""How a text begins that a spreadsheet would reckon with, and one that is only a number."""


def _for_sheets(frame: pl.DataFrame) -> pl.DataFrame:
    """``frame`` for a terminal and a spreadsheet: texts without control characters, and none that is a formula."""
    import polars as pl

    texts = [name for name, kind in frame.schema.items() if kind in (pl.String, pl.Categorical, pl.Enum)]
    safe = frame.with_columns(_safe(frame[name].cast(pl.String)).alias(name) for name in texts)
    names: dict[str, str] = {}
    for before, name in zip(safe.columns, _safe(pl.Series(safe.columns, dtype=pl.String)).to_list(), strict=True):
        names[before] = name if name not in names.values() else f"{name}_{len(names) + 1}"
    return safe.rename(names)


def _safe(texts: pl.Series) -> pl.Series:
    """``texts`` with control characters as ``printable`` writes them, and ``'`` before what is a formula."""
    odd = texts.str.contains(_CONTROL).fill_null(False)
    if odd.any():
        texts = texts.scatter(odd.arg_true(), [printable(text) for text in texts.filter(odd)])
    formulas = (texts.str.contains(_FORMULA) & ~texts.str.contains(_NUMBER)).fill_null(False)
    return ("'" + texts).zip_with(formulas, texts) if formulas.any() else texts


def table_text(frame: pl.DataFrame) -> str:
    """``frame`` in aligned columns, numbers to the right, long texts cut short; null is empty."""
    texts = []
    for column in frame.get_columns():
        cells = [_cell_csv(value) for value in column.to_list()]
        head = shortened(drawable(printable(column.name)), _WIDEST)
        width = max([cell_count(head), *map(cell_count, cells)])
        right = column.dtype.is_numeric()
        texts.append([padded(text, width, right) for text in [head, *cells]])
    lines = [_GAP.join(row).rstrip() for row in zip(*texts, strict=True)]
    return "\n".join(lines) + "\n" if lines else ""


def _cell_csv(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.3f}" if abs(value) < 1e15 else f"{value:g}"
    if isinstance(value, str):
        return shortened(drawable(printable(" ".join(value.split()))), _WIDEST)
    return shortened(drawable(printable(str(value))), _WIDEST)


EXAMPLES: dict[str, str] = {
    "waits": """\
SELECT name, class, lost / 1000 AS lost_us, file, line
FROM launches
WHERE starved
ORDER BY lost DESC
LIMIT 20""",
    "lines": """\
SELECT file, line, function, lost / 1e6 AS lost_ms, launches
FROM code_lines
ORDER BY lost DESC""",
    "operators": """\
SELECT type, core, count(*) AS calls, sum(duration) / 1e6 AS total_ms, median(duration) / 1000 AS median_us,
       quantile_cont(duration, 0.99) / 1000 AS p99_us
FROM kernels
GROUP BY type, core
ORDER BY total_ms DESC""",
    "shapes": """\
SELECT type, input_shapes, count(*) AS calls, sum(duration) / 1e6 AS total_ms, avg(gb_s) AS gb_s
FROM kernels
GROUP BY type, input_shapes
ORDER BY total_ms DESC NULLS LAST
LIMIT 20""",
    "idle": """\
SELECT start / 1e6 AS at_ms, duration / 1000 AS free_us, host_late / 1000 AS host_late_us, before_name, after_name
FROM free
ORDER BY duration DESC
LIMIT 20""",
    "stages": """\
SELECT op_name, count(*) AS launches, avg(enqueue_start - op_start) / 1000 AS op_us,
       avg(dequeue_start - enqueue_end) / 1000 AS queue_us, avg(source_time - dequeue_start) / 1000 AS launch_us,
       avg(latency) / 1000 AS wait_us, sum(lost) / 1000 AS lost_us
FROM launches
WHERE op_name IS NOT NULL
GROUP BY op_name
ORDER BY lost_us DESC
LIMIT 20""",
    "late": """\
SELECT c.name, c.duration / 1e6 AS ms, a.peer_rank, a.after / 1e6 AS after_ms
FROM collectives c JOIN arrivals a ON c.slice = a.slice
WHERE a.after = (SELECT max(b.after) FROM arrivals b)""",
    "calls": """\
SELECT level, name, calls, total / 1e6 AS total_ms, longest / 1000 AS longest_us
FROM apis
ORDER BY total DESC
LIMIT 20""",
    "steps": """\
SELECT step, duration / 1e6 AS ms, computing / 1e6 AS computing_ms, not_overlapped / 1e6 AS communication_ms,
       free / 1e6 AS free_ms, 100 * free / duration AS free_percent
FROM steps
ORDER BY step""",
    "requests": """\
SELECT rid, ttft / 1e6 AS ttft_ms, ttft_most, per_token / 1e6 AS tpot_ms, tpot_most, prompt, tokens
FROM latencies
WHERE complete
ORDER BY ttft DESC
LIMIT 20""",
    "tail": """\
SELECT metric, part, 100 * share AS all_percent, 100 * slowest_share AS slowest_percent, slowest / 1e6 AS slowest_ms
FROM latency_parts
ORDER BY metric, slowest DESC""",
    "streams": """\
SELECT layer, lane, count(*) AS slices, sum(duration) / 1e6 AS busy_ms, max(duration) / 1e6 AS longest_ms
FROM slices
WHERE kind = 'hardware' AND depth = 0
GROUP BY layer, lane
ORDER BY busy_ms DESC""",
    "named": """\
SELECT slice, name, start / 1e6 AS at_ms, duration / 1000 AS us
FROM slices
WHERE name LIKE '%MatMul%' AND kind = 'hardware'
ORDER BY duration DESC
LIMIT 20""",
    "links": """\
SELECT category, count(*) AS links, min(latency) / 1000 AS least_us, median(latency) / 1000 AS median_us,
       max(latency) / 1000 AS most_us
FROM links
GROUP BY category
ORDER BY links DESC""",
}
"""SQL by id, in the order of the gallery."""
