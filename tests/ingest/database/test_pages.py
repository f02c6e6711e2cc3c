"""Rows read from the pages of a database are those that SQLite reads, or SQLite reads them."""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import sys
from pathlib import Path

import numpy as np
import pytest

from npu_tui.ingest.database.pages.tree import Leaves, UnusualError, leaves_of
from npu_tui.ingest.database.tables.connect import open_database, opened
from npu_tui.ingest.database.tables.paged import read_pages
from npu_tui.ingest.database.tables.pieces import Walk
from npu_tui.ingest.database.tables.rows import Rows, Tables
from npu_tui.ingest.database.tables.stacks import marked
from npu_tui.ingest.scanner.chains import stack_marks
from npu_tui.ingest.scanner.library import library

sys.path.append(str(Path(__file__).resolve().parents[2] / "attack"))

from pages import REAL, TABLE, WHOLE, Outcome, attack, both, made, same

pytestmark = pytest.mark.skipif(library() is None, reason="no compiled library for this machine")


@pytest.mark.parametrize("page_bytes", [512, 1024, 4096, 65536])
def test_numbers_of_every_kind(tmp_path: Path, page_bytes: int) -> None:
    found = both(made(tmp_path / "a.db", 2000, page_bytes))
    assert found is not None
    usual, alone, paged = found
    assert paged
    assert same(usual, alone)
    with sqlite3.connect(tmp_path / "a.db") as connection:
        rows = connection.execute(f"SELECT rowid, startNs, share FROM {TABLE} ORDER BY rowid").fetchall()
    assert usual.number.tolist() == [number for number, _, _ in rows]
    assert usual["startNs"].tolist() == [time for _, time, _ in rows]
    told = [None if np.isnan(value) else value for value in usual.real("share").tolist()]
    assert told == [share for _, _, share in rows]


def test_columns_that_came_later(tmp_path: Path) -> None:
    later = (f"ALTER TABLE {TABLE} RENAME COLUMN share TO old", f"ALTER TABLE {TABLE} ADD COLUMN share REAL")
    added = (*later, f"INSERT INTO {TABLE} VALUES (1, '2', 99999, 3, 4, 5.5)")
    found = both(made(tmp_path / "a.db", 300, 512, statements=added))
    assert found is not None
    usual, alone, paged = found
    assert paged
    assert same(usual, alone)
    assert np.nansum(usual.real("share")) == 5.5


@pytest.mark.parametrize(
    "statements",
    [
        (f"ALTER TABLE {TABLE} ADD COLUMN later INTEGER DEFAULT 7", f"ALTER TABLE {TABLE} RENAME COLUMN startNs TO x",
         f"ALTER TABLE {TABLE} RENAME COLUMN later TO startNs"),
        (f"UPDATE {TABLE} SET text = 'word' WHERE key % 50 = 1",),
        (f"UPDATE {TABLE} SET mixed = x'0102' WHERE key % 50 = 1",),
        (f"UPDATE {TABLE} SET text = '{'1' * 600}' WHERE key % 50 = 1",),
        (f"UPDATE {TABLE} SET text = '99999999999999999999' WHERE key % 50 = 1",),
        (f"CREATE TABLE other AS SELECT * FROM {TABLE}", f"DROP TABLE {TABLE}",
         f"CREATE VIEW {TABLE} AS SELECT *, rowid FROM other"),
        ("CREATE TABLE other (startNs, text, key PRIMARY KEY, mixed, share) WITHOUT ROWID",
         f"INSERT INTO other SELECT * FROM {TABLE}", f"DROP TABLE {TABLE}", f"ALTER TABLE other RENAME TO {TABLE}"),
        (f"ALTER TABLE {TABLE} ADD COLUMN double AS (2 * startNs)",),
    ],
    ids=["default", "words", "bytes", "long texts", "large numbers", "view", "without row numbers", "computed"],
)  # fmt: skip
def test_what_is_unusual_is_left_to_sqlite(tmp_path: Path, statements: tuple[str, ...]) -> None:
    found = both(made(tmp_path / "a.db", 300, 512, statements=statements))
    assert found is not None
    usual, alone, paged = found
    assert not paged
    assert same(usual, alone)


