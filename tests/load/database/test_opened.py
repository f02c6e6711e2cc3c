"""Databases that stay open for whoever asks next."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from small import small_database

from npu_tui.load.database_file import Database, forget_copies, opened


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The databases that were opened to be read since."""
    connect: Callable[..., sqlite3.Connection] = sqlite3.connect
    seen: list[str] = []

    def noted(place: str | Path, **options: object) -> sqlite3.Connection:
        seen.extend([place] if isinstance(place, str) else [])
        return connect(place, **options)

    monkeypatch.setattr(sqlite3, "connect", noted)
    return seen


def count(database: Database) -> int:
    return int(database.connection.execute("SELECT count(*) FROM TASK").fetchone()[0])


def test_one_that_nobody_changes_is_opened_once(tmp_path: Path, made: list[str]) -> None:
    path = small_database(tmp_path / "one.db")
    for _ in range(5):
        with opened(path) as database:
            assert count(database)
    assert len(made) == 1


def test_two_at_a_time_have_one_each(tmp_path: Path, made: list[str]) -> None:
    path = small_database(tmp_path / "one.db")
    with opened(path) as one, opened(path) as other:
        assert one.connection is not other.connection
        assert count(one) == count(other)
    assert len(made) == 2
    with opened(path):
        assert len(made) == 2


def test_a_change_is_seen(tmp_path: Path, made: list[str]) -> None:
    path = small_database(tmp_path / "one.db")
    with opened(path) as database:
        before = count(database)
    with sqlite3.connect(path) as writer:
        writer.execute("DELETE FROM TASK WHERE rowid IN (SELECT rowid FROM TASK LIMIT 1)")
    writer.close()
    with opened(path) as database:
        assert count(database) == before - 1


def test_few_stay_open(tmp_path: Path) -> None:
    held = []
    for number in range(4):
        with opened(small_database(tmp_path / f"{number}.db")) as database:
            held.append(database)
    for database in held[:2]:
        with pytest.raises(sqlite3.ProgrammingError):
            count(database)
    assert all(map(count, held[2:]))
    forget_copies()
    with pytest.raises(sqlite3.ProgrammingError):
        count(held[-1])
