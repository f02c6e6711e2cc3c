"""Rows of a table as columns: what SQLite gives row by row, whatever its cells are, as far as it is not damaged."""

from __future__ import annotations

import hashlib
import sqlite3
import sys
from pathlib import Path

import numpy as np
import pytest

from npu_tui.load import database_rows as reading
from npu_tui.load.database_file import header_of, opened
from npu_tui.load.database_rows import ABSENT, HIGHEST, LOWEST, DatabaseRows, DatabaseTables

sys.path.append(str(Path(__file__).resolve().parents[2] / "attack"))

from pages import REAL, TABLE, WHOLE, attack, made, read, same, slowly


def checked(path: Path) -> DatabaseRows:
    """The rows of the table in ``path``, which are those that SQLite gives one by one."""
    found = read(path)
    assert found is not None
    rows, damaged = found
    expected, complete = slowly(path)
    assert complete
    assert not damaged
    assert same(rows, expected)
    return rows


@pytest.mark.parametrize("page_bytes", [512, 4096])
@pytest.mark.parametrize("step", [1, 7, 1 << 17])
def test_numbers_of_every_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page_bytes: int, step: int) -> None:
    monkeypatch.setattr(reading, "_STEP", step)
    rows = checked(made(tmp_path / "a.db", 500, page_bytes))
    with sqlite3.connect(tmp_path / "a.db") as connection:
        told = connection.execute(f"SELECT rowid, startNs, share FROM {TABLE} ORDER BY rowid").fetchall()
    assert rows.number.tolist() == [number for number, _, _ in told]
    assert rows["startNs"].tolist() == [time for _, time, _ in told]
    shares = [None if np.isnan(value) else value for value in rows.real("share").tolist()]
    assert shares == [share for _, _, share in told]


def test_columns_that_came_later(tmp_path: Path) -> None:
    later = (f"ALTER TABLE {TABLE} RENAME COLUMN share TO old", f"ALTER TABLE {TABLE} ADD COLUMN share REAL")
    added = (*later, f"INSERT INTO {TABLE} VALUES (1, '2', 99999, 3, 4, 5.5)")
    rows = checked(made(tmp_path / "a.db", 300, 512, statements=added))
    assert np.nansum(rows.real("share")) == 5.5


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
         f"CREATE VIEW {TABLE} AS SELECT *, rowid FROM other"),  # its rows are what SQL says: it is not read
        ("CREATE TABLE other (startNs, text, key PRIMARY KEY, mixed, share) WITHOUT ROWID",
         f"INSERT INTO other SELECT * FROM {TABLE}", f"DROP TABLE {TABLE}", f"ALTER TABLE other RENAME TO {TABLE}"),
        (f"ALTER TABLE {TABLE} ADD COLUMN double AS (2 * startNs)",),
    ],
    ids=["default", "words", "bytes", "long texts", "large numbers", "view", "without row numbers", "computed"],
)  # fmt: skip
def test_unusual_tables_and_cells(tmp_path: Path, statements: tuple[str, ...]) -> None:
    path = made(tmp_path / "a.db", 300, 512, statements=statements)
    if any("WITHOUT ROWID" in statement for statement in statements):
        found = read(path)
        assert found is not None
        rows, damaged = found
        assert (len(rows), damaged) == (0, True)  # there is no number to find a row again
    elif any("VIEW" in statement for statement in statements):
        with opened(path) as database:
            tables = DatabaseTables(database)
            assert (tables.find(TABLE), tables.views) == (None, 1)
    else:
        assert len(checked(path)) > 200


def test_the_lowest_and_the_highest_row_number(tmp_path: Path) -> None:
    statements = tuple(f"INSERT INTO {TABLE} VALUES (1, '2', {key}, 3, 4)" for key in (LOWEST, HIGHEST))
    rows = checked(made(tmp_path / "a.db", 20, 512, statements=statements))
    assert (rows.number[0], rows.number[-1]) == (LOWEST, HIGHEST)


def test_texts_of_two_bytes_a_character(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA encoding = 'UTF-16'")
        connection.execute(f"CREATE TABLE {TABLE} (startNs TEXT)")
        connection.execute(f"INSERT INTO {TABLE} VALUES ('17')")
    assert checked(path)["startNs"].tolist() == [17]


def test_an_empty_table(tmp_path: Path) -> None:
    rows = checked(made(tmp_path / "a.db", 10, 512, statements=(f"DELETE FROM {TABLE}",)))
    assert len(rows) == 0
    assert rows["startNs"].dtype == np.int64
    assert rows.real("share").dtype == np.float64


def test_columns_that_are_not_there(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with sqlite3.connect(path) as connection:
        connection.execute(f"CREATE TABLE {TABLE} (start_ns INTEGER, Key INTEGER)")
        connection.executemany(f"INSERT INTO {TABLE} VALUES (?, ?)", [(k, -k) for k in range(100)])
    with opened(path) as database:
        tables = DatabaseTables(database)
        table = tables.find(TABLE)
        assert table is not None
        rows = tables.read(table, WHOLE, REAL)
    assert rows["startNs"].tolist() == list(range(100))
    assert (rows["text"] == ABSENT).all()
    assert np.isnan(rows.real("share")).all()


def test_damaged_pages(tmp_path: Path) -> None:
    found = attack(tmp_path, 150, 1)
    assert found.different == 0
    assert found.whole > 10
    assert found.part > 10


@pytest.mark.parametrize("step", [10, 1 << 17])
def test_rows_before_the_damage_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    monkeypatch.setattr(reading, "_STEP", step)
    path = tmp_path / "a.db"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA page_size = 512")
        connection.execute(f"CREATE TABLE {TABLE} (startNs INTEGER)")
        connection.executemany(f"INSERT INTO {TABLE} VALUES (?)", [(k,) for k in range(5000)])
    connection.close()
    data = bytearray(path.read_bytes())
    assert data[512 * 30] == 13  # a leaf of the table
    data[512 * 30 : 512 * 31] = bytes([255]) * 512
    path.write_bytes(data)
    found = read(path)
    assert found is not None
    rows, damaged = found
    assert damaged
    assert 1000 < len(rows) < 4000
    assert rows["startNs"].tolist() == list(range(len(rows)))


def test_nobody_writes_while_a_table_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made(tmp_path / "a.db", 2000, 512)
    monkeypatch.setattr(reading, "_STEP", 500)
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    errors = []

    def write() -> None:
        writer = sqlite3.connect(path, timeout=0)
        try:
            with writer:
                writer.execute(f"UPDATE {TABLE} SET startNs = 5")
        except sqlite3.OperationalError as error:
            errors.append(str(error))
        finally:
            writer.close()

    with opened(path) as database:
        tables = DatabaseTables(database)
        tables.advance = lambda share: write()
        table = tables.find(TABLE)
        assert table is not None
        assert (tables.read(table, ("startNs",))["startNs"] != 5).any()
        assert errors == ["database is locked"] * 4
        assert hashlib.sha256(path.read_bytes()).hexdigest() == before
        write()  # nothing is held any longer
        assert (DatabaseTables(database).read(table, ("startNs",))["startNs"] == 5).all()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.db"]
    assert not header_of(path).write_ahead
