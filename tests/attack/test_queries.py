"""SQL as an attacker writes it: one line and exit 2, nothing but the tables of the profile is read."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from npu_tui.cli.main import main
from npu_tui.load.load import Opening, opening_of
from npu_tui.profile.profile import Profile
from npu_tui.query import query as asked
from npu_tui.query.engine import QueryError, refused, seconds_of
from npu_tui.query.frames import ProfileTables
from npu_tui.query.query import query
from tests.query.asking import FIXTURES, tables_at

NESTED = "WITH a0 AS (SELECT 1 AS x), " + ", ".join(
    f"a{k} AS (SELECT * FROM a{k - 1} UNION ALL SELECT * FROM a{k - 1})" for k in range(1, 30)
)
REFUSED = {
    "a file": "SELECT * FROM read_csv('/etc/passwd')",
    "a file in quotes": "SELECT * FROM \"read_parquet\"('x')",
    "a file after a comment": "SELECT * FROM /* a */ READ_IPC -- b\n ('x')",
    "a file in a join": "SELECT * FROM slices JOIN read_json('x') ON true",
    "a file after a comma": "SELECT * FROM slices, read_csv('x')",
    "the network": "SELECT * FROM read_csv('http://127.0.0.1:9/x.csv')",
    "any function as a table": "SELECT * FROM scan_files('x')",
    "800 tables": " UNION ALL ".join(["SELECT 1 AS a FROM slices"] * 800),
    "800 selections of nothing": " UNION ALL ".join(["SELECT 1 AS a"] * 800),
    "tables that double": NESTED + " SELECT count(*) FROM a29",
    "20,000 terms": "SELECT " + "+".join(["1"] * 20_000),
    "many conditions": "SELECT * FROM slices WHERE " + " AND ".join(["name = 'a'"] * 600),
    "much text": "SELECT '" + "a" * 200_000 + "'",
    "a lone surrogate": "SELECT 'a\udcffb' AS x",
}


@pytest.fixture(scope="module")
def tables() -> ProfileTables:
    return tables_at(FIXTURES / "dispatch_bound")


@pytest.mark.parametrize("name", REFUSED)
def test_what_polars_cannot_be_asked_is_refused_before(name: str, tables: ProfileTables) -> None:
    assert refused(REFUSED[name]) is not None
    with pytest.raises(QueryError):
        query(tables, REFUSED[name])


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 'read_csv(1)' AS a, read_csv FROM slices",
        "SELECT name -- read_csv('x')\nFROM slices",
        "SELECT name FROM slices WHERE name IN (" + ",".join(f"'{k}'" for k in range(2_000)) + ")",
        "SELECT * FROM (SELECT * FROM slices) AS a JOIN (SELECT * FROM links) AS b ON a.rank = b.rank",
        "SELECT CAST(1 AS DECIMAL(10, 2))",
    ],
)
def test_what_only_looks_like_it_is_not(sql: str) -> None:
    assert refused(sql) is None


def test_words_in_any_order_are_one_error(tables: ProfileTables) -> None:
    words = [
        "select",
        "*",
        "from",
        "slices",
        "(",
        ")",
        "where",
        "'",
        '"',
        ";",
        "--",
        "/*",
        "on",
        ",,",
        "1e999",
        "x'ff'",
    ]
    words += ["[", "]", "::", "null", "\x1b[2J"]
    for number in range(len(words)):
        sql = "SELECT " + " ".join(words[number:] + words[:number])
        with pytest.raises(QueryError) as failure:
            query(tables, sql)
        assert "\x1b" not in str(failure.value.message.args)


@pytest.mark.parametrize(
    ("sql", "form", "code"),
    [
        ("SELECT name, array_agg(duration) AS d FROM slices GROUP BY name", "csv", 2),
        ("SELECT name, array_agg(duration) AS d FROM slices GROUP BY name", "json", 0),
        ("SELECT X'00ff' AS b", "json", 2),
        ("SELECT X'00ff' AS b", "ndjson", 2),
        ("SELECT X'00ff' AS b", "csv", 2),
        ("SELECT X'00ff' AS b", "parquet", 0),
        ("SELECT INTERVAL '1 day' AS i", "csv", 2),
        ("SELECT CAST(1.5 AS DECIMAL(5,1)) AS b", "csv", 0),
    ],
)
def test_a_column_is_written_or_named(
    sql: str, form: str, code: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "out")
    profile = str(FIXTURES / "dispatch_bound")
    assert main(["query", profile, sql, "--format", form, "-o", out, "--no-cache"]) == code
    assert len(capfd.readouterr().err.splitlines()) == (code != 0)


def test_a_join_of_all_with_all_takes_no_memory(tables: ProfileTables) -> None:
    assert isinstance(tables.profiles[0], Profile)
    assert len(query(tables, "SELECT a.name FROM slices a CROSS JOIN slices b", 101)) == 101
    count = query(tables, "SELECT count(*) AS n FROM slices a JOIN slices b ON a.rank = b.rank")
    assert count["n"].to_list() == [len(tables.profiles[0].trace.slices) ** 2]


PAIRS = "FROM slices a JOIN slices b ON a.rank = b.rank"


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        (f"SELECT DISTINCT a.start + b.start {PAIRS}", "query.too_large"),
        ("SELECT rpad('a', 100000000, 'b') FROM slices", "query.too_large"),
        (f"SELECT count(*) {PAIRS} JOIN slices c ON a.rank = c.rank", "query.too_slow"),
    ],
)
def test_what_a_query_takes_beyond_its_bounds_ends_it_and_nothing_else(
    tables: ProfileTables, monkeypatch: pytest.MonkeyPatch, sql: str, code: str
) -> None:
    monkeypatch.setattr(asked, "_MOST_MEMORY", 64 << 20)
    with pytest.raises(QueryError) as failure:
        query(tables, sql, seconds=1 if code == "query.too_slow" else 60)
    assert failure.value.message.code == code
    assert len(query(tables, "SELECT name FROM slices", 3)) == 3


@pytest.mark.parametrize("damage", [b"broken", None])
def test_a_rank_that_breaks_is_left_out_and_named(
    tables: ProfileTables,
    damage: bytes | None,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for rank in range(3):
        shutil.copytree(FIXTURES / "dispatch_bound", tmp_path / f"rank{rank}_ascend_pt")
    file = tmp_path / "rank1_ascend_pt" / "ASCEND_PROFILER_OUTPUT" / "trace_view.json"
    if damage:
        file.write_bytes(damage)
    else:  # an error of ours, or of another version of a writer
        monkeypatch.setattr("npu_tui.load.load.opening_of", _failing_at(file))
    sql = "SELECT count(*) AS n FROM slices"
    assert main(["query", str(tmp_path), sql, "--format", "csv", "--no-cache"]) == 0
    out, told = capfd.readouterr()
    assert out.split() == ["n", str(2 * tables.rows("slices"))]
    assert len(told.splitlines()) == 1
    assert str(file.parent.parent) in told


def _failing_at(file: Path) -> Callable[..., Opening]:
    def opened(path: Path, *args: Any) -> Opening:
        if Path(path) in (file, file.parent, file.parent.parent):
            raise ZeroDivisionError
        return opening_of(path, *args)

    return opened


def test_a_query_without_an_end_is_told_in_seconds_and_one_with_an_end_is_answered() -> None:
    recursive = "WITH RECURSIVE c AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM c{where}) SELECT count(*) AS n FROM c"
    assert seconds_of(recursive) < 10 < seconds_of("SELECT 'recursive' FROM slices")
    tables = tables_at(FIXTURES / "healthy")
    assert query(tables, recursive.format(where=" WHERE x < 50"))["n"].item() == 50
    with pytest.raises(QueryError) as told:
        query(tables, recursive.format(where=""), seconds=1)
    assert told.value.message.code == "query.too_slow"
