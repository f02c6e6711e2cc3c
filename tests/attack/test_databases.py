"""A database as an attacker writes it: tables are read and nothing else, and no statement goes on for ever."""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from npu_tui.analysis.evidence import incomplete, losses_of
from npu_tui.load import database_file, unpack
from npu_tui.load.database import load_database
from npu_tui.load.database_file import UNREADABLE, open_database, opened
from npu_tui.load.database_rows import DatabaseTables

sys.path.append(str(Path(__file__).resolve().parents[1] / "load" / "database"))

from measured import profile_at
from small import small_database

ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return small_database(tmp_path / "ascend_pytorch_profiler_3.db")


def changed(path: Path, *statements: str) -> Path:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    return path


@pytest.mark.parametrize(
    ("name", "select"),
    [
        ("NPU_INFO", f"{ENDLESS} x AS id, '' AS name FROM c"),
        ("RANK_DEVICE_MAP", f"{ENDLESS} x AS rankId, count(*) AS deviceId FROM c"),
        ("META_DATA", f"{ENDLESS} 'a' || x AS name, hex(zeroblob(50000000)) AS value FROM c LIMIT 40"),
    ],
)
def test_no_view_is_read(path: Path, name: str, select: str) -> None:
    changed(path, f"DROP TABLE IF EXISTS {name}", f"CREATE VIEW {name} AS {select}")
    trace = load_database(path, None)
    assert [warning.code for warning in trace.health.warnings] == ["odd.db_views"]
    assert len(trace.slices)


@pytest.mark.parametrize(
    "damage", ["ALTER TABLE TASK RENAME TO T2", "DELETE FROM TASK WHERE rowid % 2", "DROP TABLE TASK"]
)
def test_tasks_that_are_gone_are_missed(path: Path, damage: str) -> None:
    changed(path, damage)
    health = profile_at(path).health
    assert "odd.db_tasks" in [warning.code for warning in health.warnings]
    assert set(incomplete(losses_of("", health))) == {"slices", "links"}


def test_tables_of_a_module_and_what_recurses_are_refused(path: Path) -> None:
    with opened(path) as database:
        for statement in (f"{ENDLESS} x FROM c", "ATTACH 'other.db' AS other", "DELETE FROM TASK"):
            with pytest.raises(UNREADABLE):
                database.connection.execute(statement).fetchall()


def test_a_table_of_the_same_plain_name_does_not_win(path: Path) -> None:
    slices = len(load_database(path, None).slices)
    changed(path, "CREATE TABLE T_ASK AS SELECT * FROM TASK LIMIT 1")
    assert len(load_database(path, None).slices) == slices


def test_a_statement_without_end_is_stopped(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_file, "_FEWEST_STEPS", 1_000_000)
    changed(path, "CREATE TABLE many (a)", "INSERT INTO many VALUES " + ",".join(["(1)"] * 300))
    with opened(path) as database:
        with pytest.raises(sqlite3.OperationalError, match="interrupted"):
            database.connection.execute("SELECT count(*) FROM many a, many b, many c, many d").fetchall()
        assert DatabaseTables(database).find("TASK") is not None


def wait(seconds: float) -> None:
    for _ in range(int(seconds * 1_000)):  # a signal comes between two steps of Python
        time.sleep(0.001)


def test_ctrl_c_comes_through_a_statement(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def pressed() -> float:
        raise KeyboardInterrupt

    watch = database_file._Watch(0)
    monkeypatch.setattr(database_file, "time", SimpleNamespace(monotonic=pressed))
    assert watch.tick() == 1
    with pytest.raises(KeyboardInterrupt):
        wait(2.0)


def logged(path: Path) -> Path:
    """The database with a write-ahead log beside it that its writer has left."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE later (a)")
    connection.commit()
    content = {suffix: Path(f"{path}{suffix}").read_bytes() for suffix in ("", "-wal")}
    connection.close()
    for suffix, written in content.items():
        Path(f"{path}{suffix}").write_bytes(written)
    return path


def test_one_copy_for_all_that_open_it(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_file, "scratch_folder", lambda: str(tmp_path))
    logged(path)
    databases = [open_database(path) for _ in range(3)]
    assert len({database.path for database in databases}) == 1
    assert all(DatabaseTables(database).find("later") for database in databases)
    for database in databases:
        database.close()
    database_file.forget_copies()
    assert not list(tmp_path.glob("npu-tui*"))


def test_no_copy_without_room(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logged(path)
    full = os.statvfs_result((4096, 4096, 1000, 10, 10, 10, 10, 10, 0, 255))
    monkeypatch.setattr(unpack.os, "statvfs", lambda folder: full)
    with pytest.raises(Exception, match="No space"):
        open_database(path)


def test_pages_that_the_header_makes_believe_are_not_written(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[28:32] = b"\xff\xff\xff\xfe"
    path.write_bytes(content)
    assert load_database(path, None).health.truncated


def test_an_id_has_no_more_numbers_than_a_profiler_writes(path: Path) -> None:
    links = len(load_database(path, None).links)
    rows = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 20000)"
    changed(
        path, f"{rows} INSERT INTO CONNECTION_IDS SELECT 77777, x FROM c", "UPDATE PYTORCH_API SET connectionId = 77777"
    )
    trace = load_database(path, None)
    (warning,) = [warning for warning in trace.health.warnings if warning.code == "odd.db_connections"]
    assert warning.args == {"count": 20_000 - 16}
    assert len(trace.links) <= links + 16 * len(trace.slices)


def test_a_column_that_hides_the_numbers_of_rows(path: Path) -> None:
    slices = len(load_database(path, None).slices)
    changed(path, "ALTER TABLE CANN_API RENAME COLUMN name TO rowid", "UPDATE CANN_API SET rowid = 'abc'")
    trace = load_database(path, None)
    assert 0 < len(trace.slices) < slices
    assert [warning.code for warning in trace.health.warnings] == ["odd.db_tables"]


def test_kernels_without_times_are_no_rows(path: Path) -> None:
    changed(path, "UPDATE TASK SET startNs = 1e400 WHERE rowid % 2", "UPDATE TASK SET endNs = 1 WHERE rowid % 3")
    profile = profile_at(path)
    assert len(profile.kernel_table.duration) > 0
    assert profile.kernel_table.duration.min() >= 0
    assert profile.tables.table("kernel_details").frame["duration"].min() >= 0


@pytest.mark.parametrize("value", ["x'00ff'", "'abc'", "''", "'1,2'", "'--5'"])
def test_cells_that_are_no_numbers_are_damage(value: str, path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute(f"UPDATE TASK SET taskType = {value} WHERE rowid % 2 = 0")
        (count,) = database.execute("SELECT count(*) FROM TASK WHERE rowid % 2 = 0").fetchone()
    health = profile_at(path).health
    told = {warning.code: warning.args for warning in health.warnings}
    if value in ("'1,2'", "'--5'"):  # SQLite takes what a word begins with
        assert "odd.db_cells" not in told
    else:
        assert told["odd.db_cells"] == {"count": count}
        assert set(incomplete(losses_of(str(path), health))) >= {"slices", "links"}
