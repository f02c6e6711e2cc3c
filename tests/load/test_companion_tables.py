"""Companion files as tables: spellings of all writers, damage of every kind, and nothing lost in silence."""

from __future__ import annotations

import csv
import json
import os
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest

from npu_tui.load import csv_rows as csv_blocks
from npu_tui.load import documents
from npu_tui.load.companion_schema import API_CALLS, KERNELS, MEMORY, SCHEMAS, STEPS, column_name
from npu_tui.load.companions import Companions, large_tables, read_document
from npu_tui.load.csv_table import read_table, table_of_columns
from npu_tui.load.documents import (
    communication_bandwidth,
    communication_matrix,
    communication_packets,
    communication_times,
)
from npu_tui.strings import words

HEADER = "Step Id,Device_id,Name,Type,Accelerator Core,Start Time(us),Duration(us),Input Shapes,aic_mte2_ratio"
ROWS = [
    f'7,0,kernel{i},MatMul,AI_CORE,1736405443881410.{i:03d}\t,{i}.5,"""1,2;\r\n3,{i}""",0.{i}' for i in range(1, 40)
]
CUTS = 6


def write(folder: Path, text: str | bytes, name: str = "kernel_details.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def said(reading) -> str:
    return " ".join(words(each) for each in reading.messages)


def test_cells_of_every_spelling(tmp_path: Path) -> None:
    header = "Step Id,Name ,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),Input Shapes,vec_ratio,Odd"
    write(
        tmp_path,
        b"\xef\xbb\xbf" + header.encode() + b"\r\n"
        b'20,a,T,N/A,1736405443881410.320\t,50.621,1.5e3,"""1,2;\r\n3""",0.5,x\r\n'
        b"\n"
        b"20,b,,AI_CORE,nonsense,1,,,N/A,\n"
        b"20,c\n"
        b"20,d,T,AI_CORE,5,2,0,,0.25,y,too,many\n",
    )
    found = read_table(tmp_path, KERNELS)
    frame = found.frame
    assert found.state == "read"
    assert frame["name"].to_list() == ["a", "b", "c", "d"]
    assert frame["start"].to_list() == [1736405443881410320, None, None, 5000]
    assert frame["duration"].to_list() == [50621, 1000, None, 2000]
    assert frame["wait"].to_list() == [1_500_000, None, None, 0]
    assert frame["input_shapes"].to_list() == ["1,2;3", None, None, None]
    assert frame["vec_ratio"].to_list() == [0.5, None, None, 0.25]
    assert frame["odd"].to_list() == ["x", None, None, "y"]
    assert frame["core"].to_list() == [None, "AI_CORE", None, "AI_CORE"]
    assert frame["block_dim"].null_count() == 4
    assert found.not_numbers == {"start": 1}
    assert "1 cell of start" in said(found)


@pytest.mark.parametrize("block", [64, 1 << 20])
def test_every_cut_is_told_and_whole_rows_stay(tmp_path: Path, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_blocks, "BLOCK", block)
    data = "\r\n".join([HEADER, *ROWS, ""]).encode()
    for cut in (30, *(len(data) * (number + 1) // (CUTS + 1) for number in range(CUTS))):
        path = write(tmp_path, data[:cut])
        found = read_table(tmp_path, KERNELS)
        names = found.frame["name"].to_list()
        whole = sum(f"{row}\r\n".encode() in data[:cut] for row in ROWS)
        assert found.state == "cut_off", cut
        assert names[:whole] == [f"kernel{i}" for i in range(1, whole + 1)]
        assert len(names) <= whole + 1
        assert path.name in said(found)
        assert "cut off" in said(found)


def test_states_have_words_of_their_own(tmp_path: Path) -> None:
    assert read_table(tmp_path, KERNELS).state == "missing"
    write(tmp_path, "")
    assert read_table(tmp_path, KERNELS).state == "empty"
    write(tmp_path, HEADER + "\n")
    assert read_table(tmp_path, KERNELS).state == "empty"
    write(tmp_path, "no,such,columns\n1,2,3\n")
    assert "no,such,columns" in said(read_table(tmp_path, KERNELS))
    (tmp_path / "kernel_details.csv").unlink()
    (tmp_path / "kernel_details.csv").mkdir()
    found = read_table(tmp_path, KERNELS)
    assert (found.state, len(found.frame)) == ("unreadable", 0)
    assert "directory" in said(found)
    texts = {words(message) for message in [*found.messages, *read_table(tmp_path, MEMORY).messages]}
    assert len(texts) == 2


def test_gbk_and_utf8(tmp_path: Path) -> None:
    line = "7,0,算子,矩阵,AI_CORE,5.000,1,,0.5"
    for encoding in ("gb18030", "utf-8"):
        write(tmp_path, f"{HEADER}\n{line}\n".encode(encoding))
        frame = read_table(tmp_path, KERNELS).frame
        assert (frame["name"].item(), frame["type"].item()) == ("算子", "矩阵")


def test_every_column_may_be_missing(tmp_path: Path) -> None:
    heads, cells = HEADER.split(","), ["7", "0", "k", "MatMul", "AI_CORE", "5.000", "1.5", "2", "0.5"]
    for left_out in range(len(heads)):
        kept = [i for i in range(len(heads)) if i != left_out]
        write(tmp_path, ",".join(heads[i] for i in kept) + "\n" + ",".join(cells[i] for i in kept) + "\n")
        found = read_table(tmp_path, KERNELS)
        if heads[left_out] in ("Name", "Duration(us)"):
            assert found.state == "unreadable"
            assert said(found)
        else:
            assert len(found.frame) == 1
            name = KERNELS.by_heading().get(column_name(heads[left_out]))
            assert name is None or found.frame[name.name].null_count() == 1


def test_a_stray_quote_is_told(tmp_path: Path) -> None:
    write(tmp_path, "\r\n".join([HEADER, *ROWS[:5], '7,0,"open,MatMul', *ROWS[5:], ""]))
    found = read_table(tmp_path, KERNELS)
    assert found.frame["name"].to_list()[:5] == [f"kernel{i}" for i in range(1, 6)]
    assert found.state == "cut_off" or len(found.frame) > 5


def test_msprof_puts_a_time_behind_the_name(tmp_path: Path) -> None:
    for time in ("20250101000000", "20250102000000"):
        write(tmp_path, f"Level,API Name,Time(us),Count\nacl,f{time},1,1\n", f"api_statistic_{time}.csv")
    found = read_table(tmp_path, API_CALLS)
    assert found.frame["name"].item() == "f20250102000000"
    assert found.name == "api_statistic_20250102000000.csv"


def test_columns_of_another_source() -> None:
    times = {"computing": pl.Series([1250, 2000]), "free": pl.Series([2000, 3000])}
    found = table_of_columns(STEPS, "StepTraceTime", {"step": pl.Series(["3", None]), **times})
    assert found.frame.select("step", "computing", "free").rows() == [("3", 1250, 2000), (None, 2000, 3000)]
    assert found.frame["bubble"].null_count() == 2
    assert table_of_columns(STEPS, "StepTraceTime", {}).state == "empty"


COMMUNICATION = {
    "step50": {
        "p2p": {},
        "collective": {
            "hcom_allReduce__586_0_1@9": {
                "Communication Time Info": {
                    "Start Timestamp(us)": 1736405443881410.5,
                    "Elapse Time(ms)": 0.43614,
                    "Transit Time(ms)": 0.1,
                    "Wait Time(ms)": "x",
                    "Wait Time Ratio": 0.5,
                },
                "Communication Bandwidth Info": {
                    "SDMA": {
                        "Transit Size(MB)": 8.5,
                        "Transit Time(ms)": 0.1,
                        "Bandwidth(GB/s)": 85.0,
                        "Large Packet Ratio": 0,
                        "Size Distribution": {"4.25": [2, 0.1]},
                    }
                },
            },
            "Total Op Info": {"Communication Time Info": {}},
        },
    }
}


def test_communication_json(tmp_path: Path) -> None:
    write(tmp_path, json.dumps(COMMUNICATION), "communication.json")
    document = Companions(tmp_path).communication()
    times = communication_times(document).frame.to_dicts()
    assert [(row["step"], row["name"], row["group"], row["start"]) for row in times] == [
        ("50", "hcom_allReduce__586_0_1", "9", 1736405443881410500)
    ]
    assert (times[0]["elapsed"], times[0]["wait"], times[0]["wait_ratio"]) == (436140, None, 0.5)
    assert communication_bandwidth(document).frame.select("transport", "transit", "gb_s").rows() == [
        ("SDMA", 100_000, 85.0)
    ]
    assert communication_packets(document).frame.select("packet_mb", "count", "total").rows() == [(4.25, 2, 100_000)]


class Counted(dict[bytes, bytes]):
    """Tells what is taken from it."""

    def __init__(self, content: dict[bytes, bytes], looked: list[bytes]) -> None:
        super().__init__(content)
        self.looked = looked

    def __getitem__(self, key: bytes) -> bytes:
        self.looked.append(key)
        return super().__getitem__(key)


def test_a_cut_document_gives_what_stands_before(tmp_path: Path) -> None:
    data = json.dumps(COMMUNICATION).encode()
    for number in range(CUTS):
        write(tmp_path, data[: len(data) * (number + 1) // (CUTS + 1)], "communication.json")
        document = Companions(tmp_path).communication()
        found = communication_times(document)
        assert document.state == "cut_off"
        assert "cut off" in said(found)
        communication_bandwidth(document)
        communication_packets(document)
        communication_matrix(Companions(tmp_path).matrix())
    (tmp_path / "communication.json").write_bytes(b"{]")
    assert read_document(tmp_path / "communication.json").state == "unreadable"
    assert read_document(tmp_path / "nothing").state == "missing"
    assert read_document(tmp_path).state == "unreadable"


def test_a_large_document_is_read_operation_by_operation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read so is what is read whole; of one that is cut off the operations before, or nothing with a reason."""
    odd = '{"s": {"c": {"a@1": {"0-1": {"x": [{"y": {}}]}, "\\u00e9\\"{": {}}, "b": 3, "total": {}}, "d": [{"e": {}}]}}'
    texts = [json.dumps(COMMUNICATION), odd, "[1]", '{"s": [{"c": {"a": {"0-1": {}}}}]}']
    folders = [*real_folders()]
    for number, text in enumerate(texts):
        folders.append(tmp_path / f"{number}")
        folders[-1].mkdir()
        for name in ("communication.json", "communication_matrix.json"):
            (folders[-1] / name).write_text(text)
    whole = [(Companions(folder).communication(), Companions(folder).matrix()) for folder in folders]
    monkeypatch.setattr(documents, "fits", lambda data: False)
    monkeypatch.setattr(documents, "_PIECE", 1 << 30)
    assert [(Companions(folder).communication(), Companions(folder).matrix()) for folder in folders] == whole
    every, data = whole[-4][0].value, texts[0]
    for size in range(1, len(data), 13):
        write(tmp_path, data[:size].encode(), "communication.json")
        document = Companions(tmp_path).communication()
        assert document.state == "cut_off"
        assert document.value == every[: len(document.value)]
    monkeypatch.setattr(documents, "_ROOM", -1 << 30)
    assert communication_times(Companions(folders[-4]).communication()).messages[0].args["why"] == "File too large"


def test_what_is_nested_without_end_is_looked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []
    monkeypatch.setattr(documents, "_CLOSING", Counted({b"{": b"}", b"[": b"]"}, looked))
    (tmp_path / "profiler_info.json").write_bytes(b'{"a":[' * 20_000)
    assert read_document(tmp_path / "profiler_info.json").state == "unreadable"
    assert len(looked) == documents._DEEPEST + 1


def real_folders() -> list[Path]:
    root = os.environ.get("NPU_TUI_TRACES", "")
    return sorted(Path(root).rglob("ASCEND_PROFILER_OUTPUT")) if root else []


@pytest.mark.skipif(not real_folders(), reason="NPU_TUI_TRACES is not set: it names the folder of the real profiles")
def test_real_files_are_read_to_the_row() -> None:
    """The same rows and sums as Python's own reader finds in every CSV of every real profile."""
    checked = 0
    for folder in real_folders():
        for schema in SCHEMAS.values():
            path = folder / f"{schema.stem}.csv"
            if not path.exists():
                continue
            with path.open(newline="", encoding="utf-8-sig") as lines:
                rows = list(csv.reader(lines))
            found = Companions(folder).read(schema)
            assert (found.state, found.not_numbers) == ("read", None), path
            assert len(found.frame) == len(rows) - 1, path
            known = schema.by_heading()
            for at, heading in enumerate(rows[0]):
                column = known.get(column_name(heading))
                cells = [row[at].strip() for row in rows[1:]]
                there = [cell for cell in cells if cell not in ("", "N/A")]
                name = column.name if column else column_name(heading)
                values = found.frame[name].drop_nulls()
                assert len(values) == len(there), (path, heading)
                if column is not None and column.kind in ("span", "time"):
                    assert all(abs(a - Decimal(b) * 1000) <= Decimal("0.5") for a, b in zip(values, there, strict=True))
                checked += 1
    assert checked > 100


def test_msprof_calls_its_kernels_op_summary(tmp_path: Path) -> None:
    header = "Device_id,Model ID,Task ID,Stream ID,Op Name,OP Type,OP State,Task Type,Task Start Time(us),"
    header += "Task Duration(us),Task Wait Time(us),Block Num"
    for time, name in ((1, "old"), (2, "MatMulV2_7")):
        row = f"0,4294967295,5,2,{name},MatMulV2,static,AI_CORE,1736405443881410.320\t,12.5,0,20"
        (tmp_path / f"op_summary_2025010{time}.csv").write_text(f"{header}\n{row}\n")
    found = Companions(tmp_path).read(KERNELS)
    assert Companions(tmp_path).has(KERNELS)
    assert (found.name, found.state) == ("op_summary_20250102.csv", "read")
    assert found.frame.select("name", "type", "core", "start", "duration", "block_dim", "task").row(0) == (
        "MatMulV2_7", "MatMulV2", "AI_CORE", 1736405443881410320, 12500, 20, 5,
    )  # fmt: skip


def test_a_table_names_the_column_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "memory_record.csv").write_text("Component,Total Reserved(MB)\nPTA,3\n")
    assert Companions(tmp_path).read(MEMORY).why == "no column Timestamp(us)"
    (tmp_path / "memory_record.csv").write_text("what,else\n1,2\n")
    assert Companions(tmp_path).read(MEMORY).why == "unknown columns: what,else"


def test_a_header_whose_quote_is_not_closed_is_cut_off(tmp_path: Path) -> None:
    (tmp_path / "memory_record.csv").write_text('Component,"Timestamp(us),Total Reserved(MB)\nPTA,1,3\n')
    assert Companions(tmp_path).read(MEMORY).state == "cut_off"
    (tmp_path / "memory_record.csv").write_text(" \n")
    assert Companions(tmp_path).read(MEMORY).state == "empty"


def test_large_tables_are_named_largest_first(tmp_path: Path) -> None:
    for name, size in (("a.csv", 40 << 20), ("b.csv", 50 << 20), ("small.csv", 5), ("c.json", 60 << 20)):
        with (tmp_path / name).open("wb") as file:
            file.truncate(size)
    assert large_tables(tmp_path) == [("b.csv", 50 << 20), ("a.csv", 40 << 20)]
    assert large_tables(tmp_path / "nowhere") == []
