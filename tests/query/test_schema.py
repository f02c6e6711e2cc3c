"""The schema is what the tables are, and every column says what it means."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from asking import FIXTURES, tables_at
from measured import profile_at
from msgspec import structs

from npu_tui.manual import page
from npu_tui.query.frames import TABLES
from npu_tui.query.query import listed_tables, listing_text, table_listing
from npu_tui.strings import LANGUAGES, say, speaking
from npu_tui.trace.text import cell_count

if TYPE_CHECKING:
    from conftest import Sample

WRITERS = [
    "chrome_generic/lines.json",
    "older_chip",
    "mindspore",
    "newest_torch_npu",
    "level0",
    "decimal_pids",
    "kineto",
]


def fits(path: Path) -> None:
    tables = tables_at(path)
    for name in tables.names:
        frame = tables.scan(name).lazy().collect()
        own = TABLES[name].sql
        assert frame.columns[: len(own)] == [column.id for column in own], name
        assert len(frame) == tables.rows(name)
        assert len(frame.columns) == len(own) or TABLES[name].extended
        for column in own:
            assert frame.schema[column.id].base_type().__name__ == column.type, (name, column.id)


def test_tables_fit_their_schema(bundled: Sample) -> None:
    fits(bundled.path)


@pytest.mark.parametrize("writer", WRITERS)
def test_every_writer_fits_the_schema(writer: str) -> None:
    fits(FIXTURES / writer)


@pytest.mark.parametrize("place", ["db/level1/rank0_ascend_pt", "job4/rank_0_ascend_pt", "single_card"])
def test_databases_and_tables_alone_fit_the_schema(traces: Path, place: str) -> None:
    fits(traces / place)


def test_numbers_are_the_columns_of_the_trace(bundled: Sample) -> None:
    trace = bundled.trace
    frame = tables_at(bundled.path).scan("slices").lazy().collect()
    assert np.array_equal(frame["start"].to_numpy(), trace.slices.start)
    assert np.array_equal(frame["duration"].to_numpy(), trace.slices.end - trace.slices.start)
    assert np.array_equal(frame["start_ns"].to_numpy(), trace.slices.start + trace.start_ns)
    assert frame["name"].to_list() == [trace.name_of(item) for item in range(len(trace.slices))]
    assert frame["lane"].to_list() == [trace.lanes[lane].name for lane in trace.slices.lane.tolist()]
    assert frame["slice"].to_list() == list(range(len(trace.slices)))


def test_only_what_a_query_names_is_made(bundled: Sample) -> None:
    asked = []
    tables = tables_at(bundled.path)
    sheet = tables.scan("slices").sheets[0]
    for name, column in list(sheet.data.items()):

        def part(first: int, last: int, name: str = name, own=column.part):  # type: ignore[no-untyped-def]
            asked.append(name)
            return own(first, last)

        structs.force_setattr(column, "part", part)
    tables.scan("slices").lazy().filter(duration=5).select("name").collect()
    assert set(asked) == {"name", "duration"}


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_column_says_what_it_means(language: str) -> None:
    with speaking(language):
        for table in TABLES.values():
            assert say(f"tables.{table.id}")
            for column in table.sql:
                assert say(column.about)
            text = table_listing(table.id, {column.id: column.kind for column in table.sql})
            assert all(column.id in text for column in table.sql)
        assert all(cell_count(line) <= 120 for line in listing_text(TABLES).splitlines())


def test_the_listing_for_programs_is_the_schema() -> None:
    found = listed_tables(TABLES).tables
    assert [row.table for row in found] == list(TABLES)
    for row, table in zip(found, TABLES.values(), strict=True):
        assert [(each.name, each.type) for each in row.columns] == [(c.id, c.type) for c in table.sql]


def test_the_manual_names_every_table() -> None:
    text = page("query", "en")
    named = text.partition("Tables: ")[2].partition(".\n")[0]
    assert [name.strip("`") for name in named.replace("\n", " ").split(", ")] == list(TABLES)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_manual_names_every_time_that_is_a_fraction(language: str) -> None:
    columns = [column for table in TABLES.values() for column in table.sql]
    fractions = {column.id for column in columns if column.unit == "ns" and column.type == "Float64"}
    (rule,) = (each for each in page("agents", language).split("\n* ") if "`start_ns`" in each)
    assert set(re.findall(r"`(\w+)`", rule)) - {"query", "start_ns"} == fractions


def test_rank_tells_profiles_apart() -> None:
    from npu_tui.query.frames import ProfileTables

    profiles = [profile_at(FIXTURES / name) for name in ("healthy", "dispatch_bound")]
    tables = ProfileTables(lambda: profiles)
    frame = tables.scan("slices").lazy().collect()
    assert len(frame) == sum(len(each.trace.slices) for each in profiles)
    names = [each.trace.name_of(item) for each in profiles for item in range(len(each.trace.slices))]
    assert frame["name"].to_list() == names
