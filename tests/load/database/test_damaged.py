"""Databases that are damaged, locked, being written, or of another schema: what is readable is read."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from small import SMALL, small_database

from npu_tui.load import copy as cache
from npu_tui.load.database import load_database
from npu_tui.load.database_file import header_of, open_database
from npu_tui.load.errors import InputError
from npu_tui.load.find import find_source
from npu_tui.load.load import load
from npu_tui.trace.model import Trace


def of(database: Path) -> Trace:
    """The trace in ``database``."""
    return load_database(database, None)


def told(trace: Trace) -> int:
    """How many slices the database tells; those of the overlap analysis are computed."""
    own = (lane for lane in trace.file_lanes if trace.layers[lane.layer].kind != "overlap")
    return sum(lane.last - lane.first for lane in own)


def readable(database: Path) -> Trace | None:
    """The trace in ``database``; None if it is refused, in one line."""
    try:
        return of(database)
    except InputError as error:
        refused = error.message
    codes = ("cut", "tables", "header", "magic", "nothing")
    assert refused.code in ("input.empty", *(f"input.db_{code}" for code in codes))
    assert refused.args["path"] == str(database)
    return None


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A small database, alone in a folder."""
    folder = tmp_path / "profile"
    folder.mkdir()
    return small_database(folder / "ascend_pytorch_profiler_3.db")


def listing(folder: Path) -> dict[str, tuple[str, int, int]]:
    """Every file of ``folder`` with its checksum, time of change and size."""
    found = {}
    for file in sorted(folder.iterdir()):
        status = file.stat()
        found[file.name] = (hashlib.sha256(file.read_bytes()).hexdigest(), status.st_mtime_ns, status.st_size)
    return found


def changed(database: Path, *statements: str) -> None:
    """Run ``statements`` in ``database``."""
    connection = sqlite3.connect(database)
    connection.execute("PRAGMA synchronous = OFF")
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def test_the_small_one_is_whole(database: Path) -> None:
    trace = of(database)
    assert told(trace) == SMALL["slices"]
    assert trace.rank == 3
    assert not trace.health.warnings
    assert {trace.link_categories[code] for code in trace.links.category} == {
        "HostToDevice",
        "async_npu",
        "async_task_queue",
    }


