"""``select *`` of every table on every kind of profile: the rows that ``count(*)`` counts, in CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import pickle
import sys
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npu_tui.analysis.limits import Thresholds
from npu_tui.query.engine import written
from npu_tui.query.query import opened_tables, query
from tests.conftest import ROOT

sys.path[:0] = [str(ROOT / "fixtures"), str(ROOT / "tests" / "load" / "database"), str(ROOT / "tests" / "load")]
from small import small_database  # noqa: E402 - its folder is no package
from snapshot import CAUSES, simulate  # noqa: E402
from test_ftrace import IDLE, A, _switch  # noqa: E402
from test_memscope import dumped  # noqa: E402


def _snapshot(folder: Path) -> Path:
    path = folder / "s.pickle"
    path.write_bytes(pickle.dumps(simulate(CAUSES["healthy"], 1).snapshot(), 4))
    return path


def _recording(folder: Path) -> Path:
    path = folder / "trace.txt"
    path.write_text(f"# tracer: nop\n{_switch(0, 0, IDLE, 'R', A)}\n{_switch(9, 0, A, 'S', IDLE)}\n")
    return path


def _service(folder: Path) -> Path:
    (folder / "request.csv").write_text("http_rid,start_time(ms)\na,1763600000500.0\n")
    (folder / "batch.csv").write_text("name,start_time(ms),end_time(ms)\nmodelExec,1763600000500.0,1763600000501.0\n")
    return folder


def _tables(folder: Path) -> Path:
    header = "Step Id,Device_id,Name,Type,Accelerator Core,Start Time(us),Duration(us)\n"
    (folder / "kernel_details.csv").write_text(f"{header}7,0,a,MatMul,AI_CORE,1736405443881410.1,1.5\n")
    return folder


KINDS = {
    "job": lambda folder: ROOT / "fixtures/two_ranks", "database": lambda folder: small_database(folder / "a.db"),
    "profile": lambda folder: ROOT / "fixtures/healthy", "snapshot": _snapshot, "MemScope": dumped,
    "kineto": lambda folder: ROOT / "fixtures/kineto", "service": _service, "recording": _recording,
    "level 0": lambda folder: ROOT / "fixtures/level0", "tables": _tables,
    "other": lambda folder: ROOT / "fixtures/chrome_generic",
    "msprof": lambda folder: ROOT / "fixtures/msprof_two_devices",
}  # fmt: skip


@pytest.mark.few(8)
@pytest.mark.parametrize("kind", KINDS)
def test_every_table_answers(kind, tmp_path):
    tables = opened_tables(KINDS[kind](tmp_path), Thresholds(), False, None)
    assert tables.names
    every = ", ".join(f"(SELECT count(*) FROM {name}) AS {name}" for name in tables.names)
    counts = query(tables, f"SELECT {every}").row(0, named=True)
    for name, count in counts.items():
        if not count and kind != "other":
            continue  # how a table without a row is written one kind of profile tells
        frame = query(tables, f"SELECT * FROM {name}")
        assert len(frame) == count, name
        assert len(json.loads(written(frame, "json"))) == count, name
        assert len(list(csv.reader(io.StringIO(written(frame, "csv").decode(), newline="")))) == count + 1, name


TEXTS = st.text(st.characters(codec="utf-8"), max_size=12) | st.sampled_from(
    ["=1+1", "@SUM(A1)", "+cmd|' /C calc'!A0", "-2+3", "\t=1", "\x1b]52;c;aGk=\x07", "a\x9b31mb", "\u202egnp", "x\x08y",
     "-12.5", "+3e5", "Größe (µs)", ""]
)  # fmt: skip


@given(st.lists(TEXTS, max_size=6), TEXTS)
def test_csv_holds_no_formula_and_no_control_character(cells, name):
    frame = pl.DataFrame({name: pl.Series(cells, dtype=pl.String), "n": [-1.5] * len(cells)})
    data = written(frame, "csv").decode()
    [head, *rows] = csv.reader(io.StringIO(data, newline=""))
    assert not any((ord(letter) < 32 and letter not in "\t\r\n") or 127 <= ord(letter) < 160 for letter in data)
    assert not set(data) & set("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
    for row, text in zip([head, *rows], [name, *cells], strict=True):
        cell = row[0] if row else ""
        begins = cell.strip()[:1]
        assert begins not in tuple("=@")
        assert begins not in tuple("+-") or set(cell.strip()) <= set("+-.0123456789eE")
        if text.isprintable() and text.strip()[:1] not in tuple("=@+-"):
            assert cell == text
    assert all(row[1] == "-1.5" for row in rows)
