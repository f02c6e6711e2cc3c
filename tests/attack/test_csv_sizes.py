"""CSV files made to take memory: what is kept of one is bounded by its size, and what is left out is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from npu_tui.load.companion_schema import ALLOCATIONS, OPERATORS, Reading
from npu_tui.load.csv_table import read_table

HEADER = b"Name,Input Shapes,Call Stack,Host Self Duration(us),Host Total Duration(us),Device Self Duration(us)\n"
ROW = b"aten::add,,,1,2,3\n"
MB = 1 << 20


def _read(folder: Path, content: bytes) -> Reading:
    (folder / "operator_details.csv").write_bytes(content)
    return read_table(folder, OPERATORS)


ENDLESS = {
    "commas": b"," * 5 * MB,
    "names": b"ab," * 2 * MB,
    "row": HEADER + b"," * 5 * MB,
    "quote": HEADER + b'"' + b"a\n" * MB,
}


@pytest.mark.parametrize("name", ENDLESS)
def test_a_row_without_an_end_is_where_the_file_is_cut_off(name: str, tmp_path: Path) -> None:
    reading = _read(tmp_path, ENDLESS[name])
    assert (reading.state, len(reading.frame)) == ("cut_off", 0)


def test_rows_before_it_are_read(tmp_path: Path) -> None:
    reading = _read(tmp_path, HEADER + ROW * 3 + b'"' + b"a\n" * MB)
    assert (reading.state, reading.frame["host_total"].to_list()) == ("cut_off", [2000, 2000, 2000])


def test_a_header_of_very_many_columns_is_no_table(tmp_path: Path) -> None:
    reading = _read(tmp_path, HEADER[:-1] + b",a" * 2000 + b"\n" + ROW)
    assert (reading.state, reading.why) == ("unreadable", "2,006 columns")


def test_very_many_short_rows_are_left_out_and_counted(tmp_path: Path) -> None:
    reading = _read(tmp_path, HEADER + ROW + b"a\n" * 1000 + ROW)
    assert reading.frame["host_total"].to_list() == [2000, 2000]
    assert [(told.code, told.args["count"]) for told in reading.messages] == [("companion.short", 1000)]


def test_a_few_short_rows_are_kept(tmp_path: Path) -> None:
    reading = _read(tmp_path, HEADER + ROW * 9 + b"a\n")
    assert (reading.frame["name"][-1], reading.short) == ("a", 0)


@pytest.mark.parametrize("cell", ["1e308", "-1e308", "inf", "nan"])
@pytest.mark.parametrize("rows", [1, 5])
def test_a_size_that_is_none_is_unknown(cell: str, rows: int, tmp_path: Path) -> None:
    heading = "Name,Size(KB),Allocation Time(us),Allocation Total Allocated(MB)\n"
    (tmp_path / "operator_memory.csv").write_text(
        heading + f"a,{cell},1.0,{cell}\n" + "".join(f"b,2,{n}.0,4\n" for n in range(rows))
    )
    frame = read_table(tmp_path, ALLOCATIONS).frame
    assert frame["size"].to_list() == frame["allocated"].to_list()[:1] + [2.0] * rows
    assert frame["allocated"].to_list() == [None] + [4.0] * rows