def test_cut_off(database: Path) -> None:
    data = database.read_bytes()
    for part in range(20):
        database.write_bytes(data[: len(data) * part // 20])
        before = listing(database.parent)
        trace = readable(database)
        if trace is not None:
            assert 0 < told(trace) <= SMALL["slices"], part
            assert trace.health.truncated, part
            for lane in trace.file_lanes[:4]:  # what is left can be asked for
                trace.args.one(int(trace.slices.event[lane.first]))
        assert listing(database.parent) == before, part


def test_overwritten_in_the_middle(database: Path) -> None:
    whole = database.read_bytes()
    for part in range(20):
        data = bytearray(whole)
        at = len(data) * part // 20
        data[at : at + 3000] = bytes(255 - k % 256 for k in range(min(3000, len(data) - at)))
        database.write_bytes(data)
        trace = readable(database)
        assert trace is None or told(trace) <= SMALL["slices"], part


def test_nearly_all_is_read_of_one_that_lacks_its_last_page(database: Path) -> None:
    os.truncate(database, database.stat().st_size - 1)
    trace = of(database)
    assert SMALL["slices"] * 0.8 < told(trace)
    assert trace.health.truncated


NO_DATABASE = {
    "empty": (b"", "input.empty"),
    "part of the magic": (b"SQLite", "input.db_header"),
    "part of the header": (b"SQLite format 3\0" + bytes(20), "input.db_header"),
    "encrypted": (hashlib.sha512(b"key").digest() * 64, "input.db_magic"),
    "text": (b"[{}]" * 100, "input.db_magic"),
    "zeros": (b"SQLite format 3\0" + bytes(4000), "input.db_tables"),
}


@pytest.mark.parametrize("kind", NO_DATABASE)
def test_no_database(tmp_path: Path, kind: str) -> None:
    content, expected = NO_DATABASE[kind]
    path = tmp_path / "ascend_pytorch_profiler_0.db"
    path.write_bytes(content)
    with pytest.raises(InputError) as refused:
        load(path)
    assert refused.value.message.code == expected
    assert refused.value.message.args["path"] == str(path)


@pytest.mark.parametrize("table", SMALL["tables"])
def test_any_table_may_be_missing(database: Path, table: str) -> None:
    changed(database, f"DROP TABLE {table}")
    trace = of(database)
    assert 0 < told(trace) <= SMALL["slices"] + 1  # without its operation a step is a slice of STEP_TIME


@pytest.mark.few(3)
@pytest.mark.parametrize("table", SMALL["tables"])
def test_any_column_may_be_missing(database: Path, table: str, tmp_path: Path) -> None:
    connection = sqlite3.connect(database)
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    sizes = set()
    for dropped in columns:
        copy = tmp_path / f"{dropped}.db"
        copy.write_bytes(database.read_bytes())
        kept = ", ".join(column for column in columns if column != dropped) or "NULL AS nothing"
        changed(
            copy,
            f"CREATE TABLE other AS SELECT {kept} FROM {table}",
            f"DROP TABLE {table}",
            f"ALTER TABLE other RENAME TO {table}",
        )
        trace = of(copy)
        sizes.add(told(trace))
        for lane in trace.file_lanes:
            trace.args.one(int(trace.slices.event[lane.first]))
    connection.close()
    assert max(sizes) <= SMALL["slices"] + 1


def test_older_names_of_tables_and_columns(database: Path) -> None:
    changed(
        database,
        "ALTER TABLE CANN_API RENAME TO API",
        "ALTER TABLE TASK RENAME COLUMN globalTaskId TO global_task_id",
        "ALTER TABLE PYTORCH_API RENAME COLUMN startNs TO start_ns",
        "CREATE TABLE without AS SELECT start_ns, endNs, globalTid, connectionId, name, callchainId FROM PYTORCH_API",
        "DROP TABLE PYTORCH_API",
        "ALTER TABLE without RENAME TO PYTORCH_API",
        "CREATE TABLE TASK_EXTRA (whatever BLOB)",
        "ALTER TABLE TASK ADD COLUMN depth INTEGER",
    )
    trace = of(database)
    assert told(trace) == SMALL["slices"]
    assert not trace.health.warnings


def test_cells_of_every_kind(database: Path) -> None:
    changed(
        database,
        "UPDATE TASK SET endNs = 'no number' WHERE globalTaskId = 1",
        "UPDATE TASK SET startNs = NULL WHERE globalTaskId = 2",
        "UPDATE TASK SET startNs = startNs + 0.5, endNs = 1e30 WHERE globalTaskId = 3",
        "UPDATE TASK SET connectionId = x'00ff', taskType = 999999 WHERE globalTaskId = 4",
        "UPDATE STRING_IDS SET value = x'ff00d0' WHERE id = 1",
    )
    trace = of(database)
    assert SMALL["slices"] - 3 <= told(trace) < SMALL["slices"]
    assert sum(trace.health.skipped.values()) >= 2


def test_nothing_changes_and_nothing_is_left(database: Path) -> None:
    before = listing(database.parent)
    trace = load(database)
    for item in range(0, len(trace.slices), 5):
        trace.args.one(int(trace.slices.event[item]))
    assert listing(database.parent) == before


def test_a_log_beside_it_is_part_of_it(database: Path, tmp_path: Path) -> None:
    writer = sqlite3.connect(database)
    writer.execute("PRAGMA journal_mode=WAL")
    writer.execute("PRAGMA wal_autocheckpoint=0")
    writer.execute("DELETE FROM TASK WHERE globalTaskId = 1")
    writer.commit()
    before = listing(database.parent)
    assert {"-wal", "-shm"} <= {name[-4:] for name in before}
    assert told(of(database)) == SMALL["slices"] - 1
    assert cache.key_of(find_source(database)) is None
    assert listing(database.parent) == before
    writer.close()
    assert header_of(database).write_ahead  # nobody writes any more, and the log is gone
    before = listing(database.parent)
    assert len(before) == 1
    assert told(of(database)) == SMALL["slices"] - 1
    assert listing(database.parent) == before


@pytest.mark.parametrize("lock", ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
def test_locked_by_another_program(database: Path, lock: str) -> None:
    writer = sqlite3.connect(database, isolation_level=None)
    writer.execute(lock)
    before = listing(database.parent)
    trace = of(database)
    assert told(trace) == SMALL["slices"]
    assert bool(trace.health.warnings) == ("EXCLUSIVE" in lock)
    assert listing(database.parent) == before
    writer.execute("ROLLBACK")
    writer.close()


def test_a_lock_is_waited_for_once(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    connect = sqlite3.connect

    def noted(name: str, **how: Any) -> sqlite3.Connection:
        if name.endswith("mode=ro"):
            waits.append(how["timeout"])
        return connect(name, **how)

    writer = connect(database, isolation_level=None)
    writer.execute("BEGIN EXCLUSIVE")
    monkeypatch.setattr(sqlite3, "connect", noted)
    for _ in range(3):
        open_database(database).close()
    assert waits[0] > 0
    assert waits[1:] == [0, 0]
    writer.execute("ROLLBACK")
    writer.close()
    for _ in range(2):
        open_database(database).close()
    assert waits[-1] > 0


def test_what_was_not_finished_is_rolled_back_in_a_copy(database: Path, tmp_path: Path) -> None:
    writer = sqlite3.connect(database, isolation_level=None)
    writer.execute("PRAGMA cache_size=1")
    writer.execute("BEGIN")
    writer.execute("UPDATE TASK SET startNs = 5, endNs = 6")
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    for file in database.parent.iterdir():
        (crashed / file.name).write_bytes(file.read_bytes())
    writer.execute("ROLLBACK")
    writer.close()
    before = listing(crashed)
    assert len(before) == 2
    assert of(crashed / database.name).end == of(database).end
    assert listing(crashed) == before


def test_a_folder_that_cannot_be_written_to(database: Path) -> None:
    database.chmod(0o444)
    database.parent.chmod(0o555)
    try:
        assert told(of(database)) == SMALL["slices"]
    finally:
        database.parent.chmod(0o755)


def test_args_of_a_database_that_went_away(database: Path) -> None:
    trace = of(database)
    event = int(trace.slices.event[0])
    with database.open("ab") as file:
        file.write(bytes(4096))
    with pytest.raises(InputError) as refused:
        trace.args.one(event)
    assert refused.value.message.code == "input.db_changed"
    database.unlink()
    with pytest.raises(InputError) as refused:
        trace.args.one(event)
    assert refused.value.message.code == "input.gone"
