"""SQL: the gallery runs, texts are found, and what is wrong is told with the nearest name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from asking import FIXTURES, rows, tables_at

from npu_tui.query.engine import EXAMPLES, QueryError
from npu_tui.query.frames import ProfileTables
from npu_tui.query.query import query
from npu_tui.strings import words

if TYPE_CHECKING:
    from conftest import Sample

HEALTHY = FIXTURES / "healthy"
BOUND = FIXTURES / "dispatch_bound"


OF_SERVICES = ("requests", "tail")
"""Examples on tables that only an inference service has."""


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_run_on_every_bundled_profile(bundled: Sample, name: str) -> None:
    frame = query(tables_at(bundled.path), EXAMPLES[name])
    assert len(frame.columns) >= 4
    assert len(frame) or name in ("late", *OF_SERVICES)


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name not in OF_SERVICES])
def test_examples_run_on_real_profiles(real: Sample, name: str) -> None:
    assert len(query(tables_at(real.path), EXAMPLES[name])) or (real.name, name) in [
        ("single_card", "late"), ("level0/rank0", "late"), ("level0/rank1", "late"), ("level0/rank0", "calls"),
        ("level0/rank1", "calls"), ("level0/rank0", "stages"), ("level0/rank1", "stages"),
    ]  # fmt: skip


def test_there_are_ten_examples() -> None:
    assert len(EXAMPLES) >= 10


@pytest.fixture(scope="module")
def tables() -> ProfileTables:
    return tables_at(BOUND)


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("SELECT duraton FROM slices", "there is no column duraton; did you mean duration?"),
        ("SELECT s.lane_name FROM slices s", "there is no column lane_name; did you mean "),
        ("SELECT * FROM slics", "there is no table slics; did you mean slices?"),
        ("SELECT * FROM Kernels", "there is no table Kernels; did you mean kernels?"),
        ("SELECT * FROM zzz", "there is no table zzz; the tables are slices, links, "),
        ("SELECT zzzz FROM slices", "there is no column zzzz; the nearest of 20 are "),
        ("SELECT kernel_lane FROM slices", "there is no column kernel_lane; the nearest of 20 are lane, "),
        ("SELECT qqqq FROM apis", "there is no column qqqq; the columns are rank, level, "),
        ("SELECT start, end FROM slices", "the query has no FROM, or a name before it"),
        ("SELECT start", "the query has no FROM"),
        ("SELECT frobnicate(start) FROM slices", "there is no function frobnicate"),
        ("", "a query begins with SELECT or WITH; the tables are read-only"),
        ("DELETE FROM slices", "a query begins with SELECT or WITH; the tables are read-only"),
        ("DROP TABLE slices", "a query begins with SELECT or WITH; the tables are read-only"),
        ("SELECT 'a", "the query failed: Unterminated string literal at Line: 1, Column: 8"),
        ("SELECT start FROM slices; SELECT 1", "the query failed: one (and only one) statement"),
        ("SELECT start FROM slices GROUP BY name", "the query failed: 'start' should participate"),
        ("SELECT name + start FROM slices", "the query failed: arithmetic on"),
    ],
)
def test_what_is_wrong_is_told(tables: ProfileTables, sql: str, told: str) -> None:
    with pytest.raises(QueryError) as caught:
        query(tables, sql)
    line = words(caught.value.message)
    assert line.startswith(told)
    assert "\n" not in line


def test_texts_are_searched(tables: ProfileTables) -> None:
    trace = tables.profiles[0].trace
    count = sum("Mul" in trace.name_of(item) for item in range(len(trace.slices)))
    for rule in ("name LIKE '%Mul%'", "name ~ 'Mul'", "strpos(name, 'Mul') > 0", "regexp_like(name, 'Mul')"):
        assert rows(tables, f"SELECT count(*) n FROM slices WHERE {rule}") == [{"n": count}], rule
    assert count


def test_texts_sort_as_texts(tables: ProfileTables) -> None:
    names = [row["name"] for row in rows(tables, "SELECT DISTINCT name FROM slices ORDER BY name")]
    assert names == sorted(names)
    assert len(names) > 10
    above = rows(tables, f"SELECT DISTINCT name FROM slices WHERE name > '{names[5]}' ORDER BY name")
    assert [row["name"] for row in above] == names[6:]


def test_nulls_come_last_where_it_is_said(tables: ProfileTables) -> None:
    sql = "SELECT stream FROM slices ORDER BY stream"
    assert rows(tables, f"{sql} LIMIT 1")[0]["stream"] is not None
    assert rows(tables, f"{sql} DESC LIMIT 1")[0]["stream"] is None
    assert rows(tables, f"{sql} DESC NULLS LAST LIMIT 1")[0]["stream"] is not None


def test_division_is_as_the_help_says(tables: ProfileTables) -> None:
    assert rows(tables, "SELECT 3 / 2 AS a, 3 // 2 AS b, 3 / 1e3 AS c") == [{"a": 1.5, "b": 1, "c": 0.003}]


def test_a_table_joins_another(tables: ProfileTables) -> None:
    (row,) = rows(
        tables,
        "SELECT count(*) n, sum(CASE WHEN l.start = s.start AND l.name = s.name THEN 1 ELSE 0 END) same "
        "FROM launches l JOIN slices s ON l.slice = s.slice",
    )
    assert row["n"] == row["same"] == tables.rows("launches") > 0


def test_a_limit_is_kept(tables: ProfileTables) -> None:
    assert len(query(tables, "SELECT start FROM slices", 7)) == 7
    first = query(tables, "SELECT slice FROM slices", 3)["slice"].to_list()
    assert first == [0, 1, 2]


@pytest.mark.parametrize(("end", "limit"), [("", 100_000_001), (" LIMIT 2000000000", None), (" LIMIT 5", 100_000_001)])
def test_a_limit_beyond_all_rows_takes_no_memory(tables: ProfileTables, end: str, limit: int | None) -> None:
    sql = "SELECT start, slice FROM slices ORDER BY start DESC, slice"
    known = sorted(((row["start"], row["slice"]) for row in rows(tables, "SELECT start, slice FROM slices")),
                   key=lambda row: (-row[0], row[1]))  # fmt: skip
    assert query(tables, sql + end, limit).rows() == known[: 5 if "5" in end else None]
