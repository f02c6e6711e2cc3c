"""The compiled loop reads the columns of CSV files as the slower way does."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from npu_tui.load import csv_rows
from npu_tui.load.companion_schema import FileColumn, Kind, Reading, Schema
from npu_tui.load.csv_table import read_table
from npu_tui.native.layout import CSV_DATE, CSV_MILLISECONDS, CSV_REAL, CSV_REQUESTS, CSV_TEXT, CSV_WHOLE
from npu_tui.native.library import VARIABLE
from npu_tui.native.rows import NO_VALUE, csv_columns

CELLS: dict[Kind, list[str]] = {
    "whole": ["0", "12", "-7", "12.0", " 5\t", "", "N/A", "<NA>", "123456789012345678"],
    "real": ["0.5", "1", "-2.25", "12.000001", "", "nan", "NaN", "0.1234567890123456"],
    "moment": ["1772416800021.911", "1772416800022", "", "N/A", "1772416800022.3112345", "0"],
    "length": ["0.4", "-0.25", "11.050644", "0.39999999999999997", "1.2345665", "", "null"],
    "time": ["1736405443863674.400", "1736405443863674.4", "1736405443863674", "", "\t1736405443863674.401\t"],
    "span": ["0.02", "13", "100.001", "-3.500", "N/A"],
    "date": ["2026-03-02 10:00:00:021911", "2024-02-29 23:59:59:999999", "", "<NA>", "2026-12-31 00:00:00:000000"],
    "text": ["MatMul", " a b ", '"x,y"', '"say ""no"""', "", "None", "数", "-"],
    "label": ["AI_CORE", "AI_CORE", "AI_VECTOR_CORE", "N/A"],
    "shapes": ['"1,2;3"', '"""1,2"""', '""""""', "", "4;", '"8,\n8"'],
    "requests": [
        "\"[{'rid': 'a', 'iter': 0, 'type': 0, 'num_scheduled_tokens': 241}]\"",
        "\"[{'rid': 'a', 'iter': 1, 'type': 1}, {'rid': 'cmpl-2', 'iter': 7, 'type': 0, 'num_scheduled_tokens': 9}]\"",
        "[]",
        "",
    ],
}
ODD: dict[Kind, list[str]] = {
    "whole": ["x", "1.5", '"3"', "1e3", "+4"],
    "real": ["inf", "1e3", '"0.5"', "-0.0", "."],
    "moment": ["2026-03-02 10:00:00:021911", "1772416800", "99999999999999999", "x"],
    "length": ["1e-3", "x", "99999999999999.5"],
    "time": ["1736405443863674.4005", "x", "1e15"],
    "span": ["x", "1.23456", '"3.5"'],
    "date": ["2026-02-30 10:00:00:021911", "2026/03/02 10:00:00.021911", "1772416800021", "x", "0"],
    "text": [],
    "label": [],
    "shapes": [],
    "requests": ['"[{""rid"": ""a"", ""iter"": 0}]"', '"[a, b]"', "x", "\"[{'rid': 5, 'iter': 0, 'type': 1}]\""],
}
SCHEMA = Schema("table", tuple(FileColumn(kind, kind, (kind,)) for kind in CELLS), (), only=True)


def told(reading: Reading) -> list[object]:
    frame = reading.frame
    requests = [] if reading.requests is None else reading.requests.to_dicts()
    return [reading.state, reading.headings, reading.not_numbers, frame.schema, frame.to_dicts(), requests]


@pytest.mark.parametrize("seed", range(10))
def test_columns_are_those_of_the_slower_way(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    lines = [",".join(CELLS)]
    for _ in range(chance.randint(1, 40)):
        odd = chance.choice([0.0, 0.0, 0.02])
        cells = [chance.choice(ODD[kind] if ODD[kind] and chance.random() < odd else CELLS[kind]) for kind in CELLS]
        if chance.random() < 0.03:
            cells = cells[: chance.randint(2, len(cells))]
        lines.append(chance.choice(["", "\r"]).join([",".join(cells), ""]))
        if chance.random() < 0.03:
            lines.append("")
    (tmp_path / "table.csv").write_bytes(("\n".join(lines) + "\n").encode())
    monkeypatch.setattr(csv_rows, "BLOCK", chance.choice([200, 1000, 1 << 20]))
    quick = told(read_table(tmp_path, SCHEMA))
    monkeypatch.setenv(VARIABLE, "off")
    assert quick == told(read_table(tmp_path, SCHEMA))


def test_what_is_odd_leaves_out_its_column_alone() -> None:
    found = csv_columns(b"1,2.5\nx,3\n", [CSV_WHOLE, CSV_MILLISECONDS], [""])
    assert found is not None
    assert found.rows == 2
    assert {place: values.tolist() for place, values in found.values.items()} == {1: [2_500_000, 3_000_000]}


@pytest.mark.parametrize("text", [b"1,2,3\n", b'"1,2\n', b'a"b",2\n', b"1,2", b"1,2\0,\n"])
def test_rows_of_another_form_are_refused(text: bytes) -> None:
    assert csv_columns(text, [CSV_TEXT, CSV_WHOLE], [""]) is None


def test_moments_and_numbers_by_hand() -> None:
    kinds = [CSV_DATE, CSV_REAL, CSV_TEXT]
    found = csv_columns(b"2000-02-29 12:30:01:000002,0.1,a\n", kinds, [""])
    assert found is not None
    assert found.values[0].tolist() == [951_827_401_000_002_000]
    assert found.values[1].view(float).tolist() == [0.1]
    assert [found.texts[number - 1] for number in found.values[2].tolist()] == ["a"]


def test_requests_by_hand() -> None:
    cell = "\"[{'rid': 'a', 'iter': 3, 'type': 1}, {'rid': 'b', 'iter': 0, 'type': 0, 'num_scheduled_tokens': 9}]\"\n"
    found = csv_columns((cell + "[]\n" + "N/A\n").encode(), [CSV_REQUESTS], ["N/A"])
    assert found is not None
    assert found.values[0].tolist() == [2, 0, NO_VALUE]
    assert found.requests.tolist() == [[1, 3, 1, NO_VALUE], [2, 0, 0, 9]]
    assert found.texts == ["a", "b"]
