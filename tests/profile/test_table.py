"""One declaration, every reader: what a column says of its cells and of JSON, and which rows a sheet gives."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from npu_tui.profile.table import COLUMNS, Column, Span, TableSheet, coded, from_tuples, numbers, table


def streams(count: int) -> TableSheet:
    rows = [(k, 10 * k, 1_234_567 * k if k else None, f"lane\x1b{k}", 1 / 3) for k in range(count)]
    found = from_tuples(rows, "stream calls total lane share")
    return msgspec.structs.replace(found, place=lambda row: [Span(row, row + 1)])


STREAMS = table(
    "streams",
    streams,
    sql="stream calls",
    json="stream count=calls total? lane busy_ratio=share",
    page="stream total",
    row="StreamRow",
    about="A stream.",
)


def test_json_has_microseconds_with_three_decimals_and_harmless_texts():
    assert [each.name for each in STREAMS.json] == ["stream", "count", "total_us", "lane", "busy_ratio"]
    first, last = STREAMS.records(2)
    assert (first.count, first.total_us, last.total_us, last.busy_ratio) == (0, None, 1234.567, 0.333333)
    assert last.lane == "lane?1"
    schema = msgspec.json.schema(STREAMS.row)["$defs"]["StreamRow"]
    assert schema["description"] == "A stream."
    assert schema["properties"]["total_us"] == {"anyOf": [{"type": "number"}, {"type": "null"}]}
    assert schema["properties"]["count"] == {"type": "integer"}


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("total", 0, "0"),
        ("total", 1_500_000, "1.500 ms"),
        ("start", 1_500_000, "1.500 ms"),
        ("ratio", 0.5, "50.0%"),
        ("calls", 12_345, "12,345"),
        ("stream", 12_345, "12345"),
        ("size", 20_000_000, "20.000 MB"),
        ("peak", 1 << 20, "1.0 MiB"),
        ("gb_s", 1.5, "1.50 GB/s"),
        ("lane", None, ""),
        ("severity", "high", "high"),
    ],
)
def test_a_cell_reads_by_the_kind_of_its_column(column: str, value: int | float | str | None, text: str):
    assert COLUMNS[column].cell(value) == text


def test_times_in_microseconds_read_as_times():
    assert Column("own", "real", "µs", "time").cell(1500.0) == "1.500 ms"


def test_rows_are_taken_with_their_places_and_what_is_not_there_is_null():
    taken = streams(4).taken(np.array([3, 0]))
    assert list(taken.values("stream")) == [3, 0]
    assert list(taken.values("total")) == [3_703_701, None]
    assert list(taken.values("lane", most=1)) == ["lane\x1b3"]
    assert list(taken.values("bytes")) == [None, None]
    assert taken.place is not None
    assert taken.place(0) == [Span(3, 4)]


def test_null_is_a_code_below_zero_the_missing_number_or_not_a_number():
    sheet = TableSheet(
        2,
        {
            "name": coded(["a"], np.array([0, -1])),
            "peer_rank": numbers([7, -1], missing=-1),
            "gb_s": numbers([0.5, float("nan")]),
        },
    )
    assert [list(sheet.values(name)) for name in sheet.data] == [["a", None], [7, None], [0.5, None]]


def test_a_view_may_call_a_column_by_another_name():
    assert STREAMS.field("calls").name == "count"
