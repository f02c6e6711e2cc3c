"""What answers SQL: polars in a process of its own, which may be ended at any time, a line to the one that asks, and
what a query may be: only tables of the profile, a plan that polars can plan, an answer of so many rows.

The tables stay where they are. The process asks for those that a query names, for the columns that polars needs of
them, and for their rows a piece at a time.
"""

from __future__ import annotations

import json
import mmap
import os
import re
import resource
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

from npu_tui.trace.memory import taken_data
from npu_tui.trace.message import Message, SaidError, message
from npu_tui.trace.text import brief

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
