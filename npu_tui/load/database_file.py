"""A profiler database as a file: its header, a connection that reads and nothing else, a private copy where one is due.

A database is as untrusted as a trace: tables are read, never views or virtual tables, whose rows are whatever SQL they
name; a statement that works longer than the size of the file explains is stopped, and so is one at Ctrl+C.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import sys
import tempfile
import threading
import time
from _thread import interrupt_main
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct

from npu_tui.load.errors import InputError
from npu_tui.load.format import SQLITE
from npu_tui.load.unpack import check_room, scratch_folder
from npu_tui.trace.message import Message, message
from npu_tui.trace.side_file import admitted, open_regular

_HEADER = 100  # every database of SQLite begins with so many bytes about itself
_WAL = 2  # the version of its format in which a log lies beside it
_PATIENCE_SECONDS = 1.0  # how long another program may keep it locked
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
        """Whether the file was written to since it was opened."""
        try:
            return header_of(self.path).changes != self.header.changes or self.path.stat().st_size != self.size
        except (OSError, InputError):
            return True


def header_of(path: Path) -> Header:
    """The header of the database at ``path``.

    Raises ``InputError`` if it is no database, ``OSError`` if it cannot be read.
    """
    with open_regular(path) as stream:
        head = stream.read(_HEADER)
    if not head:
        raise InputError(message("input.empty", path=str(path)))
    if not head.startswith(SQLITE):
        if SQLITE.startswith(head[: len(SQLITE)]):
            raise InputError(message("input.db_header", path=str(path), byte=len(head)))
        raise InputError(message("input.db_magic", path=str(path)))
    if len(head) < _HEADER:
        raise InputError(message("input.db_header", path=str(path), byte=len(head)))
    size = int.from_bytes(head[16:18], "big")
    changes = int.from_bytes(head[24:28], "big")
    known = changes == int.from_bytes(head[92:96], "big")  # else an old library wrote it, which kept no page count
    pages = int.from_bytes(head[28:32], "big") if known else 0
    return Header(1 << 16 if size == 1 else size, pages, _WAL in head[18:20], changes)


_idle: dict[tuple[object, ...], Database] = {}
"""Databases that stay open although nothing reads them, by what their files are; the one used last is the last."""
_MOST_IDLE = 2  # that of a profile, and the ``analysis.db`` beside it
_keeping = threading.Lock()


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Database]:
    """The database at ``path``, which stays open for the next caller until the file changes.

    Raises ``InputError`` if there is none that can be read.
    """
    key: tuple[object, ...] = ()
    with contextlib.suppress(OSError):  # said by ``open_database``
        key = os.getpid(), *_state_of(path)
    with _keeping:
        database = _idle.pop(key, None)
    if database is None:
        database = open_database(path)
    else:
        _watched(database.connection, database.size).opened()
    try:
        yield database
    finally:
        with _keeping:
            spare = [_idle.pop(key)] if key in _idle else []
            _idle[key] = database
            spare += [_idle.pop(next(iter(_idle))) for _ in range(len(_idle) - _MOST_IDLE)]
        for other in spare:
            other.close()


def _state_of(path: Path) -> tuple[object, ...]:
    """What differs in the database at ``path`` after a change. Raises ``OSError``."""
    files = [path, *changes_beside(path)]
    told = [os.stat(admitted(file)) for file in files]
    return os.path.abspath(path), *((one.st_ino, one.st_size, one.st_mtime_ns, one.st_ctime_ns) for one in told)


def open_database(path: Path) -> Database:
    """The database at ``path``; the caller closes its connection.

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
            connection = _connected(path, "mode=ro&immutable=1")  # else a log would be made beside it
        else:
            try:
                connection = _connected(path, "mode=ro", 0.0 if path in _locked else _PATIENCE_SECONDS)
                _locked.discard(path)
            except sqlite3.OperationalError:
                _locked.add(path)
                if changes_beside(path):
                    path, copy = _private_copy(path)
                else:
                    notes.append(message("odd.db_locked"))
                connection = _connected(path, "mode=ro&immutable=1")
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
    """The files with changes that are not in the database yet. Raises ``OSError`` if that may not be read."""
    files = [Path(admitted(path.with_name(path.name + suffix))) for suffix in _SIDECARS]
    return [file for file in files if file.is_file() and file.stat().st_size]


def _connected(path: Path, how: str, patience: float = 0.0) -> sqlite3.Connection:
    """Raises ``OperationalError`` if locked for ``patience`` seconds, ``DatabaseError`` for another file."""
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
        connection.execute("PRAGMA trusted_schema=OFF")
        connection.set_authorizer(_allowed)
        if sys.version_info >= (3, 11):
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_CELL)
        watch = _watched(connection, os.path.getsize(path))
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
        watch.opened()
    except BaseException:
        connection.close()
        raise
    return connection


_LONGEST_CELL = 256 << 20  # bytes of a text that SQLite puts together; a piece of a column is a hundredth of it

_STEPS_PER_TICK = 200_000  # steps of the machine of SQLite between two looks at the clock
_FEWEST_STEPS, _STEPS_PER_BYTE = 200_000_000, 40
"""Steps of SQLite's machine: seconds for a small file; a whole database takes 3 a byte."""

