"""A database to a Trace."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from pathlib import Path

from npu_tui.ingest.build.trace import build_trace
from npu_tui.ingest.database.args import DatabaseArgs
from npu_tui.ingest.database.collectives import read_collectives
from npu_tui.ingest.database.connect import Database, open_database
from npu_tui.ingest.database.connections import Connections
from npu_tui.ingest.database.counters import read_counters
from npu_tui.ingest.database.device import read_device
from npu_tui.ingest.database.host import read_host
from npu_tui.ingest.database.links import read_links
from npu_tui.ingest.database.overlap import read_overlap
from npu_tui.ingest.database.rows import Tables
from npu_tui.ingest.database.texts import Texts
from npu_tui.ingest.database.whole import Whole
from npu_tui.ingest.errors import Cancelled, InputError
from npu_tui.trace.model import EventFile, Health, Trace

Progress = Callable[[int, int, int], bool]

_MINDSPORE = "ascend_mindspore_profiler"
_LISTED = 4


def load_database(path: Path, rank: int | None, progress: Progress) -> Trace:
    """The trace in the database at ``path``; ``rank`` counts where it is known already.

    ``progress`` is called with (bytes read, bytes in all, slices and samples so far). Raises ``InputError`` if the
    database cannot be read or holds no event, ``Cancelled`` if ``progress`` returns False.
    """
    database = open_database(path)
    try:
        return _read(path, database, rank, progress)
    finally:
        database.connection.close()


def _read(path: Path, database: Database, rank: int | None, progress: Progress) -> Trace:
    tables = Tables(database)
    whole = Whole(tables)
    done = 0

    def report(share: float) -> None:
        nonlocal done
        done = max(done, int(database.size * share))
        if not progress(done, database.size, whole.gathered.count):
            raise Cancelled

    report(0.0)
    texts = Texts(tables)
    connections = Connections(tables)
    report(0.1)
    host = read_host(tables, texts, whole, connections, "MindSpore" if path.name.startswith(_MINDSPORE) else "Python")
    report(0.7)
    tasks = read_device(tables, texts, whole)
    collectives = read_collectives(tables, texts, whole, tasks)
    report(0.9)
    read_overlap(tables, whole, tasks, collectives)
    read_counters(tables, texts, whole)
    read_links(whole, host, connections, tasks, collectives)
    report(1.0)
    if not whole.gathered.count:
        raise InputError(_empty(path, tables))
    health = Health(truncated=database.cut)
    health.warnings += database.notes + _losses(tables, texts)
    if database.copy is None and database.changed():
        health.warnings.append("the database was written to while it was read: open it again when it is finished")
    file = EventFile(str(database.path), database.size, database.copy)
    if rank is None:
        rank = _rank(tables, path)
    trace = build_trace(whole.gathered, str(path), (file,), rank, health)
    trace.args = DatabaseArgs(trace.path, file, trace.chunks)
    return trace


def _losses(tables: Tables, texts: Texts) -> list[str]:
    """Sentences on what of the database could not be read."""
    words = []
    if tables.lost:
        parts = [f"{count:,} of {name}" for name, count in sorted(tables.lost.items(), key=lambda one: -one[1])]
        more = f" and {len(parts) - _LISTED} other tables" if len(parts) > _LISTED else ""
        words.append(f"the database is damaged: rows that cannot be read: {', '.join(parts[:_LISTED])}{more}")
    if tables.unreadable:
        names = list(dict.fromkeys(tables.unreadable))
        more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
        words.append(f"the database is damaged: tables that cannot be read: {', '.join(names[:_LISTED])}{more}")
    if texts.missing:
        words.append(f"{len(texts.missing):,} names are not in STRING_IDS: they are shown as numbers")
    return words


def _empty(path: Path, tables: Tables) -> str:
    if tables.database.cut:
        return f"{path}: byte {tables.database.size}: the database is cut off before its first event; copy it again"
    if tables.find("StepTraceTime", "CommAnalyzerTime"):
        return f"{path}: statistics without a timeline; give the profile directory or its ascend_pytorch_profiler_*.db"
    return f"{path}: no table of the profiler with an event in this database; profile again"


def _rank(tables: Tables, path: Path) -> int | None:
    """The rank that the database names, else the one in its file name; None without either."""
    table = tables.find("RANK_DEVICE_MAP")
    try:
        named = [row[0] for row in tables.cells(table, "rankId")] if table else []
    except sqlite3.DatabaseError:
        named = []
    ranks = [rank for rank in named if isinstance(rank, int) and rank >= 0]
    if ranks:
        return ranks[0]
    match = re.search(r"_(\d{1,5})\.db$", path.name)
    return int(match[1]) if match and not path.name.startswith("msprof_") else None
