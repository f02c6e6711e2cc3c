"""SQL over the tables: profiles opened for it, and the tables listed.

The process that answers a query is ended where it takes too long or too much, or is not waited for.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, ClassVar, Literal

from msgspec import Struct

from npu_tui.load.errors import InputError, walled
from npu_tui.load.find import find_sources
from npu_tui.output.envelope import Root
from npu_tui.profile.profile import Profile
from npu_tui.profile.table import NAMES, Kind
from npu_tui.query.engine import NO_TABLE, Channel, QueryError, refused, seconds_of
from npu_tui.query.frames import TABLES, ProfileTables
from npu_tui.strings import say
from npu_tui.subjects import subject_at
from npu_tui.trace.memory import free_addresses, free_memory
from npu_tui.trace.message import Message, message
from npu_tui.trace.once import Cancelled
from npu_tui.trace.text import brief, cell_count, padded, printable, wrapped

if TYPE_CHECKING:
    import polars as pl

    from npu_tui.analysis.limits import Thresholds
    from npu_tui.jobs.job import Job
    from npu_tui.jobs.opening import Progress
    from npu_tui.load.format import Form
    from npu_tui.profile.profile import Profile


NEVER = Event()
_MOST_MEMORY = 4 << 30
_TICK_SECONDS = 0.05
"""How often to look whether anything still waits."""
_PROGRAM = """
import sys
sys.path[:] = sys.argv[2:]
from npu_tui.load.polars_door import watch_polars
watch_polars()
from npu_tui.query.engine import serve
serve(int(sys.argv[1]))
"""


class Process:
    """A process that answers one query after another."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        ours.settimeout(_TICK_SECONDS)
        self._line = Channel(ours)
        self._last_words = os.memfd_create("npu-tui")
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-c", _PROGRAM, str(theirs.fileno()), *sys.path],
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=self._last_words,
                pass_fds=[theirs.fileno()], start_new_session=True,
            )  # fmt: skip

    @property
    def is_alive(self) -> bool:
        """Whether it still runs and was not ended from outside."""
        return self._process.poll() is None

    def end(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.communicate()
        self._line.end.close()
        os.close(self._last_words)

    def answer(
        self, tables: ProfileTables, sql: str, limit: int | None, seconds: float, stopped: Event
    ) -> pl.DataFrame | tuple[str, list[str]]:
        """The answer to ``sql``, or what polars says is wrong with it and the tables that it has found.

        Raises ``QueryError`` where it takes longer than ``seconds`` or more memory than half of what is free, and
        ``Cancelled`` once ``stopped`` is set. The process has to be ended after either.
        """
        import polars as pl

        line = self._line
        memory = min(_MOST_MEMORY, free_memory() // 2, free_addresses() // 2)
        until = time.monotonic() + seconds
        scans: dict[int, Iterator[pl.DataFrame]] = {}
        try:
            line.send(limit, memory, frame=pl.DataFrame({"sql": [sql]}))
            while True:
                if stopped.is_set():
                    raise Cancelled
                if time.monotonic() > until:
                    raise QueryError(message("query.too_slow", seconds=seconds))
                try:
                    words, frame = line.hear()
                except TimeoutError:
                    continue
                if words[0] == "table":
                    scan = tables.scan(words[1]) if words[1] in tables.names else None
                    texts = None if scan is None else pl.DataFrame({name: [scan.texts[name]] for name in scan.texts})
                    line.send(None if scan is None else scan.kinds, frame=texts)
                elif words[0] == "rows":
                    number, name, columns, rows = words[1:]
                    if number not in scans:
                        scans[number] = tables.scan(name).frames(columns, rows)
                    line.send(frame=next(scans[number], None))
                else:
                    return (words[1], words[2]) if frame is None else frame
        except (EOFError, ConnectionError):
            raise QueryError(self._why(memory)) from None

    def _why(self, memory: int) -> Message:
        """Why it has ended by itself."""
        code = self._process.wait()
        said = os.pread(self._last_words, 1 << 20, 0)
        if b"memory allocation" in said or b"MemoryError" in said or code == -signal.SIGKILL:
            return message("query.too_large", memory=memory)
        return message("query.broken", code=code)


_idle: list[Process] = []
"""The one that has answered last, kept for the next query."""
os.register_at_fork(after_in_child=_idle.clear)


def begin() -> None:
    """Start a process for the query that is asked next."""
    if not _idle:
        _idle.append(Process())


def answer_in_process(
    tables: ProfileTables, sql: str, limit: int | None, seconds: float, stopped: Event
) -> pl.DataFrame | tuple[str, list[str]]:
    """``Process.answer`` of the one that is idle, or a new one."""
    try:
        process = _idle.pop()
        if not process.is_alive:
            raise IndexError
    except IndexError:
        process = Process()
    try:
        answer = process.answer(tables, sql, limit, seconds, stopped)
    except BaseException:
        process.end()
        raise
    if _idle:
        process.end()
    else:
        _idle.append(process)
    return answer


def opened_tables(
    path: str | Path, thresholds: Thresholds, cached: bool = True, form: Form | None = None
) -> ProfileTables:
    """The tables of what lies at ``path``, nothing read yet that no query needs.

    A folder that holds several ranks has the tables of all of them, and ``ranks``. Raises ``InputError`` if there is
    nothing, or where one profile cannot be read.
    """
    from npu_tui.load.load import opening_of

    opening = opening_of(path, cached, form)
    if subject_at(opening).of_several:
        return job_tables(Path(path), thresholds, cached)
    profile = Profile(opening.trace(), opening.source, thresholds)
    return ProfileTables(lambda: [profile])


def job_tables(
    path: Path, thresholds: Thresholds, cached: bool = True, progress: Progress | None = None
) -> ProfileTables:
    """The tables of all ranks in the folder ``path``, read when a query needs them; ``progress`` as for the job.

    Ranks that break are left out.
    """
    left_out: list[Message] = []

    def profiles() -> list[Profile]:
        from npu_tui.jobs.kept import is_kept
        from npu_tui.load.load import opening_of

        if is_kept(path):  # no profile is here
            return []
        ranks, broken = [], []
        for source in find_sources(path):
            try:
                with walled(source.path):
                    opening = opening_of(source.path, cached)
                    ranks.append(Profile(opening.trace(), opening.source, thresholds))
            except InputError as error:
                broken.append(error)
        if broken and not ranks:
            raise broken[0]
        left_out.extend(message("query.left_out", why=error.message) for error in broken)
        return sorted(ranks, key=lambda rank: (rank.trace.rank is None, rank.trace.rank or 0, rank.path))

    def job() -> Job:
        from npu_tui.jobs.opening import open_job

        return open_job(path, progress=progress)

    return ProfileTables(profiles, job, left_out)


_NO_COLUMN = re.compile(r"""unable to find column "(.+?)"|no column named '(.+?)' found""", re.DOTALL)
_VALID = re.compile(r"valid columns: \[(.*?)\]", re.DOTALL)
_NO_FUNCTION = re.compile(r"unsupported function '(.+?)'", re.DOTALL)
_IN_FRONT = re.compile(r"(?:\s+|--[^\n]*(?:\n|$)|/\*.*?\*/|\()*", re.DOTALL)
_STATEMENTS = ("select", "with", "from", "explain", "show", "values")
_MOST_NAMES = 12
"""Columns up to which all are listed where one is unknown; if there are more, the ``_NEAREST`` ones."""
_NEAREST = 6
_LONGEST = 300


def query(
    tables: ProfileTables, sql: str, limit: int | None = None, seconds: float | None = None, stopped: Event = NEVER
) -> pl.DataFrame:
    """The answer to ``sql``, at most ``limit`` rows of it; only the tables and columns that it names are made.

    Raises ``QueryError`` for a wrong query, an unknown name, one that reads anything but the tables, takes longer than
    ``seconds`` (by default ``seconds_of`` it) or needs too much memory, ``InputError`` where a table needs the file of
    the trace and that is gone, ``Cancelled`` once ``stopped`` is set.
    """
    if why := refused(sql):
        raise QueryError(why)
    word = sql[_IN_FRONT.match(sql).end() :].split(None, 1)  # type: ignore[union-attr]
    if not word or word[0].lower().rstrip("(;") not in _STATEMENTS:
        raise QueryError(message("query.no_select", word=brief(word[0], 40) if word else ""))
    answer = answer_in_process(tables, sql, limit, seconds or seconds_of(sql), stopped)
    if isinstance(answer, tuple):
        raise QueryError(_polars_error(*answer, tables))
    return answer


def _polars_error(text: str, known: Iterable[str], tables: ProfileTables) -> Message:
    """What polars says in one line, names with the nearest ones there are."""
    if match := NO_TABLE.search(text):
        return no_table(match[1], tables).message
    if match := _NO_COLUMN.search(text):
        valid = _VALID.search(text)
        valid_names = re.findall(r'"((?:[^"\\]|\\.)*)"', valid[1]) if valid else []
        columns = valid_names or [column for table in known for column in tables.columns(table)]
        if not columns:  # such as "SELECT start, end FROM slices", which SQL ends in front of the keyword
            return message("query.no_from")
        return _unknown("query.no_column", match[1] or match[2], columns)
    if match := _NO_FUNCTION.search(text):
        return message("query.no_function", name=brief(match[1], 60))
    line = printable(next((line for line in text.splitlines() if line.strip()), ""))
    return message("query.wrong", why=brief(line.removeprefix("sql parser error: "), _LONGEST))


def no_table(name: str, tables: ProfileTables) -> QueryError:
    """What is said of a table ``name`` that is not there."""
    return QueryError(_unknown("query.no_table", name, tables.names))


def _unknown(code: str, name: str, names: Iterable[str]) -> Message:
    """``name`` is not one of ``names``: the nearest one, else all of them, of many columns those most like it."""
    names = list(dict.fromkeys(names))
    lowered = {known.lower(): known for known in names}
    near = get_close_matches(name.lower(), lowered, 1, 0.6)
    shown = brief(name, 60)
    if near:
        return message(f"{code}.near", name=shown, near=lowered[near[0]])
    if code != "query.no_column" or len(names) <= _MOST_NAMES:
        return message(code, name=shown, names=", ".join(names))
    word = name.lower()
    parts = set(word.split("_"))
    alike = [known for known in lowered if word in known or known in word or parts & set(known.split("_"))]
    alike += [close for close in get_close_matches(word, lowered, _NEAREST, 0.0) if close not in alike]
    nearest = ", ".join(lowered[candidate] for candidate in alike[:_NEAREST])
    return message("query.no_column.several", name=shown, names=nearest, count=len(names))


_WIDTH = 118


def listing_text(names: Iterable[str]) -> str:
    """The tables ``names`` with their columns and units, in lines."""
    lines: list[str] = []
    for name in names:
        columns = ", ".join(f"{column.id}[{column.unit}]" if column.unit else column.id for column in TABLES[name].sql)
        lines += ["", f"{name}: {about(name)}", *wrapped(columns, _WIDTH, "    ", "    ")]
    return "\n".join(lines[1:]) + "\n"


def about(table: str) -> str:
    """What the rows of ``table`` are."""
    return say(f"tables.{table}")


def described_columns(name: str, kinds: Mapping[str, Kind]) -> list[tuple[str, str, str, str]]:
    """The columns ``kinds`` of the table ``name``: what they are called, their types, units and what they mean."""
    known = {column.id: column for column in TABLES[name].sql}
    rows = []
    for column, kind in kinds.items():
        declared = known.get(column)  # None for a column of a file beside the trace
        unit, meaning = (declared.unit, say(declared.about)) if declared else ("", say("query.from_file"))
        rows.append((column, NAMES[kind], unit, meaning))
    return rows


def table_listing(name: str, kinds: Mapping[str, Kind]) -> str:
    """What every column of the table ``name`` means, with type and unit, in lines; ``kinds`` are its columns."""
    rows = described_columns(name, kinds)
    widths = [max(cell_count(row[k]) for row in rows) for k in range(3)]
    lines = [f"{name}: {about(name)}", ""]
    for row in rows:
        cells = [padded(cell, width) for cell, width in zip(row, widths, strict=False)]
        lines.append("  ".join(["  " + cells[0], cells[1], cells[2], row[3]]).rstrip())
    return "\n".join(lines) + "\n"


class ListedColumn(Struct, frozen=True):
    """A column of a table, its type in polars, and its unit, None where it has none."""

    name: str
    type: str
    unit: str | None
    about: str


class ListedTable(Struct, frozen=True):
    """A table, and what its rows are."""

    table: str
    about: str
    columns: list[ListedColumn]


class Listed(Root, frozen=True):
    """The tables of a profile."""

    ALONE: ClassVar = "tables"
    ON_ONE_LINE: ClassVar = True

    tables: list[ListedTable]
    schema_version: Literal[2] = 2
    kind: Literal["tables"] = "tables"


def listed_tables(names: Iterable[str]) -> Listed:
    """The tables ``names`` for JSON."""
    return Listed(
        [
            ListedTable(
                name,
                about(name),
                [
                    ListedColumn(column.id, column.type, column.unit or None, say(column.about))
                    for column in TABLES[name].sql
                ],
            )
            for name in names
        ]
    )