_OPENING_SECONDS = 10.0  # for the list of tables, which is read in one go: one of 100,000 tables takes a second

_READS = frozenset(
    (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_PRAGMA,
     sqlite3.SQLITE_TRANSACTION)
)  # fmt: skip


def _allowed(action: int, *_: object) -> int:
    return sqlite3.SQLITE_OK if action in _READS else sqlite3.SQLITE_DENY


class _Watch:
    """Counts the steps of one connection to a file of ``size`` bytes, and stops what goes on for ever."""

    def __init__(self, size: int) -> None:
        self._left = (_FEWEST_STEPS + size * _STEPS_PER_BYTE) // _STEPS_PER_TICK
        self._until: float | None = time.monotonic() + _OPENING_SECONDS

    def opened(self) -> None:
        """The list of tables has been read."""
        self._until = None

    def tick(self) -> int:
        """Called by SQLite; another number than 0 ends its statement."""
        try:
            self._left -= 1
            return int(self._left < 0 or (self._until is not None and time.monotonic() > self._until))
        except KeyboardInterrupt:  # SQLite would lose it: it comes again when the statement has ended
            threading.Timer(0.05, interrupt_main).start()
            self._left = 0
            return 1


def _watched(connection: sqlite3.Connection, size: int) -> _Watch:
    """A new watch on ``connection`` to a file of ``size`` bytes."""
    watch = _Watch(size)
    connection.set_progress_handler(watch.tick, _STEPS_PER_TICK)
    return watch


_copies: dict[tuple[object, ...], tuple[Path, object]] = {}
_places: list[tempfile.TemporaryDirectory[str]] = []
_copying = threading.Lock()
_ABANDONED_SECONDS = 24 * 3600.0  # a copy this old is left from a program that was killed


def _private_copy(path: Path) -> tuple[Path, object]:
    """The database with what lies beside it taken in: one copy for the process, which goes with it.

    Raises ``OSError`` where there is no room.
    """
    with _copying:
        key = _state_of(path)
        if key not in _copies:
            beside = sum(file.stat().st_size for file in changes_beside(path))
            _copies[key] = _copied_database(path, path.stat().st_size + 2 * beside)
        return _copies[key]


def made_in_scratch(needed: int, tables: str, fill: Callable[[sqlite3.Connection], object]) -> tuple[Path, object]:
    """A private database of about ``needed`` bytes, of ``tables`` as SQL that ``fill`` fills, and what keeps it alive.

    Raises ``OSError`` where there is no room, and whatever ``fill`` does.
    """
    place = _scratch(needed)
    path = Path(place.name) / "made.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(f"PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; {tables}")
        fill(connection)
        connection.commit()
    return path, place


def _scratch(needed: int) -> tempfile.TemporaryDirectory[str]:
    folder = scratch_folder()
    _sweep(folder)
    check_room(folder, needed)
    return tempfile.TemporaryDirectory(prefix=_COPIES, dir=folder, ignore_cleanup_errors=True)


def _copied_database(path: Path, needed: int) -> tuple[Path, object]:
    place = _scratch(needed)
    _places.append(place)
    copy = Path(place.name) / "copy.db"
    for file in (path, *changes_beside(path)):
        with open_regular(file) as source, copy.with_name(copy.name + file.name[len(path.name) :]).open("wb") as out:
            shutil.copyfileobj(source, out)
    # What cannot be taken in stays out.
    with contextlib.suppress(sqlite3.DatabaseError), contextlib.closing(sqlite3.connect(copy)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE").fetchone()
    return copy, place


def forget_copies() -> None:
    """Close what is open and remove the private copies, as the process ends."""
    while _idle:
        _idle.popitem()[1].close()
    for place in _places:
        place.cleanup()


_COPIES = "npu-tui-db-"


def _sweep(folder: str) -> None:
    """Remove copies of processes that were ended while they made one."""
    for entry in Path(folder).glob(f"{_COPIES}*"):
        with contextlib.suppress(OSError):
            status = entry.lstat()
            if status.st_uid == os.getuid() and time.time() - status.st_mtime > _ABANDONED_SECONDS:
                shutil.rmtree(entry, ignore_errors=True)


def tables_of(connection: sqlite3.Connection) -> tuple[list[str], int]:
    """The tables that the list of them still names, and how many views there are, which are not read."""
    names: list[str] = []
    views = 0
    try:
        rows = connection.execute(f"SELECT type, name, sql FROM sqlite_master LIMIT {_MOST_TABLES}")
        for kind, name, sql in rows:
            is_table = as_text(sql).lstrip().upper().startswith("CREATE TABLE")
            if kind == b"table" and is_table:
                names.append(as_text(name))
            views += kind == b"view" or (kind == b"table" and not is_table)
    except UNREADABLE:
        pass
    return [name for name in names if name and not name.startswith("sqlite_")], views


_MOST_TABLES = 20_000  # a hostile schema may name any number


def as_text(value: object) -> str:
    """A cell as text; bytes that are no UTF-8 are those of a Chinese locale."""
    if not isinstance(value, bytes):
        return "" if value is None else str(value)
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("gb18030", errors="replace")