def test_texts_of_two_bytes_a_character_are_left_to_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA encoding = 'UTF-16'")
        connection.execute(f"CREATE TABLE {TABLE} (startNs TEXT)")
        connection.execute(f"INSERT INTO {TABLE} VALUES ('17')")
    with opened(path) as database:
        assert database.pages is None


def test_an_empty_table(tmp_path: Path) -> None:
    found = both(made(tmp_path / "a.db", 10, 512, statements=(f"DELETE FROM {TABLE}",)))
    assert found is not None
    usual, _, paged = found
    assert paged
    assert len(usual) == 0
    assert usual["startNs"].dtype == np.int64


@pytest.mark.parametrize("seed", [1, 2])
def test_damaged_pages(tmp_path: Path, seed: int) -> None:
    found = attack(tmp_path, 150, seed)
    assert found.different == 0
    assert found.paged > 10
    assert found.refused > 50
    assert found != Outcome()


def test_a_tree_that_leads_in_a_circle(tmp_path: Path) -> None:
    path = made(tmp_path / "a.db", 2000, 512)
    with opened(path) as database:
        assert database.pages is not None
        query = "SELECT rootpage FROM sqlite_master WHERE name = ?"
        (root,) = database.connection.execute(query, (TABLE,)).fetchone()
        leaves = leaves_of(database.pages, root)
    data = bytearray(path.read_bytes())
    at = (root - 1) * 512
    assert data[at] == 5
    data[at + 8 : at + 12] = root.to_bytes(4, "big")  # its last child is itself
    path.write_bytes(data)
    with opened(path) as database:
        assert database.pages is not None
        with pytest.raises(UnusualError):
            leaves_of(database.pages, root)
        assert read_pages(database, TABLE, [("startNs", np.int64)], lambda count: None) is None
    assert len(leaves) > 50


