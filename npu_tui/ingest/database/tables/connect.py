"""A database opened for reading and nothing else: no byte of it, no time stamp and no file beside it changes."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct

from npu_tui.ingest.errors import InputError
from npu_tui.ingest.source.scratch import scratch_folder
from npu_tui.trace.message import Message, message

MAGIC = b"SQLite format 3\0"
_HEADER = 100
_WAL = 2
_PATIENCE_SECONDS = 1.0
_locked: set[Path] = set()
"""What was locked when it was last opened: a file is opened many times, and waited for once."""

_SIDECARS = ("-wal", "-journal")

UNREADABLE = (sqlite3.DatabaseError, MemoryError)
"""What SQLite raises for a damaged page; where one makes believe that a row is huge, memory is said to be out."""


class Header(Struct, frozen=True):
    """What the first 100 bytes say (https://www.sqlite.org/fileformat.html, 1.3).

    ``pages`` is 0 where the writer did not keep it.
    """

    page_bytes: int
    pages: int
    write_ahead: bool
    changes: int

    @property
    def size(self) -> int:
        """How long the whole file is, in bytes; 0 where it does not say."""
        return self.page_bytes * self.pages


class Database(Struct):
    """An open ``connection`` to the file at ``path``; ``notes`` are whole sentences on what was in the way.

    ``copy`` keeps a private copy alive, where changes that lie beside the file had to be taken in first.
    """

    path: Path
    connection: sqlite3.Connection
    header: Header
    size: int
    notes: list[Message] = []
    copy: object = None

    def close(self) -> None:
        """Close the file."""
        self.connection.close()

    @property
    def cut(self) -> bool:
        """Whether the file is shorter than its header says."""
        return self.size < self.header.size

    def changed(self) -> bool:
        """Whether somebody wrote to the file since it was opened."""
        try:
            return header_of(self.path).changes != self.header.changes or self.path.stat().st_size != self.size
        except (OSError, InputError):
            return True


def header_of(path: Path) -> Header:
    """The header of the database at ``path``.

    Raises ``InputError`` if it is none, ``OSError`` if it cannot be read.
    """
    with path.open("rb", buffering=0) as stream:
        head = stream.read(_HEADER)
    if not head:
        raise InputError(message("input.empty", path=str(path)))
    if not head.startswith(MAGIC):
        if MAGIC.startswith(head[: len(MAGIC)]):
            raise InputError(message("input.db_header", path=str(path), byte=len(head)))
        raise InputError(message("input.db_magic", path=str(path)))
    if len(head) < _HEADER:
        raise InputError(message("input.db_header", path=str(path), byte=len(head)))
    size = int.from_bytes(head[16:18], "big")
    changes = int.from_bytes(head[24:28], "big")
    known = changes == int.from_bytes(head[92:96], "big")  # else an old library wrote it, which kept no page count
    pages = int.from_bytes(head[28:32], "big") if known else 0
    return Header(1 << 16 if size == 1 else size, pages, _WAL in head[18:20], changes)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Database]:
    """The database at ``path``, closed at the end. Raises ``InputError`` if there is none that can be read."""
    database = open_database(path)
    try:
        yield database
    finally:
        database.close()


def open_database(path: Path) -> Database:
    """The database at ``path``; whoever opens it closes its connection.

    What a writer left beside it (a write-ahead log, a journal to be rolled back) is taken in from a private copy. A
    database that is locked is read as it lies on disk, and so is one that is cut off, as far as it goes. Raises
    ``InputError`` if there is none that can be read.
    """
    given = path
    try:
        header, size = header_of(path), path.stat().st_size
        copy: object = None
        notes: list[Message] = []
        if size < header.size:
            connection = _connected(path, "mode=ro&immutable=1")
        elif header.write_ahead:
            if changes_beside(path):
                path, copy = _private_copy(path)
                connection = _connected(path, "mode=rw")
            else:
                connection = _connected(path, "mode=ro&immutable=1")  # else a log would be made beside it
        else:
            try:
                connection = _connected(path, "mode=ro", 0.0 if path in _locked else _PATIENCE_SECONDS)
                _locked.discard(path)
            except sqlite3.OperationalError:
                _locked.add(path)
                if changes_beside(path):
                    path, copy = _private_copy(path)
                    connection = _connected(path, "mode=rw")
                else:
                    connection = _connected(path, "mode=ro&immutable=1")
                    notes.append(message("odd.db_locked"))
        return Database(path, connection, header, size, notes, copy)
    except sqlite3.DatabaseError as error:
        raise InputError(message("input.db_tables", path=str(given), why=str(error))) from error
    except OSError as error:
        raise InputError(message("input.db_unreadable", path=str(given), why=error.strerror or str(error))) from error


def is_whole(path: Path) -> bool:
    """Whether the file at ``path`` is all of a database: not cut off, and nothing beside it still to be taken in."""
    try:
        return path.stat().st_size >= header_of(path).size and not changes_beside(path)
    except (OSError, InputError):
        return False


def changes_beside(path: Path) -> list[Path]:
    """The files with changes that are not in the database yet. Raises ``OSError`` if nobody may look."""
    files = [path.with_name(path.name + suffix) for suffix in _SIDECARS]
    return [file for file in files if file.is_file() and file.stat().st_size]


def _connected(path: Path, how: str, patience: float = 0.0) -> sqlite3.Connection:
    """Raises ``OperationalError`` where it is locked for ``patience`` seconds, ``DatabaseError`` where it is none."""
    connection = sqlite3.connect(
        f"file:{quote(os.path.abspath(path))}?{how}",
        uri=True,
        timeout=patience,
        check_same_thread=False,
        isolation_level=None,
    )
    try:
        connection.text_factory = bytes
        connection.execute("PRAGMA writable_schema=ON")  # else one damaged table, or a cut, hides all others
        connection.execute("PRAGMA query_only=ON")
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _private_copy(path: Path) -> tuple[Path, object]:
    """The database with what lies beside it in a folder of our own, which goes with the object returned."""
    folder = tempfile.TemporaryDirectory(prefix="npu-tui-", dir=scratch_folder(), ignore_cleanup_errors=True)
    copy = Path(folder.name) / path.name
    shutil.copyfile(path, copy)
    for file in changes_beside(path):
        shutil.copyfile(file, Path(folder.name) / file.name)
    return copy, folder
