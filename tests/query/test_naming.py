"""Tables and columns that the last word of a query may become."""

from __future__ import annotations

import pytest

from npu_tui.query.frames import ONE_PROFILE, TABLES, possible_names


def words(sql: str) -> list[str]:
    return [name.word for name in possible_names(sql, ONE_PROFILE)]


def test_tables_stand_behind_from_and_join() -> None:
    assert words("SELECT name FROM lau") == ["launches"]
    assert words("SELECT * FROM ") == list(ONE_PROFILE)
    assert words("SELECT * FROM launches l JOIN ") == list(ONE_PROFILE)
    assert words("SELECT * FROM launches l, fr") == ["free"]
    assert words("WITH late AS (SELECT * FROM coll") == ["collectives", "collective_costs"]
    assert words("laun") == ["launches"]


def test_columns_are_those_of_the_tables_that_are_named() -> None:
    (found,) = possible_names("SELECT name FROM launches ORDER BY los", ONE_PROFILE)
    assert (found.word, found.unit, found.key) == ("lost", "ns", "tables.launches.lost")
    assert found.text == "SELECT name FROM launches ORDER BY lost"
    assert words("SELECT f.host_l FROM launches l, free f WHERE f.host_l") == ["host_late"]
    assert words("SELECT x FROM free AS f WHERE f.") == [column.id for column in TABLES["free"].sql]
    assert words("SELECT l.host FROM launches l, free f WHERE l.host") == []
    assert words("SELECT own_ex") == []  # only a job has it


def test_those_that_begin_with_the_word_are_first() -> None:
    found = words("SELECT * FROM kernels WHERE ra")
    assert found[0] == "rank"
    assert set(found[1:]) == {"duration", "mte2_ratio", "mac_ratio", "vec_ratio", "hit_rate"}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT name FROM launches WHERE name = 'lo",
        "SELECT name FROM launches l",
        "SELECT name FROM launches AS ",
        "SELECT name FROM launches WHERE ",
        "SELECT name",
        "SELECT 1",
        "SELECT x.",
        "",
        "SEL",
    ],
)
def test_nothing_is_proposed(sql: str) -> None:
    assert words(sql) == []