@pytest.mark.parametrize("number", [0, 0xFF], ids=["too low", "too high"])
@pytest.mark.parametrize("rows", [800, 40_000])
def test_rows_on_all_other_pages_are_read_beside_a_damaged_row_number(tmp_path: Path, rows: int, number: int) -> None:
    path = made(tmp_path / "a.db", rows, 512)
    leaves, _ = _pages(path)
    whole = _read(path)[0]
    data = bytearray(path.read_bytes())
    page = (int(leaves.page[len(leaves) // 2]) - 1) * 512
    cells = int.from_bytes(data[page + 3 : page + 5], "big")
    cell = page + int.from_bytes(data[page + 10 : page + 12], "big")  # the second one
    assert data[cell] < 128 <= data[cell + 1]  # the size of the row is one byte, its number more
    if number:
        data[cell + 1] = number
    else:
        data[cell + 1 : cell + 3] = b"\x80\x01"
    path.write_bytes(data)
    found, lost = _read(path)
    assert lost == len(whole) - len(found) <= cells
    middle = len(leaves) // 2
    elsewhere = (whole.number <= leaves.below[middle]) | (whole.number > leaves.highest[middle])
    others = whole.where(elsewhere & (whole.number != 1))
    found = found.where(np.argsort(found.number, kind="stable"))
    found = found.where(np.searchsorted(found.number, others.number))
    assert same(found, others)


def test_a_damaged_number_above_the_rows_loses_none(tmp_path: Path) -> None:
    path = made(tmp_path / "a.db", 800, 512)
    _, root = _pages(path)
    whole = _read(path)[0]
    data = bytearray(path.read_bytes())
    page = (root - 1) * 512
    cell = page + int.from_bytes(data[page + 12 : page + 14], "big")
    assert data[page] == 5
    data[cell + 4] ^= 2  # the number after the page's own
    path.write_bytes(data)
    found, lost = _read(path)
    assert lost == 0
    assert np.array_equal(found.number, whole.number)


def _pages(path: Path) -> tuple[Leaves, int]:
    query = "SELECT rootpage FROM sqlite_master WHERE name = ?"
    with opened(path) as database:
        assert database.pages is not None
        (root,) = database.connection.execute(query, (TABLE,)).fetchone()
        return leaves_of(database.pages, root), root


def _read(path: Path) -> tuple[Rows, int]:
    with opened(path) as database:
        tables = Tables(database)
        table = tables.find(TABLE)
        assert table is not None
        found = tables.read(table, WHOLE, REAL)
        assert not tables.unreadable
        return found, tables.lost.get(TABLE, 0)


def test_nobody_writes_while_pages_are_read(tmp_path: Path) -> None:
    path = made(tmp_path / "a.db", 2000, 512)
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    errors = []

    def write(count: int) -> None:
        writer = sqlite3.connect(path, timeout=0)
        try:
            with writer:
                writer.execute(f"UPDATE {TABLE} SET startNs = 5")
        except sqlite3.OperationalError as error:
            errors.append(str(error))
        finally:
            writer.close()

    with opened(path) as database:
        columns = read_pages(database, TABLE, [("startNs", np.int64)], write)
        assert columns is not None
        assert (columns[1] != 5).any()
        assert errors == ["database is locked"] * len(errors)
        assert errors
        assert hashlib.sha256(path.read_bytes()).hexdigest() == before
        write(0)  # nothing is held any longer
        assert (Tables(database).read(Tables(database).find(TABLE), ("startNs",))["startNs"] == 5).all()  # type: ignore[arg-type]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.db"]


def test_a_log_beside_it_is_read_from_pages_too(tmp_path: Path) -> None:
    path = made(tmp_path / "a.db", 500, 512)
    writer = sqlite3.connect(path)
    writer.execute("PRAGMA journal_mode = WAL")
    with writer:
        writer.execute(f"UPDATE {TABLE} SET startNs = 5 WHERE key % 2 = 0")
    folder = tmp_path / "left"
    folder.mkdir()
    for file in tmp_path.glob("a.db*"):
        shutil.copy(file, folder)
    writer.close()
    contents = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert contents["a.db-wal"]
    found = both(folder / "a.db")
    assert found is not None
    usual, alone, paged = found
    assert paged
    assert same(usual, alone)
    assert np.count_nonzero(usual["startNs"] == 5) > 100
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == contents


def test_a_row_that_pretends_to_be_huge_is_lost_alone(tmp_path: Path) -> None:
    """SQLite says that memory is out where a damaged page asks for too much."""
    taken: list[int] = []

    def take(low: int, high: int) -> int:
        if low <= 50 <= high:
            raise MemoryError
        taken.extend(range(low, high + 1))
        return high - low + 1

    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.execute(f"CREATE TABLE {TABLE} (startNs INTEGER)")
        connection.executemany(f"INSERT INTO {TABLE} VALUES (?)", [(k,) for k in range(100)])
        walk = Walk(connection, TABLE, take)
        walk.go()
    assert walk.lost == 1
    assert taken == [*range(1, 50), *range(51, 101)]


def test_columns_of_the_same_name_in_two_cases(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with sqlite3.connect(path) as connection:
        connection.execute(f"CREATE TABLE {TABLE} (start_ns INTEGER, Key INTEGER)")
        connection.executemany(f"INSERT INTO {TABLE} VALUES (?, ?)", [(k, -k) for k in range(100)])
    found = both(path)
    assert found is not None
    usual, alone, paged = found
    assert paged
    assert same(usual, alone)
    assert usual["startNs"].tolist() == list(range(100))
    assert (WHOLE[1] in usual.columns, REAL[0] in usual.columns) == (True, True)


def test_stacks_have_the_same_numbers_both_ways() -> None:
    compiled = library()
    assert compiled is not None
    chance = np.random.default_rng(5)
    chain = np.sort(chance.integers(0, 3000, 10_000))
    frame = chance.integers(0, 1 << 60, 10_000)
    first = np.flatnonzero(np.diff(chain, prepend=-1))
    depth = np.arange(len(chain)) - np.repeat(first, np.diff(first, append=len(chain)))
    found = stack_marks(compiled, chain, frame, depth)
    assert found is not None
    for one, other in zip(found, marked(chain, frame), strict=True):
        assert np.array_equal(one, other)
    assert stack_marks(compiled, chain[::-1], frame, depth) is None
    assert stack_marks(compiled, chain, frame, depth[::-1]) is None


def test_the_file_is_closed_with_its_database(tmp_path: Path) -> None:
    database = open_database(made(tmp_path / "a.db", 10, 512))
    assert database.pages is not None
    descriptor = database.pages.descriptor
    database.close()
    assert database.pages is None
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
